"""How closely a network counts, and what it can be asked to move.

``ideal``: bytes over bandwidth, the textbook's. ``ring``: the bytes that really cross the busiest
link; a device has its own share already, which leaves (n-1)/n, and a chip at the end of an axis
without wraparound has one link instead of two. ``latency``: that, and ``t_hop`` for every hop that
the last byte takes. So, for any volume V and n devices:

- ``ring`` <= ``latency`` always, with equality as V grows: their ratio tends to 1;
- ``ring`` tends to ``ideal`` as n grows wherever both ways round are open (it is smaller by
  (n-1)/n, an AllToAll on an odd ring by 1 - 1/n**2); on a line it tends to twice ``ideal``, and for
  n >= 2 is never below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

from sympy import Expr, Mul, sympify

from symscale.algebra.errors import HardwareError, near
from symscale.algebra.links import CollectiveKind
from symscale.hardware.layout import mesh_axes

Fidelity = Literal["ideal", "ring", "latency"]

#: What programs move, and what a network can move besides: from one device to all, or back.
Kind: TypeAlias = CollectiveKind | Literal["Broadcast", "Gather"]

KINDS: tuple[str, ...] = (*get_args(CollectiveKind), "Broadcast", "Gather")

#: Collectives after which, or before which, every device holds all: twice for an AllReduce.
_ROUNDS = {"AllReduce": 2}


def check_fidelity(fidelity: str) -> None:
    """Refuse an unknown fidelity.

    Raises:
        HardwareError: with those that are known.

    >>> check_fidelity("exact")
    Traceback (most recent call last):
    symscale.algebra.errors.HardwareError: unknown fidelity 'exact': ideal or ring or latency is \
wanted
    """
    known = get_args(Fidelity)
    if fidelity not in known:
        raise HardwareError(f"unknown fidelity {fidelity!r}: {' or '.join(known)} is wanted")


def checked(kind: str, axes: Sequence[str]) -> tuple[str, ...]:
    """The axes as distinct names, for a collective that is known.

    Raises:
        HardwareError: for an unknown collective, no axis, or one axis named twice.

    >>> checked("AllGather", ["X"])
    ('X',)
    """
    if kind not in KINDS:
        hint = near(kind, KINDS) or f"; known are {', '.join(KINDS)}"
        raise HardwareError(f"unknown collective {kind!r}{hint}")
    return mesh_axes(axes)


def rounds(kind: str) -> int:
    """How often a collective crosses the network: an AllReduce scatters sums, then gathers them.

    >>> rounds("AllReduce"), rounds("AllGather")
    (2, 1)
    """
    return _ROUNDS.get(kind, 1)


def received(devices: Expr | int) -> Expr:
    """The share of a gathered array that a device does not hold already.

    >>> received(8)
    7/8
    """
    count = sympify(devices, strict=True)
    return (count - 1) / count


def product(sizes: Sequence[Expr]) -> Expr:
    """The devices under several axes."""
    return Mul(*sizes)
