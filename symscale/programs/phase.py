"""A partitioned pass: what each device does and what moves between devices, with its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, S

from symscale.algebra.cost import Cost, CostKind, Descriptor
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.symbols import W_hbm
from symscale.algebra.time import HBM, MATH, AxisKey, Time, TimeTerm, axis_key
from symscale.arrays.array import Array
from symscale.programs.collectives import Collective, Move, Slice
from symscale.programs.ops import Einsum, Op, expression


@dataclass(frozen=True)
class Compute:
    """An op on one device: local operands in, local result out (perhaps a partial sum).

    ``stat_axes`` are the mesh axes over which the small sums inside a function are collected;
    ``part`` is how much of the product a mask leaves.
    """

    op: Op
    inputs: tuple[Array, ...]
    output: Array
    stat_axes: tuple[str, ...] = ()
    part: Expr = S.One

    @property
    def local(self) -> dict[str, Expr]:
        """The size of each dim on a device."""
        sizes: dict[str, Expr] = {}
        for array in (*self.inputs, self.output):
            for dim in array.dims:
                sizes.setdefault(dim.name, dim.local)
        return sizes

    @property
    def flops(self) -> Expr:
        """Matrix FLOPs on one device."""
        return self.part * self.op.flops(self.local)

    @property
    def vector_flops(self) -> Expr:
        """Operations of the vector unit on one device."""
        return self.op.vector_flops(self.local)


@dataclass(frozen=True)
class AddGradients(Op):
    """Gradients that reach one array from several uses, added before they are reduced."""

    @property
    def name(self) -> str:
        """What a cost record calls it."""
        return "add"

    def vector_flops(self, local: dict[str, Expr]) -> Expr:
        """One addition an element for each gradient after the first."""
        size = S.One
        for label in self.output.labels:
            size *= local[label]
        return (len(self.inputs) - 1) * size


Step = Compute | Move


@dataclass(frozen=True)
class Phase:
    """One pass of a sharded program, as a list of local computations and movements.

    Attributes of interest: ``flops`` (matrix FLOPs a device), ``hbm_bytes``, ``volume()`` (bytes by
    mesh axis), ``time``, ``cost``, ``collectives``. ``print`` shows the algorithm.
    """

    name: str
    steps: tuple[Step, ...]
    fused: frozenset[str] = frozenset()

    @property
    def computes(self) -> tuple[Compute, ...]:
        """The local computations, in order."""
        return tuple(step for step in self.steps if isinstance(step, Compute))

    @property
    def collectives(self) -> tuple[Collective, ...]:
        """The movements over links, in order."""
        return tuple(step for step in self.steps if isinstance(step, Collective))

    @cached_property
    def cost(self) -> Cost:
        """Everything this pass costs a device, by what it was spent on."""
        terms: list[tuple[Descriptor, Expr]] = []
        for step in self.steps:
            if isinstance(step, Compute):
                terms.extend(self._compute_cost(step))
            elif isinstance(step, Collective):
                key = Descriptor(
                    step.kind, "comm bytes", self.name, step.axes,
                    step.before.dtype.name, step.before.name, step.critical,
                )  # fmt: skip
                terms.append((key, step.volume))
        return Cost(terms)

    def _compute_cost(self, step: Compute) -> list[tuple[Descriptor, Expr]]:
        math = step.op.math_dtype if isinstance(step.op, Einsum) else step.output.dtype
        key = Descriptor(step.op.name, "flops", self.name, (), math.name, step.output.name)
        amounts: dict[CostKind, Expr] = {
            "flops": step.flops,
            "vector flops": step.vector_flops,
            "hbm bytes": self._bytes(step),
        }
        return [
            (replace(key, kind=kind), amount) for kind, amount in amounts.items() if amount != 0
        ]

    def _bytes(self, step: Compute) -> Expr:
        if not step.op.moves_bytes:
            return S.Zero
        touched = dict.fromkeys((*step.inputs, step.output))
        return Add(*(array.bytes for array in touched if array.name not in self.fused))

    @property
    def flops(self) -> Expr:
        """Matrix FLOPs on one device."""
        return self.cost.sum("flops").expr

    @property
    def vector_flops(self) -> Expr:
        """Operations of the vector unit on one device."""
        return self.cost.sum("vector flops").expr

    @property
    def hbm_bytes(self) -> Expr:
        """Bytes that one device's ops read and write."""
        return self.cost.sum("hbm bytes").expr

    def volume(self, statistics: bool = True) -> Mapping[AxisKey, Expr]:
        """Bytes of communication by mesh axis (a tuple of axes for a collective over several).

        ``statistics=False`` leaves out the small sums inside norms and softmaxes.
        """
        out: dict[AxisKey, Expr] = {}
        for move in self.collectives:
            if statistics or not move.statistic:
                key = axis_key(move.axes)
                out[key] = out.get(key, S.Zero) + move.volume
        return MappingProxyType(out)

    @property
    def time(self) -> Time:
        """Seconds on the textbook's network: bytes over bandwidth on a torus."""
        return self.time_on(IDEAL)

    def time_on(self, network: Network, statistics: bool = True) -> Time:
        """Seconds on a network, as one stage in which everything may overlap."""
        terms = [
            TimeTerm(MATH, step.flops / step.op.rate)
            for step in self.computes
            if isinstance(step.op, Einsum)
        ]
        if self.hbm_bytes != 0:
            terms.append(TimeTerm(HBM, self.hbm_bytes / W_hbm))
        for move in self.collectives:
            if statistics or not move.statistic:
                seconds = move.seconds(network)
                where = network.resource(move.axes, move.kind)
                if seconds != 0:
                    terms.append(TimeTerm(where, seconds, move.axes, move.critical))
        return Time.of(*terms).merged()

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """The algorithm, one line an op or collective."""
        rows = [_row(step) for step in self.steps]
        left = max((len(row[0]) for row in rows), default=0)
        middle = max((len(row[1]) for row in rows), default=0)
        return [f"{a:<{left}} = {m:<{middle}}  {note}".rstrip() for a, m, note in rows]

    def __repr__(self) -> str:
        return f"{self.name} pass:\n{self}"

    def to_dict(self) -> dict[str, Any]:
        """The algorithm and its cost as plain text."""
        return {"phase": self.name, "algorithm": self.lines(), "cost": self.cost.to_dict()}


def _row(step: Step) -> tuple[str, str, str]:
    if isinstance(step, Compute):
        right = (
            " + ".join(array.short for array in step.inputs)
            if isinstance(step.op, AddGradients)
            else expression(step.op, step.inputs)
        )
        return step.output.short, right, ""
    if isinstance(step, Slice):
        return step.after.short, f"{step.name} {step.before.short}", "free"
    assert isinstance(step, Collective)
    wait = "waits" if step.critical else "can hide"
    return step.after.short, f"{step.name} {step.before.short}", f"{step.volume} bytes, {wait}"
