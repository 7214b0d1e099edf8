"""Rates as people say them: bytes are powers of ten, networks count in bits."""

from __future__ import annotations

from typing import Any

from sympy import Expr

from symscale.algebra.substitution import exact

_STEPS = ((10**12, "TB/s"), (10**9, "GB/s"), (10**6, "MB/s"), (10**3, "kB/s"))


def bits(rate: Any) -> Expr:
    """Bytes/s of a rate given in bit/s.

    >>> bits(400e9)
    50000000000
    """
    return exact(rate, "rate") / 8


def bandwidth(volume: Any, seconds: Any) -> Expr:
    """Bytes/s at which so many bytes moved in so many seconds.

    >>> rate_text(bandwidth(50e9, 1))
    '50 GB/s'
    """
    return exact(volume, "bytes") / exact(seconds, "seconds")


def rate_text(rate: Any) -> str:
    """A rate in the unit that suits it; a kilobyte is 1000 bytes.

    >>> rate_text(3.35e12), rate_text(6250000000)
    ('3.35 TB/s', '6.25 GB/s')
    """
    number = float(exact(rate, "rate"))
    for step, name in _STEPS:
        if number >= step:
            return f"{number / step:.4g} {name}"
    return f"{number:.4g} B/s"
