"""Numbers as people read them, made once and written alike in LaTeX, HTML and text.

Bytes are given both ways, ``GiB`` for a division by powers of 1024 and ``GB`` for powers of 1000.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isinf, isnan
from typing import Any

from symscale.algebra.errors import ReportError

NBSP = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
#: Units of time with the least number of seconds from which each is used.
_TIMES = (
    (172800.0, 86400.0, "days"),
    (7200.0, 3600.0, "h"),
    (120.0, 60.0, "min"),
    (0.1, 1.0, "s"),
    (1e-4, 1e-3, "ms"),
    (1e-7, 1e-6, "\N{MICRO SIGN}s"),
    (0.0, 1e-9, "ns"),
)


@dataclass(frozen=True)
class Power:
    """The factor ``10**exponent`` of a number in scientific notation."""

    exponent: int

    @property
    def shown(self) -> str:
        """The exponent with a true minus sign."""
        return str(self.exponent).replace("-", MINUS)


@dataclass(frozen=True)
class Figure:
    """A formatted number: pieces of text and at most a power of ten or two.

    >>> print(number(4.59e14, "FLOP/s"))
    4.59e14 FLOP/s
    """

    pieces: tuple[str | Power, ...]

    @property
    def text(self) -> str:
        """The number for a terminal."""
        shown = [f"e{p.exponent}" if isinstance(p, Power) else p for p in self.pieces]
        return "".join(shown).replace(NBSP, " ").replace(MINUS, "-")

    @property
    def latex(self) -> str:
        r"""The number in LaTeX's mathematics mode.

        >>> number(4.59e14).latex
        '\\text{4.59}\\times 10^{14}'
        """
        return "".join(
            rf"\times 10^{{{p.exponent}}}" if isinstance(p, Power) else _math_text(p)
            for p in self.pieces
        )

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.text}>"

    def _repr_latex_(self) -> str:
        return f"${self.latex}$"

    def to_dict(self) -> dict[str, str]:
        """The number as text, for JSON."""
        return {"text": self.text}


def _math_text(piece: str) -> str:
    sign = "-" if piece.startswith(MINUS) else ""
    body = re.sub(r"([%&#_$])", r"\\\1", piece.removeprefix(MINUS).replace(NBSP, " "))
    for char, tex in (("\N{MICRO SIGN}", r"\mu"), ("\N{INFINITY}", r"\infty")):
        body = body.replace(char, rf"}}{tex}\text{{")
    return rf"{sign}\text{{{body}}}".replace(r"\text{}", "") if body else sign


def _as_float(value: Any) -> float:
    try:
        made = float(value)
    except (TypeError, ValueError) as error:
        raise ReportError(f"{value!r} is no number; substitute its symbols first") from error
    except OverflowError:
        return float("inf")
    if isnan(made):
        raise ReportError("a number to print is undefined (nan)")
    return made


def _scientific(value: float, digits: int) -> tuple[str, int]:
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return _strip(mantissa), int(exponent)


def _strip(digits: str) -> str:
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _fixed(value: float, digits: int) -> str:
    """Rounded to significant digits, never dropping a whole digit, with separators."""
    _, exponent = _scientific(value, digits)
    return _strip(f"{value:,.{max(0, digits - 1 - exponent)}f}")


def _pieces(value: float, digits: int) -> tuple[str | Power, ...]:
    if isinf(value):
        return (MINUS + "\N{INFINITY}" if value < 0 else "\N{INFINITY}",)
    if value < 0:
        first, *rest = _pieces(-value, digits)
        return (f"{MINUS}{first}", *rest)
    if value == 0 or 1e-3 <= value < 1e6:
        return (_fixed(value, digits) if value else "0",)
    mantissa, exponent = _scientific(value, digits)
    return (mantissa, Power(exponent))


def number(value: Any, unit: str = "", digits: int = 4) -> Figure:
    """A number at so many significant digits, in scientific notation outside 0.001 to a million.

    >>> str(number(4.59e14)), str(number(2550.4, "tokens")), str(number(0.0131))
    ('4.59e14', '2,550 tokens', '0.0131')
    """
    pieces = _pieces(_as_float(value), digits)
    return Figure((*pieces, NBSP + unit) if unit else pieces)


def count(value: Any, unit: str = "") -> Figure:
    """A whole number to the last digit, with separators.

    Raises:
        ReportError: for a number that is not whole.

    >>> str(count(70553706496))
    '70,553,706,496'
    """
    whole = _whole(value)
    if whole is None:
        raise ReportError(f"{value} is no whole number; print it with number()")
    text = f"{whole:,}".replace("-", MINUS)
    return Figure((text, NBSP + unit) if unit else (text,))


def _whole(value: Any) -> int | None:
    try:
        made = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return made if made == value else None


def seconds(value: Any, digits: int = 3) -> Figure:
    """A time in the unit that suits it, from nanoseconds to days.

    >>> str(seconds(0.00092)), str(seconds(7.5)), str(seconds(5.2e6))
    ('0.92 ms', '7.5 s', '60.2 days')
    """
    amount = _as_float(value)
    if amount == 0:
        return Figure((f"0{NBSP}s",))
    size = float(f"{abs(amount):.{digits - 1}e}")
    scale, unit = next((s, u) for least, s, u in _TIMES if size >= least)
    return number(amount / scale, unit, digits)


def memory(value: Any, digits: int = 4) -> Figure:
    """Bytes both ways: divided by powers of 1024 (GiB) and by powers of 1000 (GB).

    >>> str(memory(65.25e9)), str(memory(512))
    ('60.77 GiB (65.25 GB)', '512 bytes')
    """
    amount = _as_float(value)
    tier = _tier(amount, digits)
    if tier == 0:
        return number(amount, "bytes", digits)
    binary = number(amount / 1024**tier, f"{_BINARY[tier]}B (", digits)
    decimal = number(amount / 1000**tier, f"{_DECIMAL[tier]}B)", digits)
    return Figure((*binary.pieces, *decimal.pieces))


def rate(value: Any, unit: str = "FLOP/s", digits: int = 4) -> Figure:
    """A rate (or any amount) with a decimal prefix before its unit.

    >>> str(rate(4.59e14)), str(rate(2.765e12, "B/s"))
    ('459 TFLOP/s', '2.765 TB/s')
    """
    amount = _as_float(value)
    tier = _tier(amount, digits)
    return number(amount / 1000**tier, _DECIMAL[tier] + unit, digits)


def _tier(amount: float, digits: int) -> int:
    if amount == 0 or isinf(amount):
        return 0
    _, exponent = _scientific(abs(amount), digits)
    return min(max(exponent // 3, 0), len(_DECIMAL) - 1)


def percent(value: Any, digits: int = 3) -> Figure:
    """A fraction as a percentage.

    >>> str(percent(0.9234))
    '92.3%'
    """
    shown = number(_as_float(value) * 100, digits=digits)
    return Figure((*shown.pieces, "%"))
