"""Whole optima against brute force over all divisors."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, Expr, Integer, Rational, ceiling

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import X, Y, Z, n
from symscale.solve.minimise import maximise, minimise
from symscale.solve.whole import Kind


def pairs(chips: int) -> list[tuple[int, int]]:
    """Every way to write a number as a product of two, by trial division."""
    return [(x, chips // x) for x in range(1, chips + 1) if chips % x == 0]


whole = st.integers(1, 200)


@settings(max_examples=60)
@given(whole, whole, st.integers(1, 4096), st.booleans())
def test_divisor_pairs(a: int, b: int, chips: int, largest: bool) -> None:
    parts: tuple[Expr, Expr] = (Rational(a) / X, Rational(b) / Y)
    cost = Maximum(*parts) if largest else sum(parts)
    best = minimise(cost, (X, Y), Eq(X * Y, chips), integer="divisors")
    values = [(Fraction(a, x), Fraction(b, y)) for x, y in pairs(chips)]
    wanted = min(max(v) if largest else sum(v) for v in values)
    assert best.value == Rational(wanted.numerator, wanted.denominator)
    assert best.points == len(values)
    assert best[X] * best[Y] == chips
    assert best.loss is not None
    assert best.loss >= -1e-9


@settings(max_examples=30)
@given(whole, whole, st.integers(1, 4096), st.integers(1, 512), st.integers(1, 512))
def test_divisors_of_dims(a: int, b: int, chips: int, one: int, two: int) -> None:
    cost = Rational(a) / X + Rational(b) / Y
    fitting = [(x, y) for x, y in pairs(chips) if one % x == 0 and two % y == 0]
    how: dict[str, Any] = {"integer": "divisors", "dividing": {X: one, Y: two}}
    if not fitting:
        with pytest.raises(SolveError, match="no divisors of X, Y meet"):
            minimise(cost, (X, Y), Eq(X * Y, chips), **how)
        return
    best = minimise(cost, (X, Y), Eq(X * Y, chips), **how)
    wanted = min(Fraction(a, x) + Fraction(b, y) for x, y in fitting)
    assert best.value == Rational(wanted.numerator, wanted.denominator)


@settings(max_examples=20)
@given(whole, whole, whole, st.integers(1, 720))
def test_three_axes(a: int, b: int, c: int, chips: int) -> None:
    cost = Rational(a) / X + Rational(b) / Y + Rational(c) / Z
    best = minimise(cost, (X, Y, Z), Eq(X * Y * Z, chips), integer="divisors")
    tried = [
        (x, y, chips // (x * y))
        for x, y in product(range(1, chips + 1), repeat=2)
        if x * y <= chips and chips % (x * y) == 0
    ]
    wanted = min(Fraction(a, x) + Fraction(b, y) + Fraction(c, z) for x, y, z in tried)
    assert best.value == Rational(wanted.numerator, wanted.denominator)
    assert best.points == len(tried)


@settings(max_examples=30)
@given(whole, whole, st.integers(0, 12))
def test_powers_of_two(a: int, b: int, log: int) -> None:
    cost = Rational(a) / X + Rational(b) / Y
    best = minimise(cost, (X, Y), Eq(X * Y, 2**log), integer="powers of two")
    values = [Fraction(a, 2**i) + Fraction(b, 2 ** (log - i)) for i in range(log + 1)]
    assert best.value == Rational(min(values).numerator, min(values).denominator)


def test_costs_with_roundings_have_no_continuous_optimum() -> None:
    cost = ceiling(Rational(100) / X) + ceiling(Rational(30) / Y)
    best = minimise(cost, (X, Y), Eq(X * Y, 24), integer="divisors")
    wanted = min(-(-100 // x) - (-30 // y) for x, y in pairs(24))
    assert best.value == wanted
    assert best.loss is None
    assert best.certificate == "by search of 8 points"


def test_largest_whole_value() -> None:
    best = maximise(X * Y / (3 * X + Y), (X, Y), Eq(X * Y, 48), integer="divisors")
    values = [Fraction(x * y, 3 * x + y) for x, y in pairs(48)]
    assert best.value == Rational(max(values).numerator, max(values).denominator)
    assert best.loss == pytest.approx(0)
    assert "below the continuous optimum" in repr(best)


def test_prints_and_converts() -> None:
    best = minimise(1 / X + 3 / Y, (X, Y), Eq(X * Y, 64), integer="divisors")
    assert best.to_dict()["point"] == {"X": 4, "Y": 16}
    assert best._repr_latex_().startswith("$")
    assert "each point was tried" in str(best.derivation)
    assert dict(best) == {X: 4, Y: 16}
    assert hash(best)
    assert isinstance(best[X], Integer)


@pytest.mark.parametrize(
    ("rule", "kind", "how", "words"),
    [
        (Eq(X * Y, n), "divisors", {}, "substitute them for n"),
        (Eq(X * Y, 12), "divisor", {}, "did you mean divisors"),
        (Eq(X, 12), "divisors", {}, "nothing bounds Y"),
        (Eq(X, 3 * Y), "divisors", {}, "equal to a whole number"),
        (Eq(X * Y, 12), None, {"dividing": {X: 4}}, "ask with integer="),
    ],
)
def test_wrong_questions(rule: Eq, kind: Kind | None, how: dict[str, Any], words: str) -> None:
    with pytest.raises(SolveError, match=words):
        minimise(1 / X + 3 / Y, (X, Y), rule, integer=kind, **how)
