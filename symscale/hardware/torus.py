"""Rings, lines and tori: links to neighbours only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sympy import Add, Expr, Integer, Rational, floor, sympify

from symscale.algebra.errors import HardwareError
from symscale.algebra.links import IDEAL, CollectiveKind
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import W_ici, axis, links, t_hop
from symscale.hardware.edges import Edge
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

_HALF = Rational(1, 2)


@dataclass(frozen=True)
class Torus:
    """A torus of ICI links; each mesh axis is laid over one or more of its physical axes.

    ``wrap`` says which mesh axes wrap around (those not named do); ``links`` over how many physical
    axes each lies (those not named: the symbol ``M_X``); ``edges`` the physical axes themselves,
    where they are known: their chips, and whether each wraps. ``sizes`` gives the devices of an
    axis that lies on this torus only in part. ``W_ici`` counts both directions of one physical
    axis; ``both_ways=False`` sends in one of them only.

    On several axes at once every link is used, and the chip with the fewest links (at the ends of
    all axes that do not wrap) sets the pace; that is reached on equal rings and a lower bound
    elsewhere.

    Source: How To Scale Your Model, "Sharded Matrices"; the factors of ``ring`` are counts of bytes
    over the busiest link, checked by simulation.

    Raises:
        HardwareError: for an unknown fidelity, a number of links that is not above zero, or a line
            that should send one way only.

    >>> from symscale.algebra.symbols import B
    >>> Torus().time("AllGather", B, ["X"])
    B/(M_X*W_ici)
    >>> Torus("ring", wrap={"X": False}, links={"X": 1}).time("AllGather", B, ["X"])
    2*B*(X - 1)/(W_ici*X)
    """

    fidelity: Fidelity = "ideal"
    wrap: Mapping[str, bool] = field(default_factory=dict, hash=False)
    links: Mapping[str, Any] = field(default_factory=dict, hash=False)
    edges: Mapping[str, tuple[Edge, ...]] = field(default_factory=dict, hash=False)
    sizes: Mapping[str, Any] = field(default_factory=dict, hash=False)
    both_ways: bool = True

    def __post_init__(self) -> None:
        check_fidelity(self.fidelity)
        for name, count in self.links.items():
            if not sympify(count, strict=True).is_positive:
                raise HardwareError(f"mesh axis {name} over {count} physical axes: at least 1")
        for name, wraps in self.wrap.items():
            if not (wraps or self.both_ways):
                raise HardwareError(f"mesh axis {name} is a line: it cannot send one way only")

    def bandwidth(self, axes: Sequence[str]) -> Expr:
        """Bytes/s into the chip with the fewest links, over all physical axes of these mesh axes.

        >>> Torus(links={"X": 2, "Y": 1}).bandwidth(["X", "Y"])
        3*W_ici
        """
        return self._both * Add(*(self._links(name) for name in mesh_axes(axes)))

    def time(self, kind: Kind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds for a collective of this volume over these mesh axes.

        An AllToAll on a ring of n chips takes floor(n**2/4)/n times its local bytes over ``W_ici``
        (a chunk crosses n/4 links on average); on a line twice that, in ``ring``, because half of
        all chunks cross the middle. Over several physical axes the longest decides; an axis whose
        ``edges`` are not known counts as n/(4 M), an upper bound for M > 1. A CollectivePermute is,
        in ``ring``, a shift by one: one link, one way; where an axis does not wrap, the last chip's
        bytes go back over links that the shift leaves idle.

        Raises:
            HardwareError: for an unknown collective, no axis, or one axis named twice.
        """
        names = checked(kind, axes)
        seconds = self._bytes(kind, volume, names)
        if self.fidelity == "latency":
            seconds += t_hop * self.hops(kind, names)
        return seconds

    def _bytes(self, kind: Kind, volume: Expr, names: tuple[str, ...]) -> Expr:
        if kind == "AllToAll":
            return volume * Maximum(*(self._spread(name) for name in names)) / W_ici
        if self.fidelity == "ideal":
            return volume / self.bandwidth(names)
        if kind == "CollectivePermute":
            return 2 * volume / W_ici
        if kind == "Broadcast":
            return volume / self.bandwidth(names)
        return volume * received(self.devices(names)) / self.bandwidth(names)

    def hops(self, kind: Kind, axes: Sequence[str]) -> Expr:
        """Links that the last byte crosses: to the farthest chip, and for an AllReduce back.

        >>> Torus(links={"X": 1}).hops("AllGather", ["X"])
        floor(X/2)
        """
        names = checked(kind, axes)
        if kind == "CollectivePermute":
            lines = [e.size - 1 for name in names for e in self._edges(name) if not e.wraps]
            return Maximum(Integer(1), *lines)
        return rounds(kind) * Add(*(self._farthest(e) for name in names for e in self._edges(name)))

    def point_to_point(self, volume: Expr, distances: Mapping[str, int]) -> Expr:
        """Seconds from one chip to another so many chips away along each mesh axis.

        The array is cut over as many ways as there are axes to go along, each one link wide, one
        way. At ``latency`` the hops of all axes are added, each ``t_hop``.

        Raises:
            HardwareError: for no distance.

        >>> Torus("latency").point_to_point(Integer(4), {"X": 3, "Y": 3})
        6*t_hop + 4/W_ici
        """
        names = mesh_axes([name for name, far in distances.items() if far])
        seconds = volume / (len(names) * W_ici * _HALF)
        if self.fidelity != "latency":
            return seconds
        return seconds + t_hop * Add(*(self._distance(name, distances[name]) for name in names))

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """Each mesh axis has links of its own.

        >>> Torus().resource(["X", "Y"])
        'XY'
        """
        return IDEAL.resource(axes)

    def devices(self, axes: Sequence[str]) -> Expr:
        """Chips under these mesh axes."""
        return product([self._size(name) for name in axes])

    @property
    def _both(self) -> Expr:
        return W_ici if self.both_ways else W_ici * _HALF

    def _size(self, name: str) -> Expr:
        return sympify(self.sizes[name], strict=True) if name in self.sizes else axis(name)

    def _count(self, name: str) -> Expr:
        return sympify(self.links[name], strict=True) if name in self.links else links(name)

    def _links(self, name: str) -> Expr:
        """Physical axes, one that does not wrap counted half."""
        if self.fidelity == "ideal":
            return self._count(name)
        if name in self.edges:
            every = self.edges[name]
            share = Add(*(Integer(1) if e.wraps else _HALF for e in every)) / len(every)
        else:
            share = Integer(1) if self.wrap.get(name, True) else _HALF
        return self._count(name) * share

    def _edges(self, name: str) -> tuple[Edge, ...]:
        """The physical axes under a mesh axis; equal ones where they are not known."""
        if name in self.edges:
            return self.edges[name]
        wraps, count = self.wrap.get(name, True), self._count(name)
        if count.is_Integer:
            size = self._size(name) ** Rational(1, int(count))
            return (Edge(size, wraps),) * int(count)
        return (Edge(self._size(name), wraps),)

    def _farthest(self, edge: Edge) -> Expr:
        return floor(edge.size * _HALF) if edge.wraps and self.both_ways else edge.size - 1

    def _distance(self, name: str, far: int) -> Expr:
        """Hops between two chips so far apart along an axis, the short way round if it wraps."""
        edges = self._edges(name)
        size = edges[0].size
        if edges[0].wraps and size.is_Integer:
            return Integer(min(far % int(size), -far % int(size)))
        return Integer(far)

    def _spread(self, name: str) -> Expr:
        """An AllToAll's time along an axis, for one local byte, in units of 1/W_ici."""
        known = name in self.edges or self._count(name) == 1
        if not known:
            wide = self.fidelity != "ideal" and not self.wrap.get(name, True)
            return self._size(name) / (4 * self._count(name)) * (2 if wide else 1)
        return Maximum(*(self._edge_spread(edge) for edge in self._edges(name)))

    def _edge_spread(self, edge: Edge) -> Expr:
        if not self.both_ways:
            return edge.size if self.fidelity == "ideal" else edge.size - 1
        if self.fidelity == "ideal":
            return edge.size / 4
        return floor(edge.size**2 / 4) / edge.size * (1 if edge.wraps else 2)


def ring(fidelity: Fidelity = "ring", name: str = "X", both_ways: bool = True) -> Torus:
    """One ring of chips under a mesh axis.

    >>> from symscale.algebra.symbols import B
    >>> ring().time("AllGather", B, ["X"])
    B*(X - 1)/(W_ici*X)
    """
    return Torus(fidelity, links={name: 1}, both_ways=both_ways)


def line(fidelity: Fidelity = "ring", name: str = "X") -> Torus:
    """One row of chips under a mesh axis, its ends not joined.

    >>> from symscale.algebra.symbols import B
    >>> line().time("Broadcast", B, ["X"])
    2*B/W_ici
    """
    return Torus(fidelity, wrap={name: False}, links={name: 1})
