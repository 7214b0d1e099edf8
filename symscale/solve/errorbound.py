"""How far a leading term can be off, from how large the small ratios may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sympy import Add, Expr, Rational, S

from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import exact
from symscale.solve.cone import Vector, cone_weights
from symscale.solve.generators import Generators, check_cost


@dataclass(frozen=True)
class SmallTerm:
    """A term next to 1: its value, and all ways to write it as a number times powers of ratios."""

    value: Expr
    number: Expr
    ways: tuple[tuple[Fraction, ...], ...]

    def largest(self, sizes: Sequence[Expr]) -> Expr:
        """The most its absolute value can be, by the best of its ways."""
        bounds = (
            abs(self.number) * _product(size**_rational(w) for size, w in zip(sizes, way, strict=True))
            for way in self.ways
        )
        return min(bounds)


def small_terms(expr: Expr, bases: Generators, rays: Sequence[Vector]) -> tuple[SmallTerm, ...]:
    """The terms of a sum that begins with 1, but for that one."""
    out = []
    for part in Add.make_args(expr - 1):
        if part == 0:
            continue
        fraction = bases.fraction(part)
        (over, top), (under, bottom) = fraction.numer.terms()[0], fraction.denom.terms()[0]
        triples = zip(over, under, bases.roots, bases.bases, strict=True)
        powers, number = [], Rational(int(top.numerator), int(top.denominator))
        number /= Rational(int(bottom.numerator), int(bottom.denominator))
        for a, b, q, base in triples:
            power = Fraction(a - b, q)
            if base.is_number:
                number *= base ** _rational(power)
                power = Fraction(0)
            powers.append(power)
        out.append(SmallTerm(part, number, tuple(cone_weights(tuple(powers), rays))))
    return tuple(out)


def relative_error(
    small: tuple[Expr, ...],
    over: tuple[SmallTerm, ...],
    under: tuple[SmallTerm, ...],
    order: int,
    sizes: Any,
) -> Rational:
    """A bound on ``|approximation/exact - 1|`` (see :meth:`Leading.error`)."""
    given = _sizes(small, sizes)
    if any(size >= 1 for size in given):
        raise SolveError(f"sizes {sizes}: a small ratio is below 1")
    p_low, p_high = _range(over, given)
    q_low, q_high = _range(under, given)
    if p_low <= -1 or q_low <= -1:
        raise SolveError(f"at sizes {sizes} the small terms may add up to -1: no bound holds")
    largest = max(abs(q_high - p_low), abs(q_low - p_high))
    if order == 1:
        largest = largest * max(abs(q_low), abs(q_high))
    return largest / (1 + p_low)


def _range(terms: tuple[SmallTerm, ...], sizes: Sequence[Expr]) -> tuple[Expr, Expr]:
    """Between what the terms' sum lies: each is between zero and its largest value."""
    largest = [(term.number > 0, term.largest(sizes)) for term in terms]
    low = -Add(*(bound for positive, bound in largest if not positive))
    return low, Add(*(bound for positive, bound in largest if positive))


def _sizes(small: tuple[Expr, ...], sizes: Any) -> list[Expr]:
    if not isinstance(sizes, Mapping):
        return [exact(sizes, "the size of a ratio")] * len(small)
    given = {check_cost(key, "a ratio"): exact(value, str(key)) for key, value in sizes.items()}
    missing = [str(ratio) for ratio in small if ratio not in given]
    if missing:
        raise SolveError(f"no size for the ratio {', '.join(missing)}")
    return [given[ratio] for ratio in small]


def _product(factors: Any) -> Expr:
    out = S.One
    for factor in factors:
        out = out * factor
    return out


def _rational(value: Fraction) -> Rational:
    return Rational(value.numerator, value.denominator)
