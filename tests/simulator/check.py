"""Run a sharded program on simulated devices and hold it against the unsharded computation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from sympy import Expr, Symbol

from symscale.arrays.array import Array
from symscale.programs.ops import Einsum, Lookup
from symscale.programs.phase import Phase
from symscale.programs.program import Program
from symscale.programs.reshard import reshard
from symscale.programs.reverse import gradient_name
from symscale.programs.sharded import ShardedProgram
from tests.simulator import plain
from tests.simulator.devices import Devices
from tests.simulator.machine import Machine, key, multiply_adds
from tests.simulator.routing import random_ids


@dataclass
class Run:
    """A program with numbers: a mesh, sizes, and random values of everything from outside."""

    sharded: ShardedProgram
    devices: Devices
    rng: np.random.Generator

    @classmethod
    def of(
        cls,
        sharded: ShardedProgram,
        mesh: Mapping[str, int],
        sizes: Mapping[Symbol, int],
        seed: int = 0,
    ) -> Run:
        return cls(sharded, Devices(mesh, sizes), np.random.default_rng(seed))

    @property
    def program(self) -> Program:
        return self.sharded.program

    def outside(self) -> plain.Values:
        """Random inputs and weights; ids are rows of the table they are looked up in."""
        tables = {
            op.inputs[0].name: op.inputs[1] for op in self.program.ops if isinstance(op, Lookup)
        }
        out = {}
        for name in (*self.program.inputs, *self.program.weights):
            shape = self.devices.shape_of(self.program.arrays[name])
            if name in tables:
                rows = self.devices.shape_of(tables[name])[0]
                out[name] = self.rng.integers(rows, size=shape).astype(float)
            else:
                out[name] = self.rng.normal(size=shape)
        return out | random_ids(self.sharded, self.devices, self.rng)

    def seeds(self) -> plain.Values:
        """Random gradients of the outputs."""
        arrays = self.program.arrays
        chosen = [n for n in self.program.outputs if arrays[n].dtype.name != "int32"]
        return {n: self.rng.normal(size=self.devices.shape_of(arrays[n])) for n in chosen}

    def check(self) -> None:
        """Forward, backward and update, each array and each cost."""
        outside, seeds = self.outside(), self.seeds()
        values = plain.forward(self.program, outside, self.devices)
        grads = plain.backward(self.program, values, seeds, self.devices)
        memory = self.check_forward(outside, values)
        self.check_backward(memory, seeds, grads)
        self.check_update(grads)

    def check_forward(self, outside: plain.Values, values: plain.Values) -> Machine:
        machine = Machine(self.devices, self.rng)
        for name, value in outside.items():
            machine.put(self.sharded.sharding(name), value)
        machine.run(self.sharded.forward)
        for name, value in values.items():
            assert_close(name, machine.get(self.sharded.sharding(name)), value)
        self.check_costs(self.sharded.forward, machine)
        return machine

    def check_backward(self, forward: Machine, seeds: plain.Values, grads: plain.Values) -> None:
        machine = Machine(self.devices, self.rng)
        machine.memory = {k: v for k, v in forward.memory.items() if self._survives(k, forward)}
        for name, seed in seeds.items():
            machine.put(self._gradient(name), seed)
        machine.run(self.sharded.backward)
        for name, value in grads.items():
            assert_close(gradient_name(name), machine.get(self._gradient(name)), value)
        self.check_costs(self.sharded.backward, machine)

    def _gradient(self, name: str) -> Array:
        return self.sharded.sharding(gradient_name(name))

    def _survives(self, held: tuple, forward: Machine) -> bool:
        """What a backward pass may find: by what is kept, copies of the forward pass or not."""
        name = held[0]
        if name not in self.program.arrays:
            return False
        if held == key(self.sharded.sharding(name)):
            return True
        weight = name in self.program.weights
        keep = self.sharded.keep
        return keep == "all" or (keep == "activations" and not weight)

    def check_update(self, grads: plain.Values) -> None:
        """Gradients reach the optimizer state; new weights return to where weights lie."""
        machine = Machine(self.devices, self.rng)
        fresh = {}
        for name in self.program.weights:
            if name not in grads:
                continue
            weight, state = self.sharded.sharding(name), self.sharded.sharding(f"m{name}")
            fresh[name] = self.rng.normal(size=grads[name].shape)
            machine.put(self._gradient(name), grads[name])
            machine.put(weight.placed(state.sharding), fresh[name])
        machine.run(self.sharded.update)
        for name, value in fresh.items():
            state = self.sharded.sharding(f"m{name}").sharding
            assert_close(name, machine.get(self.sharded.sharding(name)), value)
            moved = machine.get(self._gradient(name).placed(state))
            assert_close(gradient_name(name), moved, grads[name])

    def check_costs(self, phase: Phase, machine: Machine) -> None:
        """Declared volumes are those seen, declared FLOPs the multiply-adds done."""
        assert [move for move, _ in machine.volumes] == list(phase.collectives)
        seen: dict[object, float] = {}
        for move, volume in machine.volumes:
            assert float(self.number(move.volume)) == volume, move
            seen[move.axes] = seen.get(move.axes, 0) + volume
        total = sum(float(self.number(v)) for v in phase.volume().values())
        assert total == sum(seen.values())
        done = 0
        for step in phase.computes:
            if isinstance(step.op, Einsum):
                counts = multiply_adds(step, self.devices)
                assert counts.min() == counts.max() >= 1, "some product is done less often"
                whole = self.devices.number(step.op.flops(self._whole(step.op)))
                flops = self.devices.number(step.flops) * self.devices.count
                assert flops == whole * counts.max() == 2 * counts.sum()
                done += 2 * int(counts.sum())
        assert done == self.devices.number(phase.flops) * self.devices.count

    @staticmethod
    def _whole(op: Einsum) -> dict[str, Expr]:
        return {dim.name: dim.size for array in op.inputs for dim in array.dims}

    def number(self, expr: Expr) -> float:
        return self.devices.number(2 * expr) / 2


def check_reshard(source: Array, target: Array, mesh: Mapping[str, int], sizes: dict) -> None:
    """The way from one sharding to another, walked on shards."""
    devices = Devices(mesh, sizes)
    machine = Machine(devices, np.random.default_rng(0))
    value = machine.rng.normal(size=devices.shape_of(source))
    machine.put(source, value)
    moves = reshard(source, target)
    machine.run(Phase("reshard", moves))
    assert_close(source.name, machine.get(target), value)
    for move, volume in machine.volumes:
        assert float(devices.number(2 * move.volume)) / 2 == volume, move


def assert_close(name: str, found: np.ndarray, wanted: np.ndarray) -> None:
    scale = 1 + np.abs(wanted).max(initial=0)
    worst = np.abs(found - wanted).max(initial=0) / scale
    assert worst < 1e-8, f"{name} is off by {worst:.2g}"


def slope_error(run: Run, step: float = 1e-5) -> float:
    """How far the reference's gradient is from a central difference in a random direction."""
    outside, seeds = run.outside(), run.seeds()
    program, one = run.program, run.devices
    whole = [name for name in outside if program.arrays[name].dtype.name != "int32"]
    way = {name: run.rng.normal(size=outside[name].shape) for name in whole}

    def loss(by: float) -> float:
        moved = {n: v + by * way[n] if n in way else v for n, v in outside.items()}
        values = plain.forward(program, moved, one)
        return sum(float((seeds[name] * values[name]).sum()) for name in seeds)

    values = plain.forward(program, outside, one)
    grads = plain.backward(program, values, seeds, one)
    exact = sum(float((grads[name] * way[name]).sum()) for name in whole if name in grads)
    return abs((loss(step) - loss(-step)) / (2 * step) - exact) / (1 + abs(exact))
