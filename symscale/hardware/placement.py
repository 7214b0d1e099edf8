"""Where mesh axes lie on a chip's network, and which level each of them waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sympy import Expr, Integer, Symbol

from symscale.algebra.errors import HardwareError
from symscale.algebra.symbols import axis
from symscale.algebra.table import Table
from symscale.hardware.edges import Edge
from symscale.hardware.fabric import Fabric
from symscale.hardware.fidelity import Fidelity
from symscale.hardware.hierarchy import Hierarchy, Inner
from symscale.hardware.layout import Layout
from symscale.hardware.levels import Lay, Level, idle
from symscale.hardware.rates import rate_text
from symscale.hardware.switch import FullMesh, Switch
from symscale.hardware.torus import Torus


@dataclass(frozen=True)
class AxisPlace:
    """Where one mesh axis lies.

    ``stride`` is the distance of neighbours along it in ranks; ``crosses`` the levels that a group
    of it reaches over, ``binding`` the slowest of them, ``rate`` the bytes/s at which one chip
    takes in a gathered array.
    """

    name: str
    size: int
    stride: int
    where: str
    crosses: tuple[str, ...]
    binding: str
    rate: Expr

    def to_dict(self) -> dict[str, Any]:
        """The axis for JSON."""
        return {
            "axis": self.name,
            "size": self.size,
            "stride": self.stride,
            "where": self.where,
            "crosses": list(self.crosses),
            "binding": self.binding,
            "bytes_per_s": float(self.rate),
        }


@dataclass(frozen=True)
class Placement:
    """Mesh axes on a chip's network; the last axis of ``order`` is innermost.

    ``network(fidelity)`` is the network under them, with sizes still symbols; ``axes`` says where
    each lies and what it waits for.

    >>> from symscale.hardware.chips import chip
    >>> print(chip("h100").placement(("X", "Y"), {"X": 128, "Y": 8}))
    128 x 8 chips of h100: 1024
    axis  size  stride  where                                   waits for  rate
    X      128       8  1 in a node, 32 in a leaf, 128 in all   leaf       50 GB/s
    Y        8       1  8 in a node                             node       450 GB/s
    """

    chip: str
    order: tuple[str, ...]
    sizes: Mapping[str, int]
    lays: Mapping[str, Lay]
    layout: Layout
    edges: Mapping[str, tuple[Edge, ...]]
    wrap: Mapping[str, bool]
    fabric: Fabric
    levels: tuple[Level, ...]
    room: int
    numbers: Mapping[Symbol, Expr] = field(repr=False)

    @property
    def places(self) -> tuple[str, ...]:
        """The levels by name, from the inside: node or pod, then what is above."""
        return (self.fabric.place, *(level.name for level in self.levels))

    def network(self, fidelity: Fidelity = "ideal", reduces: frozenset[str] = frozenset()) -> Any:
        """The network under the mesh axes; ``reduces`` names levels whose switches add.

        Raises:
            HardwareError: for a level that the chip's network does not have.
        """
        known_levels = {*self.places, *(level.name for level in self.fabric.levels)}
        for name in sorted(reduces - known_levels):
            raise HardwareError(
                f"no level {name!r} on {self.chip}; levels are {', '.join(sorted(known_levels))}"
            )
        inner = self._inner(fidelity, self.fabric.place in reduces)
        if not self.levels:
            return inner
        known = {**self.numbers, **{axis(name): Integer(n) for name, n in self.sizes.items()}}
        lays = {name: _symbolic(name, lay) for name, lay in self.lays.items()}
        return Hierarchy(inner, self.levels, lays, reduces, known, self.fabric.place)

    def _inner(self, fidelity: Fidelity, adds: bool) -> Inner:
        if self.fabric.torus is not None:
            # Below other levels an axis has links for its part inside only: as numbers.
            links = dict(self.layout) if self.levels else {}
            return Torus(fidelity, self.wrap, links, self.edges)
        if self.fabric.kind == "mesh":
            return FullMesh(fidelity, self.fabric.egress / (self.room - 1))
        return Switch(fidelity, self.fabric.egress, "switch" if adds else "devices")

    @cached_property
    def axes(self) -> tuple[AxisPlace, ...]:
        """Each mesh axis, the outermost first."""
        return tuple(self._axis(name) for name in self.order)

    def _axis(self, name: str) -> AxisPlace:
        lay, stride = self.lays[name], 1
        for inner in reversed(self.order):
            if inner == name:
                break
            stride *= self.sizes[inner]
        crosses = self._crossed(lay)
        net = self.network("ideal")
        binding = net.binding([name]) if isinstance(net, Hierarchy) else self.fabric.place
        rate = self._rate(name, net, binding).subs(self._bound)
        where = self._where(name, lay)
        return AxisPlace(name, self.sizes[name], stride, where, crosses, binding, rate)

    def _rate(self, name: str, net: Any, binding: str) -> Expr:
        """Bytes/s into one chip from the others of its group."""
        if binding != self.fabric.place:
            return 1 / net.time("AllGather", Integer(1), [name])
        part = {name: self.lays[name].inside[0]}
        found: Expr = replace(self._inner("ideal", False), sizes=part).bandwidth([name])
        return found

    @property
    def _bound(self) -> dict[Symbol, Expr]:
        sizes = {axis(name): Integer(size) for name, size in self.sizes.items()}
        return {**self.numbers, **self.layout.bindings, **sizes}

    def _crossed(self, lay: Lay) -> tuple[str, ...]:
        inside = (self.fabric.place,) if lay.inside[0] != 1 or lay.size == 1 else ()
        beyond = [level.name for level, out in zip(self.levels, lay.crosses, strict=False) if out]
        return (*inside, *beyond)

    def _where(self, name: str, lay: Lay) -> str:
        parts = []
        if self.fabric.torus is not None and lay.inside[0] != 1:
            edges = self.edges[name]
            shape = "x".join(str(edge.size) for edge in edges)
            closed = sum(edge.wraps for edge in edges)
            joined = {0: "no wraparound", len(edges): "wraps"}.get(closed, f"{closed} wrap")
            parts.append(f"{shape} of the torus, {joined}")
        if not self.levels:
            return ", ".join(parts) or f"{lay.inside[0]} in a {self.places[0]}"
        counts = [*lay.inside[: len(self.levels)]]
        if not parts:
            parts = [f"{counts[0]} in a {self.places[0]}"]
        for place, level in enumerate(self.levels):
            if lay.inside[place] != lay.size:
                count = lay.inside[place + 1]
                known = place + 1 < len(self.levels)
                parts.append(f"{count} in a {level.name}" if known else f"{count} in all")
        return ", ".join(parts)

    @property
    def notes(self) -> tuple[str, ...]:
        """Chips that stay idle because the axes do not fill a node."""
        spare = idle(self.lays.values(), self.room)
        beyond = any(any(lay.crosses) for lay in self.lays.values())
        if not spare or not beyond or self.fabric.torus is not None:
            return ()
        return (f"{spare} of the {self.room} chips of a {self.places[0]} stay idle",)

    def table(self) -> Table:
        """The axes, one a row."""
        head = ("axis", "size", "stride", "where", "waits for", "rate")
        rows = [
            (a.name, a.size, a.stride, a.where, a.binding, rate_text(a.rate)) for a in self.axes
        ]
        return Table(head, tuple(rows))

    def __str__(self) -> str:
        count = 1
        for size in self.sizes.values():
            count *= size
        shape = " x ".join(str(self.sizes[name]) for name in self.order)
        head = f"{shape} chips of {self.chip}: {count}"
        return "\n".join([head, str(self.table()), *(f"note: {one}" for one in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The placement for JSON."""
        return {
            "chip": self.chip,
            "order": list(self.order),
            "axes": [one.to_dict() for one in self.axes],
            "levels": [level.to_dict() for level in self.levels],
            "notes": list(self.notes),
        }


def _symbolic(name: str, lay: Lay) -> Lay:
    """The same with the axis's symbol for its size."""
    size = axis(name)
    return Lay(size, tuple(size if count == lay.size else count for count in lay.inside))
