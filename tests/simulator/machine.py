"""Simulated devices: run a pass of a sharded program step by step, on shards alone.

A test tool, and the partitioner's referee: it knows what each collective and each op does and
nothing of how the partitioner chose them. A step may use only what an earlier step has left in
memory, in just the sharding it names.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from symscale.arrays.array import Array
from symscale.programs.collectives import Collective, Move
from symscale.programs.ops import Einsum, Pointwise
from symscale.programs.phase import Compute, Phase
from tests.simulator.devices import Devices, assemble, scatter
from tests.simulator.local import compute
from tests.simulator.movements import perform, seen_volume

Key = tuple[str, tuple[tuple[str, tuple[str, ...]], ...], frozenset[str]]


def key(array: Array) -> Key:
    return array.name, tuple((dim.name, dim.axes) for dim in array.dims), frozenset(array.unreduced)


@dataclass
class Machine:
    """Devices with memory. ``volumes`` are the bytes seen, one for each collective performed."""

    devices: Devices
    rng: np.random.Generator
    memory: dict[Key, np.ndarray] = field(default_factory=dict)
    volumes: list[tuple[Collective, float]] = field(default_factory=list)
    pending: list[Collective] = field(default_factory=list)

    def put(self, array: Array, value: np.ndarray) -> None:
        """Lay a whole array over the devices."""
        self.memory[key(array)] = scatter(array, value, self.devices, self.rng)

    def get(self, array: Array) -> np.ndarray:
        """The whole array, assembled from what the devices hold."""
        return assemble(array, self._held(array), self.devices)

    def _held(self, array: Array) -> np.ndarray:
        assert key(array) in self.memory, f"{array.short} is not at hand; there are: " + ", ".join(
            f"{name}{dims}{set(left) or ''}"
            for name, dims, left in self.memory
            if name == array.name
        )
        return self.memory[key(array)]

    def run(self, phase: Phase) -> None:
        for step in phase.steps:
            if isinstance(step, Compute):
                self._compute(step)
            elif isinstance(step, Collective) and step.statistic:
                self.pending.append(step)
            else:
                self._move(step)
        assert not self.pending, "statistics that no op uses"

    def _store(self, array: Array, shards: np.ndarray) -> None:
        wanted = (*self.devices.shape, *self.devices.local_shape(array))
        assert shards.shape == wanted, f"{array.short}: {shards.shape} instead of {wanted}"
        self.memory[key(array)] = shards

    def _move(self, move: Move) -> None:
        before = self._held(move.before)
        after = perform(move, before, self.devices)
        self._store(move.after, after)
        if isinstance(move, Collective):
            self.volumes.append((move, seen_volume(move, before, after)))

    def _compute(self, step: Compute) -> None:
        self._take_statistics(step)
        operands = [self._held(array) for array in step.inputs]
        self._store(step.output, compute(step, operands, self.devices))

    def _take_statistics(self, step: Compute) -> None:
        """The statistics just moved must be this op's: its axes, its count, its rows."""
        wanted = step.op.stats if isinstance(step.op, Pointwise) and step.stat_axes else 0
        assert len(self.pending) == wanted
        for move in self.pending:
            assert move.axes == step.stat_axes
            first = step.inputs[0]
            sizes = zip(first.labels, self.devices.local_shape(first), strict=True)
            rows = np.prod([size for label, size in sizes if label not in step.op.over])
            self.volumes.append((move, 2 * 4 * float(rows)))
        self.pending.clear()


def multiply_adds(step: Compute, devices: Devices) -> np.ndarray:
    """How often each multiply-add of a whole product is done, by all devices together."""
    assert isinstance(step.op, Einsum)
    where = {dim.name: dim for array in step.inputs for dim in array.dims}
    space = Array("space", tuple(where[label] for label in step.op.labels))
    counts = np.zeros(devices.shape_of(space), dtype=int)
    for device in devices:
        counts[devices.block(device, space)] += 1
    return counts
