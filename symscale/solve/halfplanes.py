"""Monomial inequalities ``K * v**p * w**q >= 1``: half-planes in logarithms, with symbols in K."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from sympy import Eq, Expr, Ge, Le, Mul, S, Symbol
from sympy.logic.boolalg import Boolean

from symscale.solve.cone import Vector, cone_weights, solve_linear
from symscale.solve.geometric import power, rational
from symscale.solve.signs import PLUS, ZERO, compare


@dataclass(frozen=True)
class HalfPlane:
    """Where ``coefficient * v**powers[0] * w**powers[1] >= 1``."""

    coefficient: Expr
    powers: Vector

    @property
    def is_constant(self) -> bool:
        """Whether neither unknown occurs in it."""
        return not any(self.powers)

    def wall(self, v: Symbol, w: Symbol) -> tuple[Symbol, Expr, int]:
        """The wall as a formula: the unknown it is solved for, the value, and the inner side.

        The side is 1 where the unknown lies above the value, -1 below; the second unknown is solved
        for where it occurs.
        """
        p, q = self.powers
        if q:
            value = power(self.coefficient, rational(-1 / q)) * v ** rational(-p / q)
            return w, value, 1 if q > 0 else -1
        return v, power(self.coefficient, rational(-1 / p)), 1 if p > 0 else -1

    def relation(self, v: Symbol, w: Symbol) -> Boolean:
        """The inequality, solved for one of the unknowns."""
        unknown, value, side = self.wall(v, w)
        return (Ge if side > 0 else Le)(unknown, value, evaluate=False)

    def equation(self, v: Symbol, w: Symbol) -> Eq:
        """The wall as an equation."""
        unknown, value, _ = self.wall(v, w)
        return Eq(unknown, value, evaluate=False)

    def implied_by(self, others: Sequence[HalfPlane]) -> bool:
        """Whether it certainly holds wherever the others do."""
        rows = [other.powers for other in others]
        for weights in cone_weights(self.powers, rows):
            pairs = [pair for pair in zip(others, weights, strict=True) if pair[1]]
            product = Mul(*(power(other.coefficient, rational(w)) for other, w in pairs))
            if compare(product, self.coefficient).signs <= PLUS | ZERO:
                return True
        return False


def needed(planes: Sequence[HalfPlane]) -> list[HalfPlane]:
    """The half-planes without those that the others certainly imply."""
    kept = list(dict.fromkeys(planes))
    for plane in list(kept):
        others = [other for other in kept if other is not plane]
        if plane.implied_by(others):
            kept = others
    return kept


def nonempty(planes: Sequence[HalfPlane]) -> list[Boolean] | None:
    """The conditions on the coefficients under which all half-planes share an open region.

    By Farkas' lemma they share a point where every combination in which the unknowns cancel is at
    least 1; combinations of up to three suffice in two unknowns. None where one is certainly 1 or
    less: then a line is left at most.
    """
    out: list[Boolean] = []
    for coefficient in _cancelling(planes):
        order = compare(S.One, coefficient)
        if order.signs <= frozenset({-1, 0}):
            return None
        if order.fits != S.true:
            out.append(order.fits)
    return out


def _cancelling(planes: Sequence[HalfPlane]) -> Iterator[Expr]:
    """The coefficient of each least combination in which both unknowns cancel."""
    for plane in planes:
        if plane.is_constant:
            yield plane.coefficient
    moving = [plane for plane in planes if not plane.is_constant]
    for size in (2, 3):
        for chosen in combinations(moving, size):
            weights = _balance([plane.powers for plane in chosen])
            if weights is not None:
                pairs = zip(chosen, weights, strict=True)
                yield Mul(*(power(plane.coefficient, rational(w)) for plane, w in pairs))


def _balance(rows: Sequence[Vector]) -> list[Fraction] | None:
    """Positive weights under which the rows add up to zero, if there are any."""
    first, *others = rows
    weights = solve_linear(others, tuple(-x for x in first))
    if weights is None or any(weight <= 0 for weight in weights):
        return None
    return [Fraction(1), *weights]
