"""The dominant term of a cost when stated ratios are small, with the exact factor left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sympy import Add, Expr, Rational, S, factor_terms

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import check_known, to_latex
from symscale.solve.cone import Vector, in_cone
from symscale.solve.errorbound import SmallTerm, relative_error, small_terms
from symscale.solve.generators import Exponents, Generators, Poly, check_cost, has_maximum


@dataclass(frozen=True)
class Leading:
    """``expr == term * factor`` exactly; the factor tends to 1 as the ``small`` ratios vanish.

    ``correction`` is the next order of the factor (zero unless asked for), and ``approximation``
    the term with it. ``over`` and ``under`` are the small terms of the factor's numerator and
    denominator, which both begin with 1.
    """

    expr: Expr
    term: Expr
    factor: Expr
    small: tuple[Expr, ...]
    derivation: Derivation = field(default_factory=Derivation)
    correction: Expr = S.Zero
    over: tuple[SmallTerm, ...] = ()
    under: tuple[SmallTerm, ...] = ()
    order: int = 0

    @property
    def approximation(self) -> Expr:
        """The leading term, times one plus the correction."""
        return self.term * (1 + self.correction)

    def error(self, sizes: Any) -> Rational:
        """A bound on the relative error of the approximation, given how large the ratios may be.

        Args:
            sizes: one number for all small ratios, or a number for each of them.

        With numerator ``1 + p`` and denominator ``1 + q`` the leading term is off by
        ``(q - p)/(1 + p)`` of the exact value, the term with its correction by
        ``q*(p - q)/(1 + p)``; both are bounded by the sizes of p and q.

        Raises:
            SolveError: for a ratio without a size, or sizes at which no bound holds.

        >>> from symscale.algebra.symbols import B, D, F
        >>> exact = B * D * F / (B * D + D * F + B * F)
        >>> leading(exact, small=[B / D, B / F]).error(Rational(1, 100))
        1/50
        >>> leading(exact, small=[B / D, B / F], order=1).error(Rational(1, 100))
        1/2500
        """
        return relative_error(self.small, self.over, self.under, self.order, sizes)

    def __repr__(self) -> str:
        ratios = ", ".join(map(str, self.small))
        said = f"{self.term}, exactly times {self.factor}, for small {ratios}"
        return said if not self.order else f"{said}; to first order times {1 + self.correction}"

    def _repr_latex_(self) -> str:
        if self.order:
            return rf"${to_latex(self.term)} \cdot \left({to_latex(1 + self.correction)}\right)$"
        return rf"${to_latex(self.term)} \cdot {to_latex(self.factor)}$"

    def to_dict(self) -> dict[str, Any]:
        """The term and its factor as plain text, for JSON."""
        return {
            "expression": str(self.expr),
            "term": str(self.term),
            "factor": str(self.factor),
            "correction": str(self.correction),
            "small": [str(ratio) for ratio in self.small],
            **self.derivation.to_dict(),
        }


def leading(expr: Any, small: Sequence[Any], order: int = 0) -> Leading:
    """The dominant monomial over the dominant monomial, when every ratio in ``small`` is small.

    One monomial dominates another when their quotient is a product of the small ratios to powers
    not below zero, numbers aside. Signs play no part, so denominators may hold negative terms.
    With ``order=1`` the terms of the factor that are one step smaller come along as a correction.

    Raises:
        SolveError: when the ratios do not decide a winner (both are named), contradict each
            other, or are no ratios of monomials.

    >>> from symscale.algebra.symbols import B, D, F
    >>> found = leading(B * D * F / (B * D + D * F + B * F), small=[B / D, B / F])
    >>> found.term, found.factor
    (B, 1/(B/F + B/D + 1))
    """
    made = check_cost(expr, "expr")
    check_known(made)
    if has_maximum([made]):
        raise SolveError(f"{made} holds a maximum; ask for each arm, or for its regimes")
    if order not in (0, 1):
        raise SolveError(f"order={order!r}: 0 (the leading term) or 1 (with its correction)")
    ratios = tuple(check_cost(ratio, "a ratio in small=") for ratio in small)
    for ratio in ratios:
        check_known(ratio)
    bases = Generators(made, *ratios)
    fraction = bases.fraction(made)
    if not fraction:
        raise SolveError("the expression is zero: it has no leading term")
    rays = _rays(bases, ratios)
    side = -1 if all(c < 0 for c in fraction.numer.values()) else 1
    steps = _stated(made, ratios)
    high, top = _dominant(bases, side * fraction.numer, rays)
    low, bottom = _dominant(bases, side * fraction.denom, rays)
    steps = steps.then(
        "the numerator's dominant term", high, "the others are smaller by such ratios"
    )
    steps = steps.then("the denominator's dominant term", low, "likewise")
    term, factor = high / low, top / bottom
    steps = steps.then("so the leading term is", term, "their quotient")
    steps = steps.then("and exactly, times", factor, "numerator and denominator over these terms")
    over = small_terms(top, bases, rays)
    under = small_terms(bottom, bases, rays)
    found = Leading(made, term, factor, ratios, steps, S.Zero, over, under)
    return found if order == 0 else _corrected(found)


def _corrected(found: Leading) -> Leading:
    """With the next correction: small terms above less small terms below."""
    up, down = (Add(*(one.value for one in part)) for part in (found.over, found.under))
    correction = factor_terms(up - down)
    steps = found.derivation.then(
        "to first order, times", 1 + correction, "what is left out is of second order in the ratios"
    )
    return replace(found, correction=correction, derivation=steps, order=1)


def _stated(made: Expr, ratios: tuple[Expr, ...]) -> Derivation:
    start = Derivation().then("to leading order", made, "" if ratios else "nothing is small")
    for ratio in ratios:
        start = start.then("this is small", ratio, "assumed")
    return start


def _rays(bases: Generators, ratios: tuple[Expr, ...]) -> list[Vector]:
    """The ratios' exponents; refuses sums, numbers, and ratios that cannot all be small."""
    rays: list[Vector] = []
    for ratio in ratios:
        fraction = bases.fraction(ratio)
        if len(fraction.numer) != 1 or len(fraction.denom) != 1:
            raise SolveError(f"small={ratio} is no ratio of monomials; name each ratio by itself")
        (over,), (under,) = fraction.numer, fraction.denom
        rays.append(_quotient(bases, over, under))
        if not any(rays[-1]):
            raise SolveError(f"small={ratio} is a number, which is small or not by itself")
    for ray, ratio in zip(rays, ratios, strict=True):
        if in_cone(tuple(-x for x in ray), rays):
            raise SolveError(
                f"small={ratio} contradicts the other small ratios: not all can be small"
            )
    return rays


