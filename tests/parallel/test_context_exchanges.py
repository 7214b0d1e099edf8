"""What context parallelism moves, against published volumes, and when it matters.

Expected volumes are written out from the convention alone: a gather counts the array after it, an
exchange the array before it, every pass round a ring the block that goes; bf16 everywhere.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from sympy import Expr, Rational, cancel

from symscale import model, strategy, training
from symscale.algebra.symbols import (
    M_Z,
    B,
    C,
    D,
    F,
    G,
    H,
    K,
    L,
    N,
    T,
    W_ici,
    X,
    Y,
    Z,
    axis,
    symbol,
)  # fmt: skip
from symscale.models.decoder import decoder
from symscale.models.zoo import find_config
from symscale.parallel.attention_layer import attention_layer
from symscale.parallel.exchanges import (
    BLOCK,
    exchange_time,
    exchange_volume,
    gather_hides,
    ring_blocks,
    ring_hides,
    score_time,
    ulysses_is_faster,
    ulysses_moves_less,
)
from symscale.parallel.ring import RingPass, passes, ring_buffers
from symscale.programs.collectives import AllGather, AllToAll, ReduceScatter

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "papers_context.json").read_text("utf-8"))
LAYER = model("llama-3-8b").programs.layer

#: Bytes of all keys of a layer; values are as many. Likewise queries and results.
KEYS = 2 * B * K * H
QUERIES = 2 * B * N * H
MATRICES = 2 * D * N * H + 2 * D * K * H + 3 * D * F
LEARNED = MATRICES + 2 * D


def same(left: Expr, right: Expr) -> bool:
    return bool(cancel(left - right) == 0)


# --- volumes -----------------------------------------------------------------------------------

VOLUMES = {
    "cp": (2 * KEYS, 2 * KEYS),
    "ulysses": (2 * (KEYS + QUERIES) / Z, 2 * (KEYS + QUERIES) / Z),
    # Keys and values, then both again and the gradients of both.
    "ring": (2 * KEYS / Z * (Z - 1), 4 * KEYS / Z * (Z - 1)),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_what_attention_moves(name: str) -> None:
    for which, wanted in zip(("forward", "backward"), VOLUMES[name], strict=True):
        assert same(exchange_volume(name, which), wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", VOLUMES)
def test_a_whole_layer(name: str) -> None:
    """Attention's exchange, and gradients of weights added up over context ranks: no more."""
    forward, backward = VOLUMES[name]
    found = strategy(name).shard(LAYER)
    assert same(found.forward.volume()[Z], forward)
    assert same(found.backward.volume()[Z], backward + 2 * 2 * LEARNED)


def test_kinds_of_collectives() -> None:
    kinds = {
        "cp": (AllGather, ReduceScatter),
        "ulysses": (AllToAll, AllToAll),
        "ring": (RingPass, RingPass),
    }
    counts = {"cp": (2, 2), "ulysses": (4, 4), "ring": (2, 4)}
    for name, (ahead, back) in kinds.items():
        layer = strategy(name).shard(attention_layer())
        moved = [
            m for m in layer.backward.collectives if m.before.name[1:] not in layer.program.weights
        ]
        assert [type(m) for m in layer.forward.collectives] == [ahead] * counts[name][0]
        assert [type(m) for m in moved] == [back] * counts[name][1]


def test_keys_gathered_anew() -> None:
    """With nothing kept, the backward pass gathers keys and values a second time."""
    kept = strategy("cp").shard(attention_layer()).backward.volume()[Z]
    anew = strategy("cp").shard(attention_layer(), keep="none").backward.volume()[Z]
    assert same(anew - kept, 2 * KEYS)


@pytest.mark.parametrize("name", VOLUMES)
def test_composed_with_data_and_tensor_ranks(name: str) -> None:
    """Each rank exchanges its batch and heads; weights are split over data and context ranks."""
    found = strategy(f"fsdp+tp+sp+{name}").shard(LAYER)
    forward, backward = VOLUMES[name]
    assert same(found.forward.volume()[Z], forward / (X * Y))
    assert same(found.backward.volume()[Z], backward / (X * Y))
    assert same(found.forward.volume()[Y], 4 * 2 * B * D / (X * Z))
    assert same(found.forward.volume()[X, Z], 2 * MATRICES / Y + 2 * 2 * D)
    assert same(found.backward.volume()[X, Z], 2 * (2 * MATRICES / Y + 2 * 2 * D))


