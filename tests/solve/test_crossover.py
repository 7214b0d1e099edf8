"""Crossovers whose answer is known from elsewhere: the book, algebra by hand, the interface."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sympy import Eq, Expr, Rational, S, cancel, oo, sqrt

from symscale.algebra.errors import SolveError, SymbolError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import (
    M_X,
    M_Y,
    B,
    C,
    D,
    F,
    H,
    L,
    N,
    W_hbm,
    W_ici,
    X,
    Y,
    Z,
    n,
)  # fmt: skip
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover

MATH = 2 * B * D * F / C
HBM = (2 * B * D + 2 * D * F + 2 * B * F) / W_hbm
V5E = {C: 197 * 10**12, W_hbm: 810 * 10**9}


def same(left: Expr, right: Expr) -> bool:
    return bool(cancel(left - right) == 0)


def test_critical_batch_of_a_matmul() -> None:
    found = crossover(MATH, HBM, B)
    assert found.kind == "above"
    assert same(found.threshold, C * D * F / (D * F * W_hbm - C * D - C * F))
    assert found.condition.lhs == B
    assert found.condition.rhs == found.threshold
    assert found.condition.rel_op == ">="
    assert found.converse.rel_op == "<"
    assert found.requires == (D * F * W_hbm > C * (D + F))
    assert found.otherwise is not None
    assert found.otherwise.kind == "never"
    assert found.otherwise.requires == (D * F * W_hbm <= C * (D + F))


def test_critical_batch_in_numbers() -> None:
    found = crossover(MATH, HBM, B).at(V5E, D=8192, F=28672)
    assert found.requires == S.true
    assert found.otherwise is None
    # By hand: 1/(W/C - 1/D - 1/F).
    by_hand = 1 / (Fraction(810, 197000) - Fraction(1, 8192) - Fraction(1, 28672))
    assert found.threshold == Rational(by_hand.numerator, by_hand.denominator)
    assert not found.holds(B=252)
    assert found.holds(B=253)
    assert crossover(MATH, HBM, B).at(V5E, D=64, F=64).kind == "never"


def test_mixed_split_in_chips() -> None:
    math = 4 * B * D * F / (X * Y * C)
    summed = 8 * D * sqrt(B * F / (n * M_X * M_Y)) / W_ici
    found = crossover(math, summed, B)
    assert same(found.threshold, 4 * n * (C / W_ici) ** 2 / (M_X * M_Y * F))
    assert found.requires == S.true
    assert found.assuming == (Eq(X * Y, n),)
    assert any(step.expr == Eq(Y, n / X) for step in found.derivation)
    overlapped = crossover(math, summed / 2, B)
    assert same(overlapped.threshold * 4, found.threshold)
    # The book's alpha = 2550 on TPU v5p with F = 30000 and M_X M_Y = 2, worked by hand.
    per_chip = found.at({C: 459 * 10**12, W_ici: 18 * 10**10, F: 30000, M_X: 2, M_Y: 1, n: 1})
    assert float(per_chip.threshold) == pytest.approx(4 * 2550**2 / 60000)


def test_mesh_of_three_axes_and_unknown_axis() -> None:
    found = crossover(B / (X * Y * Z), D / n, B)
    assert found.threshold == D
    assert found.assuming == (Eq(X * Y * Z, n),)
    alone = crossover(D / X, B / n + F, X)
    assert alone.assuming == (Eq(X, n),)
    assert alone.kind == "below"
    assert crossover(B / n, D / (n * X), B).assuming == ()


def test_given_relations_enter_and_are_recorded() -> None:
    found = crossover(B * D, F + B, B, given={F: 4 * D})
    assert same(found.threshold, 4 * D / (D - 1))
    assert found.assuming == (Eq(F, 4 * D),)
    by_equation = crossover(B * D, F + B, B, given=[Eq(F, 4 * D)])
    assert by_equation.threshold == found.threshold
    heads = crossover(B * N * H, D * F, B, given=Eq(N * H, D))
    assert heads.threshold == F
    assert heads.holds(B=9, F=9)


def test_zero_one_and_two_sign_changes() -> None:
    assert crossover(B + D, B, B).kind == "always"
    assert crossover(B, B + D, B).kind == "never"
    assert crossover(D, B, B).kind == "below"
    between = crossover(D * B, B**2 + L, B)
    assert between.kind == "between"
    assert between.threshold is None
    low, high = between.thresholds
    assert same(low * high, L)
    assert same(low + high, D)
    assert between.requires == (D**2 >= 4 * L)
    outside = crossover(B**2 + L, D * B, B)
    assert outside.kind == "outside"
    assert outside.otherwise is not None
    assert outside.otherwise.kind == "always"
    assert same(crossover(B**3, D, B).threshold ** 3, D)
    assert crossover(B, F * sqrt(B), B).threshold == F**2


def test_middle_coefficient_of_a_quadratic_needs_no_sign() -> None:
    found = crossover(B**2 * D + B * F, B * L + 1, B)
    assert found.kind == "above"
    assert found.requires == S.true


def test_unknown_signs_split_without_a_gap() -> None:
    found = crossover(B * D + F, B * F + D, B)
    kinds = []
    answer: Crossover | None = found
    while answer is not None:
        kinds.append(answer.kind)
        answer = answer.otherwise
    assert kinds == ["above", "below", "always"]
    assert found.holds(B=1, D=5, F=5)


def test_a_denominator_of_either_sign() -> None:
    found = crossover(F / (B - D), S.One, B)
    assert found.thresholds == (D, D + F)
    beta = crossover(B / (D - F), L, B)
    assert beta.kind == "above"
    assert beta.requires == (D > F)
    assert not beta.holds(B=10**6, D=1, F=2, L=1)


def test_higher_degree_wants_numbers_then_is_certified() -> None:
    with pytest.raises(SolveError, match=r"exactly one threshold.*substitute numbers for D, L"):
        crossover(B**3, D * B + L, B)
    found = crossover(B**3, 2 * B + 7, B)
    assert found.kind == "above"
    root = float(found.threshold)
    assert root**3 == pytest.approx(2 * root + 7)
    assert crossover(B**5 + 1, S.Zero, B).kind == "always"
    pieces = crossover((B - 1) * (B - 2) * (B - 3), S.Zero, B)
    assert pieces.kind == "pieces"
    assert pieces.thresholds == (1, 2, 3)
    assert [pieces.holds(B=value) for value in (1, 2, 3, 4)] == [True, True, True, True]
    assert pieces.intervals == ((1, 2), (3, oo))


def test_maxima_on_either_side() -> None:
    every = crossover(B, Maximum(D, F), B)
    assert every.threshold == Maximum(D, F)
    some = crossover(Maximum(B, D), F, B)
    assert some.kind == "above"
    assert some.requires == (F > D)
    assert some.otherwise is not None
    assert some.otherwise.kind == "always"
    window = crossover(D, Maximum(B, L / B), B)
    assert window.kind == "between"
    assert window.requires == (D**2 >= L)
    doubled = crossover(2 * Maximum(B, D) + 1, F + 1, B)
    assert same(doubled.threshold, F / 2)


def test_a_wall_at_infinity_is_guarded() -> None:
    """At L = 1 the second wall 1/(L (L - 1)) is infinite; the guard L > 1 decides first."""
    found = crossover(Maximum(S.One, D * L), 1 / L + D, D)
    assert found.at(L=1).kind == "never"
    assert not found.holds(D=5, L=1)
    assert found.holds(D=5, L=2)


def test_prints_and_converts() -> None:
    found = crossover(MATH, HBM, B)
    assert "otherwise never" in repr(found)
    assert found._repr_latex_().startswith("$\\begin{cases}")
    made = found.to_dict()
    assert made["kind"] == "above"
    assert made["otherwise"]["kind"] == "never"
    assert made["steps"]
    text = str(found.derivation)
    for word in (
        "where does this hold",
        "clear denominators",
        "a term in B",
        "one sign change",
        "so it holds from",
    ):
        assert word in text


def test_missing_values_are_named() -> None:
    with pytest.raises(SymbolError, match="no value for"):
        crossover(MATH, HBM, B).holds(V5E, B=3, D=4)
