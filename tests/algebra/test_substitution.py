"""The door for numbers: exact, by name, refusing what does not fit."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from sympy import Float, I, Integer, Rational, Symbol, nan, oo, sqrt, zoo

from symscale.algebra.errors import SymbolError
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import bindings, evaluate, exact
from symscale.algebra.symbols import B, C, D, X

GOOD = [
    (3, 3), (0.1, Rational(1, 10)), (1e-9, Rational(1, 10**9)), (1.97e14, 197 * 10**12),
    (Fraction(1, 3), Rational(1, 3)), (Decimal("0.25"), Rational(1, 4)), (np.int64(7), 7),
    (np.float64(0.5), Rational(1, 2)), (Float("0.1"), Rational(1, 10)), (sqrt(2), sqrt(2)),
    (10**400, 10**400),
]  # fmt: skip


@pytest.mark.parametrize(("value", "wanted"), GOOD, ids=[str(v)[:12] for v, _ in GOOD])
def test_numbers_are_exact(value: object, wanted: object) -> None:
    assert exact(value, "B") == wanted


BAD = [
    0, -1, -0.5, Rational(-1, 2), float("nan"), math.inf, -math.inf, np.float64("nan"),
    Decimal("NaN"), nan, oo, zoo, I, Float("nan"), Float("inf"), 1 + 2j, "4", True, None, [4], B,
]  # fmt: skip


@pytest.mark.parametrize("value", BAD, ids=repr)
def test_what_is_no_positive_number(value: object) -> None:
    with pytest.raises(SymbolError, match=r"^B = .*(a number|a finite number|above zero)"):
        exact(value, "B")


def test_bindings_check_each_value() -> None:
    assert bindings({B: 4, D: 8}, {D: 16}, X=2) == {B: 4, D: 16, X: 2}
    assert bindings(B=4.0) == {B: Integer(4)}
    assert bindings({C: 1.97e14}) == {C: 197 * 10**12}
    with pytest.raises(SymbolError, match=r"B = 2\.5: batch, in tokens must be a whole number"):
        bindings(B=2.5)
    with pytest.raises(SymbolError, match="X = -2: a size or rate must be above zero"):
        bindings(X=-2)
    with pytest.raises(SymbolError, match="C = nan: a finite number is wanted"):
        bindings({C: float("nan")})


def test_keys_are_symbols_of_the_table() -> None:
    with pytest.raises(SymbolError, match="'B' is not a symbol; give it as B="):
        bindings({"B": 4})  # type: ignore[dict-item]
    with pytest.raises(SymbolError, match="'B' is not symscale's symbol B"):
        bindings({Symbol("B"): 4})


def test_evaluating() -> None:
    assert evaluate(B / D, {B: 1, D: 3}) == Rational(1, 3)
    assert evaluate(Maximum(B, D), {B: 1, D: 3}) == 3
    assert evaluate(7, {}) == 7
    with pytest.raises(SymbolError) as caught:
        evaluate(B * D * X, {B: 3})
    assert str(caught.value) == (
        "no value for D (model width (d_model)), X (size of mesh axis X); give it by name"
    )
    with pytest.raises(SymbolError, match="'D' is not symscale's symbol D"):
        evaluate(B * Symbol("D"), {B: 3})
