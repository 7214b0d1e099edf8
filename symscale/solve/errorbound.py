"""How far a leading term can be off, from how large the small ratios may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sympy import Add, Expr, Mul, Rational, S

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
        powers = ([_rational(weight) for weight in way] for way in self.ways)
        return min(
            abs(self.number) * Mul(*(size**w for size, w in zip(sizes, way, strict=True)))
            for way in powers
        )


def small_terms(expr: Expr, bases: Generators, rays: Sequence[Vector]) -> tuple[SmallTerm, ...]:
    """The terms of a sum that begins with 1, but for that one."""
    out = []
    for part in Add.make_args(expr - 1):
        if part == 0:
            continue
        number, powers = _monomial(bases, part)
        ways = tuple(cone_weights(powers, rays)) if number else ()
        out.append(SmallTerm(part, number, ways))
    return tuple(out)


def _monomial(bases: Generators, part: Expr) -> tuple[Expr, Vector]:
    """A number and powers that bound the term; zero where its denominator may cancel.

    A denominator that is a sum of positive terms is at least as large as one of them.
    """
    fraction = bases.fraction(part)
    (over, top), (under, bottom) = fraction.numer.terms()[0], fraction.denom.terms()[0]
    number = _rational(top) / _rational(bottom)
    if any(coeff < 0 for coeff in fraction.denom.values()) and len(fraction.denom) > 1:
        number = S.Zero
    powers = []
    for a, b, q, base in zip(over, under, bases.roots, bases.bases, strict=True):
        power = Fraction(a - b, q)
        if base.is_number:
            number *= base ** _rational(power)
            power = Fraction(0)
        powers.append(power)
    return number, tuple(powers)


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
    if any(not term.ways for term in terms):
        raise SolveError("a denominator of the small terms may vanish: no bound holds")
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


def _rational(value: Any) -> Rational:
    return Rational(int(value.numerator), int(value.denominator))
