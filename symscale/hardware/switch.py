"""Switches and full meshes: any device reaches any other in one hop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sympy import Expr, Integer, ceiling, log, sympify

from symscale.algebra.errors import HardwareError
from symscale.algebra.links import CollectiveKind
from symscale.algebra.symbols import W_nvlink, axis, t_hop
from symscale.hardware.fidelity import (
    Fidelity,
    Kind,
    check_fidelity,
    checked,
    product,
    received,
    rounds,
)
from symscale.hardware.layout import mesh_axes

#: Who adds up an AllReduce: the devices, the switch, or the switch as NVLS counts it.
Reduction = Literal["devices", "switch", "nvls"]

#: The way of a collective through a switch, which sets its hops and not its bytes.
Algorithm = Literal["direct", "ring", "tree"]


@dataclass(frozen=True)
class Switch:
    """Devices behind one switch: any pair at full rate, each device sends and receives at ``rate``.

    ``rate`` is one device's egress, one way: ``W_nvlink`` in a GPU node, ``W_dcn`` across pods.
    ``reduction="switch"`` lets the switch add (SHARP): an AllReduce of an array of A bytes then
    sends (n-1)/n of A to be added and A/n to be spread, A in all, instead of 2(n-1)/n; ``"nvls"``
    counts (n+1)/n instead, because a device's own share makes the round, too. ``algorithm`` sets
    the hops: one if every pair talks at once, n-1 around a ring, log2 n down a tree.

    Source: How To Scale Your Model, "How to Think About GPUs", on collectives within a node; NCCL
    issue 212 of nccl-tests for (n+1)/n.

    Raises:
        HardwareError: for an unknown fidelity, reduction or algorithm.

    >>> from symscale.algebra.symbols import B
    >>> Switch().time("AllGather", B, ["X"])
    B/W_nvlink
    >>> Switch("ring").time("AllGather", B, ["X"])
    B*(X - 1)/(W_nvlink*X)
    >>> Switch(reduction="switch").time("AllReduce", 2 * B, ["X"])
    B/W_nvlink
    """

    fidelity: Fidelity = "ideal"
    rate: Expr = W_nvlink
    reduction: Reduction = "devices"
    algorithm: Algorithm = "direct"
    sizes: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_fidelity(self.fidelity)
        for given, known in (
            (self.reduction, get_args(Reduction)),
            (self.algorithm, get_args(Algorithm)),
        ):
            if given not in known:
                raise HardwareError(f"{given!r} is none of {', '.join(known)}")

    def bandwidth(self, axes: Sequence[str]) -> Expr:
        """Bytes/s into one device, whatever the axes."""
        mesh_axes(axes)
        return self.rate

    def time(self, kind: Kind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds for a collective of this volume over these mesh axes.

        A device keeps its own share and moves the other (n-1)/n; a CollectivePermute moves all, and
        so does a Broadcast, in a chain of small pieces.

        Raises:
            HardwareError: for an unknown collective, no axis, or one axis named twice.
        """
        names = checked(kind, axes)
        seconds = volume * self._share(kind, names) / self.rate
        if self.fidelity == "latency":
            seconds += t_hop * self.hops(kind, names)
        return seconds

    def _share(self, kind: Kind, names: tuple[str, ...]) -> Expr:
        """Bytes through one device's port over the volume."""
        count = self.devices(names)
        if kind == "AllReduce" and self.reduction != "devices":
            nvls = self.reduction == "nvls" and self.fidelity != "ideal"
            return (count + 1) / (2 * count) if nvls else Integer(1) / 2
        if self.fidelity == "ideal" or kind in ("CollectivePermute", "Broadcast"):
            return Integer(1)
        return received(count)

    def hops(self, kind: Kind, axes: Sequence[str]) -> Expr:
        """Passes through the switch, one after another, until the last byte is there.

        >>> Switch(algorithm="tree").hops("AllReduce", ["X"])
        2*ceiling(log(X)/log(2))
        """
        count = self.devices(checked(kind, axes))
        if kind == "CollectivePermute":
            return Integer(1)
        if kind == "AllReduce" and self.reduction != "devices":
            return Integer(2)
        steps = {"direct": Integer(1), "ring": count - 1, "tree": ceiling(log(count, 2))}
        return rounds(kind) * steps[self.algorithm]

    def point_to_point(self, volume: Expr) -> Expr:
        """Seconds from one device to another.

        >>> Switch().point_to_point(Integer(9))
        9/W_nvlink
        """
        seconds = volume / self.rate
        return seconds + t_hop if self.fidelity == "latency" else seconds

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """All axes share the device's one port.

        >>> Switch().resource(["X", "Y"])
        'nvlink'
        """
        return port(self.rate)

    def devices(self, axes: Sequence[str]) -> Expr:
        """Devices under these mesh axes."""
        return product([_size(self.sizes, name) for name in axes])


