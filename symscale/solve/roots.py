"""Where a polynomial in one positive unknown is at least zero, by the signs of its coefficients.

Descartes' rule: as many positive roots as sign changes, or fewer by an even number. No change:
always or never. One: exactly one root. Two at degree two: two roots or none, by the discriminant.
Where a sign is undecided the answer is split by it; cases with equal answers are joined again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from sympy import Add, Expr, Rational, S, Symbol, factor, factor_terms, oo, sqrt
from sympy import Poly as UnivariatePoly

from symscale.algebra.errors import SolveError
from symscale.solve.generators import Generators, Poly
from symscale.solve.signs import ANY, MINUS, PLUS, ZERO, Known, SignReader, Signs

Interval = tuple[Expr, Expr]
Intervals = tuple[Interval, ...]

ALWAYS: Intervals = ((S.Zero, oo),)
NEVER: Intervals = ()
NOT_NEGATIVE = frozenset({0, 1})
NOT_POSITIVE = frozenset({0, -1})


@dataclass(frozen=True)
class Branch:
    """Under these signs of the cores, the polynomial is >= 0 on these closed intervals; and why."""

    known: tuple[tuple[Poly, Signs], ...]
    intervals: Intervals
    why: str


@dataclass(frozen=True)
class Unknown:
    """The polynomial's unknown ``w = v**power``."""

    v: Symbol
    power: Rational

    def at_root(self, root: Expr) -> Expr:
        """The value of ``v`` where ``w`` is this root."""
        return root ** (1 / self.power)


class RootFinder:
    """Splits one sign question into branches, each with a closed answer.

    ``coeffs`` are ``[c_0, ..., c_d]`` in ``w``.
    """

    def __init__(self, reader: SignReader, unknown: Unknown) -> None:
        self.reader = reader
        self.bases: Generators = reader.bases
        self.unknown = unknown

    def branches(self, coeffs: list[Poly], known: Known) -> list[Branch]:
        """All branches below these known signs; together they cover every case once."""
        coeffs, signs = self._live(coeffs, known)
        answer = self._decide(coeffs, signs, known)
        if isinstance(answer, Branch):
            return [replace(answer, known=tuple(known.items()))]
        return self._split(answer, coeffs, known)

    def _live(self, coeffs: list[Poly], known: Known) -> tuple[list[Poly], list[Signs]]:
        """The coefficients without vanishing ones at either end."""
        signs = [self.reader.signs(c, known) for c in coeffs]
        alive = [i for i, s in enumerate(signs) if s != ZERO]
        if not alive:
            return [], []
        ends = slice(alive[0], alive[-1] + 1)
        kept = [c if s != ZERO else c.ring.zero for c, s in zip(coeffs, signs, strict=True)]
        return kept[ends], signs[ends]

    def _split(self, core: Poly, coeffs: list[Poly], known: Known) -> list[Branch]:
        """One branch for each sign the core may have; equal answers joined."""
        still = known.get(core, ANY)
        signs = [s for s in (PLUS, ZERO, MINUS) if s <= still]
        return join([b for s in signs for b in self.branches(coeffs, {**known, core: s})])

    def _decide(self, coeffs: list[Poly], signs: list[Signs], known: Known) -> Branch | Poly:
        """An answer, or the core whose sign is wanted first."""
        if all(s <= NOT_NEGATIVE for s in signs):
            return Branch((), ALWAYS, "no coefficient is negative: no positive root")
        if all(s <= NOT_POSITIVE for s in signs) and MINUS in signs:
            return Branch((), NEVER, "no coefficient is positive: no positive root")
        if len(coeffs) > 3:
            return self._cubic(coeffs, signs) or Branch((), *self._higher(coeffs, signs))
        wanted = (-1, 0) if len(coeffs) == 3 and signs[-1] != signs[0] else (-1, 0, 1)
        for place in wanted:
            core = self.reader.undecided(coeffs[place], known)
            if core is not None and len(signs[place]) > 1:
                return core
        if len(coeffs) < 3:
            return self._linear(coeffs, signs)
        return self._quadratic(coeffs, signs, known)

    def _linear(self, coeffs: list[Poly], signs: list[Signs]) -> Branch:
        low, high = coeffs
        root = self.bases.ratio(-low, high, 1 / self.unknown.power)
        return Branch((), *_one_change(root, signs[-1]))

    def _quadratic(self, coeffs: list[Poly], signs: list[Signs], known: Known) -> Branch | Poly:
        flipped = signs[-1] == MINUS
        c0, c1, c2 = [-c for c in coeffs] if flipped else coeffs
        disc = c1**2 - 4 * c2 * c0
        if signs[0] != signs[-1]:
            return Branch((), *_one_change(self._root(c2, c1, disc, c0, 1), signs[-1]))
        spread = self.reader.signs(disc, known)
        if not (spread <= NOT_NEGATIVE or spread <= NOT_POSITIVE):
            return self.reader.undecided(disc, known)
        touches = spread == ZERO
        if -1 in spread or (touches and not flipped):
            why = "two sign changes but no positive discriminant: the sign never changes"
            return Branch((), NEVER if flipped else ALWAYS, why)
        low, high = (self._root(c2, c1, disc, c0, side) for side in (-1, 1))
        why = "two sign changes and a discriminant not below zero: two positive roots"
        outside = ((S.Zero, low), (high, oo))
        return Branch((), ((low, high),) if flipped else outside, why)

    def _root(self, c2: Poly, c1: Poly, disc: Poly, c0: Poly, side: int) -> Expr:
        if not c1:
            return self.bases.ratio(-c0, c2, 1 / (2 * self.unknown.power))
        spread = sqrt(factor(self.bases.expr(disc)))
        top = factor_terms(side * spread - self.bases.expr(c1))
        return self.unknown.at_root(top / (2 * self.bases.factored(c2)))

    def _cubic(self, coeffs: list[Poly], signs: list[Signs]) -> Branch | None:
        """Cardano's root of ``w**3 + p*w = q`` with positive p and q, or of its reciprocal."""
        if len(coeffs) != 4 or all(map(self.bases.is_numeric, coeffs)):
            return None
        c0, c1, c2, c3 = coeffs
        low, *middle, high = signs
        if low | high != PLUS | MINUS or ZERO not in middle:
            return None
        if not c2 and middle[0] == high:
            root = _cardano(self.bases.ratio(c1, c3), self.bases.ratio(-c0, c3))
        elif not c1 and middle[1] == low:
            root = 1 / _cardano(self.bases.ratio(c2, c0), self.bases.ratio(-c3, c0))
        else:
            return None
        return Branch((), *_one_change(self.unknown.at_root(root), high))

    def _higher(self, coeffs: list[Poly], signs: list[Signs]) -> tuple[Intervals, str]:
        """Degree three and more: certified roots once every coefficient is a number."""
        if all(self.bases.is_numeric(c) for c in coeffs):
            return _certified([self.bases.expr(c) for c in coeffs], self.unknown)
        names = sorted(map(str, {s for c in coeffs for s in self.bases.expr(c).free_symbols}))
        changes = _sign_changes(signs)
        unique = "exactly one threshold exists, but " if changes == 1 else ""
        raise SolveError(
            f"degree {len(coeffs) - 1} in {self.unknown.v}**{self.unknown.power}: {unique}no "
            f"closed form is offered; substitute numbers for {', '.join(names)} and ask again"
        )


