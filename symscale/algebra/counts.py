"""Counts as people type them: ``4M``, ``4Mi``, ``4e6``, ``2**22``.

Free of SymPy, for the command line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

_T = TypeVar("_T")

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_FACTORS = _DECIMAL | _BINARY
_PLAIN = re.compile(r"(\d[\d_,]*(?:\.\d+)?)(?:[eE]\+?(\d{1,2}))?\s*([A-Za-z]*)")
_POWER = re.compile(r"(\d{1,4})\s*(?:\*\*|\^)\s*(\d{1,3})")
_LARGEST = 10**21


def count(text: str) -> int:
    """A whole number above zero.

    Raises:
        ValueError: saying what was wrong and what would be right.

    >>> count("4Mi"), count("4M"), count("2**22"), count("4e6"), count("1.5k")
    (4194304, 4000000, 4194304, 4000000, 1500)
    >>> count("4Q")
    Traceback (most recent call last):
    ValueError: '4Q': unknown suffix 'Q'; use k, M, G, T or Ki, Mi, Gi, Ti
    """
    stripped = text.strip()
    power = _POWER.fullmatch(stripped)
    value = Fraction(int(power[1]) ** int(power[2])) if power else _plain(stripped, text)
    if value.denominator != 1 or value <= 0:
        raise ValueError(f"{text!r}: a whole number above zero is wanted")
    if value > _LARGEST:
        raise ValueError(f"{text!r}: too large; at most 1e21")
    return int(value)


def _plain(stripped: str, text: str) -> Fraction:
    found = _PLAIN.fullmatch(stripped)
    if not found:
        raise ValueError(f"{text!r} is no count; write 4194304, 4Mi, 4M, 4e6 or 2**22")
    digits, exponent, suffix = found.groups()
    if suffix not in _FACTORS:
        raise ValueError(f"{text!r}: unknown suffix {suffix!r}; use k, M, G, T or Ki, Mi, Gi, Ti")
    number = Fraction(digits.replace("_", "").replace(",", ""))
    return number * Fraction(10 ** int(exponent or 0) * _FACTORS[suffix])


def mesh(text: str) -> dict[str, int]:
    """Mesh axes with sizes: ``X=2048,Y=4``.

    Raises:
        ValueError: for anything else, or an axis given twice.

    >>> mesh("X=2048, Y=4")
    {'X': 2048, 'Y': 4}
    """
    return _named(text, count, "axis=size, as in X=2048,Y=4", "mesh axis ")


def numbers(text: str) -> dict[str, int | float]:
    """Named numbers, whole or not: ``S=8Ki,loss=0.05``.

    Raises:
        ValueError: for anything else, a number not above zero, or a name given twice.

    >>> numbers("S=8Ki, loss=0.05")
    {'S': 8192, 'loss': 0.05}
    """
    return _named(text, _whole_or_not, "name=number, as in S=8192,Y=8")


def _named(text: str, read: Callable[[str], _T], form: str, what: str = "") -> dict[str, _T]:
    """Comma-separated ``name=value`` items, each value read by ``read``."""
    out: dict[str, _T] = {}
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(f"{item!r} in {text!r}: write {form}")
        if name in out:
            raise ValueError(f"{what}{name} occurs twice in {text!r}")
        out[name] = read(value)
    return out


def _whole_or_not(text: str) -> int | float:
    found = re.fullmatch(r"\d*\.?\d+(?:[eE][+-]?\d{1,2})?", text)
    try:
        return count(text)
    except ValueError:
        if not found or float(text) <= 0:
            raise
    return float(text)
