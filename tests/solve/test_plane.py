"""Regimes in two variables: cells against plain comparison, polygons that tile the frame."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import S, Symbol, cancel

from symscale import chip, strategy
from symscale.algebra.errors import SolveError, SymscaleError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, B, C, D, F, W_hbm, W_ici, X, Y, n
from symscale.models.decoder import two_matmul_layer
from symscale.solve.numeric import numeric
from symscale.solve.picture import RegimePicture, picture
from symscale.solve.plane import Plane, plane
from symscale.solve.regimes import regimes

P, Q = Symbol("first", positive=True), Symbol("second", positive=True)
POD = {D: 8192, F: 28672, M_X: 2, M_Y: 1, n: 8960}


def mixed() -> Plane:
    time = two_matmul_layer().shard(strategy("fsdp+tp")).forward.time
    return regimes(Maximum(time.math, *time.by_axis.values()).subs(Y, n / X), B, X)


def test_fsdp_and_tensor_on_a_pod() -> None:
    found = mixed()
    assert len(found) == 3
    walls = {str(wall.lhs): wall.rhs for wall in found.walls}
    assert set(walls) == {"X"}
    expected = [
        C * n / (F * M_Y * W_ici), B * M_X * W_ici / C, (B * n * M_X / (F * M_Y)) ** S.Half,
    ]  # fmt: skip
    for wall in expected:
        assert any(cancel((eq.rhs / wall) ** 2 - 1) == 0 for eq in found.walls)
    inside = found.binding(chip("v5p"), POD, B=2**22, X=2048)
    assert inside.term == 4 * B * D * F / (C * n)
    assert found.binding(chip("v5p"), POD, B=2**17, X=2048).term.has(M_X)


def test_symbolic_conditions_of_cells() -> None:
    """Out of three parallel walls the middle term has a cell only under a condition."""
    found = plane(Maximum(B**2 * X, D * B * X, F * X), B, X)
    middle = next(cell for cell in found if cell.term == B * D * X)
    assert middle.requires == (D**2 >= F) or middle.requires.subs({D: 3, F: 9}) == S.true
    assert middle.requires.subs({D: 3, F: 10}) == S.false
    assert middle.requires.subs({D: 3, F: 8}) == S.true


def test_dominated_terms_have_no_cell() -> None:
    assert len(plane(Maximum(B * X, 2 * B * X, D), B, X)) == 2


def test_sums_are_refused_or_named() -> None:
    roof = Maximum(2 * B * D * F / C, (2 * B * D + 2 * D * F) / W_hbm)
    with pytest.raises(SolveError, match="walls are curved"):
        plane(roof, B, F)
    found = plane(roof, B, F, sums="largest")
    assert found.factor == 2
    assert "up to 2 times too small" in repr(found)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: plane(B + X, B, X), "is no maximum"),
        (lambda: plane(Maximum(B, D), B, X), "X is not in"),
        (lambda: plane(Maximum(B, D), B, B), "not B twice"),
        (lambda: plane(Maximum(B, X), B, X, sums="guess"), "neither 'refuse'"),
        (lambda: picture(plane(Maximum(B * D, X), B, X), (1, 9), (1, 9)), "no value for D"),
        (lambda: picture(plane(Maximum(B, X), B, X), (9, 1), (1, 9)), "range of B"),
    ],
)
def test_wrong_questions(ask: Any, words: str) -> None:
    with pytest.raises(SymscaleError, match=words):
        ask()


def area(corners: tuple[tuple[float, float], ...]) -> float:
    logs = [(math.log(x), math.log(y)) for x, y in corners]
    pairs = zip(logs, [*logs[1:], logs[0]], strict=True)
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2


def tiles(made: RegimePicture) -> None:
    frame = math.prod(math.log(r[1] / r[0]) for r in (made.x_range, made.y_range))
    assert sum(area(r.corners) for r in made.regions) == pytest.approx(frame, rel=1e-6)


def test_picture_of_the_pod() -> None:
    values = {**chip("v5p"), **POD}
    made = mixed().picture((1e4, 1e8), (1, 8960), values)
    tiles(made)
    assert len(made.walls) == 3
    for wall in made.walls:
        for x, y in (wall.start, wall.end):
            right = wall.formula.rhs.subs(values).subs(B, x)
            assert float(right) == pytest.approx(y, rel=1e-9)
    assert made.to_dict()["walls"][0]["latex"].startswith("X = ")


arms = st.lists(
    st.tuples(st.integers(1, 40), st.integers(-2, 2), st.integers(-2, 2)), min_size=2, max_size=5
)


@settings(max_examples=60)
@given(arms, st.integers(0, 2**32 - 1))
def test_cells_tile_and_bind(found: list[tuple[int, int, int]], seed: int) -> None:
    terms = [c * P**p * Q**q for c, p, q in found]
    time = Maximum(*terms)
    assume(isinstance(time, Maximum) and {P, Q} <= time.free_symbols)
    cells = plane(time, P, Q)
    tiles(cells.picture((1e-3, 1e3), (1e-2, 1e4)))
    largest = numeric(time, P, Q)
    for x, y in np.exp(np.random.default_rng(seed).uniform(-6, 6, (6, 2))):
        bound = cells.binding({P: float(x), Q: float(y)}).term
        assert numeric(bound, P, Q)(x, y) == pytest.approx(float(largest(x, y)), rel=1e-9)


@settings(max_examples=30)
@given(arms, arms, st.integers(0, 2**32 - 1))
def test_sums_of_maxima(
    one: list[tuple[int, int, int]], two: list[tuple[int, int, int]], seed: int
) -> None:
    stages = [Maximum(*(c * P**p * Q**q for c, p, q in part)) for part in (one, two)]
    time = stages[0] + stages[1]
    assume(time.has(Maximum) and {P, Q} <= time.free_symbols)
    cells = plane(time, P, Q)
    tiles(cells.picture((1e-3, 1e3), (1e-2, 1e4)))
    largest = numeric(time, P, Q)
    for x, y in np.exp(np.random.default_rng(seed).uniform(-6, 6, (3, 2))):
        bound = cells.binding({P: float(x), Q: float(y)}).term
        assert numeric(bound, P, Q)(x, y) == pytest.approx(float(largest(x, y)), rel=1e-9)
