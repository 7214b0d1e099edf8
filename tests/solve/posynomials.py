"""Random sums of monomials, kept as plain data so that the referee needs no SymPy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from hypothesis import strategies as st
from sympy import Add, Expr, Mul, Rational, Symbol

from symscale.algebra.symbols import D, F, L

OTHERS = (D, F, L)
V = Symbol("xi", positive=True)  # not of the table: of any unit, and not whole


@dataclass(frozen=True)
class Term:
    coeff: Fraction
    power: Fraction  # of V
    powers: tuple[int, ...]  # of OTHERS


Posynomial = tuple[Term, ...]


def terms(powers: tuple[Fraction, ...]) -> st.SearchStrategy[Term]:
    return st.builds(
        Term,
        st.fractions(Fraction(1, 4), 8, max_denominator=4),
        st.sampled_from(powers),
        st.tuples(*(st.integers(-1, 1) for _ in OTHERS)),
    )


def posynomials(*powers: int | Fraction, most: int = 3) -> st.SearchStrategy[Posynomial]:
    chosen = terms(tuple(Fraction(p) for p in powers))
    return st.lists(chosen, min_size=1, max_size=most).map(tuple)


VALUES = st.fixed_dictionaries({symbol: st.integers(1, 12) for symbol in OTHERS})


def to_expr(posynomial: Posynomial) -> Expr:
    return Add(
        *(
            Mul(
                Rational(t.coeff.numerator, t.coeff.denominator),
                V ** Rational(t.power.numerator, t.power.denominator),
                *(s**p for s, p in zip(OTHERS, t.powers, strict=True)),
            )
            for t in posynomial
        )
    )


def value(posynomial: Posynomial, v: Fraction, others: dict[Symbol, int]) -> Fraction | float:
    """The sum by plain arithmetic; exact where every power is whole."""
    total: Fraction | float = Fraction(0)
    for t in posynomial:
        rest = t.coeff
        for symbol, power in zip(OTHERS, t.powers, strict=True):
            rest *= Fraction(others[symbol]) ** power
        whole = t.power.denominator == 1
        total += rest * (v ** int(t.power) if whole else float(v) ** float(t.power))
    return total


def probes(walls: tuple[Expr, ...]) -> list[Fraction]:
    """Points on both sides of every wall, between them, and far out."""
    near = [Fraction(float(wall)).limit_denominator(10**9) for wall in walls]
    sides = [wall * step for wall in near for step in (Fraction(99, 100), Fraction(101, 100))]
    ordered = sorted(near)
    middles = [(a + b) / 2 for a, b in pairwise(ordered)]
    return [p for p in (*sides, *middles, Fraction(1, 1000), Fraction(10**5)) if p > 0]