@pytest.mark.parametrize("base", ["dp", "zero1", "zero2", "fsdp", "hsdp", "tp", "fsdp+tp", "2d"])
def test_context_ranks_are_data_ranks_to_weights(base: str) -> None:
    """With one context rank the strategy is what it was without; arithmetic is divided by all."""
    without, with_it = strategy(base).shard(LAYER), strategy(f"{base}+cp").shard(LAYER)
    for before, after in zip(without.phases, with_it.phases, strict=True):
        alone = sum((v.subs(Z, 1) for k, v in after.volume().items() if k != Z), Rational(0))
        assert same(alone, sum(before.volume().values(), Rational(0)))
        assert same(after.flops * Z, before.flops)


def test_a_ring_may_hide_and_a_gather_may_not() -> None:
    for name, critical in (("cp", True), ("ulysses", True), ("ring", False)):
        layer = strategy(name).shard(attention_layer())
        assert {move.critical for move in layer.forward.collectives} == {critical}


def test_a_ring_keeps_one_block_more() -> None:
    """Saved for the backward pass: a block of keys and values instead of all; one more arrives."""
    plain, ring = (strategy(name).shard(attention_layer()) for name in ("cp", "ring"))
    gathered = {s.before.name: s.after.bytes for s in plain.forward.collectives}
    for move in passes(ring.forward):
        assert same(move.buffer * Z, gathered[move.before.name])
    read = {a for step in plain.backward.computes for a in step.inputs if a.name in ("Ks", "Vs")}
    assert {a.bytes for a in read} == set(gathered.values())
    again = {move.after for move in passes(ring.backward) if not move.adds}
    assert {a.name for a in again} == {"Ks", "Vs"}
    # In reverse a block of keys, of values, and of the gradients of both are on their way.
    assert same(ring_buffers(ring), 2 * 2 * KEYS / Z)
    assert ring_buffers(plain) == 0


def test_memory_of_a_step() -> None:
    """Gathered keys and values wait for the backward pass; blocks that went by do not."""
    gathered, ring = (training("llama-3-8b", name).formulas.memory for name in ("cp", "ring"))
    more = gathered["activations"] - ring["activations"]
    assert same(more, L * 2 * KEYS * (1 - 1 / Z))
    assert same(ring["buffers"] - gathered["buffers"], 2 * 2 * KEYS / Z)


def test_latent_attention_exchanges_what_its_products_meet() -> None:
    """Plain, keys and values of every head; absorbed, the latent vectors and the rotary part."""
    sizes = {name: symbol(name) for name in ("H_n", "H_v", "H_r", "R_kv")}
    config = find_config("deepseek-v2-lite")
    wanted = {
        False: N * (sizes["H_n"] + sizes["H_v"]) + sizes["H_r"],
        True: sizes["R_kv"] + sizes["H_r"],
    }
    for absorbed, elements in wanted.items():
        layer = decoder(config, absorbed=absorbed).kinds[0].program
        assert same(strategy("cp").shard(layer).forward.volume()[Z], 2 * B * elements)
        assert same(
            strategy("ring").shard(layer).forward.volume()[Z], 2 * B * elements * (Z - 1) / Z
        )


def test_the_hottest_device_sets_the_time() -> None:
    whole = score_time("cp")
    for name, order, share in (
        ("cp", "contiguous", 1 - 1 / (2 * Z)),
        ("ring", "zigzag", Rational(1, 2)),
        ("ulysses", "contiguous", Rational(1, 2)),
    ):
        assert same(score_time(name, causal="half", order=order), whole * share)  # type: ignore[arg-type]
    full, half = ring_hides().threshold, ring_hides(causal=True).threshold
    assert same(half, 2 * full)


# --- published ---------------------------------------------------------------------------------


def test_ulysses_against_megatron() -> None:
    """4Nh/P elements of attention against 4Nh of a layer with sequence parallelism."""
    ours = exchange_volume("ulysses").subs(K, N).subs(H, D / N)
    assert same(ours / 2, 4 * B * D / Z)
    megatron = strategy("tp+sp").shard(LAYER).forward.volume()[Y]
    assert same(megatron / 2, 4 * B * D)
    assert same(ours / megatron, 1 / Z)


def numbers_of(row: dict) -> dict:
    speeds = {C: Rational(str(row["TF"])) * 10**12, W_ici: Rational(str(row["GBps"])) * 10**9}
    return {**speeds, M_Z: 1, K: 32, N: 32}


