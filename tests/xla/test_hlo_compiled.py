"""Programs compiled by XLA here and now: what is read against what a hand writes for each."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import Any

import pytest

from symscale.xla.hlo import HloReport, read_hlo

pytestmark = [
    pytest.mark.xla,
    pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs the extra xla"),
]

MESH = {"X": 4, "Y": 2}
I, J, K = 48, 80, 112

# Runs in a process of its own: device flags must be set before JAX is imported.
COMPILE = """
import glob, json, os, sys, tempfile
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, numpy as np
import jax.numpy as jnp
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("X", "Y"))
I, J, K = 48, 80, 112
found = {}

def array(shape, *spec):
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, P(*spec)))

def texts(name, function, arguments, *out):
    jitted = jax.jit(function, out_shardings=NamedSharding(mesh, P(*out)))
    with tempfile.TemporaryDirectory() as folder:
        compiled = jitted.lower(*arguments).compile(compiler_options={
            "xla_dump_to": folder, "xla_dump_hlo_pass_re": "spmd-partitioning"})
        (dump,) = glob.glob(folder + "/*after_spmd-partitioning*.txt")
        found[name] = {"spmd": open(dump).read(), "final": compiled.as_text()}

def matmul(a, b):
    return a @ b

def mapped(function, specs, out):
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)

def everything(a, b):
    a = lax.all_gather(a, "Y", axis=1, tiled=True)
    c = lax.psum_scatter(a @ b, "X", scatter_dimension=0, tiled=True)
    c = lax.ppermute(c, "Y", [(0, 1), (1, 0)])
    c = lax.all_to_all(c, "X", 1, 0, tiled=True)
    return lax.psum(c, ("X", "Y"))

def ring(a, b):
    total = a @ b
    for _ in range(3):
        a = lax.ppermute(a, "X", [(i, (i + 1) % 4) for i in range(4)])
        total += a @ b
    return total

def layers(x, w):
    return lax.scan(lambda c, wi: (jax.nn.relu(c @ wi), None), x, w)[0]

texts("gather", matmul, (array((I, J), None, "X"), array((J, K), None, "Y")), None, "Y")
texts("scatter", matmul, (array((I, J), None, "X"), array((J, K), "X")), "X", None)
XY = ("X", "Y")
texts("both", matmul, (array((I, J), None, XY), array((J, K), XY)), XY, None)
texts("reduce", matmul, (array((I, J), None, "X"), array((J, K), "X")), None, None)
texts("exchange", lambda a: a, (array((I, J), "X", None),), None, "X")
texts("major", lambda a: a, (array((I, J), ("X", "Y"), None),), "Y", None)
texts("minor", lambda a: a, (array((I, J), ("X", "Y"), None),), "X", None)
texts("part", lambda a: a.reshape(I, 2, J // 2), (array((I, J), None, "X"),), None, None, None)
texts("explicit", mapped(everything, (P(None, ("X", "Y")), P("X")), P()),
      (array((I, J), None, ("X", "Y")), array((J, K), "X")))
texts("ring", mapped(ring, (P("X"), P(None, "Y")), P("X", "Y")),
      (array((I, J), "X"), array((J, K), None, "Y")), "X", "Y")
texts("scan", layers, (array((I, J), "X", "Y"), array((7, J, J), None, "Y", None)), "X", "Y")
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        cwd=tmp_path_factory.mktemp("compiled"),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, str]] = json.loads(done.stdout)
    return found


def listed(report: HloReport) -> list[tuple[str, tuple[str, ...], int]]:
    found = report.multiset.elements()
    return sorted(found)


