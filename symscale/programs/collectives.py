"""Movements of one array between devices, each with its volume.

A volume follows one convention everywhere: AllGather, the bytes on one device after it;
ReduceScatter, the bytes on one device before it; AllReduce, twice its array; AllToAll and
CollectivePermute, the bytes on one device before it. A network turns volume into time.
"""

from __future__ import annotations

from dataclasses import dataclass

from sympy import Expr, Integer

from symscale.algebra.links import CollectiveKind, Network
from symscale.arrays.array import Array
from symscale.arrays.notation import axes_text


@dataclass(frozen=True)
class Move:
    """One step of resharding: the array before and after it, and the mesh axes it runs over."""

    before: Array
    after: Array
    axes: tuple[str, ...]

    @property
    def volume(self) -> Expr:
        """Bytes, by the convention above; nothing for a slice."""
        return Integer(0)

    @property
    def name(self) -> str:
        """How an algorithm in a paper writes it."""
        return f"{type(self).__name__}_{axes_text(self.axes)}"


@dataclass(frozen=True)
class Slice(Move):
    """Each device keeps its part of what it already holds: free."""


@dataclass(frozen=True)
class Collective(Move):
    """A movement over the links. ``critical``: the next op has to wait for it.

    ``statistic`` marks the small sums inside a function along a sharded dim.
    """

    critical: bool = True
    statistic: bool = False

    @property
    def kind(self) -> CollectiveKind:
        """The collective's standard name."""
        return type(self).__name__  # type: ignore[return-value]

    def seconds(self, network: Network) -> Expr:
        """How long it takes on a network."""
        return network.time(self.kind, self.volume, self.axes)


@dataclass(frozen=True)
class AllGather(Collective):
    """Every device gets the parts of all devices along the axes; they leave ``dim``."""

    dim: str = ""

    @property
    def volume(self) -> Expr:
        """Bytes on one device after it."""
        return self.after.bytes


@dataclass(frozen=True)
class ReduceScatter(Collective):
    """Partial sums are added; each device keeps a part of the sum along ``dim``."""

    dim: str = ""

    @property
    def volume(self) -> Expr:
        """Bytes on one device before it."""
        return self.before.bytes


@dataclass(frozen=True)
class AllReduce(Collective):
    """Partial sums are added and everyone gets the sum (``reduction`` may be a maximum)."""

    reduction: str = "sum"

    @property
    def volume(self) -> Expr:
        """Twice the bytes on one device: a ReduceScatter and an AllGather of them."""
        return 2 * self.before.bytes


@dataclass(frozen=True)
class AllToAll(Collective):
    """The axes move from one dim to another."""

    source: str = ""
    target: str = ""

    @property
    def volume(self) -> Expr:
        """Bytes on one device before it."""
        return self.before.bytes


@dataclass(frozen=True)
class CollectivePermute(Collective):
    """Blocks change devices: the axes on a dim take another order."""

    @property
    def volume(self) -> Expr:
        """Bytes on one device before it."""
        return self.before.bytes
