"""Geometric programs of every kind against 10,000 random points and the KKT conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import Eq, Expr, Ge, Le, Rational, Symbol, cancel, sqrt

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum, Minimum
from symscale.algebra.symbols import B, D, F, L, X, Y, Z, n
from symscale.solve.assume import given as assuming
from symscale.solve.geometric import arms_of, eliminate, program
from symscale.solve.minimise import maximise, minimise
from symscale.solve.numeric import numeric
from symscale.solve.optimum import Optimum

POINTS = 10_000
CLOSE = 1e-9


def beaten_by_none(best: Optimum, cost: Expr, points: dict[Symbol, Any]) -> None:
    """No random feasible point is better, and the point reaches the value."""
    f = numeric(cost, *points)
    assert float(best.value) <= f(*points.values()).min() * (1 + 1e-10)
    assert float(f(*(float(best[v]) for v in points))) == pytest.approx(float(best.value), rel=1e-9)


def kkt(best: Optimum, cost: Expr, over: tuple[Symbol, ...], rules: tuple[Eq, ...] = ()) -> None:
    """Multipliers of the arms: not below zero, sum 1, no slope left, none on an arm that is low."""
    made = program(cost, over, eliminate(over, rules))
    weights = np.array([float(weight) for weight in best.weights])
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1, abs=CLOSE)
    powers = np.array([[float(e) for e in row] for row in made.rows])
    assert np.abs(powers.T @ weights).max() <= CLOSE
    arms = np.array(made.arm_of)
    place = {v: float(best[v]) for v in made.free}
    values = np.array([float(numeric(t, *made.free)(*place.values())) for t in made.terms()])
    totals = np.array([values[arms == i].sum() for i in range(len(made.arms))])
    multipliers = np.array([weights[arms == i].sum() for i in range(len(made.arms))])
    slack = 1 - totals / totals.max()
    assert (multipliers * slack).max() <= CLOSE
    shares = multipliers[arms] * values / totals[arms]
    assert np.abs(shares - weights).max() <= 1e-8  # the root of a gap at rounding


positive = st.integers(1, 60)
small = st.integers(1, 3)
seeds = st.integers(0, 2**32 - 1)


def spread(seed: int, count: int) -> Any:
    return np.exp(np.random.default_rng(seed).uniform(-5, 5, (count, POINTS)))


@settings(max_examples=20)
@given(positive, positive, positive, positive, small, small, seeds)
def test_sums_of_any_degree(a: int, b: int, c: int, d: int, p: int, q: int, seed: int) -> None:
    cost = a * X**p + b / X + c * X * Y + d / Y**q + sqrt(Y)
    best = minimise(cost, over=(X, Y))
    x, y = spread(seed, 2)
    beaten_by_none(best, cost, {X: x, Y: y})
    kkt(best, cost, (X, Y))
    assert "relative gap" in best.certificate


@settings(max_examples=20)
@given(positive, positive, positive, positive, small, seeds)
def test_largest_of_sums(a: int, b: int, c: int, d: int, p: int, seed: int) -> None:
    cost = Maximum(Rational(a) / X + Rational(b) / Y, c * X * Y**p, d * X + Y)
    best = minimise(cost, over=(X, Y))
    x, y = spread(seed, 2)
    beaten_by_none(best, cost, {X: x, Y: y})
    kkt(best, cost, (X, Y))


@settings(max_examples=20)
@given(positive, positive, positive, positive, seeds)
def test_sum_with_a_maximum_inside(a: int, b: int, c: int, chips: int, seed: int) -> None:
    """A step whose pass hides part of its communication, under X*Y = n."""
    cost = Maximum(Rational(a) / X, Rational(b) / Y) + Rational(c) / X
    rule = Eq(X * Y, chips)
    best = minimise(cost, over=(X, Y), subject_to=rule)
    (x,) = spread(seed, 1)
    beaten_by_none(best, cost, {X: x, Y: chips / x})


def test_degree_zero_of_the_largest_of_sums() -> None:
    cost = Maximum(D / X + F / Y, L * X * Y)
    best = minimise(cost, over=(X, Y))
    assert best.certificate == "geometric program (epigraph), degree of difficulty 0"
    left, right = (arm.subs(dict(best.point)) for arm in arms_of(cost, (X, Y)))
    assert cancel((left / best.value) ** 6 - 1) == 0
    assert cancel((right / best.value) ** 6 - 1) == 0
    assert cancel(best.value**3 - 4 * D * F * L) == 0


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-2, 2)), min_size=3, max_size=6, unique=True
    ),
    st.lists(positive, min_size=6, max_size=6),
    seeds,
)
def test_many_monomials_in_pieces(
    powers: list[tuple[int, int]], numbers: list[int], seed: int
) -> None:
    """The symbolic pieces cover all coefficients, and each is the optimum where it says so."""
    letters = (B, D, F, L, Z, n)[: len(powers)]
    parts = [c * X**p * Y**q for c, (p, q) in zip(letters, powers, strict=True)]
    cost = Maximum(*parts)
    assume({X, Y} <= cost.free_symbols)
    values = dict(zip(letters, numbers, strict=False))
    try:
        found = minimise(cost, over=(X, Y))
    except SolveError as error:
        assume(False)
        raise AssertionError from error
    best = found.at({key: value for key, value in values.items() if key in cost.free_symbols})
    plain = cost.subs(values)
    x, y = spread(seed, 2)
    beaten_by_none(best, plain, {X: x, Y: y})
    direct = minimise(plain, over=(X, Y))
    assert float(direct.value) == pytest.approx(float(best.value), rel=1e-9)
    kkt(direct, plain, (X, Y))


def test_pieces_are_told() -> None:
    best = minimise(Maximum(D / X, F * X / Y, B * Y, L / Y), over=(X, Y))
    assert best.value == Maximum(sqrt(B * L), (B * D * F) ** Rational(1, 3))
    assert len(best) == 0
    with pytest.raises(SolveError, match="depends on which terms decide"):
        best[X]
    assert "if" in repr(best)
    assert len(best.to_dict()["pieces"]) == len(best.pieces)
    assert "largest corner" in str(best.derivation)


def test_maximise() -> None:
    best = maximise(Minimum(D * X, F / X), over=X)
    assert (best[X], best.value) == (sqrt(F / D), sqrt(D * F))
    assert repr(best).startswith("maximum sqrt")
    assert "maximise" in str(best.derivation)
    split = maximise(1 / (D / X + F / Y), over=(X, Y), subject_to=Eq(X * Y, n))
    assert cancel(split.value**2 - n / (4 * D * F)) == 0
    with pytest.raises(SolveError, match="without end"):
        maximise(X * Y, over=(X, Y))


def test_assumptions_go_in_first() -> None:
    walls = minimise(Maximum(F / X, D * X), over=X, given=assuming(F=4 * D))
    assert (walls[X], walls.value) == (2, 2 * D)
    assert "put in: F = 4*D" in str(walls.derivation)


# --- limits ------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(positive, positive, positive, st.integers(1, 40), st.integers(2, 4096), seeds)
def test_limits_on_sums(a: int, b: int, c: int, most: int, chips: int, seed: int) -> None:
    """A mesh on at most so many chips, one axis at most as long as its dim allows."""
    cost = Rational(a) / X + Rational(b) / Y + Rational(c) / (X * Y)
    best = minimise(cost, (X, Y), [Le(X * Y, chips), Le(Y, most)])
    x, y = spread(seed, 2)
    inside = (x * y <= chips) & (y <= most)
    assert float(best[X] * best[Y]) <= chips * (1 + CLOSE)
    assert float(best[Y]) <= most * (1 + CLOSE)
    if inside.any():
        beaten_by_none(best, cost, {X: x[inside], Y: y[inside]})
    weights = np.array([float(weight) for weight in best.weights])
    assert weights.min() >= 0
    assert weights[:3].sum() == pytest.approx(1, abs=CLOSE)
    rows = (*program(cost, (X, Y), {}).rows, (1, 1), (0, 1))
    powers = np.array([[float(e) for e in row] for row in rows])
    assert np.abs(powers.T @ weights).max() <= CLOSE


@settings(max_examples=25)
@given(positive, positive, st.integers(1, 60), st.integers(1, 400), seeds)
def test_limits_on_a_maximum(d: int, f: int, most: int, chips: int, seed: int) -> None:
    cost = Maximum(D / X, F / Y)
    found = minimise(cost, (X, Y), [Eq(X * Y, n), Le(Y, L)])
    assert found.value == Maximum(F / L, sqrt(D) * sqrt(F) / sqrt(n))
    values = {D: d, F: f, L: most, n: chips}
    best = found.at(values)
    assert float(best[Y]) <= most * (1 + CLOSE)
    (y,) = spread(seed, 1)
    y = np.append(y[y <= most], float(most))
    beaten_by_none(best, cost.subs(values), {X: chips / y, Y: y})


def test_limits_in_closed_form_and_wrong_ones() -> None:
    assert minimise(1 / X, X, Le(X, n)).value == 1 / n
    assert maximise(X * Y, (X, Y), [Le(X, n), Le(Y, F)]).value == F * n
    text = str(minimise(1 / X, X, Le(X, n)).derivation)
    assert "a limit: X/n <= 1" in text
    with pytest.raises(SolveError, match="limits on a sum: no closed form; substitute numbers"):
        minimise(D / X + F / Y, (X, Y), Le(X * Y, n))
    with pytest.raises(SolveError, match="no point is within all limits"):
        minimise(1 / X + 1 / Y, (X, Y), [Le(X * Y, 4), Ge(X, 4), Ge(Y, 4)])
    with pytest.raises(SolveError, match="an inequality of two monomials"):
        minimise(1 / X + 1 / Y, (X, Y), Le(X + Y, 4))
    with pytest.raises(SolveError, match="a search takes equations"):
        minimise(1 / X, X, Le(X, 4), integer="divisors")


@pytest.mark.parametrize(
    "cost",
    [
        Maximum(1 / X, 2 + 1 / X**2),
        Maximum(1 / X + 2, 1 / X**2 + 3),
    ],
)
def test_an_infimum_that_no_point_attains_is_refused(cost: Expr) -> None:
    with pytest.raises(SolveError, match="no minimum is attained"):
        minimise(cost, over=(X,))


def test_an_infimum_along_a_constraint_is_refused() -> None:
    with pytest.raises(SolveError, match="no minimum is attained"):
        minimise(Maximum(Y / X, 5 + Y), over=(X, Y), subject_to=Eq(X * Y, 4))
