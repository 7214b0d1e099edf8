"""Layers with experts written as JAX: right when run, and XLA moves what is derived."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from symscale import model
from symscale.algebra.symbols import symbol
from symscale.models.decoder import two_matmul_experts
from symscale.parallel.strategy import Strategy, strategy
from symscale.programs.sharded import ShardedProgram
from symscale.xla.check import Question, Subject, check, check_all
from symscale.xla.compile import environment
from symscale.xla.emit import Pass, auto
from symscale.xla.emit_explicit import explicit
from symscale.xla.emit_setting import Setting, XlaError
from tests.programs.test_experts import PLAIN
from tests.simulator.devices import Devices
from tests.simulator.routing import random_ids
from tests.xla.test_emit import RUN, in_f32

MESH = {"X": 2, "Y": 2, "Z": 2}
NUMBERS = Setting(MESH, {"B": 64, "D": 16, "E": 8, "F_e": 24, "k": 2})
SPLITS = {
    "experts alone": strategy("ep"),
    "beside sharded data": strategy("fsdp+ep"),
    "parts of experts": strategy("fsdp+tp+ep"),
    "out of tensor ranks": strategy("fsdp+tp+sp+ep", expert="ZY"),
}
#: Slots in an order of their own.
TURNED = strategy("fsdp+tp+sp+ep")


def run(sharded: ShardedProgram, which: Pass, tmp_path: Path, whole: bool) -> None:
    """On one device, left to XLA, pinned, and with the collectives written out."""
    sizes = {symbol(name): size for name, size in NUMBERS.sizes.items()}
    rng = np.random.default_rng(0)
    ids = tmp_path / "ids.npz"
    np.savez(ids, **random_ids(sharded, Devices(MESH, sizes), rng))
    written = [auto(PLAIN.shard("In[B, D]"), NUMBERS, which), explicit(sharded, NUMBERS, which)]
    if whole:
        written += [auto(sharded, NUMBERS, which, pinned) for pinned in (False, True)]
    paths = []
    for number, one in enumerate(written):
        path = tmp_path / f"program{number}.py"
        path.write_text(in_f32(one), "utf-8")
        paths.append(str(path))
    script = RUN.replace("shared = {}", f"shared = dict(np.load({str(ids)!r}))")
    done = subprocess.run([sys.executable, "-c", script, *paths], env=environment(8),
                          capture_output=True, text=True, timeout=200, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.startswith("agree")


@pytest.mark.xla
@pytest.mark.parametrize("which", ["forward", "backward"])
@pytest.mark.parametrize("split", SPLITS)
def test_written_experts_compute_the_same(split: str, which: Pass, tmp_path: Path) -> None:
    run(PLAIN.shard(SPLITS[split]), which, tmp_path, whole=True)


@pytest.mark.xla
@pytest.mark.parametrize("which", ["forward", "backward"])
def test_slots_in_an_order_of_their_own_compute_the_same(which: Pass, tmp_path: Path) -> None:
    run(PLAIN.shard(TURNED), which, tmp_path, whole=False)


def test_slots_in_an_order_of_their_own_are_written_out_or_refused() -> None:
    sharded = PLAIN.shard(TURNED)
    with pytest.raises(XlaError, match=r"slots over XYZ and tokens over XZY .* check --explicit"):
        auto(sharded, NUMBERS)
    assert explicit(sharded, NUMBERS).text.count("all_to_all") == 2


def _subjects(made: Strategy, name: str) -> list[Subject]:
    axes = {axis: size for axis, size in MESH.items() if axis in made.mesh_axes}
    setting = Setting(axes, {"B": 704, "D": 24, "E": 8, "F": 56, "k": 2})
    sharded = made.shard(two_matmul_experts())
    return [
        Subject(f"{name}, {which}", sharded, setting, which, out, pinned)
        for which in ("forward", "backward")
        for out, pinned in ((False, False), (False, True), (True, False))
    ]


@pytest.mark.xla
def test_xla_moves_tokens_as_derived() -> None:
    """Every AllToAll, gather and reduction of every pass, and every FLOP."""
    subjects = [one for name, made in SPLITS.items() for one in _subjects(made, name)]
    for found in check_all(subjects):
        assert found.ok, str(found)
        ways = [line for line in str(found).splitlines() if line.startswith("AllToAll")]
        assert [line.split()[-1] for line in ways] == ["exact", "exact"], str(found)


@pytest.mark.xla
@pytest.mark.parametrize("which", ["forward", "backward"])
def test_a_whole_layer_of_a_model(which: Pass) -> None:
    sizes = dict.fromkeys(("D", "E", "F_e", "H"), 8) | {"B": 512, "T": 16, "K": 2, "N": 4, "k": 2}
    assert set(sizes) <= {s.name for s in model("mixtral-8x7b")} | {"B", "T"}
    asked = Question(model="mixtral-8x7b", strategy="fsdp+ep", mesh={"X": 2, "Z": 2}, sizes=sizes)
    found = check(asked, which)
    assert found.comparison.exact or found.ok, str(found)
