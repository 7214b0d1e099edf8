"""Memory of a training step: what each device holds, counted array by array by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, S, cancel

from symscale import model, strategy, training
from symscale.algebra.errors import SymscaleError
from symscale.algebra.symbols import B, D, F, H, K, L, N, V, X, Y, axis
from symscale.models.decoder import two_matmul_layer
from symscale.studies.memory import KINDS, STATE_BYTES

PAPERS = json.loads((Path(__file__).parents[1] / "truth" / "papers.json").read_text("utf-8"))
LLAMA = model("llama-3-8b")

MATRICES = L * (2 * D * N * H + 2 * D * K * H + 3 * D * F) + 2 * V * D
GAINS = L * 2 * D + D
LEARNED = MATRICES + GAINS
STATES = ("parameters", "gradients", "optimizer")

#: Bytes of bf16 parameters, bf16 gradients and two f32 moments under each strategy.
HELD: dict[str, tuple[Expr, Expr, Expr]] = {
    "dp": (2 * LEARNED, 2 * LEARNED, 8 * LEARNED),
    "zero1": (2 * LEARNED, 2 * LEARNED, 8 * LEARNED / X),
    "zero2": (2 * LEARNED, 2 * LEARNED / X, 8 * LEARNED / X),
    "fsdp": (2 * LEARNED / X, 2 * LEARNED / X, 8 * LEARNED / X),
    "tp": (2 * LEARNED / Y, 2 * LEARNED / Y, 8 * LEARNED / Y),
    # Rows are whole between blocks, and so are the gains of their norms.
    "tp+sp": tuple(size * (MATRICES / Y + GAINS) for size in (2, 2, 8)),  # type: ignore[dict-item]
    "fsdp+tp": tuple(size * LEARNED / (X * Y) for size in (2, 2, 8)),  # type: ignore[dict-item]
    "2d": tuple(size * LEARNED / (X * Y) for size in (2, 2, 8)),  # type: ignore[dict-item]
    "fsdp+tp+sp": tuple(  # type: ignore[dict-item]
        size * (MATRICES / (X * Y) + GAINS / X) for size in (2, 2, 8)
    ),
}


def equal(left: Expr, right: Expr) -> bool:
    return bool(cancel(left - right) == 0)


@pytest.mark.parametrize("name", HELD)
def test_states(name: str) -> None:
    memory = training(LLAMA, name).formulas.memory
    for kind, wanted in zip(STATES, HELD[name], strict=True):
        assert equal(memory[kind], wanted), kind


@pytest.mark.parametrize("optimizer", STATE_BYTES)
def test_optimizers(optimizer: Any) -> None:
    each = {
        "sgd": 0,
        "adam": 4 + 4,
        "adam+master": 4 + 4 + 4,
        "adam-bf16": 2 + 2,
        "adam-bf16+master": 2 + 2 + 4,
    }[optimizer]
    memory = training(LLAMA, "fsdp", optimizer=optimizer).formulas.memory
    assert equal(memory["optimizer"], each * LEARNED / X)


@pytest.mark.parametrize("row", PAPERS["zero_memory"]["rows"], ids=str)
def test_published_states(row: dict[str, Any]) -> None:
    memory = training(LLAMA, row["strategy"], optimizer="adam+master").formulas.memory
    held = sum((memory[kind] for kind in STATES), S.Zero)
    each = float((held / LEARNED).cancel().subs(X, row["devices"]))
    assert each * row["parameters"] / 1e9 == pytest.approx(row["value"], abs=row["abs"])


@pytest.mark.parametrize("row", PAPERS["zero_communication"]["rows"], ids=str)
def test_published_communication(row: dict[str, Any]) -> None:
    layer = two_matmul_layer()
    volumes = [phase.volume() for phase in layer.shard(strategy(row["strategy"])).phases]
    moved = sum((volume.get(X, S.Zero) for volume in volumes), S.Zero)
    assert equal(moved / 2, row["value"] * layer.parameters)


def test_activations_that_the_backward_pass_reads() -> None:
    # Wide as the model: what enters each norm, and what comes out of it. Heads: rotated queries and
    # the values' mixture; rotated keys and values. MLP: both halves of the gate and their product.
    wide, queries, caches, inner = 4 * D, 2 * N * H, 2 * K * H, 3 * F
    # Around the layers: what enters the last norm and what comes out of it.
    ends = 2 * D
    wanted = 2 * B * (L * (wide + queries + caches + inner) + ends)
    assert equal(training(LLAMA, "dp").formulas.memory["activations"], wanted / X)
    # Under tensor parallelism the gathered copies behind the norms are the ones kept.
    gathered, split = 2 * D, 2 * D + queries + caches + inner
    mixed = 2 * B / X * (L * (gathered + split / Y) + D + D / Y)
    assert equal(training(LLAMA, "fsdp+tp").formulas.memory["activations"], mixed)


def test_checkpoints() -> None:
    block = training(LLAMA, "fsdp+tp", checkpoints="block").formulas.memory["activations"]
    # Each layer's input, and the head's.
    assert equal(block, (L + 1) * 2 * B * D / (X * Y))
    named = training(LLAMA, "fsdp+tp", checkpoints=("In", "Gate", "Up")).formulas.memory[
        "activations"
    ]
    assert equal(named, L * 2 * B * (D + 2 * F) / (X * Y))
    for kind in STATES:
        assert equal(
            training(LLAMA, "fsdp", checkpoints="block").formulas.memory[kind],
            training(LLAMA, "fsdp").formulas.memory[kind],
        )


@pytest.mark.parametrize("name", HELD)
def test_nothing_is_held_twice_or_lost(name: str) -> None:
    """Over all devices parameters are at least held once, whatever the strategy."""
    devices = S.One
    for used in strategy(name).mesh_axes:
        devices *= axis(used)
    sizes = {X: 8, Y: 4, **LLAMA}
    total = (training(LLAMA, name).formulas.memory["parameters"] * devices).subs(sizes)
    assert total >= 2 * LLAMA.params.count
    assert (total == 2 * LLAMA.params.count) == (name in ("fsdp", "tp", "fsdp+tp", "2d"))


def test_kinds_and_total() -> None:
    memory = training(LLAMA, "fsdp").formulas.memory
    assert tuple(memory) == KINDS == (*STATES, "activations", "logits", "buffers")
    assert equal(memory.total, sum(memory.values()))
    assert set(memory.to_dict()) == set(memory)
    assert len(memory.table()) == 6


def test_errors() -> None:
    with pytest.raises(SymscaleError, match="optimizer 'adamw' is none of sgd, adam, adam"):
        _ = training(LLAMA, "fsdp", optimizer="adamw").formulas.memory  # type: ignore[arg-type]
    with pytest.raises(SymscaleError, match="checkpoint 'Tmp': the layer's arrays are In, "):
        _ = training(LLAMA, "fsdp", checkpoints=("Tmp",)).formulas.memory