@dataclass(frozen=True)
class FullMesh:
    """Devices each joined to every other by a link of its own, ``link`` bytes/s one way.

    A collective over n of them uses n-1 links of a device, so a pair alone has one link only: on 8
    devices a seventh of what all together have. A gather of V bytes takes as long as one shard, V/n
    over one link, at any fidelity: (n-1)/n of V over n-1 links is the same.

    Source: ml-engineering, network tables, on MI300X and Gaudi: 7 links of a device to 7 peers.

    Raises:
        HardwareError: for an unknown fidelity.

    >>> from symscale.algebra.symbols import B
    >>> FullMesh(link=W_nvlink / 7).time("AllGather", B, ["X"])
    7*B/(W_nvlink*X)
    """

    fidelity: Fidelity = "ideal"
    link: Expr = W_nvlink
    sizes: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        check_fidelity(self.fidelity)

    def bandwidth(self, axes: Sequence[str]) -> Expr:
        """Bytes/s into one device from all others of the group."""
        return self.link * (self.devices(mesh_axes(axes)) - 1)

    def time(self, kind: Kind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds for a collective of this volume over these mesh axes.

        A shard goes straight to each of the others; a CollectivePermute has one link. A Broadcast
        spreads the pieces over the links first and has them passed on: twice a shard.

        Raises:
            HardwareError: for an unknown collective, no axis, or one axis named twice.
        """
        names = checked(kind, axes)
        seconds = self._bytes(kind, volume, names)
        if self.fidelity == "latency":
            seconds += t_hop * self.hops(kind, names)
        return seconds

    def _bytes(self, kind: Kind, volume: Expr, names: tuple[str, ...]) -> Expr:
        count = self.devices(names)
        if kind == "CollectivePermute":
            return volume / self.link
        return volume * (2 if kind == "Broadcast" else 1) / (count * self.link)

    def hops(self, kind: Kind, axes: Sequence[str]) -> Expr:
        """Links one after another until the last byte is there."""
        checked(kind, axes)
        return Integer(2 if kind in ("AllReduce", "Broadcast") else 1)

    def point_to_point(self, volume: Expr) -> Expr:
        """Seconds from one device to another over their one link."""
        seconds = volume / self.link
        return seconds + t_hop if self.fidelity == "latency" else seconds

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """All axes share the device's links."""
        return port(self.link)

    def devices(self, axes: Sequence[str]) -> Expr:
        """Devices under these mesh axes."""
        return product([_size(self.sizes, name) for name in axes])


def port(rate: Expr) -> str:
    """The name of what a rate is the rate of.

    >>> port(W_nvlink / 7)
    'nvlink'
    """
    names = sorted(str(symbol) for symbol in rate.free_symbols)
    return names[0].removeprefix("W_") if names else "links"


def _size(sizes: Mapping[str, Any], name: str) -> Expr:
    return sympify(sizes[name], strict=True) if name in sizes else axis(name)
