"""Geometric programs: posynomials in logarithms, where a stationary point is the global minimum.

With ``m`` monomials in ``k`` independent unknowns the degree of difficulty is ``m - k - 1``. At
degree zero the dual weights follow from a linear system, and with them the minimum and its point.

Source: Duffin, Peterson and Zener, Geometric Programming (1967); Boyd et al., A tutorial on
geometric programming (2007).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from sympy import Add, Eq, Expr, Mul, Rational, S, Symbol, factor_terms

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.arms import arms
from symscale.solve.assume import preferred, solve_monomial
from symscale.solve.cone import Vector, rank, solve_linear
from symscale.solve.generators import Generators, Poly

Monomials = dict[Vector, Expr]


@dataclass(frozen=True)
class Program:
    """Monomials ``coefficient * prod(free**exponents)`` and how the bound unknowns follow.

    ``is_max`` says that the largest of them counts, not their sum. ``constant`` is what no unknown
    moves.
    """

    free: tuple[Symbol, ...]
    bound: tuple[tuple[Symbol, Expr], ...]
    terms: Monomials
    constant: Expr
    is_max: bool

    @property
    def degree(self) -> int:
        """The degree of difficulty."""
        return len(self.terms) - rank(tuple(self.terms)) - 1

    def total(self, value: Expr) -> Expr:
        """The objective, from the part that the unknowns move."""
        if self.constant == 0:
            return value
        return Maximum(self.constant, value) if self.is_max else self.constant + value


def eliminate(over: tuple[Symbol, ...], constraints: tuple[Eq, ...]) -> dict[Symbol, Expr]:
    """Each constraint solved for one unknown, in terms of those left."""
    swaps: dict[Symbol, Expr] = {}
    for relation in constraints:
        left = relation.lhs.xreplace(swaps), relation.rhs.xreplace(swaps)
        open_ones = [v for v in over if v not in swaps]
        if left[0] == left[1]:
            continue
        old, new = solve_monomial(Eq(*left, evaluate=False), preferred(open_ones))
        swaps = {key: value.xreplace({old: new}) for key, value in swaps.items()} | {old: new}
    return swaps


def program(
    parts: tuple[Expr, ...], over: tuple[Symbol, ...], swaps: Mapping[Symbol, Expr], is_max: bool
) -> Program:
    """The geometric program for a sum of parts, or the maximum of them.

    Raises:
        SolveError: when a part is no posynomial in the unknowns.
    """
    free = tuple(v for v in over if v not in swaps)
    terms: Monomials = {}
    for part in parts:
        found = _monomials(part.xreplace(dict(swaps)), free)
        if is_max and len(found) > 1:
            raise SolveError(
                f"an arm of the maximum is a sum, {part}; a closed form needs monomials in each arm"
            )
        for exponents, coeff in found.items():
            held = terms.get(exponents, S.Zero)
            terms[exponents] = Maximum(held, coeff) if is_max else held + coeff
    still = (Fraction(0),) * len(free)
    constant = terms.pop(still, S.Zero)
    return Program(free, tuple(swaps.items()), terms, constant, is_max)


def _monomials(expr: Expr, free: tuple[Symbol, ...]) -> Monomials:
    """Coefficients by exponents of the unknowns."""
    bases = Generators(expr, *free)
    for v in free:
        hidden = bases.opaque_over(v)
        if hidden is not None:
            raise SolveError(f"{v} stands inside {hidden}; a sum of monomials is wanted")
    fraction = bases.fraction(expr)
    places = [bases.bases.index(v) for v in free]
    if any(e[p] != f[p] for p in places for e in fraction.denom for f in fraction.denom):
        raise SolveError(f"{expr} is no sum of monomials in {', '.join(map(str, free))}")
    shift = next(iter(fraction.denom))
    grouped: dict[Vector, dict[tuple[int, ...], Poly]] = {}
    for exponents, coeff in fraction.numer.terms():
        key = tuple(Fraction(exponents[p] - shift[p], bases.roots[p]) for p in places)
        rest = tuple(0 if i in places else e for i, e in enumerate(exponents))
        grouped.setdefault(key, {})[rest] = coeff
    ring = fraction.numer.ring
    below = {
        tuple(0 if i in places else e for i, e in enumerate(x)): c
        for x, c in fraction.denom.terms()
    }
    out = {
        key: bases.ratio(ring.from_dict(part), ring.from_dict(below))
        for key, part in grouped.items()
    }
    _check_positive(out, expr)
    return out


def _check_positive(terms: Monomials, expr: Expr) -> None:
    for coeff in terms.values():
        if coeff.is_positive is not True:
            raise SolveError(
                f"{expr} has the coefficient {coeff}, which is not known to be positive"
            )


def dual_weights(made: Program) -> list[Fraction]:
    """The weights with sum one under which all exponents cancel; all positive, or no minimum.

    Raises:
        SolveError: when the infimum is not attained.
    """
    one = Fraction(1)
    columns = [(*exponents, one) for exponents in made.terms]
    target = (*(Fraction(0) for _ in made.free), one)
    weights = solve_linear(columns, target)
    if weights is None or any(weight <= 0 for weight in weights):
        names = ", ".join(map(str, made.free))
        raise SolveError(
            f"no minimum is attained: some direction in {names} lowers the cost without end; "
            "bound it with a constraint, or add the term that grows there"
        )
    return weights


def dual_value(made: Program, weights: list[Fraction]) -> Expr:
    """``prod((c/w)**w)`` for a sum, ``prod(c**w)`` for a maximum."""
    pairs = zip(made.terms.values(), map(_rational, weights), strict=True)
    return Mul(*(power(c if made.is_max else c / w, w) for c, w in pairs))


def primal_point(made: Program, weights: list[Fraction], value: Expr) -> dict[Symbol, Expr]:
    """The unknowns at which each term has its weight's share of the value.

    Raises:
        SolveError: when the cost leaves an unknown open.
    """
    if rank(tuple(made.terms)) < len(made.free):
        names = ", ".join(map(str, made.free))
        raise SolveError(f"the cost does not fix each of {names}: only a product of them")
    rows = list(made.terms.items())
    point: dict[Symbol, Expr] = {}
    for place, v in enumerate(made.free):
        unit = tuple(Fraction(int(i == place)) for i in range(len(made.free)))
        mix = _combination(tuple(exponents for exponents, _ in rows), unit)
        factors = [
            power((1 if made.is_max else _rational(w)) * value / coeff, _rational(m))
            for (_, coeff), w, m in zip(rows, weights, mix, strict=True)
        ]
        point[v] = Mul(*factors)
    for old, new in made.bound:
        point[old] = spread(new.xreplace(point))
    return point


def _combination(rows: tuple[Vector, ...], target: Vector) -> list[Fraction]:
    """Weights over independent rows that add up to the target; others get zero."""
    chosen: list[int] = []
    for i, row in enumerate(rows):
        if rank([*(rows[j] for j in chosen), row]) > len(chosen):
            chosen.append(i)
    found = solve_linear([rows[i] for i in chosen], target)
    assert found is not None
    out = [Fraction(0)] * len(rows)
    for i, weight in zip(chosen, found, strict=True):
        out[i] = weight
    return out


def power(base: Expr, exponent: Rational) -> Expr:
    """A positive expression to a power, spread over its factors."""
    return spread(factor_terms(base) ** exponent)


def spread(expr: Expr) -> Expr:
    """Powers of products as products of powers; all bases are positive."""
    return expr.expand(power_base=True, power_exp=False, mul=False, multinomial=False, log=False)


def _rational(value: Fraction) -> Rational:
    return Rational(value.numerator, value.denominator)


def parts_of(expr: Expr, over: tuple[Symbol, ...]) -> tuple[tuple[Expr, ...], bool]:
    """The summands of a cost, or the arms of its maximum, and which of the two."""
    found: tuple[Expr, ...] = (expr,)
    for v in over:
        found = tuple(dict.fromkeys(arm for part in found for arm in arms(part, v)))
    return (found, True) if len(found) > 1 else ((Add(*found),), False)