BF16 = 2
# By hand: kinds, axes and bytes (bf16) of each program, and FLOPs on one of eight devices.
EXPECTED: dict[str, tuple[list[tuple[str, tuple[str, ...], int]], int]] = {
    "scatter": ([("ReduceScatter", ("X",), I * K * BF16)], 2 * I * J * K // 4),
    "both": ([("ReduceScatter", ("X", "Y"), I * K * BF16)], 2 * I * J * K // 8),
    "reduce": ([("AllReduce", ("X",), 2 * I * K * BF16)], 2 * I * J * K // 4),
    "exchange": ([("AllToAll", ("X",), I // 4 * J * BF16)], 0),
    "major": (
        [
            ("AllGather", ("X",), I // 2 * J * BF16),
            ("CollectivePermute", ("X", "Y"), I // 8 * J * BF16),
        ],
        0,
    ),
    "minor": ([("AllGather", ("Y",), I // 4 * J * BF16)], 0),
    "explicit": (
        [
            ("AllGather", ("Y",), I * J // 4 * BF16),
            ("AllReduce", ("X", "Y"), 2 * I * K // 4 * BF16),
            ("AllToAll", ("X",), I // 4 * K * BF16),
            ("CollectivePermute", ("Y",), I // 4 * K * BF16),
            ("ReduceScatter", ("X",), I * K * BF16),
        ],
        2 * I * J * K // 4,
    ),
    "ring": (
        [("CollectivePermute", ("X",), I // 4 * J * BF16)] * 3,
        4 * (2 * (I // 4) * J * (K // 2)),
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_partitioned_module(compiled: dict[str, dict[str, str]], name: str) -> None:
    report = read_hlo(compiled[name]["spmd"], MESH)
    collectives, flops = EXPECTED[name]
    assert listed(report) == sorted(collectives), report
    assert report.dot_flops == flops
    assert report.unread == ()


@pytest.mark.parametrize("name", EXPECTED)
def test_optimised_module_has_the_same_kinds_and_axes(
    compiled: dict[str, dict[str, str]], name: str
) -> None:
    report = read_hlo(compiled[name]["final"], MESH)
    collectives, flops = EXPECTED[name]
    # Types are widened on CPU, so bytes are no evidence there; kinds, axes and FLOPs are.
    kinds = sorted((found.kind, found.axes) for found in report.collectives)
    assert kinds == sorted((kind, axes) for kind, axes, _ in collectives), report
    assert report.dot_flops == flops
    assert report.unread == ()


def test_chain_of_the_ring(compiled: dict[str, dict[str, str]]) -> None:
    report = read_hlo(compiled["ring"]["spmd"], MESH)
    (chain,) = report.chains
    assert (chain.steps, chain.windowed, chain.axes) == (3, True, ("X",))
    assert chain.gathered == I * J * BF16


def test_loop_is_multiplied_in_both_views(compiled: dict[str, dict[str, str]]) -> None:
    views: dict[str, Any] = {view: read_hlo(text, MESH) for view, text in compiled["scan"].items()}
    for report in views.values():
        assert report.dot_flops == 7 * 2 * I * J * J // 8
        assert {found.times for found in report.collectives} == {7}, report
    guessed = [found.note for found in views["spmd"].collectives]
    assert all("guessed" in note for note in guessed)
    assert not any("guessed" in found.note for found in views["final"].collectives)


@pytest.mark.parametrize("name", ["gather", "part"])
def test_others_are_read_whole(compiled: dict[str, dict[str, str]], name: str) -> None:
    for text in compiled[name].values():
        report = read_hlo(text, MESH)
        assert report.collectives
        assert report.unread == ()
        assert all(found.axes for found in report.collectives), report


def test_module_before_partitioning_is_not_taken_for_one_without_collectives(
    compiled: dict[str, dict[str, str]],
) -> None:
    text = compiled["reduce"]["spmd"]
    assert read_hlo(text, MESH).collectives
    sharded = text.replace(
        "ROOT %all-reduce",
        '%x = bf16[] custom-call(), custom_call_target="Sharding"\n  ROOT %all-reduce',
    )
    assert "not partitioned" in read_hlo(sharded, MESH).unread[0]
