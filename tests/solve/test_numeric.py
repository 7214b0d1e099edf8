"""NumPy functions against exact substitution, and the faults that others reported."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Integer, Rational, ceiling, floor, sqrt

from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, C, D, F
from symscale.solve.numeric import numeric

COST = Maximum(B * D / C, sqrt(F) * 3, ceiling(B / 7) + floor(D / Integer(3))) / (1 + Maximum(B, F))


@settings(max_examples=30)
@given(*(st.integers(1, 10**6) for _ in range(4)))
def test_equals_exact_substitution(b: int, c: int, d: int, f: int) -> None:
    made = numeric(COST, B, C, D, F)
    exact = evaluate(COST, {B: b, C: c, D: d, F: f})
    assert made(b, c, d, f) == pytest.approx(float(exact), rel=1e-13)


def test_broadcasts() -> None:
    out = numeric(Maximum(B * D, 7), B, D)(np.arange(1, 4), np.array([[1], [5]]))
    assert out.shape == (2, 3)
    assert out.dtype == np.float64
    assert out.tolist() == [[7, 7, 7], [7, 10, 15]]
    assert numeric(Integer(3), B)([1, 2]).tolist() == [3, 3]
    assert numeric(Integer(3))() == 3


def test_sy07_products_do_not_overflow() -> None:
    made = numeric(6 * B * D, B, D)
    tokens = np.array([405_000_000_000]), np.array([15_600_000_000_000])
    assert (6 * tokens[0] * tokens[1])[0] == -3731240907442225152  # NumPy's own int64
    assert made(*tokens)[0] == pytest.approx(37908 * 10**21, rel=1e-15)


def test_sy09_maximum_with_a_constant() -> None:
    assert numeric(Maximum(3, B), B)([1, 2, 5]).tolist() == [3, 3, 5]


def test_sy12_ceiling_does_not_jump_by_rounding_error() -> None:
    assert numeric(ceiling(B * D / F), B, D, F)(0.1, 3, 0.1) == 3
    assert numeric(floor(C * 10), C)(0.3) == 3
    assert numeric(ceiling(C), C)([2.5, 2.000001]).tolist() == [3, 3]
    assert ceiling(Rational(1, 10) * 3 / Rational(1, 10)) == 3


def test_built_once_and_fast() -> None:
    assert numeric(COST, B, C, D, F) is numeric(COST, B, C, D, F)
    assert numeric(COST, B, C, D, F) is not numeric(COST, C, B, D, F)
    made = numeric(COST, B, C, D, F)
    points = np.arange(1, 200_001)
    start = time.perf_counter()
    made(points, 5, 6, 7)
    assert time.perf_counter() - start < 1
