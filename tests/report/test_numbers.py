"""Numbers as people read them, in every renderer the same."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Integer, Rational, Symbol, sqrt

from symscale.algebra.errors import ReportError
from symscale.report.html import figure_html
from symscale.report.latex import figure_tex
from symscale.report.numbers import Figure, count, memory, number, percent, rate, seconds


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (number(4.59e14), "4.59e14"),
        (number(0), "0"),
        (number(-2550.6), "-2,551"),
        (number(999999.7), "1,000,000"),
        (number(0.00012345), "1.234e-4"),
        (number(Rational(850, 3)), "283.3"),
        (number(sqrt(2)), "1.414"),
        (number(float("inf")), "\N{INFINITY}"),
        (number(3, "chips"), "3 chips"),
        (count(70553706496), "70,553,706,496"),
        (count(Integer(-12345)), "-12,345"),
        (count(10**20), "100,000,000,000,000,000,000"),
        (count(8.0, "GPUs"), "8 GPUs"),
        (seconds(0.00092), "0.92 ms"),
        (seconds(9.2e-6), "9.2 \N{MICRO SIGN}s"),
        (seconds(3e-9), "3 ns"),
        (seconds(59.96), "60 s"),
        (seconds(119.99), "2 min"),
        (seconds(86400), "24 h"),
        (seconds(44 * 86400), "44 days"),
        (seconds(0), "0 s"),
        (rate(459e12), "459 TFLOP/s"),
        (rate(Fraction(2765 * 10**9), "B/s"), "2.765 TB/s"),
        (rate(999.96e9, "B/s"), "1 TB/s"),
        (percent(0.4567), "45.7%"),
        (percent(-0.0132), "-1.32%"),
    ],
)
def test_text(figure: Figure, text: str) -> None:
    assert str(figure) == text


# Published sizes: an H100's 80 GB, a v5p's 95 GB, LLaMA 3 70B in bf16, one GiB.
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (80 * 10**9, "74.51 GiB (80 GB)"),
        (95 * 10**9, "88.48 GiB (95 GB)"),
        (2 * 70553706496, "131.4 GiB (141.1 GB)"),
        (2**30, "1 GiB (1.074 GB)"),
        (2**50, "1 PiB (1.126 PB)"),
        (999, "999 bytes"),
        (999999, "976.6 KiB (1,000 kB)"),
        (0, "0 bytes"),
    ],
)
def test_bytes_are_given_both_ways(value: int, text: str) -> None:
    shown = str(memory(value))
    assert shown == text or (value == 999999 and shown == "0.9537 MiB (1 MB)")


@given(st.integers(min_value=1000, max_value=10**24))
def test_binary_units_divide_by_1024_and_decimal_by_1000(value: int) -> None:
    binary, decimal = str(memory(value)).rstrip(")").split(" (")
    for shown, base, mark in ((binary, 1024, "i"), (decimal, 1000, "")):
        amount, unit = shown.split()
        assert unit.endswith("iB") == bool(mark)
        power = " KMGTPEZY".index(unit[0].upper())
        assert float(amount.replace(",", "")) * base**power == pytest.approx(value, rel=6e-4)


@given(st.floats(min_value=1e-9, max_value=1e12))
def test_seconds_keep_three_digits(value: float) -> None:
    amount, unit = str(seconds(value)).split()
    scale = {"ns": 1e-9, "\N{MICRO SIGN}s": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600,
             "days": 86400}[unit]  # fmt: skip
    assert float(amount.replace(",", "")) * scale == pytest.approx(value, rel=5.1e-3)


@pytest.mark.parametrize(
    ("figure", "tex", "html", "math"),
    [
        (number(4.59e14), r"4.59${}\times 10^{14}$",
         "4.59\u00a0\N{MULTIPLICATION SIGN}\u00a010<sup>14</sup>", r"\text{4.59}\times 10^{14}"),
        (seconds(0.00092), "0.92~ms", "0.92\u00a0ms", r"\text{0.92}\text{ ms}"),
        (seconds(9.2e-6), r"9.2~\ensuremath{\mu}s", "9.2\u00a0\N{MICRO SIGN}s",
         r"\text{9.2}\text{ }\mu\text{s}"),
        (percent(0.9), r"90\%", "90%", r"\text{90}\text{\%}"),
    ],
)  # fmt: skip
def test_every_renderer_writes_the_same_number(
    figure: Figure, tex: str, html: str, math: str
) -> None:
    assert figure_tex(figure) == tex
    assert figure_html(figure) == html
    assert figure.latex == math


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(ReportError, match="'many' is no number"):
        number("many")
    with pytest.raises(ReportError, match="substitute its symbols first"):
        seconds(Symbol("B"))
    with pytest.raises(ReportError, match="undefined"):
        number(float("nan"))
    for value in (2.5, Rational(5, 2), float("inf")):
        with pytest.raises(ReportError, match="no whole number"):
            count(value)
