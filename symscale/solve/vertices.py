"""The smallest maximum of many monomials: a linear program in logarithms, solved in symbols.

Its optimum lies at a basis: as many terms as unknowns and one, all equal, under dual weights not
below zero. Which basis depends on the coefficients; the value is the largest over all bases, and
each basis comes with the condition under which it is the optimal one.

Source: Boyd et al., A tutorial on geometric programming (2007); duality of linear programs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb

from sympy import Expr, Mul, S, Symbol
from sympy.logic.boolalg import Boolean

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.cases import conjunction
from symscale.solve.cone import Vector, rank, solve_linear
from symscale.solve.geometric import Program, power, rational, unattained, with_bound
from symscale.solve.signs import compare

MOST_BASES = 3000


@dataclass(frozen=True)
class Piece:
    """Where ``requires`` holds, the minimum is ``value``, reached at ``point`` by these weights."""

    value: Expr
    point: dict[Symbol, Expr]
    requires: Boolean
    weights: tuple[Fraction, ...]


def pieces(made: Program) -> tuple[Piece, ...]:
    """Every basis that can be optimal, with its condition; together they cover all coefficients.

    Raises:
        SolveError: when no minimum is attained, an unknown is left open, or the bases are too many.
    """
    size = len(made.free) + 1
    rows = (*made.rows, *made.caps)
    if rank(rows) < len(made.free):
        names = ", ".join(map(str, made.free))
        raise SolveError(f"the cost does not fix each of {names}: only a product of them")
    if comb(len(rows), size) > MOST_BASES:
        raise SolveError(f"a maximum of {len(rows)} terms has too many corners; drop some")
    found = [
        piece
        for chosen in combinations(range(len(rows)), size)
        if (piece := _piece(made, chosen)) is not None
    ]
    if not found:
        raise SolveError(unattained(made.free))
    possible = [piece for piece in found if piece.requires != S.false]
    certain = next((piece for piece in possible if piece.requires == S.true), None)
    return (certain,) if certain else tuple(possible)


def largest_value(found: tuple[Piece, ...]) -> Expr:
    """The minimum under any coefficients: the largest of the bases' values (duality)."""
    return Maximum(*(piece.value for piece in found))


def _piece(made: Program, chosen: tuple[int, ...]) -> Piece | None:
    """The basis of these terms; None when it is dependent, or its weights are not all positive."""
    one, none = Fraction(1), (Fraction(0),) * len(made.free)
    rows, _, flags = _table(made)
    columns = [(*rows[i], flags[i]) for i in chosen]
    weights = solve_linear(columns, (*none, one))
    if weights is None or any(weight < 0 for weight in weights):
        return None
    full = [Fraction(0)] * len(rows)
    for i, weight in zip(chosen, weights, strict=True):
        full[i] = weight
    value = _product(made, tuple(full))
    point = {v: _coordinate(made, chosen, place) for place, v in enumerate(made.free)}
    others = (i for i in range(len(rows)) if i not in chosen)
    needs = (_below(made, i, point, value) for i in others)
    return Piece(value, with_bound(made, point), conjunction(needs), tuple(full))


def _coordinate(made: Program, chosen: tuple[int, ...], place: int) -> Expr:
    """An unknown where the chosen terms are equal: weights with sum zero that leave it alone."""
    unit = tuple(Fraction(int(i == place)) for i in range(len(made.free)))
    rows, _, flags = _table(made)
    columns = [(*rows[i], flags[i]) for i in chosen]
    mix = solve_linear(columns, (*unit, Fraction(0)))
    assert mix is not None
    full = [Fraction(0)] * len(rows)
    for i, weight in zip(chosen, mix, strict=True):
        full[i] = -weight
    return _product(made, tuple(full))


def _table(made: Program) -> tuple[tuple[Vector, ...], tuple[Expr, ...], tuple[Fraction, ...]]:
    """Exponents and coefficients of terms and caps; a cap has no share in the value."""
    flags = (Fraction(1),) * len(made.rows) + (Fraction(0),) * len(made.caps)
    return (*made.rows, *made.caps), (*made.coefficients, *made.caps.values()), flags


def _product(made: Program, powers: Vector) -> Expr:
    pairs = zip(_table(made)[1], powers, strict=True)
    return Mul(*(power(coeff, rational(p)) for coeff, p in pairs if p))


def _below(made: Program, i: int, point: dict[Symbol, Expr], value: Expr) -> Boolean:
    """The condition that another term is not above the value at the point, nor a cap above 1."""
    rows, coefficients, flags = _table(made)
    powers = zip(made.free, rows[i], strict=True)
    there = coefficients[i] * Mul(*(power(point[v], rational(e)) for v, e in powers))
    return compare(there, value if flags[i] else S.One).fits
