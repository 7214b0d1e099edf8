"""Optima: the FSDP/tensor split, random feasible points, stationarity, the numeric fallback."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Eq, Rational, Symbol, cancel, sqrt

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, B, D, F, L, W_ici, X, Y, Z, n
from symscale.solve.minimise import Optimum, minimise
from symscale.solve.numeric import numeric

FSDP = 4 * D * F / (Y * M_X * W_ici)
TENSOR = 4 * B * D / (X * M_Y * W_ici)
CHIPS = Eq(X * Y, n)


def test_fsdp_tensor_split() -> None:
    best = minimise(FSDP + TENSOR, over=(X, Y), subject_to=CHIPS)
    assert cancel(best[X] / sqrt(B * n * M_X / (F * M_Y))) == 1
    assert cancel(best[X] * best[Y] - n) == 0
    assert cancel(best.value / (8 * D * sqrt(B * F / (n * M_X * M_Y)) / W_ici)) == 1
    assert best.certificate == "geometric program, degree of difficulty 0"
    assert best.weights == (Rational(1, 2), Rational(1, 2))
    assert best.constraint == (CHIPS,)
    at = best[X].subs({B: 2**22, n: 8960, F: 28672, M_X: 2, M_Y: 1})
    assert round(float(at)) == 1619


def test_overlapped_split_is_at_the_same_point_and_half() -> None:
    summed = minimise(FSDP + TENSOR, over=(X, Y), subject_to=CHIPS)
    largest = minimise(Maximum(FSDP, TENSOR), over=(X, Y), subject_to=CHIPS)
    assert largest[X] == summed[X]
    assert cancel(largest.value * 2 - summed.value) == 0
    assert largest.certificate == "geometric program (epigraph), degree of difficulty 0"


def test_constants_and_like_terms() -> None:
    best = minimise(D / X + X + 7 * X + L, over=X)
    assert cancel(best.value - (4 * sqrt(2) * sqrt(D) + L)) == 0
    floor = minimise(Maximum(D / X, X, L), over=X)
    assert floor.value == Maximum(L, sqrt(D))
    fixed = minimise(D / X + F / Y, over=(X, Y), subject_to=[CHIPS, Eq(X, 4 * Y)])
    assert cancel(fixed[X] - 2 * sqrt(n)) == 0
    assert fixed.certificate == "fixed by the constraints"


def test_three_axes() -> None:
    best = minimise(D / X + F / Y + B / Z, over=(X, Y, Z), subject_to=Eq(X * Y * Z, n))
    assert cancel(best.value**3 - 27 * B * D * F / n) == 0


def test_prints_and_converts() -> None:
    best = minimise(FSDP + TENSOR, over=(X, Y), subject_to=CHIPS)
    assert repr(best).startswith("minimum 8*")
    assert set(best.to_dict()["point"]) == {"X", "Y"}
    assert list(best) == [X, Y]
    text = str(best.derivation)
    for word in (
        "the constraint gives",
        "the dual weights: (1/2, 1/2)",
        "the smallest value",
        "reached at",
    ):
        assert word in text
    assert "aligned" in best._repr_latex_()


def test_numeric_beyond_degree_zero() -> None:
    best = minimise(3 / X + X + X**2, over=X)
    assert float(best[X]) == pytest.approx(1)
    assert float(best.value) == pytest.approx(5)
    assert "numeric, relative gap" in best.certificate
    gap = float(best.certificate.rsplit(" ", 1)[1])
    assert gap < 1e-9
    with pytest.raises(Exception, match="without end"):
        minimise(1 / X + 1 / X**2 + 1 / X**3, over=X)


def beats(best: Optimum, cost: Any, points: dict[Symbol, Any]) -> None:
    f = numeric(cost, *points)
    assert float(best.value) <= f(*points.values()).min() * (1 + 1e-12)
    assert float(f(*(float(best[v]) for v in points))) == pytest.approx(float(best.value))


whole = st.integers(1, 50)
powers = st.integers(1, 3)


@settings(max_examples=25)
@given(whole, whole, powers, powers, whole, st.booleans(), st.integers(0, 2**32 - 1))
def test_two_axes_beat_random_feasible_points(
    c1: int, c2: int, p: int, q: int, chips: int, largest: bool, seed: int
) -> None:
    parts = (c1 / X**p, c2 / Y**q)
    cost = Maximum(*parts) if largest else sum(parts)
    best = minimise(cost, over=(X, Y), subject_to=Eq(X * Y, chips))
    x = np.exp(np.random.default_rng(seed).uniform(-6, 6, 2000))
    beats(best, cost, {X: x, Y: chips / x})


@settings(max_examples=25)
@given(whole, whole, whole, powers, powers, st.integers(0, 2**32 - 1))
def test_free_unknowns_are_stationary(c1: int, c2: int, c3: int, p: int, q: int, seed: int) -> None:
    cost = c1 * X**p * Y + c2 / X + c3 / Y**q
    best = minimise(cost, over=(X, Y))
    for v in (X, Y):
        slope = numeric(v * cost.diff(v), X, Y)(float(best[X]), float(best[Y]))
        assert abs(slope) < 1e-9 * float(best.value)
    x, y = np.exp(np.random.default_rng(seed).uniform(-4, 4, (2, 2000)))
    beats(best, cost, {X: x, Y: y})
    assert sum(best.weights) == 1


@settings(max_examples=15)
@given(whole, whole, whole, whole, st.integers(0, 2**32 - 1))
def test_numeric_beats_random_points(c1: int, c2: int, c3: int, c4: int, seed: int) -> None:
    cost = c1 * X + c2 / X + c3 * X * Y + c4 / Y**2 + sqrt(Y)
    best = minimise(cost, over=(X, Y))
    x, y = np.exp(np.random.default_rng(seed).uniform(-4, 4, (2, 2000)))
    beats(best, cost, {X: x, Y: y})
