"""Expressions in positive symbols as exact rational functions, and back.

Every base is positive: a symbol, a prime under a root, or an opaque positive node. A base that
occurs under roots is replaced by ``g**q``, with ``q`` the least common multiple of its exponents'
denominators, so that sums of powers and roots become ratios of polynomials with rational
coefficients, in which a sign is read off the coefficients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import reduce
from math import gcd, isfinite, lcm
from numbers import Integral
from operator import add, mul
from typing import Any

from sympy import QQ, Add, Expr, Float, Integer, Mul, Pow, Rational, S, Symbol, factor_terms
from sympy.core.sorting import default_sort_key
from sympy.ntheory import factorrat
from sympy.polys.fields import FracField

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.laurent import Collector, Terms, coprime, over_one, shifted

Poly = Any  # a sympy.polys.rings.PolyElement; SymPy has no types
Ratio = Any  # a sympy.polys.fields.FracElement
Exponents = tuple[int, ...]


class Generators:
    """The positive bases of some expressions, and the field of rational functions over them.

    Raises:
        SolveError: for a base that is not known to be positive, or is not a finite real number.

    >>> from symscale.algebra.symbols import B, D
    >>> bases = Generators(B + D**2 / B)
    >>> fraction = bases.fraction(B + D**2 / B)
    >>> bases.expr(fraction.numer), bases.expr(fraction.denom)
    (B**2 + D**2, B)
    """

    def __init__(self, *exprs: Expr) -> None:
        roots: dict[Expr, int] = {}
        for expr in exprs:
            for base, exponent in _leaves(exact_numbers(expr)):
                _check_positive(base)
                roots[base] = lcm(roots.get(base, 1), int(exponent.q))
        self.bases: tuple[Expr, ...] = tuple(sorted(roots, key=default_sort_key)) or (S.One,)
        self.roots: tuple[int, ...] = tuple(roots.get(base, 1) for base in self.bases)
        self.field = FracField([f"g{i}" for i in range(len(self.bases))], QQ)
        self._places = {base: place for place, base in enumerate(self.bases)}

    def fraction(self, expr: Expr) -> Ratio:
        """The expression as one reduced ratio of polynomials."""
        made = exact_numbers(expr)
        collector = Collector(len(self.bases), self._exponents)
        try:
            top, bottom = over_one(collector, collector.parts(made))
        except OverflowError:
            return self._convert(made)
        return self._reduced(*shifted(top, bottom)) if top else self.field.zero

    def _reduced(self, top: Terms, bottom: Terms) -> Ratio:
        numer, denom = (self.field.ring.from_dict(terms) for terms in (top, bottom))
        if len(bottom) > 1 and not coprime(numer, denom):
            return self.field.new(numer, denom)
        over, under = numer.content(), denom.content() * (1 if denom.LC > 0 else -1)
        number = over / under
        numer = numer.mul_ground(number.numerator / over)
        return self.field.raw_new(numer, denom.mul_ground(number.denominator / under))

    def _exponents(self, leaf: Expr) -> Exponents:
        """The exponents of a power or root of a base, or of several."""
        if isinstance(leaf, Pow) and leaf.exp.is_Integer:
            times = int(leaf.exp)
            return tuple(times * power for power in self._exponents(leaf.base))
        out = [0] * len(self.bases)
        for base, exponent in _leaves(leaf):
            place = self._places[base]
            out[place] += int(exponent * self.roots[place])
        return tuple(out)

    def _convert(self, expr: Expr) -> Ratio:
        if expr.is_Rational:
            return self.field.ground_new(QQ(int(expr.p), int(expr.q)))
        if isinstance(expr, Add):
            return reduce(add, map(self._convert, expr.args))
        if isinstance(expr, Mul):
            return reduce(mul, map(self._convert, expr.args))
        if isinstance(expr, Pow) and expr.exp.is_Integer:
            return self._convert(expr.base) ** int(expr.exp)
        parts = (self._power(base, exponent) for base, exponent in _leaves(expr))
        return reduce(mul, parts, self.field.one)

    def _power(self, base: Expr, exponent: Rational) -> Ratio:
        place = self._places[base]
        return self.field.gens[place] ** int(exponent * self.roots[place])

    def expr(self, poly: Poly) -> Expr:
        """A polynomial of this field's ring as an expression."""
        return Add(*(self.monomial(exps, coeff) for exps, coeff in poly.terms()))

    def monomial(self, exponents: Exponents, coeff: Any = 1, power: Rational = S.One) -> Expr:
        """One monomial (to a power) as an expression."""
        number = Rational(int(coeff.numerator), int(coeff.denominator)) ** power
        triples = zip(self.bases, exponents, self.roots, strict=True)
        return Mul(number, *(base ** (Rational(e, q) * power) for base, e, q in triples if e))

    def factored(self, poly: Poly) -> Expr:
        """A polynomial as an expression with its common monomial drawn out."""
        return self.power_of(poly) if poly else S.Zero

    def ratio(self, top: Poly, bottom: Poly, power: Rational = S.One) -> Expr:
        """``top/bottom`` reduced, to a power; monomials keep their powers merged."""
        reduced = self._reduced(*shifted(dict(top), dict(bottom))) if top else self.field.zero
        over, under = reduced.numer, reduced.denom
        if all(c < 0 for c in over.values()):
            over, under = -over, -under
        return self.power_of(over, power) / self.power_of(under, power)

    def power_of(self, poly: Poly, power: Rational = S.One) -> Expr:
        """A polynomial to a power, its monomial factor drawn out of the root."""
        if len(poly) == 1:
            (exponents, coeff) = poly.terms()[0]
            return self.monomial(exponents, coeff, power)
        common, coeff, rest = common_monomial(poly)
        return self.monomial(common, coeff, power) * self.expr(rest) ** power

    def collect(self, poly: Poly, v: Symbol) -> tuple[list[Poly], Rational]:
        """Coefficients ``[c_0, ..., c_d]`` in ``w`` and the power ``p`` with ``w = v**p``.

        The lowest power of ``v`` is divided out, and ``p`` is the largest that leaves whole powers.
        """
        place = self.bases.index(v)
        parts: dict[int, dict[Exponents, Any]] = {}
        for exponents, coeff in poly.terms():
            rest = (*exponents[:place], 0, *exponents[place + 1 :])
            parts.setdefault(exponents[place], {})[rest] = coeff
        low = min(parts)
        step = gcd(*(e - low for e in parts)) or 1
        degree = (max(parts) - low) // step
        coeffs = [poly.ring.from_dict(parts.get(low + i * step, {})) for i in range(degree + 1)]
        return coeffs, Rational(step, self.roots[place])

    def is_numeric(self, poly: Poly) -> bool:
        """Whether only roots of numbers occur in it."""
        used = {i for exponents in poly for i, e in enumerate(exponents) if e}
        return all(self.bases[i].is_number for i in used)

    def opaque_over(self, v: Symbol) -> Expr | None:
        """A base that hides ``v`` inside (a rounding, say), if there is one."""
        hidden = (base for base in self.bases if base != v and v in base.free_symbols)
        return next(hidden, None)


