"""Wrong questions are answered in words; the words are part of the interface."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Piecewise, Symbol, ceiling, sqrt

from symscale.algebra.errors import SolveError, SymbolError, SymscaleError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, C, D, F, X, Y, n
from symscale.solve.crossover import crossover
from symscale.solve.leading import leading
from symscale.solve.minimise import minimise
from symscale.solve.numeric import numeric
from symscale.solve.regimes import regimes

foreign = Symbol("B")


@pytest.mark.parametrize(
    ("a", "b", "v", "words"),
    [
        (D, F, B, "B is in neither side; they have D, F"),
        (D * B, B * D, B, "both sides are the same"),
        (D * (B + 1), B * D + D, B, "both sides are the same"),
        ("B*D", F, B, r"a = 'B\*D' is not an expression"),
        (B, None, B, "b = None is not an expression"),
        (B, F, "B", "v = 'B' is not a symbol"),
        (ceiling(B / 8), F, B, "B stands inside a rounding"),
        (sqrt(B + D), F, B, r"B stands under a root of B \+ D"),
        (B * D - Maximum(B, D), F, B, "B stands inside a maximum"),
        (Symbol("q") * B, F, B, "q is not known to be a positive number"),
        (Piecewise((3, B < 5), (1, True)), 2, B, "at B = 5 the sides jump"),
        (
            Piecewise((1, B < D), (2, B < F), (3, True)),
            2,
            B,
            "at . or at . first",
        ),
        (Piecewise((1, B < 5)), 2, B, "no branch for some B"),
        (Piecewise((1, B**2 < D), (3, True)), 2, B, "does not compare B with a positive"),
    ],
)
def test_crossover(a: Any, b: Any, v: Any, words: str) -> None:
    with pytest.raises(SolveError, match=words):
        crossover(a, b, v)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: crossover(foreign * D, F, B),
        lambda: crossover(B, D, foreign),
        lambda: crossover(B, D, B, given={Symbol("F"): D}),
        lambda: leading(foreign + D, small=[]),
        lambda: leading(B + D, small=[foreign / D]),
        lambda: minimise(foreign + 1 / foreign, over=foreign),
        lambda: regimes(Maximum(foreign, D), B),
        lambda: numeric(foreign * D, B, D),
    ],
)
def test_a_stranger_of_a_known_name(ask: Any) -> None:
    with pytest.raises(SymbolError, match="is not symscale's symbol"):
        ask()


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: crossover(B, D, B, given=[D > F]), "write a dict or equations"),
        (lambda: crossover(B, D, B, given=Eq(D + F, B * C)), "no equation of two monomials"),
        (lambda: leading(B + D, small=[B / F]), "do not decide between B and D"),
        (lambda: leading(B + D, small=[B / D, D / B]), "contradicts"),
        (lambda: leading(B + D, small=[B / D + 1]), "no ratio of monomials"),
        (lambda: leading(B + D, small=[2]), "is a number"),
        (lambda: leading(Maximum(B, D), small=[B / D]), "holds a maximum"),
        (lambda: leading(B - B, small=[]), "is zero"),
        (lambda: minimise(D, over=X), "has none of X"),
        (lambda: minimise(D / X, over=X), "no minimum is attained: some direction in X"),
        (lambda: minimise(X + 1 / X + Y, over=(X, Y)), "no minimum is attained"),
        (lambda: minimise(X * Y + 1 / (X * Y), over=(X, Y)), "does not fix each of X, Y"),
        (lambda: minimise((D - F) * X + 1 / X, over=X), "not known to be positive"),
        (lambda: minimise(X + 1 / (1 + X), over=X), "no sum of monomials in X"),
        (lambda: minimise(D / X + X + X**2, over=X), "degree of difficulty 1.*numbers for D"),
        (lambda: minimise(1 / X, over=X, subject_to=X), "equations of monomials are wanted"),
        (lambda: minimise(1 / X + 1 / Y, over=(X, Y), subject_to=Eq(X + Y, n)), "two monomials"),
        (lambda: minimise(X, over="X"), "name the symbols"),
        (lambda: regimes(B + D, B), "is no maximum"),
        (lambda: regimes(Maximum(D, F), B), "B is not in"),
        (lambda: numeric("B*D", B), "not an expression"),
        (lambda: numeric(B * D, B)(3), r"without a value: D \(model width"),
        (lambda: numeric(B * D, B, D, B), "given twice"),
        (lambda: numeric(B * D, B, D)(3), "1 values for 2 variables: B, D"),
    ],
)
def test_the_others(ask: Any, words: str) -> None:
    with pytest.raises(SymscaleError, match=words):
        ask()