def _cardano(p: Expr, q: Expr) -> Expr:
    """The one real root of ``w**3 + p*w = q`` for positive ``p`` and ``q``.

    Source: Cardano's formula; with positive ``p`` the square root is real.
    """
    cube = (q / 2 + sqrt(factor(q**2 / 4 + p**3 / 27))) ** Rational(1, 3)
    return cube - p / (3 * cube)


def _one_change(root: Expr, leading: Signs) -> tuple[Intervals, str]:
    why = "one sign change: exactly one positive root (Descartes)"
    return (((root, oo),) if leading == PLUS else ((S.Zero, root),)), why


def complement(intervals: Intervals) -> Intervals:
    """What the ordered intervals leave of the half-line, closed at both ends.

    >>> complement(((S(2), oo),)), complement(()), complement(((S(0), oo),))
    (((0, 2),), ((0, oo),), ())
    """
    ends = [S.Zero, *(end for pair in intervals for end in pair), oo]
    pairs = zip(ends[::2], ends[1::2], strict=True)
    return tuple((low, high) for low, high in pairs if low != high)


def _certified(coeffs: list[Expr], unknown: Unknown) -> tuple[Intervals, str]:
    """The positive roots of a polynomial with number coefficients, isolated exactly."""
    w = Symbol("w")
    poly = UnivariatePoly(coeffs[::-1], w, extension=True)
    roots = [root for root in poly.real_roots(multiple=False) if root[0] > 0]
    walls = [unknown.at_root(root) for root, _ in roots]
    found: list[Interval] = []
    positive = coeffs[0] > 0
    low: Expr = S.Zero
    for wall, (_, times) in zip(walls, roots, strict=True):
        if positive and times % 2:
            found.append((low, wall))
        elif not positive:
            low = wall
            if times % 2 == 0:
                found.append((wall, wall))
        positive = positive != bool(times % 2)
    if positive:
        found.append((low, oo))
    count = len(walls)
    why = f"{count} positive real root{'s' if count != 1 else ''}, isolated by exact arithmetic"
    return tuple(found), why


def _sign_changes(signs: Iterable[Signs]) -> int | None:
    """Sign changes along the coefficients; None when a sign is undecided."""
    decided = [s for s in signs if s != ZERO]
    if any(len(s) > 1 for s in decided):
        return None
    return sum(left != right for left, right in pairwise(decided))


def join(branches: list[Branch]) -> list[Branch]:
    """Branches with one answer that differ in the sign of one core become one branch."""
    out: list[Branch] = []
    for branch in branches:
        for place, held in enumerate(out):
            both = _joined(held, branch)
            if both is not None:
                rest = [b for i, b in enumerate(out) if i != place]
                return join([*rest[:place], both, *rest[place:], *branches[len(out) + 1 :]])
        out.append(branch)
    return out


def _joined(left: Branch, right: Branch) -> Branch | None:
    if left.intervals != right.intervals:
        return None
    one, two = dict(left.known), dict(right.known)
    apart = [core for core in one.keys() | two.keys() if one.get(core) != two.get(core)]
    if len(apart) > 1 or any(core not in one or core not in two for core in apart):
        return None
    merged = {core: signs | two[core] for core, signs in one.items()}
    known = tuple((core, signs) for core, signs in merged.items() if signs != ANY)
    return replace(left, known=known)


def polynomial_in(bases: Generators, coeffs: list[Poly], unknown: Unknown) -> Expr:
    """The polynomial written out in the unknown, for a step of the derivation."""
    powers = (unknown.v ** (unknown.power * i) for i in range(len(coeffs)))
    pairs = zip(coeffs, powers, strict=True)
    return Add(*(bases.factored(c) * power for c, power in pairs))