def common_monomial(poly: Poly) -> tuple[Exponents, Any, Poly]:
    """The monomial and number that all terms share, and the polynomial over them."""
    common = tuple(map(min, zip(*poly, strict=True)))
    number = poly.content()
    rest = {
        tuple(e - low for e, low in zip(exponents, common, strict=True)): c / number
        for exponents, c in poly.items()
    }
    return common, number, poly.ring.from_dict(rest)


def exact_numbers(expr: Expr) -> Expr:
    """The expression with decimal fractions as the rationals they print as."""
    found = expr.atoms(Float)
    return expr.xreplace({number: Rational(str(number)) for number in found}) if found else expr


def _leaves(expr: Expr) -> Iterator[tuple[Expr, Rational]]:
    """Every base in the expression with an exponent it occurs under."""
    if expr.is_Rational:
        return
    if isinstance(expr, Add | Mul):
        for arg in expr.args:
            yield from _leaves(arg)
    elif isinstance(expr, Pow) and expr.exp.is_Integer:
        yield from _leaves(expr.base)
    elif isinstance(expr, Pow) and expr.exp.is_Rational:
        yield from _root_parts(expr)
    else:
        yield expr, S.One


def _root_parts(expr: Pow) -> Iterator[tuple[Expr, Rational]]:
    """A root of a product as roots of its factors, numbers as primes."""
    for factor, power in factor_terms(expr.base).as_powers_dict().items():
        exponent = power * expr.exp
        if factor.is_Rational and factor.is_positive:
            for prime, times in factorrat(factor).items():
                yield Integer(prime), times * exponent
        elif power.is_Rational:
            yield factor, exponent
        else:
            yield factor**power, expr.exp


def _check_positive(base: Expr) -> None:
    if base.is_positive is not True or base.is_finite is False:
        hint = "declare it positive" if isinstance(base, Symbol) else "costs are sums of such"
        raise SolveError(f"{base} is not known to be a positive number; {hint}")


def check_cost(value: Any, name: str) -> Expr:
    """The value as an expression, refusing anything else in words.

    Raises:
        SolveError: for text, a time or cost record, a relation, or another object.

    >>> check_cost(0.5, "a")
    1/2
    """
    if isinstance(value, Expr) and value.is_commutative and value.is_finite is not False:
        return value
    if not isinstance(value, bool) and isinstance(value, Integral | Fraction):
        return Rational(value.numerator, value.denominator)
    if isinstance(value, float) and isfinite(value):
        return Rational(str(value))
    if hasattr(value, "lower") and hasattr(value, "upper") and not isinstance(value, str):
        raise SolveError(f"{name} is a whole time; take .math, .hbm, .comms or .lower of it")
    if hasattr(value, "group_by") and hasattr(value, "sum"):
        raise SolveError(f"{name} is a whole cost; take an amount of it, such as .sum('flops')")
    raise SolveError(f"{name} = {value!r} is not an expression; write it with symscale's symbols")


def has_maximum(exprs: Iterable[Expr]) -> bool:
    """Whether a maximum stands anywhere in these."""
    return any(expr.has(Maximum) for expr in exprs)
