"""Networks in levels: nodes under leaves and spines, pods over the data-centre network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from sympy import Expr, Integer, Symbol, sympify

from symscale.algebra.links import CollectiveKind
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import t_hop, t_net
from symscale.hardware.fidelity import Kind, checked, product, rounds
from symscale.hardware.levels import Lay, Level
from symscale.hardware.switch import FullMesh, Switch, port
from symscale.hardware.torus import Torus

Inner: TypeAlias = Torus | Switch | FullMesh


@dataclass(frozen=True)
class Hierarchy:
    """A network of levels; ``inner`` joins the chips of one node or pod, ``levels`` what is above.

    A collective runs level by level, every chip taking its share of the bytes that leave its node,
    in pieces, so that all levels work at once and the slowest sets the pace. For a group of n with
    m of it in a child, the chips of the child take in all but m/n of the volume through their m
    shares of its uplink: V (1 - m/n)/(m W). Inside a node the volume is spread once more, V (m-1)/m
    over the node's own links. An AllToAll sends each pair its own bytes, so that a chip takes in
    (1 - m/n) of its local ones. ``ideal`` leaves out what a group has already: V/(m W).

    ``lays`` says of each mesh axis how many of a group lie together; with two levels this is the
    book's V max_i (D_i - 1)/(D_i max(Y, S_{i-1}) W_i), see :func:`worst_level` for more.
    ``reduces`` names levels whose switches add (SHARP): an AllReduce crosses those once.
    ``numbers`` are rates by symbol, to tell which level binds.

    Source: How To Scale Your Model, "How to Think About GPUs", on collectives across nodes.

    >>> from symscale.algebra.symbols import B, W_dcn, X
    >>> net = Hierarchy(Switch(), (Level("leaf", 32, W_dcn),), {"X": Lay(X, (8, X))})
    >>> net.time("AllGather", B, ["X"])
    Maximum(B/(8*W_dcn), B/W_nvlink)
    """

    inner: Inner
    levels: tuple[Level, ...]
    lays: Mapping[str, Lay] = field(hash=False)
    reduces: frozenset[str] = frozenset()
    numbers: Mapping[Symbol, Expr] = field(default_factory=dict, hash=False, repr=False)
    place: str = "node"

    def time(self, kind: Kind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds for a collective of this volume over these mesh axes.

        Raises:
            HardwareError: for an unknown collective, no axis, or one axis named twice.
        """
        seconds = Maximum(*self.by_level(kind, volume, axes).values())
        if self.inner.fidelity == "latency":
            crossed = sum(self._crosses(axes)) * rounds(kind)
            inside = self._inner(axes)
            near = self.inner.hops(kind, inside) if inside else Integer(0)
            seconds += crossed * t_net + near * t_hop
        return seconds

    def by_level(self, kind: Kind, volume: Expr, axes: Sequence[str]) -> Mapping[str, Expr]:
        """Seconds that each level is busy, by its name; only levels that the group crosses.

        >>> from symscale.algebra.symbols import B, W_dcn, X
        >>> net = Hierarchy(Switch("ring"), (Level("leaf", 32, W_dcn),), {"X": Lay(16, (8, 16))})
        >>> dict(net.by_level("AllGather", B, ["X"]))
        {'node': 7*B/(8*W_nvlink), 'leaf': B/(16*W_dcn)}
        """
        names = checked(kind, axes)
        out: dict[str, Expr] = {}
        inside = self._inner(names)
        if inside:
            out[self.place] = self._within(kind, volume, names, inside)
        for place, level in enumerate(self.levels):
            together = self.together(names, place)
            if together != self.devices(names):
                out[level.name] = self._across(kind, volume, names, together, level)
        return MappingProxyType(out)

    def _within(self, kind: Kind, volume: Expr, names: Sequence[str], inside: list[str]) -> Expr:
        """Time on the links of one node."""
        counts = {name: self._lay(name).inside[0] for name in inside}
        part = {name: count for name, count in counts.items() if count != self._lay(name).size}
        fidelity = "ring" if self.inner.fidelity == "latency" else self.inner.fidelity
        net = replace(self.inner, sizes=part, fidelity=fidelity)
        if kind == "AllToAll":
            volume = volume * self.together(names, 0) / self.devices(names)
        return net.time(kind, volume, inside)

    def _across(
        self, kind: Kind, volume: Expr, names: Sequence[str], together: Expr, level: Level
    ) -> Expr:
        """Time on the uplinks of the children of a level."""
        if kind == "AllReduce" and level.name in self.reduces:
            return volume / 2 / (together * level.rate)
        share = Integer(1)
        if self.inner.fidelity != "ideal" and kind not in ("CollectivePermute", "Broadcast"):
            share = 1 - together / self.devices(names)
        if kind in ("AllToAll", "CollectivePermute"):
            return volume * share / level.rate
        return volume * share / (together * level.rate)

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """The links of the level that binds a collective over these axes; unknown: the outermost.

        An AllToAll may wait for another level than a gather: less of it stays within a node.
        """
        level = self.binding(axes, kind)
        if level == self.place:
            return self.inner.resource(self._inner(axes), kind)
        return port(next(one.rate for one in self.levels if one.name == level))

    def binding(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """The level that a collective over these axes waits for; unknown rates: the outermost."""
        times = self.by_level(kind, Integer(1), axes)
        known = {name: self._number(value) for name, value in times.items()}
        if all(value.is_number for value in known.values()):
            return max(known, key=lambda name: known[name])
        return list(times)[-1]

    def together(self, axes: Sequence[str], level: int) -> Expr:
        """Members of one group that lie in one child of this level (0: in one node)."""
        return product([self._lay(name).inside[level] for name in axes])

    def devices(self, axes: Sequence[str]) -> Expr:
        """Members of one group."""
        return product([self._lay(name).size for name in axes])

    def _number(self, value: Expr) -> Expr:
        return value.subs(self.numbers)

    def _lay(self, name: str) -> Lay:
        return self.lays[name]

    def _inner(self, axes: Sequence[str]) -> list[str]:
        return [name for name in axes if self._lay(name).inside[0] != 1]

    def _crosses(self, axes: Sequence[str]) -> list[bool]:
        count = self.devices(axes)
        return [self.together(axes, place) != count for place in range(len(self.levels))]


def worst_level(
    volume: Expr, levels: Sequence[tuple[Any, Any]], inner: Any = 1, exact: bool = True
) -> Expr:
    """Seconds of a gather over a tree, by the slowest of its levels each taken alone.

    ``levels`` are pairs of children and bytes/s of one chip, from the node outwards; ``inner`` is
    the size of an axis inside the group over which the array is sharded, too, and ``volume`` its
    bytes over all of those: V max_i (D_i - 1)/(D_i max(Y, S_{i-1}) W_i) with S the chips below.

    The cables of a middle level also carry what comes from further out, which this leaves out:
    :class:`Hierarchy` counts (1 - m/n) where this has (D_i - 1)/D_i, at most 1/(D_i - 1) more.

    Source: How To Scale Your Model, "How to Think About GPUs".

    >>> from symscale.algebra.symbols import B
    >>> worst_level(B, [(8, 450), (32, 50)])
    Maximum(7*B/3600, 31*B/12800)
    """
    terms, below = [], Integer(1)
    width = sympify(inner, strict=True)
    for children, rate in levels:
        count = sympify(children, strict=True)
        share = (count - 1) / count if exact else Integer(1)
        shared = Maximum(width, below)
        terms.append(volume * share / (shared * rate))
        below *= count
    return Maximum(*terms)
