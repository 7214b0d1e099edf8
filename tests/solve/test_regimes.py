"""Regimes: tiling, walls, and the binding term against plain comparison."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import Rational, S, Symbol, cancel, oo

from symscale import chip, training
from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, B, C, D, F, L, T, W_hbm, W_ici, X, Y
from symscale.solve.numeric import numeric
from symscale.solve.regimes import Regimes, regimes
from tests.solve.posynomials import VALUES, Posynomial, V, posynomials, probes, to_expr, value

MATH = 2 * B * D * F / C
HBM = (2 * B * D + 2 * D * F + 2 * B * F) / W_hbm


def tiles(found: Regimes) -> bool:
    ends = [(row.lower, row.upper) for row in found]
    joined = all(a[1] == b[0] for a, b in pairwise(ends))
    return ends[0][0] == 0 and ends[-1][1] == oo and joined


def test_roofline_of_a_matmul() -> None:
    found = regimes(Maximum(MATH, HBM), B)
    wall = C * D * F / (D * F * W_hbm - C * D - C * F)
    assert [cancel(w - wall) for w in found.walls] == [0]
    assert {row.term for row in found} == {MATH, HBM}
    numbers = found.at({C: 197 * 10**12, W_hbm: 81 * 10**10, D: 8192, F: 8192})
    assert tiles(numbers)
    assert numbers.binding(100).term != numbers.binding(1000).term


def test_decided_signs_tile_in_order() -> None:
    found = regimes(Maximum(B * D, D * F, B**2 * D / (2 * F)), B)
    assert tiles(found)
    assert [row.term for row in found] == [D * F, B * D, B**2 * D / (2 * F)]
    assert found.walls == (F, 2 * F)
    assert all(row.requires == S.true for row in found)


def test_the_wall_belongs_to_one_regime() -> None:
    found = regimes(Maximum(B, S(8)), B)
    assert found.binding(8).term == B
    assert found.binding(7).term == 8


def test_mixed_step_of_the_book() -> None:
    """Axis X binds below B = M_Y F X/(M_X Y)... and math above, on 2048 x 4 chips of v5p."""
    fsdp, tensor = 4 * D * F / (Y * M_X * W_ici), 4 * B * D / (X * M_Y * W_ici)
    found = regimes(Maximum(4 * B * D * F / (X * Y * C), fsdp, tensor), B)
    pod = {D: 8192, F: 28672, C: 459 * 10**12, W_ici: 18 * 10**10, M_X: 2, M_Y: 1, X: 2048, Y: 4}
    numbers = found.at(pod)
    assert tiles(numbers)
    # Data-parallel axis alone: C/(W M_X) tokens for each of X chips.
    assert numbers.walls == (2048 * 1275,)


def test_a_full_step_by_plain_evaluation() -> None:
    """All stages of a training step at once: tiled, and the binding term is the time itself."""
    step = training("llama-3-70b", "fsdp+tp")
    time = step.time.lower
    v5p = chip("v5p")
    numbers = {**v5p, **step.model, **v5p.layout(["X", "Y"]).bindings, X: 2048, Y: 4, T: 8192}
    found = regimes(time, B).at(numbers)
    assert tiles(found)
    assert len(found) >= 2
    plain = numeric(time.subs(numbers), B)
    for batch in (2**i for i in range(8, 30)):
        term = found.binding(batch).term
        assert float(numeric(term, B)(batch)) == pytest.approx(float(plain(batch)), rel=1e-12)


def test_sums_of_maxima_and_repeated_arms() -> None:
    found = regimes(Maximum(B, D) + Maximum(B, F), B).at(D=3, F=10)
    assert tiles(found)
    assert found.walls == (3, 10)
    same = regimes(Maximum(B * (D + F), B * D + B * F, L), B)
    assert len(same) == 2
    assert len(regimes(Maximum(B * D, B * F), B).at(D=3, F=3)) == 1


def test_given_relations_are_recorded() -> None:
    found = regimes(Maximum(B * D, F), B, given={F: 4 * D})
    assert found.walls == (4,)
    assert "put in: F = 4*D" in str(found.derivation)


def test_prints_and_converts() -> None:
    found = regimes(Maximum(MATH, HBM), B)
    assert "for B from 0 to" in repr(found)
    assert found._repr_html_().startswith("<table>")
    assert len(found.to_dict()["regimes"]) == len(found)
    assert found[0] in list(found)
    assert "compare two terms" in str(found.derivation)
    with pytest.raises(SolveError, match="put numbers in"):
        found.binding(3)


@settings(max_examples=30)
@given(st.lists(posynomials(0, 1, 2, most=1), min_size=2, max_size=4), VALUES)
def test_tiling_and_binding(terms: list[Posynomial], values: dict[Symbol, int]) -> None:
    time = Maximum(*map(to_expr, terms))
    assume(isinstance(time, Maximum) and V in time.free_symbols)
    found = regimes(time, V)
    numbers = found.at(values)
    assert tiles(numbers)
    for v in probes(numbers.walls):
        at = Rational(v.numerator, v.denominator)
        largest = max(value(term, v, values) for term in terms)
        assert numbers.binding(at).term.subs(V, at) == Rational(
            largest.numerator, largest.denominator
        )
        for row in found:
            inside = row.lower.subs(values) <= at < row.upper.subs(values)
            if inside and row.requires.subs(values) == S.true:
                assert row.term.subs(values).subs(V, at) == largest


@settings(max_examples=15)
@given(st.lists(posynomials(0, 1, most=2), min_size=2, max_size=3), VALUES)
def test_sums_as_arms(terms: list[Posynomial], values: dict[Symbol, int]) -> None:
    time = Maximum(*map(to_expr, terms))
    assume(isinstance(time, Maximum) and V in time.free_symbols)
    numbers = regimes(time, V).at(values)
    assert tiles(numbers)
    for v in probes(numbers.walls):
        at = Rational(v.numerator, v.denominator)
        assert numbers.binding(at).term.subs(V, at) == max(value(t, v, values) for t in terms)
