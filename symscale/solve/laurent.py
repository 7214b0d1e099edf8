"""Sums of monomials as exponents and coefficients: the quick way to one reduced ratio.

SymPy's field reduces after every addition, at the price of a greatest common divisor each time.
Here terms are collected first, under one denominator, and reduced once; where all denominators are
monomials, as in nearly every cost, the reduction is a subtraction of exponents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from sympy import QQ, Add, Expr, Mul, Pow

Terms = dict[tuple[int, ...], Any]  # coefficients by exponents, which may be below zero
Below = tuple[tuple[Expr, int], ...]  # sums in the denominator, with their powers
Parts = dict[Below, Terms]
Leaf = Callable[[Expr], tuple[int, ...]]

MOST_TERMS = 4000


class Collector:
    """Collects an expression over given bases; ``leaf`` yields the exponents of what is no sum."""

    def __init__(self, size: int, leaf: Leaf) -> None:
        self.none = (0,) * size
        self.leaf = leaf

    def parts(self, expr: Expr) -> Parts:
        """The terms over each denominator."""
        if expr.is_Rational:
            value = QQ(int(expr.p), int(expr.q))
            return {(): {self.none: value}} if value else {}
        if isinstance(expr, Add):
            return self._sum(map(self.parts, expr.args))
        if isinstance(expr, Mul):
            return reduce(self._product, map(self.parts, expr.args))
        if isinstance(expr, Pow) and isinstance(expr.base, Add) and expr.exp.is_Integer:
            times = int(expr.exp)
            if times < 0:
                return {((expr.base, -times),): {self.none: QQ(1)}}
            return reduce(self._product, [self.parts(expr.base)] * times)
        if isinstance(expr, Pow) and isinstance(expr.base, Mul) and expr.exp.is_Integer:
            return self.parts(Mul(*(factor**expr.exp for factor in expr.base.args)))
        return {(): {self.leaf(expr): QQ(1)}}

    def _sum(self, several: Iterable[Parts]) -> Parts:
        out: Parts = {}
        for parts in several:
            for below, terms in parts.items():
                add_terms(out.setdefault(below, {}), terms)
        return {below: terms for below, terms in out.items() if terms}

    def _product(self, left: Parts, right: Parts) -> Parts:
        made = (
            {_joined(below, other): multiply(one, two)}
            for below, one in left.items()
            for other, two in right.items()
        )
        return self._sum(made)


def add_terms(into: Terms, terms: Terms) -> None:
    """Add terms to others in place; what cancels is dropped."""
    for exponents, coeff in terms.items():
        total = into.get(exponents, 0) + coeff
        if total:
            into[exponents] = total
        else:
            into.pop(exponents, None)


def multiply(left: Terms, right: Terms) -> Terms:
    """The product of two sums of monomials."""
    if len(left) * len(right) > MOST_TERMS:
        raise OverflowError
    out: Terms = {}
    for exponents, coeff in left.items():
        shifted = {
            tuple(map(int.__add__, exponents, other)): coeff * value
            for other, value in right.items()
        }
        add_terms(out, shifted)
    return out


def _joined(left: Below, right: Below) -> Below:
    if not left or not right:
        return left or right
    powers = dict(left)
    for base, times in right:
        powers[base] = powers.get(base, 0) + times
    return tuple(sorted(powers.items(), key=lambda item: item[0].sort_key()))


def over_one(collector: Collector, parts: Parts) -> tuple[Terms, Terms]:
    """All parts over one denominator: numerator and denominator, not reduced."""
    powers: dict[Expr, int] = {}
    for below in parts:
        for base, times in below:
            powers[base] = max(times, powers.get(base, 0))
    sums = {base: collector.parts(base) for base in powers}
    if any(set(found) - {()} for found in sums.values()):
        raise OverflowError
    plain = {base: found[()] for base, found in sums.items()}
    top: Terms = {}
    for below, terms in parts.items():
        held = dict(below)
        missing = [plain[b] for b, times in powers.items() for _ in range(times - held.get(b, 0))]
        add_terms(top, reduce(multiply, missing, terms))
    factors = [plain[base] for base, times in powers.items() for _ in range(times)]
    return top, reduce(multiply, factors, {collector.none: QQ(1)})


def shifted(top: Terms, bottom: Terms) -> tuple[Terms, Terms]:
    """Numerator and denominator with whole exponents and no monomial in common."""
    low = tuple(map(min, zip(*top, strict=True)))
    under = tuple(map(min, zip(*bottom, strict=True)))
    common = tuple(map(min, low, under))
    return (
        {tuple(map(int.__sub__, e, common)): c for e, c in top.items()},
        {tuple(map(int.__sub__, e, common)): c for e, c in bottom.items()},
    )


def linear_place(poly: Any) -> int | None:
    """An unknown in which a polynomial without a monomial factor is linear, and hence prime.

    It stands in one term only, or in all but one, and to the first power: a factor would divide
    that one monomial, and no monomial divides all terms.
    """
    for place in range(poly.ring.ngens):
        powers = [exponents[place] for exponents in poly]
        if max(powers) == 1 and sum(powers) in (1, len(powers) - 1):
            return place
    return None


def coprime(left: Any, right: Any) -> bool:
    """Whether one polynomial certainly shares no factor with another, a prime one.

    A prime that is linear in an unknown has a root with all other unknowns chosen at will; a
    polynomial that is not zero there is no multiple of it. False when in doubt.
    """
    place = linear_place(right)
    if place is None or any(all(e[i] for e in right) for i in range(right.ring.ngens)):
        return False
    point = [QQ(2 * i + 3) for i in range(right.ring.ngens)]
    point[place] = QQ(0)
    rest = value_at(right, point)
    point[place] = QQ(1)
    slope = value_at(right, point) - rest
    if not slope:
        return False
    point[place] = -rest / slope
    return bool(value_at(left, point))


def prime(poly: Any) -> bool:
    """Whether a polynomial without a monomial factor certainly has no factors.

    Linear in some unknown, it could only have one that divides both of its coefficients there.
    """
    for place in range(poly.ring.ngens):
        if max(exponents[place] for exponents in poly) != 1:
            continue
        with_it, without = _coefficients(poly, place)
        if len(with_it) == 1 or len(without) == 1:
            return True
        if coprime(with_it, without) or coprime(without, with_it):
            return True
    return False


def _coefficients(poly: Any, place: int) -> tuple[Any, Any]:
    """The two coefficients in an unknown in which it is linear, over their common monomials."""
    sides: tuple[Terms, Terms] = ({}, {})
    for exponents, coeff in poly.items():
        rest = (*exponents[:place], 0, *exponents[place + 1 :])
        sides[exponents[place] == 0][rest] = coeff
    made = []
    for side in sides:
        low = tuple(map(min, zip(*side, strict=True)))
        terms = {tuple(map(int.__sub__, e, low)): c for e, c in side.items()}
        made.append(poly.ring.from_dict(terms))
    return made[0], made[1]


def value_at(poly: Any, point: list[Any]) -> Any:
    """A polynomial's value at a point of rationals."""
    total = QQ(0)
    for exponents, coeff in poly.items():
        for place, power in enumerate(exponents):
            if power:
                coeff = coeff * point[place] ** power
        total = total + coeff
    return total
