"""What was read from a compiled module: its collectives, its dots, and what was not understood."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from symscale.xla.hlo_error import HloError

__all__ = ["Chain", "Dot", "Emitted", "HloError", "HloReport"]


@dataclass(frozen=True)
class Emitted:
    """One collective of a compiled module, on one device.

    Attributes:
        kind: ``AllGather``, ``ReduceScatter``, ``AllReduce``, ``AllToAll``, ``CollectivePermute``.
        axes: mesh axes it runs over, in the mesh's order; ``"X:0"`` is the major part of X.
            Empty, with a note, if its groups match no axes.
        volume: bytes of one execution: AllGather, the result; ReduceScatter, the operand;
            AllReduce, twice its array; AllToAll and CollectivePermute, the operand.
        dtype: element type as HLO names it.
        times: how often it runs.
        name: its instruction, with ``[i]`` for one operand of a combined collective.
        note: what was recognised or is uncertain.
        dims: local dims of its operand.

    >>> Emitted("AllGather", ("X",), 4096, "bf16", times=12).total
    49152
    """

    kind: str
    axes: tuple[str, ...]
    volume: int
    dtype: str
    times: int = 1
    name: str = ""
    note: str = ""
    dims: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """Bytes over all its executions."""
        return self.volume * self.times

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "kind": self.kind,
            "axes": list(self.axes),
            "volume": self.volume,
            "times": self.times,
            "dtype": self.dtype,
            "dims": list(self.dims),
            "name": self.name,
            "note": self.note,
        }


@dataclass(frozen=True)
class Dot:
    """One dot of a compiled module: FLOPs of one execution on one device."""

    name: str
    flops: int
    times: int = 1
    note: str = ""

    @property
    def total(self) -> int:
        """FLOPs over all its executions."""
        return self.flops * self.times

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {"name": self.name, "flops": self.flops, "times": self.times, "note": self.note}


@dataclass(frozen=True)
class Chain:
    """Permutes that pass a shard on over the same axes: an AllGather or ReduceScatter in steps.

    ``windowed``: dots run on the shards as they come by (a collective matmul).
    """

    names: tuple[str, ...]
    axes: tuple[str, ...]
    steps: int
    shard: int
    windowed: bool

    @property
    def gathered(self) -> int:
        """Bytes on one device when all has come by: the shards received and its own.

        >>> Chain(("p.0", "p.1", "p.2"), ("Y",), 3, 100, True).gathered
        400
        """
        return (self.steps + 1) * self.shard

    def step_note(self, place: int) -> str:
        """The remark at one of its permutes."""
        kind = "windowed einsum" if self.windowed else "permute chain"
        step = f"step {place + 1} of {self.steps}" if len(self.names) > 1 else f"{self.steps} steps"
        return f"{kind}, {step}"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "names": list(self.names),
            "axes": list(self.axes),
            "steps": self.steps,
            "shard": self.shard,
            "gathered": self.gathered,
            "windowed": self.windowed,
        }


@dataclass(frozen=True, repr=False)
class HloReport:
    """All that was read from one module, per device.

    ``unread`` lists what looks like communication, a product or a loop but was not understood:
    if it is not empty, the rest is incomplete. ``notes`` are remarks that change nothing.
    """

    mesh: Mapping[str, int]
    collectives: tuple[Emitted, ...]
    dots: tuple[Dot, ...]
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    chains: tuple[Chain, ...] = ()

    @property
    def dot_flops(self) -> int:
        """FLOPs of all dots, loops multiplied out."""
        return sum(dot.total for dot in self.dots)

    @property
    def multiset(self) -> Counter[tuple[str, tuple[str, ...], int]]:
        """How often each (kind, axes, volume) runs, to compare with a derived list."""
        found: Counter[tuple[str, tuple[str, ...], int]] = Counter()
        for entry in self.collectives:
            found[entry.kind, entry.axes, entry.volume] += entry.times
        return found

    def __repr__(self) -> str:
        mesh = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        lines = [f"HLO on {mesh}: {self.dot_flops} dot FLOPs, {len(self.collectives)} collectives"]
        lines += ["  " + "  ".join(row).rstrip() for row in self._rows()]
        lines += [f"  chain: {' -> '.join(found.names)}" for found in self.chains]
        lines += [f"  unread: {entry}" for entry in self.unread]
        return "\n".join(lines)

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{entry.kind}_{','.join(entry.axes) or '?'}",
                f"{entry.dtype}[{','.join(map(str, entry.dims))}]",
                f"{entry.volume} B" + (f" x {entry.times}" if entry.times != 1 else ""),
                entry.note,
            )
            for entry in self.collectives
        ]

    def _repr_html_(self) -> str:
        rows = [*self._rows(), *(("unread", entry, "", "") for entry in self.unread)]
        cells = (
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in rows
        )
        head = "<tr><th>collective</th><th>operand</th><th>bytes</th><th>note</th></tr>"
        caption = f"<caption>{self.dot_flops} dot FLOPs per device</caption>"
        return f"<table>{caption}{head}{''.join(cells)}</table>"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "mesh": dict(self.mesh),
            "collectives": [entry.to_dict() for entry in self.collectives],
            "dots": [entry.to_dict() for entry in self.dots],
            "dot_flops": self.dot_flops,
            "unread": list(self.unread),
            "notes": list(self.notes),
            "chains": [entry.to_dict() for entry in self.chains],
        }
