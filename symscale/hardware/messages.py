"""Sizes of messages: per rank and in total are different things, and do not mix.

Tools disagree on what the size of a collective is. Here a size says it: ``per_rank`` is what one
rank puts in, ``total`` is the whole array over all ranks, each byte once. ``volume`` turns either
into what a network is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sympy import Expr, Integer, sympify

from symscale.algebra.errors import HardwareError, UnitError, near
from symscale.algebra.units import BYTE, Quantity, Scope
from symscale.hardware.fidelity import KINDS, received

Rule = Callable[[Expr, Expr], Expr]

#: The volume from what one rank puts in, and from the whole array; arguments are size and ranks.
_FROM_RANK: Mapping[str, Rule] = MappingProxyType(
    {
        "AllGather": lambda size, ranks: size * ranks,
        "ReduceScatter": lambda size, ranks: size,
        "AllReduce": lambda size, ranks: 2 * size,
        "AllToAll": lambda size, ranks: size,
        "CollectivePermute": lambda size, ranks: size,
        "Broadcast": lambda size, ranks: size,
        "Gather": lambda size, ranks: size * ranks,
    }
)
_FROM_TOTAL: Mapping[str, Rule] = MappingProxyType(
    {
        "AllGather": lambda size, ranks: size,
        "ReduceScatter": lambda size, ranks: size,
        "AllReduce": lambda size, ranks: 2 * size,
        "AllToAll": lambda size, ranks: size / ranks,
        "CollectivePermute": lambda size, ranks: size / ranks,
        "Broadcast": lambda size, ranks: size,
        "Gather": lambda size, ranks: size,
    }
)


def per_rank(size: Any) -> Quantity:
    """Bytes that one rank puts into a collective.

    >>> print(per_rank(1024))
    1024 byte, per device, per op
    """
    return Quantity(sympify(size, strict=True), BYTE, Scope.PER_DEVICE)


def total(size: Any) -> Quantity:
    """Bytes of the whole array over all ranks, each counted once.

    >>> print(total(1024))
    1024 byte, total, per op
    """
    return Quantity(sympify(size, strict=True), BYTE, Scope.TOTAL)


def volume(kind: str, size: Quantity, ranks: Any) -> Expr:
    """The volume that a network is asked for, from a size of either sort.

    Raises:
        UnitError: for a bare number, or an amount that is no bytes.
        HardwareError: for an unknown collective.

    >>> volume("AllGather", total(64), 8), volume("AllGather", per_rank(64), 8)
    (64, 512)
    >>> volume("AllGather", 64, 8)
    Traceback (most recent call last):
    symscale.algebra.errors.UnitError: size 64 of AllGather: say total(64) or per_rank(64)
    """
    if kind not in KINDS:
        raise HardwareError(f"unknown collective {kind!r}{near(kind, KINDS)}")
    if not isinstance(size, Quantity):
        raise UnitError(f"size {size} of {kind}: say total({size}) or per_rank({size})")
    if size.dimension != BYTE:
        raise UnitError(f"size of {kind} in {size.dimension}; byte is wanted")
    rules = _FROM_RANK if size.scope is Scope.PER_DEVICE else _FROM_TOTAL
    return rules[kind](size.expr, sympify(ranks, strict=True))


def bytes_received(kind: str, size: Quantity, ranks: Any) -> Quantity:
    """Bytes that one rank takes in: all of the volume but its own share.

    >>> bytes_received("AllGather", total(64), 8).expr
    56
    """
    moved = volume(kind, size, ranks)
    if kind in ("CollectivePermute", "Broadcast"):
        return Quantity(moved, BYTE, Scope.PER_DEVICE)
    return Quantity(moved * received(ranks), BYTE, Scope.PER_DEVICE)


def bus_factor(kind: str, ranks: Any) -> Expr:
    """What nccl-tests multiplies algorithm bandwidth (size over time) with to print bus bandwidth.

    Its size is the array of an AllReduce, the whole array of a gather or scatter, and what one rank
    sends in an AllToAll. The factor is a ring's bytes over a link; where the switch adds up an
    AllReduce (NVLS), the wire carries (n+1)/n instead, and bus bandwidth can pass the link rate.

    Source: nccl-tests, doc/PERFORMANCE.md; its issue 212 for NVLS.

    >>> bus_factor("AllReduce", 8), bus_factor("AllGather", 8)
    (7/4, 7/8)
    """
    if kind not in KINDS:
        raise HardwareError(f"unknown collective {kind!r}{near(kind, KINDS)}")
    if kind in ("CollectivePermute", "Broadcast"):
        return Integer(1)
    return (2 if kind == "AllReduce" else 1) * received(ranks)
