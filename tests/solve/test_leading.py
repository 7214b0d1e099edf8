"""Leading terms: the public lines, exactness, and the limit they claim."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Integer, Rational, cancel, sqrt

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