@pytest.mark.parametrize("row", TRUTH["ring"], ids=lambda row: row["hardware"])
def test_minimal_blocks_of_ring_attention(row: dict) -> None:
    block = float(ring_hides().threshold.subs(numbers_of(row))) / 1e3
    if "block" in row:
        assert block == pytest.approx(row["block"], rel=row["block_tol"])
    if "sequence" in row:
        held = float(ring_blocks().subs(numbers_of(row)))
        assert block * held == pytest.approx(row["sequence"], rel=row["sequence_tol"])


def test_six_blocks() -> None:
    assert ring_blocks().subs(N, K) == 6
    assert same(ring_blocks(), 2 * N / K + 4)


def test_llama_gathers_its_keys() -> None:
    """Sixteen ways are more than its key heads, so heads cannot be exchanged; keys are 16 times
    smaller than queries, and at its length gathering them takes a small part of the scores' time.
    """
    case = TRUTH["llama3_405b"]
    heads = {N: case["query_heads"], K: case["key_heads"], Z: case["context_ways"]}
    assert heads[K] < heads[Z]
    assert ulysses_moves_less().threshold.subs(heads) == 17 > heads[Z]
    ratio = score_time("cp") / exchange_time("cp")
    h100 = {C: 989 * 10**12, W_ici: 50 * 10**9, M_Z: 1, T: case["tokens"]}
    assert float(ratio.subs(h100 | heads)) > 5
    assert gather_hides().holds(h100 | heads)
    assert not gather_hides().holds(h100 | heads | {T: 16384})


# --- conditions at random points ---------------------------------------------------------------


def points(count: int, seed: int) -> list[dict]:
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        groups, heads = rng.choice([1, 2, 4, 8, 16]), rng.choice([1, 2, 4, 8])
        sizes = {
            K: heads,
            N: groups * heads,
            G: groups,
            H: 128,
            B: 2**20,
            Z: 2 ** rng.randint(0, 5),
        }
        speeds = {C: rng.randint(100, 2000) * 10**12, W_ici: rng.randint(5, 900) * 10**9}
        out.append({**sizes, **speeds, M_Z: rng.randint(1, 3), T: 2 ** rng.randint(7, 20)})
    return out


@pytest.mark.parametrize("which", ["forward", "backward"])
def test_fewer_bytes_where_it_says(which: str) -> None:
    found = ulysses_moves_less(which=which)  # type: ignore[arg-type]
    held = 0
    for point in points(60, 1):
        heads, ways = (point[N], point[K]), point[Z]
        gather = 2 * heads[1]
        exchange = Rational(2 * heads[0] + 2 * heads[1], ways)
        assert found.holds(point) == (gather >= exchange), point
        held += bool(gather >= exchange)
    assert 10 < held < 50


def test_a_ring_hides_where_it_says() -> None:
    """One step of the ring, counted for one device: a block's products against a block's way."""
    found = {which: ring_hides(which) for which in ("forward", "backward")}  # type: ignore[arg-type]
    held = 0
    for point in points(60, 2):
        block = point[T] // 16
        pairs = block * block * point[N]
        math = Rational(2 * 2 * pairs * point[H], point[C])
        way = Rational(2 * 2 * block * point[K] * point[H], point[W_ici] * point[M_Z])
        for answer in found.values():
            assert answer.holds({**point, BLOCK: block}) == (math >= way), point
        held += bool(math >= way)
    assert 10 < held < 50


def test_a_gather_hides_where_it_says() -> None:
    found = gather_hides()
    held = 0
    for point in points(60, 3):
        tokens = point[T]
        math = 4 * Rational(tokens, point[Z]) * tokens * point[N] * point[H] / point[C]
        way = 2 * 2 * tokens * point[K] * point[H] / Rational(point[W_ici] * point[M_Z])
        assert found.holds(point) == (math >= way), point
        held += bool(math >= way)
    assert 10 < held < 50


def test_on_a_torus_the_groups_of_heads_decide() -> None:
    found = ulysses_is_faster(N)
    for point in points(30, 4):
        gather, exchange = (exchange_time(name).subs(point) for name in ("cp", "ulysses"))  # type: ignore[arg-type]
        assert found.holds(point) == (gather >= exchange)
    assert found.holds({N: 12, K: 4})
    assert not found.holds({N: 13, K: 4})


# --- a training step ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fsdp+cp", "fsdp+tp+sp+ulysses", "fsdp+tp+ring"])
def test_a_training_step(name: str) -> None:
    step = training("llama-3-8b", name)
    sizes = dict.fromkeys(step.strategy.mesh_axes, 2)
    found = step.at(chip="tpu-v5p", B=2**20, T=131072, **sizes)
    assert found.time > 0
    assert axis("Z") in step.time.by_axis or any("Z" in str(key) for key in step.time.by_axis)
