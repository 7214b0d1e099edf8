"""Leading terms: the public lines, exactness, and the limit they claim."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Integer, Rational, cancel, sqrt

from symscale.algebra.errors import SolveError, SymscaleError
from symscale.algebra.symbols import B, C, D, F, W_hbm
from symscale.solve.leading import leading


def test_intensity_of_a_matmul() -> None:
    found = leading(B * D * F / (B * D + D * F + B * F), small=[B / D, B / F])
    assert found.term == B
    assert found.factor == 1 / (1 + B / D + B / F)


def test_critical_batch() -> None:
    exact = C * D * F / (D * F * W_hbm - C * D - C * F)
    found = leading(exact, small=[C / (D * W_hbm), C / (F * W_hbm)])
    assert found.term == C / W_hbm
    assert cancel(found.term * found.factor - exact) == 0
    v5e = {C: 197 * 10**12, W_hbm: 81 * 10**10}
    assert found.term.subs(v5e) == Rational(19700, 81)


def test_roots_and_equal_monomials() -> None:
    assert leading(B + sqrt(B * D), small=[B / D]).term == sqrt(B) * sqrt(D)
    twice = leading(sqrt(2) * D + 3 * D + B, small=[B / D])
    assert cancel(twice.term - (sqrt(2) + 3) * D) == 0
    assert cancel(twice.term * twice.factor - twice.expr) == 0


def test_products_of_ratios_and_dependent_ratios() -> None:
    assert leading(B**2 + D * F, small=[B / D, B / F]).term == D * F
    assert leading(B * C + D * F, small=[B / D, C / F, B * C / (D * F)]).term == D * F
    assert leading(D**3 + B**2 * F, small=[B / D, B * F / D**2]).term == D**3


def test_prints_and_converts() -> None:
    found = leading(B + D, small=[B / D])
    assert "exactly times" in repr(found)
    assert found.to_dict()["term"] == "D"
    assert [step.expr for step in found.derivation][-2] == D
    assert found._repr_latex_().startswith("$D")


exponents = st.integers(0, 3)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(1, 9), exponents, exponents), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(1, 9), exponents, exponents), min_size=1, max_size=4),
)
def test_factor_is_exact_and_tends_to_one(
    over: list[tuple[int, int, int]], under: list[tuple[int, int, int]]
) -> None:
    """Sums of D**3 times small ratios always have a winner up to the ratios' order."""
    one, two = B / D, C / (D * F)

    def build(terms: list[tuple[int, int, int]]) -> object:
        return sum((c * D**3 * one**p * two**q for c, p, q in terms), D**3 * Integer(7))

    expr = build(over) / build(under)  # type: ignore[operator]
    found = leading(expr, small=[one, two])
    assert cancel(found.term * found.factor - expr) == 0
    far = found.factor.subs({B: 1, D: 10**9, C: 1, F: 1})
    assert abs(float(far) - 1) < 1e-6


INTENSITY = B * D * F / (B * D + D * F + B * F)


def test_next_correction_and_its_error() -> None:
    found = leading(INTENSITY, small=[B / D, B / F], order=1)
    assert cancel(found.correction + B / D + B / F) == 0
    assert cancel(found.approximation - B * (1 - B / D - B / F)) == 0
    # Exactly: (1 + d)(1 + q) - 1 with q = B/D + B/F and d = -q is -q**2.
    assert found.error(Rational(1, 10)) == Rational(1, 25)
    assert found.error({B / D: Rational(1, 10), B / F: Rational(1, 20)}) == Rational(9, 400)
    assert "to first order" in str(found.derivation)
    assert "to first order" in repr(found)
    assert found.to_dict()["correction"] == str(found.correction)
    plain = leading(INTENSITY, small=[B / D, B / F])
    assert plain.correction == 0
    assert plain.error(Rational(1, 10)) == Rational(1, 5)


def test_critical_batch_with_its_correction() -> None:
    exact = C * D * F / (D * F * W_hbm - C * D - C * F)
    found = leading(exact, small=[C / (D * W_hbm), C / (F * W_hbm)], order=1)
    v5e = {C: 197 * 10**12, W_hbm: 81 * 10**10, D: 8192, F: 28672}
    sizes = {ratio: ratio.subs(v5e) for ratio in found.small}
    off = abs(float((found.approximation / exact - 1).subs(v5e)))
    assert off <= float(found.error(sizes)) < 0.002
    order_zero = leading(exact, small=found.small)
    assert float(order_zero.error(sizes)) > 10 * off


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        (2, "a small ratio is below 1"),
        ({B / D: 0.1}, "no size for the ratio B/F"),
        (-1, "must be above zero"),
    ],
)
def test_sizes_without_a_bound(sizes: object, words: str) -> None:
    with pytest.raises(SymscaleError, match=words):
        leading(INTENSITY, small=[B / D, B / F]).error(sizes)


def test_no_bound_where_a_denominator_may_vanish() -> None:
    found = leading(1 / (D - 3 * B), small=[B / D])
    assert found.error(Rational(1, 10)) == Rational(3, 10)
    with pytest.raises(SolveError, match="no bound holds"):
        found.error(Rational(1, 2))
    with pytest.raises(SolveError, match="order=2"):
        leading(INTENSITY, small=[B / D, B / F], order=2)


signed = st.tuples(st.integers(-4, 4).filter(bool), exponents, exponents)


@settings(max_examples=60)
@given(st.lists(signed, max_size=3), st.lists(signed, max_size=3), st.integers(1, 9), st.data())
def test_the_error_is_a_bound(
    over: list[tuple[int, int, int]],
    under: list[tuple[int, int, int]],
    head: int,
    data: st.DataObject,
) -> None:
    """At random ratios up to the stated sizes the approximation is never off by more."""
    one, two = B / D, B / F

    def build(terms: list[tuple[int, int, int]]) -> Any:
        small = sum((c * one**p * two**q for c, p, q in terms if p + q), Integer(0))
        return head * D * F + D * F * small

    sizes = {one: Rational(1, 40), two: Rational(1, 30)}
    values = {
        B: 1,
        D: data.draw(st.fractions(40, 4000, max_denominator=8)),
        F: data.draw(st.fractions(30, 3000, max_denominator=8)),
    }
    expr = build(over) / build(under)
    for order in (0, 1):
        found = leading(expr, small=[one, two], order=order)
        try:
            bound = found.error(sizes)
        except SolveError as error:
            if "no bound holds" not in str(error):
                raise
            continue
        there = {key: Rational(str(value)) for key, value in values.items()}
        off = (found.approximation / found.expr).subs(there) - 1
        assert abs(off) <= bound
