"""Random routing: how many devices a token has to be sent to.

A token goes to k experts that lie on Z devices. Two of its experts on one device cost one copy.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr, Integer, Product, Symbol, sympify

from symscale.algebra.errors import HardwareError
from symscale.algebra.maximum import Minimum


def destinations(k: Any, devices: Any, experts: Any = None) -> Expr:
    """Expected number of distinct devices that a token's k experts lie on.

    Each expert lies on any device alike, independently: Z (1 - ((Z-1)/Z)**k). With ``experts`` the
    k are distinct ones of E, E/Z on each device, drawn without replacement; then k and E are
    numbers.

    Source: How To Scale Your Model, "How to Think About GPUs", on expert parallelism, whose factor
    (1 - ((Z-1)/Z)**k) (Z-1)/Z is this times (Z-1)/Z**2: without the copy that stays.

    Raises:
        HardwareError: for experts that are not spread evenly, or fewer than k.

    >>> destinations(2, 4), destinations(2, 4, experts=8)
    (7/4, 13/7)
    """
    count, ways = sympify(k, strict=True), sympify(devices, strict=True)
    if experts is None:
        return ways * (1 - ((ways - 1) / ways) ** count)
    whole = sympify(experts, strict=True)
    if not (whole / ways).is_Integer or whole < count:
        raise HardwareError(
            f"{experts} experts on {devices} devices, {k} for a token: a multiple of the devices, "
            "and no fewer than a token takes, is wanted"
        )
    step = Symbol("step", integer=True)
    missed = Product((whole - whole / ways - step) / (whole - step), (step, 0, count - 1)).doit()
    return ways * (1 - missed)


def at_most(k: Any, devices: Any) -> Expr:
    """The simple bound: k copies, or one for each device, min(k, Z).

    >>> at_most(4, 8), at_most(8, 4)
    (4, 4)
    """
    count, ways = sympify(k, strict=True), sympify(devices, strict=True)
    return Minimum(count, ways)


def ragged(local_bytes: Any, k: Any, devices: Any, experts: Any = None) -> Expr:
    """The volume of the AllToAll that brings tokens to their experts: local bytes with copies.

    A network takes off the share (Z-1)/Z that stays at home.

    >>> from symscale.algebra.symbols import Z
    >>> ragged(100, 1, Z)
    100
    """
    copies = destinations(k, devices, experts)
    return sympify(local_bytes, strict=True) * _simple(copies)


def _simple(copies: Expr) -> Expr:
    return Integer(1) if copies.cancel() == 1 else copies
