"""Gradients that wait, ranks in groups, whole activations: on simulated devices and by hand."""

from __future__ import annotations

from typing import Any

import pytest

from symscale import model, strategy
from symscale.algebra.errors import StrategyError
from symscale.algebra.symbols import B, D, F, H, K, N, T, X, Y, axis
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.table import strategies
from tests.algebra.equality import assert_same
from tests.simulator.check import Run

LAYER = model("llama-3-8b").programs.layer
SIZES = {B: 32, T: 4, D: 8, F: 8, H: 2, N: 8, K: 4}
MESH = {"X": 2, "Y": 2, "R": 2}
R = axis("R")

WAITING: list[tuple[str, dict[str, Any]]] = [
    ("hsdp", {}),
    ("hsdp+tp", {}),
    ("hsdp+tp+sp", {}),
    ("tpwhole", {}),
    ("fsdp+tpwhole", {}),
    ("dp", {"microbatches": 4}),
    ("dp+tp", {"microbatches": 4}),
    ("fsdp", {"microbatches": 4, "reduce": "last"}),
    ("fsdp+tp", {"microbatches": 4, "reduce": "last", "gradients": "f32"}),
    ("zero1+tp", {"microbatches": 4, "gradients": "f32"}),
    ("zero2", {"gradients": "f32"}),
]


@pytest.mark.parametrize(("name", "options"), WAITING, ids=[f"{n} {o}" for n, o in WAITING])
def test_gradients_and_weights_come_out_right(name: str, options: dict[str, Any]) -> None:
    made = strategy(name, **options)
    mesh = {one: MESH[one] for one in made.mesh_axes}
    Run.of(made.shard(LAYER), mesh, SIZES).check()


def test_groups_of_data_ranks_reduce_shards_between_them() -> None:
    """Within a group as FSDP over X; an AllReduce of shards over R counts 2 · 2 bytes · 2DF / X."""
    sharded = strategy("hsdp").shard(two_matmul_layer())
    within, between = sharded.backward.volume(), sharded.update.volume()
    assert_same(within[X], 8 * D * F)
    assert_same(between[R], 8 * D * F / X)
    assert_same(sharded.forward.flops, 4 * B * D * F / (R * X))


def test_whole_activations_are_reduced_whole() -> None:
    sharded = strategy("tpwhole").shard(two_matmul_layer())
    for phase in (sharded.forward, sharded.backward):
        assert_same(phase.volume()[Y], 4 * B * D)


def test_rows_of_the_table() -> None:
    rows = {row[0]: row for row in strategies(names=("hsdp", "tpwhole", "pp")).rows}
    assert rows["hsdp"][2:] == ("X: 4*D*F", "X: 8*D*F", "R: 8*D*F/X")
    assert rows["tpwhole"][2:] == ("Y: 4*B*D", "Y: 4*B*D", "0")
    assert rows["pp"][2:] == ("P: 2*B*D", "P: 2*B*D", "0")


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("hsdp+fsdp", {}, "two parts want the role data"),
        ("pp", {"stage": "PQ"}, "stages lie along one mesh axis"),
        ("dp+pp", {"data": "P"}, "mesh axis P plays two roles"),
        ("dp", {"tensr": "Y"}, "has no role 'tensr'"),
        ("dp+pp", {"schedule": "1f2b"}, "unknown schedule '1f2b'"),
        ("dp+pp", {"schedule": "1f1b", "chunks": 2}, "has no chunks"),
    ],
)
def test_what_cannot_be(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        strategy(name, **options)
