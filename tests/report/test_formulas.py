"""Formulas read back from the LaTeX and the text printed for them; line breaks; widths."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf
from mpmath import sqrt as mp_sqrt
from sympy import Abs, Eq, Expr, Float, Integer, Rational, Symbol, sqrt

from symscale.algebra.maximum import Maximum
from symscale.algebra.printing import to_plain
from symscale.algebra.symbols import M_X, B, C, D, F, W_hbm, n, symbol, to_latex
from symscale.report.breaking import rows
from symscale.report.rich import Equation, Math
from symscale.report.texwidth import tex_width
from symscale.report.writing import compile_tex, find_tex
from tests.report import report_demo as demo
from tests.report.latex_value import latex_value

SYMBOLS = (B, C, D, F, M_X, W_hbm, n)
VALUES = dict(zip(SYMBOLS, ("1.7", "2.3", "3.1", "0.7", "5.3", "1.1", "1.9"), strict=True))
NAMED = {to_latex(symbol): value for symbol, value in VALUES.items()}


@pytest.fixture(autouse=True, scope="module")
def _precise() -> Iterator[None]:
    """Digits enough for differences of large numbers to compare."""
    with mp.workdps(60):
        yield


ATOMS = st.one_of(
    st.sampled_from(SYMBOLS),
    st.sampled_from([Integer(2), Integer(3), Integer(459 * 10**12), Integer(123456789)]),
    st.sampled_from([Rational(1, 3), Rational(5, 2), Rational(10**8, 7)]),
)


def _combine(children: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: p[0] / p[1] if p[1] != 0 else p[0]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: Maximum(*p)),
        children.map(lambda e: e**2),
        children.map(lambda e: sqrt(e) if e.is_positive else e),
    )


EXPRESSIONS = st.recursive(ATOMS, _combine, max_leaves=12).filter(lambda e: not e.has(Abs))


def _number(expr: Expr) -> mpf | None:
    """The expression's value; None where it is zero, complex or a division by zero."""
    try:
        value = expr.subs({s: Rational(v) for s, v in VALUES.items()}).doit().evalf(60)
    except ValueError:  # a maximum of what was divided by zero
        return None
    if not value.is_Float or abs(value) < 1e-20:
        return None
    return mpf(str(value))


def _same(found: mpf, wanted: mpf) -> bool:
    return bool(abs(found - wanted) <= abs(wanted) * mpf("1e-15"))


@given(EXPRESSIONS)
def test_latex_reads_back_as_the_expression(expr: Expr) -> None:
    wanted = _number(expr)
    if wanted is None:
        return
    for inline in (False, True):
        tex = to_latex(expr, inline)
        assert _same(latex_value(tex, NAMED), wanted), tex


@given(EXPRESSIONS, st.floats(6, 40))
def test_broken_lines_read_back_as_the_expression(expr: Expr, room: float) -> None:
    wanted = _number(expr)
    if wanted is None:
        return
    for inline in (False, True):
        lines = " ".join(row.latex for row in rows(Math(expr), room, inline))
        assert _same(latex_value(lines, NAMED), wanted), lines


@given(EXPRESSIONS)
def test_text_reads_back_as_the_expression(expr: Expr) -> None:
    wanted = _number(expr)
    if wanted is None:
        return
    shown = re.sub(r"\b(\d+(?:\.\d+)?(?:e\d+)?)\b", r"mpf('\1')", to_plain(expr))
    names = {s.name: mpf(v) for s, v in VALUES.items()} | {"max": max, "sqrt": mp_sqrt, "mpf": mpf}
    # The text is the library's own, not a user's.
    assert _same(eval(shown.replace("^", "**"), names), wanted), shown


def test_roots_of_a_product_stand_under_one_sign() -> None:
    assert to_latex(sqrt(B * n * M_X / F)) == r"\sqrt{\frac{B M_X n}{F}}"
    assert to_plain(2 * sqrt(B / F) + D) == "2*sqrt(B/F) + D"


def test_no_fraction_is_set_inside_the_top_of_another() -> None:
    assert to_latex((B / C + D / F) / n) == (r"\frac{1}{n} \left(\frac{B}{C} + \frac{D}{F}\right)")


def test_two_numbers_are_never_run_together() -> None:
    """A number times a power of a decimal, such as the share of experts that many tokens meet."""
    assert to_latex(Float("0.25") * Float("0.875") ** B) == r"0.25 \cdot 0.875^{B}"
    assert to_latex(3 * C * Float("0.5") ** B) == r"3 \cdot 0.5^{B} C"
    assert to_latex(Float("1e-9") * Float("0.5") ** B) == r"1 \times 10^{-9} \cdot 0.5^{B}"


@pytest.mark.parametrize(
    ("value", "latex", "text"),
    [
        (Integer(459 * 10**12), r"4.59 \times 10^{14}", "4.59e14"),
        (Integer(70553706496), r"70{,}553{,}706{,}496", "70553706496"),
        (Integer(8192), "8192", "8192"),
        (Float(0.00092123), "0.0009212", "0.0009212"),
        (Float(1.97e14), r"1.97 \times 10^{14}", "1.97e14"),
        (Rational(3, 2), r"\frac{3}{2}", "3/2"),
    ],
)
def test_numbers_in_formulas(value: Expr, latex: str, text: str) -> None:
    assert to_latex(value) == latex
    assert to_plain(value) == text


def test_a_relation_breaks_at_its_sign_first() -> None:
    lines = rows(Math(Eq(Symbol("T_step"), demo.long_sum())), 20)
    assert lines[0].left == r"T_{\mathrm{step}}"
    assert lines[0].right.startswith("{} = ")
    assert all(tex_width(line.latex) <= 20 for line in lines)


def test_an_equation_chain_breaks_at_every_sign() -> None:
    lines = rows(Equation((Math.name("T"), demo.long_sum(), B / C)), 32)
    assert [line.right for line in lines][-1] == r"{} = \frac{B}{C}"


def test_names_cannot_carry_commands() -> None:
    for stranger in (Symbol(r"x\input{a}<b>"), symbol(r"y\input{a}<b>")):
        assert "\\input" not in to_latex(stranger)
        assert "<" not in to_latex(stranger)


@pytest.mark.skipif(find_tex() is None, reason="no TeX engine")
def test_estimated_widths_are_those_of_tex() -> None:
    exprs = [demo.MATH_TIME, demo.COMM_TIME, demo.BEST_X, demo.long_sum(), demo.long_quotient()]
    formulas = [to_latex(expr, inline) for expr in exprs for inline in (False, True)]
    boxes = "\n".join(rf"\sbox0{{$\displaystyle {f}$}}\typeout{{WIDTH:\the\wd0}}" for f in formulas)
    page = rf"\documentclass{{article}}\begin{{document}}x {boxes}\end{{document}}"
    log = compile_tex(page).log
    measured = [float(pt) / 10 for pt in re.findall(r"WIDTH:([\d.]+)pt", log)]
    for formula, width in zip(formulas, measured, strict=True):
        assert tex_width(formula) == pytest.approx(width, rel=0.12), formula