def _dominant(bases: Generators, poly: Poly, rays: list[Vector]) -> tuple[Expr, Expr]:
    """The dominant term of a polynomial and the polynomial over it."""
    terms = poly.terms()
    best: Exponents = terms[0][0]
    for exponents, _ in terms[1:]:
        if in_cone(_quotient(bases, best, exponents), rays):
            best = exponents
    for exponents, _ in terms:
        if not in_cone(_quotient(bases, exponents, best), rays):
            tied = f"{bases.monomial(best)} and {bases.monomial(exponents)}"
            raise SolveError(
                f"the small ratios do not decide between {tied}; name one that compares them"
            )
    alike = [item for item in terms if not any(_quotient(bases, best, item[0]))]
    term = factor_terms(Add(*(bases.monomial(exps, coeff) for exps, coeff in alike)))
    if len(alike) > 1:
        return term, 1 + Add(*(bases.monomial(*item) / term for item in terms if item not in alike))
    return term, Add(*(bases.monomial(exps, coeff) / term for exps, coeff in terms))


def _quotient(bases: Generators, over: Exponents, under: Exponents) -> Vector:
    """The exponents of one monomial over another, numbers' roots aside."""
    places = zip(over, under, bases.roots, bases.bases, strict=True)
    return tuple(
        Fraction(a - b, q) if not base.is_number else Fraction(0) for a, b, q, base in places
    )
