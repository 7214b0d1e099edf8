"""Behaviours of SymPy that the solver rests on, and reported faults it has to stay clear of."""

from __future__ import annotations

import pytest
from sympy import (
    QQ,
    Eq,
    Ge,
    Integer,
    Lt,
    Max,
    Piecewise,
    Poly,
    Pow,
    Rational,
    S,
    Symbol,
    nan,
    solve,
    solveset,
    sqrt,
)  # fmt: skip
from sympy.polys.fields import FracField

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, B, D, F, W_ici, X, Y, n
from symscale.solve.crossover import crossover
from symscale.solve.minimise import minimise
from symscale.solve.regimes import regimes


def test_fraction_fields_reduce() -> None:
    field = FracField(["g0", "g1"], QQ)
    x, y = field.gens
    made = (x**2 - y**2) / (x - y)
    assert len(made.denom) == 1
    assert made.numer.as_expr() == x.numer.as_expr() + y.numer.as_expr()
    unit, factors = (x**2 - y**2).numer.factor_list()
    assert unit == 1
    assert len(factors) == 2


def test_relations_can_be_kept_and_rebuild_on_substitution() -> None:
    assert Ge(B, Rational(1, 2)) == S.true
    kept = Ge(B, Rational(1, 2), evaluate=False)
    assert kept.lhs == B
    assert kept.xreplace({B: Integer(3)}) == S.true
    assert Lt(D, 1) == S.false  # sizes are whole


def test_roots_of_products_of_positive_symbols_split() -> None:
    assert sqrt(B * D) == sqrt(B) * sqrt(D)
    assert sqrt((D - F) ** 2).subs({D: 2, F: 5}) == 3
    assert Pow(Rational(2, 3), Rational(1, 2)) == sqrt(6) / 3


def test_isolated_roots_of_irrational_coefficients() -> None:
    w = Symbol("w")
    roots = Poly([1, 0, -sqrt(2), -1], w, extension=True).real_roots(multiple=False)
    (root, times) = roots[-1]
    value = float(root)
    assert times == 1
    assert value**3 - 2**0.5 * value - 1 == pytest.approx(0, abs=1e-12)


def test_sy02_a_relation_over_piecewise_is_solved_branch_by_branch() -> None:
    x = Symbol("x", positive=True)
    step = Piecewise((1, x < 1), (3, True))
    # 1 is not above 1 and 3 is: any level between says where the step is above 1.
    for level in (Rational(1001, 1000), 2, 3):
        found = crossover(step, level, x)
        assert found.condition == (x >= 1)
        assert found.holds({x: 1})
        assert not found.holds({x: Rational(999, 1000)})


def test_sy04_only_positive_roots_count() -> None:
    x = Symbol("x")
    poly = (x - 1) * (x + 2) * (2 * x - 1)
    assert set(solveset(poly, x)) == {-2, 1, Rational(1, 2)}
    found = crossover((D - 1) * (D + 2) * (2 * D - 1), S.Zero, D)
    assert found.thresholds == (Rational(1, 2), 1)
    assert found.kind == "outside"


def test_sy05_symbols_of_one_name_do_not_match() -> None:
    plain = Symbol("B")
    assert (3 * plain).subs(B, 2) == 3 * plain
    assert solve(plain - 4, B) == []


def test_sy14_positive_symbols_keep_maxima_away_from_zero() -> None:
    assert Maximum(0, B / D) == B / D
    assert (1 / Maximum(B, D)).subs({B: 0, D: 2}) == Rational(1, 2)


def test_sy15_the_crossover_point_belongs_to_one_regime() -> None:
    gap = Piecewise((1, B > 1), (2, B < 1), evaluate=False)
    assert gap.func(*[(e, c.subs(B, 1)) for e, c in gap.args]) in (nan, S.NaN)
    found = regimes(Maximum(B, 1), B)
    assert [row.lower for row in found] == [0, 1]
    assert found.binding(1).term == B
    assert crossover(B, S(2), B).holds(B=2)


def test_sy16_weight_stationary_crossover() -> None:
    """2D beats 1D weight stationary from 32 (F/D) (3/4)^2 = 72 chips on, F = 4D, three axes."""
    one = 4 * B * D / (3 * W_ici)
    costs = 4 * B * D / (X * M_Y * W_ici) + 4 * B * F / (Y * M_X * W_ici)
    two = minimise(costs, over=(X, Y), subject_to=Eq(X * Y, n)).value
    found = crossover(one, two, n, given={F: 4 * D, M_X: 1, M_Y: 2})
    assert found.kind == "above"
    assert found.threshold == 72


def test_max_is_decided_when_numbers_enter() -> None:
    assert Maximum(B, D).subs({B: 3, D: 7}) == 7
    assert Maximum(B, D).doit() == Max(B, D)
