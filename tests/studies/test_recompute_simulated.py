"""What a policy saves is enough: devices that hold only that, and compute the rest again, find all
that the backward pass reads, and end with the gradients of the unsharded layer.
"""

from __future__ import annotations

from typing import Any

import pytest

from symscale import model, strategy
from symscale.algebra.symbols import B, D, F, H, K, N, T
from symscale.programs.collectives import Move
from symscale.programs.ops import View
from symscale.studies.saved import saved
from symscale.studies.share import Share
from tests.simulator import plain
from tests.simulator.check import Run, assert_close
from tests.simulator.machine import Machine, key

SIZES = {B: 16, T: 4, D: 8, F: 8, H: 2, N: 8, K: 4}
MESH = {"X": 2, "Y": 2, "Z": 2}
KIND = model("llama-3-8b").programs.kinds[0]
NAMES = ("dp", "fsdp", "tp", "tp+sp", "fsdp+tp", "fsdp+tp+sp", "2d", "tpwhole", "fsdp+tp+cp")
POLICIES: tuple[Any, ...] = ("selective", "matmul", "block", ("In", "Gate", "Up"))


@pytest.mark.parametrize("keep", ["activations", "none"])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_saved_arrays_are_enough(name: str, policy: Any, keep: Any) -> None:
    made = strategy(name)
    sharded = made.shard(KIND.program, keep)
    share = Share(KIND, sharded, policy)
    run = Run.of(sharded, {axis: MESH[axis] for axis in made.mesh_axes}, SIZES)
    outside, seeds = run.outside(), run.seeds()
    values = plain.forward(run.program, outside, run.devices)
    grads = plain.backward(run.program, values, seeds, run.devices)
    machine = Machine(run.devices, run.rng)
    for array in saved(sharded, policy):
        machine.put(array, values[array.name])
    for weight in run.program.weights:
        machine.put(sharded.sharding(weight), values[weight])
    _gather_weights(machine, share)
    _regroup(machine, share)
    machine.run(share.again)
    _regroup(machine, share)
    for output, seed in seeds.items():
        machine.put(sharded.sharding(f"d{output}"), seed)
    machine.run(sharded.backward)
    for array_name, value in grads.items():
        gradient = f"d{array_name}"
        assert_close(gradient, machine.get(sharded.sharding(gradient)), value)


def _regroup(machine: Machine, share: Share) -> None:
    """Arrays at hand are at hand with their dims regrouped, too."""
    for step in share.sharded.forward.computes:
        if isinstance(step.op, View) and key(step.inputs[0]) in machine.memory:
            machine._compute(step)


def _gather_weights(machine: Machine, share: Share) -> None:
    """The backward pass gathers weights before a layer is computed again."""
    weights = frozenset(share.sharded.program.weights)
    for step in share.sharded.forward.steps:
        if isinstance(step, Move) and step.before.name in weights:
            machine._move(step)
