"""A comparison's answer as cases: under these conditions, on these intervals; and their logic.

Comparisons with maxima are made of plain ones: ``a >= max(b_i)`` where all hold, ``max(a_i) >= b``
where any does, which is where not all of the converse hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from sympy import And, Eq, Expr, Ge, Gt, Le, Lt, Or, S, oo
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum, Minimum
from symscale.solve.roots import ALWAYS, Interval, Intervals, complement
from symscale.solve.signs import MINUS, PLUS, ZERO, Signs, compare

MOST_CASES = 128
_RANK = {"above": 0, "below": 1, "between": 2, "outside": 3, "pieces": 4, "always": 5, "never": 6}


@dataclass(frozen=True)
class Case:
    """Under all these conditions the comparison holds on exactly these ordered intervals."""

    conditions: tuple[Boolean, ...]
    intervals: Intervals
    why: str = ""

    @property
    def requires(self) -> Boolean:
        """The conditions joined; one that a stricter one implies is left out."""
        return conjunction(self.needed)

    @property
    def needed(self) -> tuple[Boolean, ...]:
        """The conditions without those that a stricter one implies."""
        held = set(self.conditions)
        return tuple(c for c in self.conditions if not _implied(c, held))

    @property
    def is_possible(self) -> bool:
        """Whether no condition is false or the negation of another."""
        return not contradictory(_flat(self.conditions, And, S.true))

    @property
    def kind(self) -> str:
        """One of always, never, above, below, between, outside, pieces."""
        return kind_of(self.intervals)


def conjunction(conditions: Iterable[Boolean]) -> Boolean:
    """All of these, written as given: SymPy's ``And`` compares each two, which takes its time.

    A condition beside its own negation is found, as are ones that repeat.

    >>> from symscale.algebra.symbols import B, D
    >>> conjunction([B > D, S.true]), conjunction([B > D, B <= D])
    (B > D, False)
    """
    parts = _flat(conditions, And, S.true)
    if contradictory(parts):
        return S.false
    return _joined_as(And, parts, S.true)


def disjunction(conditions: Iterable[Boolean]) -> Boolean:
    """Any of these, written as given."""
    parts = _flat(conditions, Or, S.false)
    if S.true in parts or any(isinstance(c, Relational) and c.negated in parts for c in parts):
        return S.true
    return _joined_as(Or, parts, S.false)


def contradictory(parts: Iterable[Boolean]) -> bool:
    """Whether one of the conditions is false, or the negation of another."""
    held = set(parts)
    return S.false in held or any(isinstance(c, Relational) and c.negated in held for c in held)


def _flat(conditions: Iterable[Boolean], kind: type, neutral: Boolean) -> dict[Boolean, None]:
    parts = (p for c in conditions for p in (tuple(c.args) if c.func is kind else (c,)))
    return dict.fromkeys(part for part in parts if part != neutral)


def _joined_as(kind: Any, parts: dict[Boolean, None], neutral: Boolean) -> Boolean:
    if len(parts) < 2:
        return next(iter(parts), neutral)
    return kind(*parts, evaluate=False)


def _implied(condition: Boolean, held: set[Boolean]) -> bool:
    """Whether ``a >= b`` stands beside ``a > b`` or ``a = b``."""
    if not isinstance(condition, Ge | Le):
        return False
    sides = (condition.gts, condition.lts)
    return any(
        (isinstance(other, Gt | Lt) and (other.gts, other.lts) == sides)
        or (isinstance(other, Eq) and set(other.args) == set(sides))
        for other in held
    )


def kind_of(intervals: Intervals) -> str:
    """The shape of a set of ordered intervals on the positive half-line.

    >>> kind_of(((S(3), oo),)), kind_of(())
    ('above', 'never')
    """
    if not intervals:
        return "never"
    starts, ends = intervals[0][0] == 0, intervals[-1][1] == oo
    if len(intervals) == 1:
        names = {(True, True): "always", (False, True): "above", (True, False): "below"}
        return names.get((starts, ends), "between")
    return "outside" if len(intervals) == 2 and starts and ends else "pieces"


def all_of(questions: Iterable[list[Case]]) -> list[Case]:
    """Where every one of several comparisons holds.

    Raises:
        SolveError: when undecided signs make too many cases to read.
    """
    held = [Case((), ALWAYS)]
    for cases in questions:
        joined = [_joined(left, right) for left, right in product(held, cases)]
        held = merge([case for found in joined for case in found])
        if len(held) > MOST_CASES:
            raise SolveError(
                "undecided signs make too many cases; substitute numbers for some symbols"
            )
    return held


def any_of(questions: Iterable[list[Case]]) -> list[Case]:
    """Where at least one of several comparisons holds."""
    return converse(all_of([converse(cases) for cases in questions]))


def converse(cases: list[Case]) -> list[Case]:
    """Where the opposite comparison holds (with equality)."""
    return [Case(case.conditions, complement(case.intervals), case.why) for case in cases]


def merge(cases: list[Case]) -> list[Case]:
    """Without impossible cases, those with thresholds first."""
    possible = [case for case in cases if case.is_possible]
    return sorted(possible, key=lambda case: (_RANK[case.kind], len(case.conditions)))


def _joined(left: Case, right: Case) -> list[Case]:
    conditions = tuple(dict.fromkeys((*left.conditions, *right.conditions)))
    why = "; ".join(dict.fromkeys(text for text in (left.why, right.why) if text))
    held: list[tuple[tuple[Boolean, ...], Intervals]] = [(conditions, ())]
    for first, second in product(left.intervals, right.intervals):
        pieces = _overlap(first, second)
        held = [
            ((*dict.fromkeys((*given, *extra)),), (*found, *piece))
            for given, found in held
            for extra, piece in pieces
        ]
    return [Case(given, found, why) for given, found in held]


def _overlap(first: Interval, second: Interval) -> list[tuple[tuple[Boolean, ...], Intervals]]:
    """The common part of two intervals: a certain one, none, or either by a condition."""
    low, high = latest(first[0], second[0]), earliest(first[1], second[1])
    if low == 0 or high == oo:
        return [((), ((low, high),))]
    fits = _fits(low, high)
    if fits == S.true:
        return [((), ((low, high),))]
    if fits == S.false:
        return [((), ())]
    return [((fits,), ((low, high),)), ((_negated(fits),), ())]


def _fits(low: Expr, high: Expr) -> Boolean:
    """The condition that a lower wall lies below an upper one."""
    lows, highs = _alternatives(low, Maximum), _alternatives(high, Minimum)
    return conjunction(_any_fits(one, other) for one, other in product(lows, highs))


def _any_fits(low: Expr, high: Expr) -> Boolean:
    """A minimum fits below where one of its arguments does, likewise a maximum above."""
    pairs = product(_alternatives(low, Minimum), _alternatives(high, Maximum))
    return disjunction(compare(one, other).fits for one, other in pairs)


def _negated(condition: Boolean) -> Boolean:
    parts = condition.args if isinstance(condition, And) else (condition,)
    return disjunction(~part for part in parts)


def latest(left: Expr, right: Expr) -> Expr:
    """The larger of two walls; a maximum where their order is open.

    >>> from symscale.algebra.symbols import B, D
    >>> latest(D, 2 * D), latest(B, D)
    (2*D, Maximum(B, D))
    """
    if left == 0 or right == oo:
        return right
    if right == 0 or left == oo:
        return left
    return Maximum(*_extreme(_alternatives(left, Maximum), _alternatives(right, Maximum), PLUS))


def earliest(left: Expr, right: Expr) -> Expr:
    """The smaller of two walls; a minimum where their order is open.

    >>> from symscale.algebra.symbols import B, D
    >>> earliest(D, oo), earliest(B, D)
    (D, Minimum(B, D))
    """
    if S.Zero in (left, right):
        return S.Zero
    if oo in (left, right):
        return right if left == oo else left
    return Minimum(*_extreme(_alternatives(left, Minimum), _alternatives(right, Minimum), MINUS))


def _alternatives(wall: Expr, kind: type) -> tuple[Expr, ...]:
    return tuple(wall.args) if wall.func is kind else (wall,)


def _extreme(left: tuple[Expr, ...], right: tuple[Expr, ...], wanted: Signs) -> list[Expr]:
    """All alternatives but those certainly behind one of the other side.

    ``wanted`` is the sign of (the one that stays) less (the one that goes).
    """
    kept = list(left)
    for new in right:
        signs = [(old, compare(old, new).signs) for old in kept]
        against = {-sign for sign in wanted} | ZERO
        if any(found <= against for _, found in signs):
            continue
        kept = [old for old, found in signs if not found <= wanted | ZERO] + [new]
    return kept
