"""Costs that jump at walls, against plain comparison of their values."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import Expr, Integer, Piecewise, Rational, Symbol

from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import C, D, F, H
from symscale.solve.crossover import crossover

x = Symbol("x", positive=True)
small = st.integers(1, 9)
branch = st.builds(lambda c, p, k: c * x**p + k, small, st.integers(-1, 2), small)


@st.composite
def steps(draw: st.DrawFn) -> tuple[Expr, list[int]]:
    walls = sorted(draw(st.sets(small, min_size=1, max_size=3)))
    closed = draw(st.lists(st.booleans(), min_size=len(walls), max_size=len(walls)))
    parts: list[Any] = [
        (draw(branch), x <= wall if end else x < wall)
        for wall, end in zip(walls, closed, strict=True)
    ]
    return Piecewise(*parts, (draw(branch), True)), walls


@settings(max_examples=60, deadline=None)
@given(steps(), branch)
def test_random_steps(left: tuple[Expr, list[int]], right: Expr) -> None:
    cost, walls = left
    assume(x in cost.free_symbols and cost.has(Piecewise))
    try:
        found = crossover(cost, right, x)
    except SolveError as error:
        if "the sides jump" not in str(error):
            raise
        found = None
    if found is None:
        assert any(_end_is_lost(cost - right, wall) for wall in walls)
        return
    places = [Rational(i, 16) for i in range(1, 11 * 16, 3)] + [Integer(wall) for wall in walls]
    for place in places:
        assert found.holds({x: place}) == bool((cost - right).subs(x, place) >= 0), place


def _end_is_lost(gap: Expr, wall: int) -> bool:
    """Below zero at the wall, and not so on one side of it."""
    near = Rational(1, 10**9)
    sides = [gap.subs(x, wall + step) for step in (-near, near)]
    return bool(gap.subs(x, wall) < 0) and any(side > -Rational(1, 10**6) for side in sides)


def test_symbols_in_walls_and_branches() -> None:
    cost = Piecewise((D * C, C < D), (D**2 + C, True))
    found = crossover(cost, F * H, C)
    for d, level in ((3, 20), (3, 9), (3, 5), (4, 16), (5, 2)):
        for place in (Rational(1, 3), 1, 2, 3, 4, 5, 7, 11, 12):
            numbers = {D: d, F: level, H: 1, C: place}
            assert found.holds(numbers) == bool(cost.subs(numbers) >= level)


def test_a_single_point_at_a_wall() -> None:
    found = crossover(Piecewise((2, x < 1), (3, True)), x + 2, x)
    assert found.intervals == ((1, 1),)


def test_the_steps_say_which_branches_hold() -> None:
    text = str(crossover(Piecewise((1, x < 4), (3, True)), 2, x).derivation)
    assert "the branches for x between 0 and 4" in text
    assert "the answer changes at: x = 4" in text
    assert "equal" not in text
