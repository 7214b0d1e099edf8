"""What any network must offer, and the textbook's: bytes over bandwidth.

Programs turn volumes into times through this protocol, so that they need not know rings, switches
or latency; the networks that do live in ``symscale.hardware``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from sympy import Add, Expr, Rational

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import W_ici, axis, links

CollectiveKind = Literal["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "CollectivePermute"]


class Network(Protocol):
    """Turns a collective's volume into time."""

    def time(self, kind: CollectiveKind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds that a collective of this volume takes over these mesh axes."""
        ...

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """The name of what the collective occupies; two on one resource queue up."""
        ...


@dataclass(frozen=True)
class IdealTorus:
    """Bytes over bandwidth on a torus; a mesh axis is laid over ``M`` of its physical axes.

    ``W_ici`` counts both directions of one physical axis, as the book does. An AllToAll on a
    bidirectional ring of X devices moves a quarter of what an AllGather of the same array would;
    over several axes the slowest decides.

    Source: How To Scale Your Model, "Sharded Matrices".
    """

    def bandwidth(self, axes: Sequence[str]) -> Expr:
        """Bytes/s into one device over all physical axes under these mesh axes."""
        return W_ici * Add(*(links(name) for name in axes))

    def time(self, kind: CollectiveKind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds: volume over bandwidth (an AllToAll's local bytes times X/4)."""
        if kind == "AllToAll":
            slowest = Maximum(*(axis(name) / links(name) for name in axes))
            return volume * Rational(1, 4) * slowest / W_ici
        return volume / self.bandwidth(axes)

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """Each mesh axis has links of its own."""
        return "".join(axes) if all(len(name) == 1 for name in axes) else ",".join(axes)


IDEAL = IdealTorus()
