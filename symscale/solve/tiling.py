"""Which combination of arms is the largest where: each stage's maximum decides by itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

from sympy import Add, Expr, Ge, S, Symbol, oo
from sympy.logic.boolalg import Boolean

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.answer import inside
from symscale.solve.arms import MOST_ARMS, arms
from symscale.solve.cases import Case, all_of, conjunction, contradictory, converse, disjunction
from symscale.solve.comparison import compare_ratios, compare_sides
from symscale.solve.generators import Generators
from symscale.solve.signs import SignReader

#: More combinations of undecided cases than this are left as one condition on the variable.
MOST_SPLIT = 8


@dataclass(frozen=True)
class Regime:
    """``term`` is the largest for ``lower <= v < upper``, provided all ``conditions``.

    Where many signs are open, the bounds are 0 and infinity and the conditions also speak of ``v``.
    """

    term: Expr
    lower: Expr
    upper: Expr
    conditions: tuple[Boolean, ...] = ()

    @cached_property
    def requires(self) -> Boolean:
        """The conditions as one."""
        return conjunction(self.conditions)

    def to_dict(self) -> dict[str, str]:
        """The regime as plain text, for JSON."""
        return {name: str(getattr(self, name)) for name in ("term", "lower", "upper", "requires")}


@dataclass(frozen=True)
class Stages:
    """A time as a sum of maxima over ``v``, each with its arms, and what no maximum touches."""

    arms: tuple[tuple[Expr, ...], ...]
    rest: Expr

    def put(self, values: dict[Symbol, Expr]) -> Stages:
        """The same with numbers in."""
        stages = tuple(tuple(arm.xreplace(values) for arm in stage) for stage in self.arms)
        return Stages(stages, self.rest.xreplace(values))


def stages_of(time: Expr, v: Symbol) -> Stages:
    """The stages of a time: its summands that hold a maximum over ``v``.

    Raises:
        SolveError: for a time without such a maximum.

    >>> from symscale.algebra.symbols import B, D, F
    >>> stages_of(2 * Maximum(B, F) + D, B)
    Stages(arms=((2*B, 2*F),), rest=D)
    """
    found: list[tuple[Expr, ...]] = []
    rest: list[tuple[Expr, ...]] = []
    for part in Add.make_args(time):
        held = _nested(part, v) if isinstance(part, Maximum) else arms(part, v)
        (found if len(held) > 1 else rest).append(held)
    if not found:
        raise SolveError(
            f"{time} is no maximum: it has one regime; take .lower of a time, or Maximum(...)"
        )
    if prod(len(stage) for stage in found) > MOST_ARMS:
        raise SolveError(f"more than {MOST_ARMS} combinations of maxima; ask stage by stage")
    return Stages(tuple(found), Add(*(held[0] for held in rest)))


def _nested(part: Maximum, v: Symbol) -> tuple[Expr, ...]:
    return tuple(dict.fromkeys(inner for arg in part.args for inner in arms(arg, v)))


def tile(stages: Stages, v: Symbol) -> tuple[tuple[Regime, ...], Derivation]:
    """The regimes in order, and the steps: a sum of maxima is largest where each is.

    Raises:
        SolveError: when two arms have no closed crossover.
    """
    steps = Derivation()
    choices: list[list[tuple[Expr, list[list[Case]]]]] = []
    for stage in stages.arms:
        reader, fractions = _distinct(stage, v)
        table, made = _pairs(reader, fractions, v)
        found = list(fractions.values())
        steps = steps + made
        others = range(len(found))
        choices.append(
            [(arm, [table[i, j] for j in others if j != i]) for i, arm in enumerate(found)]
        )
    rows: list[Regime] = []
    told: dict[int, Boolean] = {}
    for chosen in product(*choices):
        term = Add(stages.rest, *(arm for arm, _ in chosen))
        rows += _rows(term, [question for _, asked in chosen for question in asked], v, told)
    steps = steps.then("a term is the largest where it is above each other", None, "walls joined")
    return tuple(_ordered(rows)), steps


def _distinct(found: tuple[Expr, ...], v: Symbol) -> tuple[SignReader, dict[Any, Expr]]:
    """The arms by their fractions, each once, slowest growth first."""
    bases = Generators(*found, v)
    fractions = {bases.fraction(arm): arm for arm in reversed(found)}
    place = bases.bases.index(v)

    def growth(fraction: Any) -> tuple[int, int, str]:
        over = [exponents[place] for exponents in fraction.numer]
        under = [exponents[place] for exponents in fraction.denom]
        return max(over) - max(under), min(over) - min(under), str(fractions[fraction])

    ordered = {fraction: fractions[fraction] for fraction in sorted(fractions, key=growth)}
    return SignReader(bases), ordered


def _pairs(
    reader: SignReader, fractions: dict[Any, Expr], v: Symbol
) -> tuple[dict[tuple[int, int], list[Case]], Derivation]:
    """Where each arm is above each other, one crossover for every two."""
    hidden = reader.bases.opaque_over(v)
    found = list(fractions.items())
    table: dict[tuple[int, int], list[Case]] = {}
    steps = Derivation()
    for high, (upper, upper_arm) in enumerate(found):
        for low, (lower, lower_arm) in enumerate(found[:high]):
            if hidden is not None:
                made = compare_sides(upper_arm, lower_arm, v)
            else:
                made = compare_ratios(reader, upper, lower, v)
            table[high, low] = made.cases
            table[low, high] = converse(made.cases)
            compared = Ge(upper_arm, lower_arm, evaluate=False)
            steps = steps.then("compare two terms", compared, "") + _told(made.cases, v)
    return table, steps


def _told(cases: Iterable[Case], v: Symbol) -> Derivation:
    """Where one term is above another, case by case."""
    steps = Derivation()
    for case in cases:
        steps = steps.then(f"holds: {case.kind}", inside(v, case.intervals), case.why)
        if case.conditions:
            steps = steps.then("this needs", case.requires, "the signs that this case rests on")
    return steps


def _rows(
    term: Expr, questions: list[list[Case]], v: Symbol, told: dict[int, Boolean]
) -> list[Regime]:
    """A term's regimes; one that has shrunk to a point is left out.

    ``told`` holds each question's condition, for the other terms that ask it again.
    """
    if prod(len(cases) for cases in questions) > MOST_SPLIT:
        for cases in questions:
            if id(cases) not in told:
                told[id(cases)] = _anywhere(cases, v)
        needed = tuple(told[id(cases)] for cases in questions)
        return [] if contradictory(needed) else [Regime(term, S.Zero, oo, needed)]
    return [
        Regime(term, low, high, case.needed)
        for case in all_of(questions)
        for low, high in case.intervals
        if low != high
    ]


def _anywhere(cases: Iterable[Case], v: Symbol) -> Boolean:
    """The cases of one comparison as a single condition."""
    return disjunction(conjunction((case.requires, inside(v, case.intervals))) for case in cases)


def _ordered(rows: list[Regime]) -> list[Regime]:
    """By lower wall where all are numbers, else chained end to start, else as they are."""
    if all(row.lower.is_number and row.upper.is_number for row in rows):
        return sorted(rows, key=lambda row: (row.lower, row.upper))
    starts = {row.lower: row for row in rows}
    if len(starts) == len(rows) and S.Zero in starts:
        chained = [starts[S.Zero]]
        while chained[-1].upper in starts and len(chained) <= len(rows):
            chained.append(starts[chained[-1].upper])
        if len(chained) == len(rows):
            return chained
    return rows
