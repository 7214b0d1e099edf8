"""Context parallelism on simulated devices: a whole layer, forward, backward and update.

What each device does and passes on must come to the unsharded layer, with declared volumes seen and
every multiply-add done as often as declared.
"""

from __future__ import annotations

import pytest

from symscale import model, strategy
from symscale.algebra.symbols import B, D, E, F, H, K, N, T, V, k, symbol
from symscale.models.blocks import Attention
from symscale.models.layers import SIZES
from symscale.models.lines.attention import attention
from symscale.programs.program import Keep, Program, program
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


@pytest.mark.parametrize("heads", [MHA, MQA], ids=["one key head a query head", "one key head"])
@pytest.mark.parametrize("name", ["dp+cp", "fsdp+ring"])
def test_other_numbers_of_key_heads(name: str, heads: dict) -> None:
    run(LAYER, name, heads)


def test_heads_of_their_own_exchanged() -> None:
    run(LAYER, "fsdp+tp+sp+ulysses", MHA)


@pytest.mark.parametrize(
    "name", ["fsdp+tp+sp+cp", "tp+ulysses", "dp+ring", "fsdp+tp+cp", "fsdp+ulysses"]
)
@pytest.mark.parametrize("kind", ["gemma-2-9b", "qwen3-8b", "gpt2"])
def test_other_families(kind: str, name: str) -> None:
    """Norms before and after, norms of queries and keys, biases and layer norms."""
    run(model(kind).programs.kinds[0].program, name, GQA if kind != "gpt2" else MHA)


@pytest.mark.parametrize("name", ["fsdp+tp+cp", "fsdp+tp+ulysses", "dp+ring", "tp+sp+cp"])
def test_latent_attention(name: str) -> None:
    """Keys made from latent vectors for every head, and a rotary part that all heads share."""
    sizes = {symbol(dim): 2 for dim in ("H_n", "H_v", "H_r")} | {symbol("R_kv"): 8, N: 4}
    run(model("deepseek-v2-lite").programs.kinds[0].program, name, sizes)


@pytest.mark.parametrize("name", ["fsdp+tp+cp", "fsdp+tp+ulysses", "dp+ring", "fsdp+tp+sp+ring"])
def test_encoder_and_decoder(name: str) -> None:
    """Keys and values of an encoder's output are tokens of sequences too."""
    programs = model("t5-base").programs
    run(programs.kinds[0].program, name, MHA)
    run(programs.encoder[0].program, name, MHA)


def test_a_sink_in_each_softmax() -> None:
    lines = attention(Attention(8, 4, 2, sinks=True), "In", "Att")
    made = program(*lines.text, sizes=SIZES, fused=lines.fused)
    for name in ("tp+cp", "fsdp+ulysses", "ring"):
        run(made, name, GQA)


@pytest.mark.parametrize("name", ["fsdp+tp+sp+cp", "dp+ulysses", "fsdp+tp+ring"])
@pytest.mark.parametrize("kind", ["llama-3-8b", "gpt2", "bert-base", "t5-base"])
def test_embedding_and_head(kind: str, name: str) -> None:
    sizes = {V: 16, symbol("T_max"): 16, symbol("V_t"): 16, symbol("N_b"): 16}
    run(model(kind).programs.ends, name, sizes | MHA)


def test_a_ring_of_more() -> None:
    for ways in (1, 3, 4):
        sizes = {B: 24, T: 12, D: 4, F: 4, H: 2, N: 4, K: 2}
        Run.of(strategy("ring").shard(LAYER), {"Z": ways}, sizes).check()


def test_two_axes_make_one_context() -> None:
    made = strategy("fsdp+cp", data="X", context="YZ").shard(LAYER)
    Run.of(made, MESH, SMALL | GQA).check()
    round_both = strategy("ring", context="YZ").shard(LAYER)
    Run.of(round_both, {"Y": 2, "Z": 2}, SMALL | GQA).check()


EXPERTS = model("gpt-oss-20b").programs.kinds[0].program


@pytest.mark.parametrize(
    ("name", "expert"),
    [
        ("dp+cp", ""),
        ("fsdp+tp+sp+cp", ""),
        ("fsdp+ep+ulysses", "W"),
        ("dp+ep+ring", "X"),
        ("dp+ep+cp", "Z"),
        ("fsdp+tp+ep+cp", "XZ"),
        ("fsdp+tp+sp+ep+ring", "W"),
    ],
)
def test_experts_of_cut_sequences(name: str, expert: str) -> None:
    """Each device sorts the tokens that it holds, parts of sequences as they are."""
    made = strategy(name, expert=expert) if expert else strategy(name)
    mesh = dict.fromkeys(made.mesh_axes, 2)
    sizes = {B: 64, T: 16, D: 8, E: 4, k: 2, symbol("F_e"): 4, H: 2}
    Run.of(made.shard(EXPERTS), mesh, sizes | GQA).check()
