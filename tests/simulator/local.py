"""What one op makes of every device's local operands."""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_letters

import numpy as np

from symscale.programs.ops import Edge, Einsum, Lookup, Op, Pointwise, View
from symscale.programs.phase import AddGradients, Compute
from symscale.programs.pool import Pool
from symscale.programs.routing import Pick, Routed
from tests.simulator import functions, pooling, routing
from tests.simulator.devices import Devices


def compute(step: Compute, operands: list[np.ndarray], devices: Devices) -> np.ndarray:
    """The op on every device; no number crosses between devices but rows' statistics."""
    match step.op:
        case AddGradients():
            return np.sum(operands, axis=0)
        case Pool():
            return pooling.local(step, operands[0], devices)
        case View():
            return operands[0].reshape(*devices.shape, *devices.local_shape(step.output))
        case Einsum():
            return np.einsum(subscripts(step.op), *operands)
        case Lookup():
            return _lookup(step, operands, devices)
        case Pick() | Routed():
            return routing.local(step, operands, devices)
        case Edge():
            along = len(devices.shape) + step.inputs[0].labels.index(step.op.label)
            return _part(operands[0], along, slice(0, 1) if step.op.reverse else slice(-1, None))
        case Pointwise() if step.op.function.shifts:
            return _shift(step, operands, len(devices.shape))
        case Pointwise():
            return _pointwise(step, operands, devices)
    raise AssertionError(step.op)


def subscripts(op: Op, leading: str = "...") -> str:
    letters = dict(zip(op.labels, ascii_letters, strict=False))
    sides = [leading + "".join(letters[x] for x in a.labels) for a in (*op.inputs, op.output)]
    return f"{','.join(sides[:-1])}->{sides[-1]}"


def _lookup(step: Compute, operands: list[np.ndarray], devices: Devices) -> np.ndarray:
    op = step.op
    table = step.output if op.reverse else step.inputs[1]
    made = np.zeros((*devices.shape, *devices.local_shape(step.output)))
    for device in devices:
        rows = devices.block(device, table)[0]
        ids = operands[0][device].astype(int) - rows.start
        here = (ids >= 0) & (ids < rows.stop - rows.start)
        if op.reverse:
            np.add.at(made[device], ids[here], operands[1][device][here])
        else:
            made[device][here] = operands[1][device][ids[here]]
    return made


def _pointwise(step: Compute, operands: list[np.ndarray], devices: Devices) -> np.ndarray:
    op = step.op
    lined = [
        align(shards, array.labels, op.labels, len(devices.shape))
        for shards, array in zip(operands, step.inputs, strict=True)
    ]
    rows = DeviceRows(step, devices)
    lost = tuple(op.labels.index(label) + len(devices.shape) for label in op.summed)
    if op.function.reduces and not op.reverse:
        return reduce(op.function.reduces, lined[0], lost, rows.count)
    if op.reverse:
        full = functions.reverse(op.function.name, op.wrt, lined[0], lined[1:], rows)
    else:
        full = functions.forward(op.function.name, lined, rows)
    rows.check()
    made = np.broadcast_to(full, (*devices.shape, *rows.shape)).sum(axis=lost)
    rest = tuple(label for label in op.labels if label not in op.summed)
    return align(made, rest, step.output.labels, len(devices.shape))


def _part(shards: np.ndarray, along: int, which: slice) -> np.ndarray:
    return shards[(slice(None),) * along + (which,)]


def _shift(step: Compute, operands: list[np.ndarray], leading: int) -> np.ndarray:
    """Rows move on by one within a device; its first is what the neighbour sent, or zero."""
    whole, *edges = operands
    along = leading + step.inputs[0].labels.index(step.op.over[0])
    edge = edges[0] if edges else np.zeros_like(_part(whole, along, slice(0, 1)))
    if step.op.reverse:
        return np.concatenate([_part(whole, along, slice(1, None)), edge], axis=along)
    return np.concatenate([edge, _part(whole, along, slice(0, -1))], axis=along)


def align(
    shards: np.ndarray, labels: tuple[str, ...], wanted: tuple[str, ...], leading: int
) -> np.ndarray:
    """Dims brought into an order, those that are missing with length one."""
    order = sorted(range(len(labels)), key=lambda place: wanted.index(labels[place]))
    moved = shards.transpose((*range(leading), *(leading + place for place in order)))
    sizes = dict(zip(labels, shards.shape[leading:], strict=True))
    return moved.reshape((*shards.shape[:leading], *(sizes.get(label, 1) for label in wanted)))


def reduce(kind: str, values: np.ndarray, axes: tuple[int, ...], count: int) -> np.ndarray:
    """A reduction of what a device has; a mean divides by the count over all devices."""
    if kind == "max":
        return values.max(axis=axes)
    return values.sum(axis=axes) / (count if kind == "mean" else 1)


@dataclass
class DeviceRows:
    """Rows spread over devices: statistics are collected along the step's ``stat_axes``."""

    step: Compute
    devices: Devices
    collected: int = 0

    @property
    def _places(self) -> dict[str, int]:
        start = len(self.devices.shape)
        return {label: start + place for place, label in enumerate(self.step.op.labels)}

    @property
    def shape(self) -> tuple[int, ...]:
        sizes: dict[str, int] = {}
        for array in (*self.step.inputs, self.step.output):
            sizes.update(zip(array.labels, self.devices.local_shape(array), strict=True))
        return tuple(sizes[label] for label in self.step.op.labels)

    @property
    def count(self) -> int:
        sizes: dict[str, int] = {}
        for array in (*self.step.op.inputs, self.step.op.output):
            sizes.update(zip(array.labels, self.devices.shape_of(array), strict=True))
        return int(np.prod([sizes[label] for label in self.step.op.over], dtype=int))

    def _axes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        local = tuple(self._places[label] for label in self.step.op.over)
        mesh = tuple(list(self.devices.axes).index(name) for name in self.step.stat_axes)
        return local, mesh

    def total(self, values: np.ndarray, kept: bool = False) -> np.ndarray:
        self.collected += not kept
        local, mesh = self._axes()
        return values.sum(axis=local, keepdims=True).sum(axis=mesh, keepdims=True)

    def largest(self, values: np.ndarray) -> np.ndarray:
        self.collected += 1
        local, mesh = self._axes()
        return values.max(axis=local, keepdims=True).max(axis=mesh, keepdims=True)

    def position(self, place: int) -> np.ndarray:
        """The global index along a dim of the first operand."""
        array = self.step.inputs[0]
        labels = self.step.op.labels
        label = labels[place]
        where = array.labels.index(label)
        shape = [1] * len(labels)
        shape[place] = -1
        made = np.empty((*self.devices.shape, *np.empty(self.shape[place]).reshape(shape).shape))
        for device in self.devices:
            block = self.devices.block(device, array)[where]
            made[device] = np.arange(block.start, block.stop).reshape(shape)
        return made

    def check(self) -> None:
        """The op must declare as many statistics as its mathematics needs."""
        if self.step.op.over and not self.step.op.function.reduces:
            assert self.collected == self.step.op.stats, (
                f"{self.step.op.name} declares {self.step.op.stats} statistics a row "
                f"and collects {self.collected}"
            )
