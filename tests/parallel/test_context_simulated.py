"""Context parallelism on simulated devices: a whole layer, forward, backward and update.

What each device does and passes on must come to the unsharded layer, with declared volumes seen and
every multiply-add done as often as declared.
"""

from __future__ import annotations

import pytest

from symscale import model, strategy
from symscale.algebra.symbols import B, D, F, H, K, N, T
from symscale.programs.program import Keep, Program
from tests.simulator.check import Run

GQA = {N: 8, K: 4}
MHA = {N: 4, K: 4}
MQA = {N: 4, K: 1}
SMALL = {B: 16, T: 8, D: 8, F: 8, H: 2}
MESH = {"X": 2, "Y": 2, "Z": 2}

LLAMA = model("llama-3-8b").programs
LAYER = LLAMA.layer

PARTS = ("cp", "ulysses", "ring")
SPLITS = [
    *PARTS, *(f"dp+{part}" for part in PARTS), *(f"fsdp+{part}" for part in PARTS),
    *(f"tp+{part}" for part in PARTS), *(f"fsdp+tp+{part}" for part in PARTS),
    *(f"fsdp+tp+sp+{part}" for part in PARTS), "zero1+cp", "zero2+ring", "2d+ulysses",
]  # fmt: skip


def run(program: Program, name: str, sizes: dict, keep: Keep = "activations") -> None:
    made = strategy(name)
    mesh = {axis: MESH[axis] for axis in made.mesh_axes}
    Run.of(made.shard(program, keep=keep), mesh, SMALL | sizes).check()


@pytest.mark.parametrize("name", SPLITS)
def test_grouped_queries(name: str) -> None:
    run(LAYER, name, GQA)


@pytest.mark.parametrize("keep", ["all", "none"])
@pytest.mark.parametrize("name", ["fsdp+tp+sp+cp", "fsdp+ulysses", "tp+ring"])
def test_whatever_is_kept(name: str, keep: Keep) -> None:
    run(LAYER, name, GQA, keep)
