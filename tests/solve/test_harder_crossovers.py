"""Minima, cubics, factored polynomials, poles and units: what goes beyond posynomial pairs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sympy import Eq, Expr, Rational, S, Symbol, cancel, ceiling, sqrt

from symscale import chip, einsum
from symscale.algebra.errors import SolveError, SymbolError, SymscaleError, UnitError
from symscale.algebra.maximum import Maximum, Minimum
from symscale.algebra.symbols import B, C, D, F, H, L, N, W_hbm, W_ici, t_hop
from symscale.algebra.units import Span
from symscale.solve.assume import given as assuming
from symscale.solve.crossover import crossover
from symscale.solve.numeric import numeric
from tests.solve.posynomials import VALUES, Posynomial, V, posynomials, probes, to_expr, value

# --- minima ------------------------------------------------------------------------------------


def test_a_minimum_node() -> None:
    assert Minimum(B, D, Minimum(B, 2)) == Minimum(2, B, D)
    assert Minimum(B, 0) == 0
    assert Minimum(B, D).subs({B: 3, D: 7}) == 3
    assert Minimum(B, D).is_positive
    assert float(numeric(Minimum(B, D) * 2, B, D)(5, 3)) == 6


def test_walls_of_open_order_read_as_minima() -> None:
    found = crossover(Minimum(D / B, F / B), S.One, B)
    assert str(found) == "B <= Minimum(D, F)"
    both = crossover(S.One, Maximum(B / D, B / F, B**2 / L), B)
    assert not any(str(wall).startswith("1/") for wall in both.thresholds)
    assert both.holds(D=4, F=9, L=25, B=4)
    assert not both.holds(D=4, F=9, L=9, B=4)


one = posynomials(0, 1, most=1)


@settings(max_examples=40, deadline=None)
@given(one, one, one, one, VALUES, st.sampled_from(["min>=max", "max>=min", "min>=min"]))
def test_extrema_on_both_sides(
    a: Posynomial, b: Posynomial, c: Posynomial, d: Posynomial, values: dict[Symbol, int], kind: str
) -> None:
    words = {"min": (Minimum, min), "max": (Maximum, max)}
    (left, low), (right, high) = (words[word] for word in kind.split(">="))
    sides = left(to_expr(a), to_expr(b)), right(to_expr(c), to_expr(d))
    assume(V in (sides[0] + sides[1]).free_symbols)
    try:
        found = crossover(*sides, V)
    except SolveError as error:
        if "the same" not in str(error):
            raise
        return
    ends = [end for pair in found.at(values).intervals for end in pair]
    assert ends == sorted(ends)
    for v in probes(found.at(values).thresholds):
        wanted = low(value(a, v, values), value(b, v, values)) >= high(
            value(c, v, values), value(d, v, values)
        )
        assert found.holds(values, {V: Rational(v.numerator, v.denominator)}) == wanted


# --- higher degrees ----------------------------------------------------------------------------


def test_a_quadratic_in_factors() -> None:
    found = crossover((D - F) * (D - L), S.Zero, D)
    assert found.thresholds == (Minimum(F, L), Maximum(F, L))
    assert found.kind == "outside"
    for values in ({F: 3, L: 8}, {F: 8, L: 3}, {F: 5, L: 5}):
        for d in (1, 3, 4, 5, 8, 9):
            assert found.holds(values, D=d) == ((d - values[F]) * (d - values[L]) >= 0)


def test_a_cubic_in_factors() -> None:
    found = crossover((D**2 - F) * (D + L) * D, S.Zero, D)
    assert found.threshold == sqrt(F)
    quartic = crossover((D**2 - F) * (D**2 - L), S.Zero, D)
    for d in (1, 2, 3, 4, 5, 6):
        assert quartic.holds(D=d, F=9, L=25) == ((d**2 - 9) * (d**2 - 25) >= 0)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 30), st.booleans())
def test_cardano(cube: int, other: int, constant: int, reciprocal: bool) -> None:
    """The closed form of a cubic against its residue."""
    middle = V**2 if reciprocal else V
    sides = (D * V**3, F + L * middle) if reciprocal else (D * V**3 + L * middle, F)
    values = {D: cube, F: constant, L: other}
    found = crossover(*sides, V)
    assert found.kind == "above"
    wall = float(found.threshold.subs(values))
    left, right = (float(side.subs(values).subs(V, wall)) for side in sides)
    assert left == pytest.approx(right, rel=1e-9)


def test_cubics_without_a_readable_root_are_refused() -> None:
    with pytest.raises(SolveError, match="exactly one threshold exists, but no closed form"):
        crossover(D * V**3 + F * V**2, L + N * V, V)
    numbers = crossover(V**3 + 2 * V**2, 5 + 3 * V, V)
    root = float(numbers.threshold)
    assert root**3 + 2 * root**2 - 5 - 3 * root == pytest.approx(0, abs=1e-9)
    assert "isolated by exact arithmetic" in str(numbers.derivation)


# --- poles -------------------------------------------------------------------------------------


def test_where_a_side_is_infinite_nothing_is_said() -> None:
    found = crossover(D / (F - L), B, B)
    assert found.undefined == (Eq(F, L),)
    assert found.holds(B=1, D=5, F=7, L=3)
    assert not found.holds(B=1, D=5, F=3, L=7)
    with pytest.raises(SolveError, match="a side is infinite at these numbers"):
        found.holds(B=1, D=5, F=3, L=3)
    pole = crossover(L / (B - D), F, B)
    assert pole.holds(B=5, D=4, L=6, F=2)
    assert not pole.holds(B=3, D=4, L=6, F=2)
    with pytest.raises(SolveError, match="infinite"):
        pole.holds(B=4, D=4, L=6, F=2)
    assert pole.to_dict()["undefined"]


# --- units -------------------------------------------------------------------------------------

PRODUCT = einsum("A[B, D] * W[D, F] -> Out[B, F]")


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (PRODUCT.time.math, PRODUCT.bytes, "is a time, b = .* is a count"),
        (PRODUCT.flops, PRODUCT.bytes / W_hbm, "is a count or a ratio, b = .* is a time"),
        (B * t_hop, B * W_ici, "is a time, b = .* is a rate"),
        (B / C + D, D / W_hbm, "a puts .* beside"),
        (Maximum(B / C, D), D / W_hbm, "a puts .* beside"),
    ],
)
def test_units_do_not_mix(a: Expr, b: Expr, words: str) -> None:
    with pytest.raises(UnitError, match=words):
        crossover(a, b, B)


def test_units_that_agree_or_cannot_be_told() -> None:
    assert crossover(PRODUCT.intensity, C / W_hbm, B).kind == "above"
    assert crossover(B * t_hop, D / W_ici, B).threshold == D / (W_ici * t_hop)
    put = PRODUCT.time.math.subs(C, 459 * 10**12)
    assert crossover(put, PRODUCT.time.hbm, B).kind == "above"
    # A name that no other test puts into the symbol table.
    other = Symbol("unlisted", positive=True)
    assert crossover(B * other, D / C, B).threshold == D / (C * other)


def test_amounts_are_checked_in_full() -> None:
    cost = PRODUCT.forward.cost
    flops, moved = cost.sum("flops"), cost.sum("hbm bytes")
    with pytest.raises(UnitError, match="cannot add byte to FLOP"):
        crossover(flops, moved, B)
    layers = cost.scale(L, Span.STEP).sum("flops")
    with pytest.raises(UnitError, match="per step"):
        crossover(flops, layers, B)
    longer = einsum("A[B, D] * W[D, N] -> Out[B, N]").forward.cost.sum("flops")
    assert crossover(flops, longer, F).threshold == N
    with pytest.raises(SolveError, match=r"take an amount of it, such as .sum\('flops'\)"):
        crossover(cost, moved, B)


# --- assumptions -------------------------------------------------------------------------------


def test_assumptions_are_put_in_and_printed() -> None:
    chosen = assuming(Eq(N * H, D), F=4 * D)
    assert repr(chosen) == "given F = 4*D, H*N = D"
    assert chosen.put(3 * D * F) == 12 * D**2
    assert [str(relation) for relation in chosen] == ["Eq(F, 4*D)", "Eq(H*N, D)"]
    found = crossover(2 * B * H * N, D * F, B, chosen)
    assert cancel(found.threshold - 2 * D) == 0
    assert "with F = 4*D, H*N = D" in repr(found)
    assert found.to_dict()["assuming"] == ["Eq(F, 4*D)", "Eq(H*N, D)"]
    assert chosen.to_dict() == {"given": ["F = 4*D", "H*N = D"]}


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: assuming(Fd=4 * D), r"given\(Fd=...\): no such symbol"),
        (lambda: assuming(D), "an equation is wanted"),
        (lambda: assuming(F="4*D"), "not an expression"),
        (lambda: crossover(B, F, B, assuming(Eq(F + D, L + N))), "no equation of two monomials"),
        (lambda: crossover(B * ceiling(B / 8), F, B), "B stands inside a rounding"),
    ],
)
def test_wrong_questions(ask: Any, words: str) -> None:
    with pytest.raises(SymscaleError, match=words):
        ask()


# --- reported faults of other tools ------------------------------------------------------------


def test_sy06_names_are_symbols_not_constants() -> None:
    from symscale import E, K
    from symscale import S as keys

    assert (E * D).subs({E: 1, D: 1}) == 1
    assert (keys * B).subs({keys: 3, B: 2}) == 6
    assert crossover(6 * N * D, K, N).threshold == K / (6 * D)
    with pytest.raises(SolveError, match="not an expression"):
        crossover("6*N*D", K, N)


def test_sy07_products_do_not_overflow() -> None:
    f = numeric(6 * N * D, N, D)
    assert float(f(405 * 10**9, 156 * 10**11)) == pytest.approx(3.7908e25)


def test_sy08_only_the_branch_that_counts() -> None:
    assert float(numeric(Maximum(B, D) / D, B, D)(0.0, 2.0)) == 1


def test_sy09_a_constant_beside_an_array() -> None:
    assert list(numeric(Maximum(3, B), B)([1, 2, 5])) == [3, 3, 5]


def test_sy12_roundings_of_ratios() -> None:
    assert ceiling(Rational(1, 10) * 3 / Rational(1, 10)) == 3
    assert float(numeric(ceiling(B * 3 / D), B, D)(0.1, 0.1)) == 3


def test_chips_are_put_in_last() -> None:
    wall = crossover(PRODUCT.time.math, PRODUCT.time.hbm, B)
    number = wall.at(chip("v5e"), D=8192, F=28672)
    assert number.kind == "above"
    with pytest.raises(SymbolError, match="no value for B"):
        number.holds()
