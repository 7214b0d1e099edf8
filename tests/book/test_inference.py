"""Chapters 7 and 8 of the book: generation, its cache and its shardings, and LLaMA 3 served."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Eq, Expr, Integer, Rational, S, Symbol, cancel, floor, limit, oo, sqrt

from symscale import chip, crossover, inference, minimise, model, program, strategy
from symscale.algebra.symbols import (
    M_X,
    M_Y,
    M_Z,
    B,
    C,
    C_int8,
    D,
    F,
    K,
    N,
    T,
    W_hbm,
    W_ici,
    X,
    Y,
    Z,
    n,
    t_hop,
)
from symscale.algebra.symbols import S as KEYS
from symscale.hardware.torus import ring
from symscale.models.decoder import two_matmul_layer
from symscale.models.storage import Format
from symscale.studies.crossovers import named_crossover
from symscale.studies.inference import Inference
from symscale.studies.inference_fit import evenly, fit, real_sizes, sequences, whole_weights
from symscale.studies.inference_kernels import Kernel, Pass, one_pass
from symscale.studies.inference_memory import HBM_BYTES
from symscale.studies.inference_prefill import prefill
from symscale.studies.serving.batching import Batching
from symscale.studies.serving.disaggregation import Disaggregation
from tests.book.test_transformers import flops_per_parameter
from tests.book.truth import check, exact, number, same

V5E = chip("tpu-v5e", edition="book")

#: The book leaves norms and routers out of its sums.
NOTHING = Format("left out", 0)

#: The model of the questions of chapter 7.
SIZES: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 64,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "intermediate_size": 16384,
    "vocab_size": 32128,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
ROUTED = {"model_type": "mixtral", "num_local_experts": 16, "num_experts_per_tok": 2}


def served(kind: str, layout: str = "2d", routed: bool = False) -> Inference:
    """The model of chapter 7, or the same with experts, without norms and routers."""
    left_out = {"norms": NOTHING} | ({"router": NOTHING} if routed else {})
    sizes = SIZES | (ROUTED if routed else {})
    return inference(sizes, {"others": kind, **left_out}, kv="int8", strategy=layout)


def llama(kind: str, kv: str = "bf16") -> Inference:
    return inference("llama-3-70b", kind, kv)


def bytes_of(kind: str) -> Rational:
    return {"bf16": Rational(2), "int8": Rational(1), "int4": Rational(1, 2)}[kind]


# --- chapter 7 ---------------------------------------------------------------------------------


def test_intensity_of_attention() -> None:
    # 7.text.a
    attention = program(
        "Q[b, T, N, H] * Keys[b, S, N, H] -> Scores[b, N, T, S]",
        "softmax(Scores[b, N, T, S]; S) -> Probs[b, N, T, S]",
        "Probs[b, N, T, S] * Vals[b, S, N, H] -> O[b, T, N, H]",
        inputs=("Q", "Keys", "Vals"),
        fused=("Scores", "Probs"),
    )
    forward = attention.shard().forward
    found = cancel(forward.flops / forward.hbm_bytes)
    assert exact("7.text.a") == "symbolic"
    assert same(found, KEYS * T / (KEYS + T))
    assert same(found.subs(KEYS, T), T / 2)
    assert limit(found.subs(T, 1), KEYS, oo) == 1
    # The same of the model's own kernel, K and N alike.
    step = inference("llama-2-7b").formulas.step
    kernel = next(one for one in step.kernels if one.attention)
    own = kernel.math * C / (kernel.cache + kernel.activations)
    assert same(own.subs({K: N, Z: 1}), KEYS / (KEYS + 1))


def test_ways_until_links_bind() -> None:
    # 7.text.c
    wall = named_crossover("ici-or-hbm", "llama-3-70b").expr
    beta = number("7.text.c", "beta")
    values = {F: 16384, B: 32, W_hbm: beta * 10**9, W_ici: 10**9, M_Y: 1}
    check(wall, values, "7.text.c")


def test_steps_of_llama_2_13b() -> None:
    # 7.table2: the book's rounded sizes in the library's aggregate, then the library's own.
    chips, rate = number("7.table2", "n"), number("7.table2", "W")
    parts = {
        "weights": number("7.table2", "weights") / chips,
        "cache": B * number("7.table2", "cache") / chips,
    }
    step = rounded(**parts).compute("aggregate")
    small = inference({**LLAMA_2_13B, "num_key_value_heads": 8}, "bf16").at
    for place, row in enumerate(exact("7.table2")):
        values = {B: row["B"], W_hbm: rate}
        total = (parts["weights"] + parts["cache"]) * chips / 10**9
        check(total, values, "7.table2", place, "total")
        check(step * 1000, values, "7.table2", place, "ms")
        check(B / step, values, "7.table2", place, "tps")
        own = small(V5E, chips=8, batch=row["B"], context=8192, method="aggregate")
        # K = 8 saves 6.7 GB of projections.
        saved = float((26e9 - whole_weights(own.study).subs(own.study.model)) / (chips * rate))
        assert (own.step_time + saved) * 1000 == pytest.approx(row["ms"], rel=2e-3)


LLAMA_2_13B: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 5120,
    "num_hidden_layers": 40,
    "num_attention_heads": 40,
    "num_key_value_heads": 40,
    "intermediate_size": 13824,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
}


def rounded(weights: Expr, cache: Expr, math: Expr = S.Zero) -> Pass:
    """A step made of the book's rounded sizes, a chip's share each."""
    nothing = S.Zero
    reads = Kernel("cache", S.One, nothing, nothing, cache, nothing, nothing, True)
    products = Kernel("products", S.One, math, weights, nothing, nothing, nothing, False)
    return Pass((reads, products), ())


@pytest.mark.parametrize(
    ("name", "kind", "chips", "rate"),
    [("int8", "int8", 16, "W"), ("bf16", "bf16", 16, "W"), ("int8_8p1", "int8", 16, "W_2025"),
     ("one_chip_int8", "int8", 1, "W")],
)  # fmt: skip
def test_time_to_read_all_parameters(name: str, kind: str, chips: int, rate: str) -> None:
    # 7.3
    study = served(kind)
    values = {**study.model, X: chips // 8 or 1, Y: 8 if chips > 1 else 1, Z: 1}
    read = study.memory.weights / number("7.3", rate)
    check(read, values, "7.3", name)


def test_a_model_of_experts() -> None:
    # 7.5
    study = served("bf16", "tp", routed=True)
    found = study.model
    for name, counts in (("total", found.params.counts()), ("active", found.params.counts(True))):
        left = sum(v for part, v in counts.items() if part not in ("norms", "router"))
        assert left == exact("7.5", name)
    forward = flops_per_parameter() / 3
    check(forward * exact("7.5", "active"), {}, "7.5", "flops_per_token")
    check(found.kv_bytes_per_token("int8"), found, "7.5", "kv_int8")
    wall = named_crossover("decode-moe", found).expr
    rates = {C: V5E[C], W_hbm: number("7.5", "W")}
    check(wall, {**found, **rates}, "7.5", "B_crit_bf16")
    check(wall / 2, {**found, **rates}, "7.5", "B_crit_int8w_bf16flops")


@pytest.mark.parametrize("kind", ["int8", "bf16"])
def test_weights_on_half_a_pod(kind: str) -> None:
    # 7.6.1: all cut over all chips; or heads and vocabulary over Y alone, experts over X, too.
    for layout, mark in (("2d", "full"), ("ep", "attn_over_Y_only")):
        study = served(kind, layout, routed=True)
        weights = study.memory.weights
        values = {**study.model, X: number("7.6.1", "Z"), Y: number("7.6.1", "Y"), Z: 1}
        free = f"{kind}_free" if layout == "2d" else f"{kind}_free_Y_only"
        check(weights / number("7.6.1", "W"), values, "7.6.1", f"{kind}_{mark}")
        check(number("7.6.1", "hbm") - weights, values, "7.6.1", free)
    # It lies on a pod of 8 x 16.
    assert study.at(V5E, X=16, Y=8, batch=16, context=1024).chips == number("7.6.1", "n")


@pytest.mark.parametrize("kind", ["int8", "bf16"])
def test_smallest_slice_for_the_weights(kind: str) -> None:
    # 7.6.2
    study = served(kind, "2d", routed=True)
    room = number("7.6.2", "hbm")
    check(whole_weights(study) / room, study.model, "7.6.2", kind)
    found = fit(study, V5E, context=1024)
    assert found.chips_for_weights == -(-exact("7.6.2", kind) // 1)
    assert found.chips == exact("7.6.2", f"{kind}_slice")
    by_expert = served("bf16", "ep", routed=True)
    weights = by_expert.memory.weights.subs(X, number("7.6.2", "Z"))
    ways = crossover(HBM_BYTES, weights, Y).at(M_hbm=room).threshold
    assert float(ways) == pytest.approx(2.3, abs=0.05)
    slices = [size for size in real_sizes(V5E) if size >= 16 * ways]
    assert slices[0] == exact("7.6.2", "bf16_attn_over_Y_only_slice")


def test_two_dims_of_weights_against_three_axes() -> None:
    # 7.7: Y lies over two physical axes, X over one.
    layer = two_matmul_layer()
    flat = layer.shard(strategy("tp")).forward.time.comms.subs(M_Y, 3)
    comms = layer.shard(strategy("2d")).forward.time.comms.subs({M_X: 1, M_Y: 2})
    best = minimise(comms, over=(X, Y), subject_to=Eq(X * Y, n))
    assert same(best[X] ** 2, D * n / (2 * F))
    assert same(best.value**2, (4 * B / W_ici * sqrt(2 * D * F / n)) ** 2)
    wall = crossover(flat, best.value, n).threshold
    assert exact("7.7", "general") == "18 F/D"
    assert same(wall, 18 * F / D)
    check(wall, {F: 4 * 4096, D: 4096}, "7.7", "F4D")


def test_buffers_bound_by_latency() -> None:
    # 7.appC
    one_way = ring("latency", both_ways=False)
    moved = ring("ring", both_ways=False).time("AllGather", B, ["X"])
    assert same(one_way.time("AllGather", B, ["X"]) - moved, t_hop * (X - 1))
    wall = crossover(t_hop * (X - 1), moved, B).threshold
    values = {X: 8, W_ici: 2 * number("7.appC", "W_1"), t_hop: number("7.appC", "t_hop")}
    check(wall, values, "7.appC", "buffer")
    rows = program("In: int8[B, D] * W: int8[D, F] -> Out: int8[B, F]").arrays["In"]
    check(rows.bytes, {B: 16, D: 8192}, "7.appC", "act")


# --- chapter 8 ---------------------------------------------------------------------------------


def test_cache_of_long_sequences() -> None:
    # 8.kv
    study = llama("int8", "int8")
    found = study.model
    check(found.kv_bytes_per_token("int8"), found, "8.kv", "per_token")
    per_sequence = found.kv_bytes(32768, "int8")
    check(per_sequence, found, "8.kv", "per_seq")
    check(240 * per_sequence, found, "8.kv", "bs240")
    chips = evenly(study, 32768, number("8.kv", "weights")).threshold
    check(chips, {B: 240, HBM_BYTES: number("8.kv", "hbm")}, "8.kv", "chips")


def test_memory_of_a_batch() -> None:
    # 8.mem32
    study = llama("int8", "int8")
    result = study.at(V5E, chips=8, batch=32, context=8192)
    assert result.kv_bytes == exact("8.mem32", "kv")
    chips = evenly(study, 8192, number("8.mem32", "weights")).threshold
    values = {B: 32, HBM_BYTES: number("8.mem32", "hbm")}
    check(chips * HBM_BYTES, values, "8.mem32", "total")
    check(chips, values, "8.mem32", "chips")
    assert fit(study, V5E, batch=32, context=8192).chips == 8


def test_batches_that_are_compute_bound() -> None:
    # 8.bcrit: of all layers' products, not of a formula.
    kinds = (("bf16", None, C / W_hbm), ("int8", None, C / (2 * W_hbm)),
             ("int8", "int8", C_int8 / (2 * W_hbm)))  # fmt: skip
    for place, (weights, math, closed) in enumerate(kinds):
        stored = {"others": weights, "norms": NOTHING}
        study = inference("llama-3-70b", stored, compute=math).formulas
        layers = one_pass(study.sharded[:-1], study.kv)
        wall = crossover(layers.products, layers.all_weights, B).threshold
        assert same(wall, closed)
        check(wall, V5E, "8.bcrit", place)


@pytest.mark.parametrize(("kind", "slice_"), [("bf16", 16), ("int8", 8), ("int4", 4)])
def test_slices_and_what_they_hold(kind: str, slice_: int) -> None:
    # 8.table
    study = llama(kind, kind)
    room = number("8.table", "hbm")
    weights = number("8.table", "P") * bytes_of(kind)
    check(weights, {}, "8.table", kind, "param")
    check(study.model.kv_bytes_per_token(kind), study.model, "8.table", kind, "kv_token")
    fewest = evenly(study, 8192, weights).threshold.subs(B, 0)
    check(fewest, {HBM_BYTES: room}, "8.table", kind, "min")
    assert fit(study, V5E, batch=1, context=8192).chips == exact("8.table", kind, "chips") == slice_
    check(n * room - weights, {n: slice_}, "8.table", kind, "free")
    most = sequences(study, 8192, weights).threshold
    check(most, {n: slice_, HBM_BYTES: room}, "8.table", kind, "batch")
    # The library's own: norms everywhere, a working set, 0.55e9 parameters more.
    own = study.at(V5E, chips=slice_, batch=1, context=8192, Y=slice_ if slice_ < 16 else 8,
                   **({"Z": 2} if slice_ == 16 else {}))  # fmt: skip
    assert 40 <= own.largest_batch <= 43


def test_steps_with_a_full_memory() -> None:
    # 8.lat_full: weights and cache of the largest batch, read once.
    study = llama("int8", "int8")
    most = sequences(study, 8192).threshold
    read = (evenly(study, 8192).threshold * HBM_BYTES / n / W_hbm).subs(B, most)
    assert same(read, HBM_BYTES / W_hbm)
    values = {HBM_BYTES: number("8.lat_full", "hbm"), W_hbm: number("8.lat_full", "W")}
    check(read, values, "8.lat_full", "full")
    small = llama("int4", "int4")
    weights = number("8.lat_full", "P") * bytes_of("int4")
    alone = evenly(small, 8192, weights).threshold.subs(B, 0)
    check(alone * HBM_BYTES / n / W_hbm, {n: 4, **values}, "8.lat_full", "int4")


def test_requests_a_second() -> None:
    # 8.qps
    study = llama("int8", "int8")
    full = (evenly(study, 8192).threshold * HBM_BYTES / n / W_hbm).subs(
        B, sequences(study, 8192).threshold
    )
    batch, tokens = number("8.qps", "B"), number("8.qps", "G")
    values = {HBM_BYTES: number("8.qps", "hbm"), W_hbm: number("8.qps", "W")}
    for place, chips in enumerate((16, 8, 4)):
        check(batch / (full * tokens * chips), values, "8.qps", "exact", place)
        rounded_step = number("8.qps", "t_book")
        check(batch / (rounded_step * tokens * chips), {}, "8.qps", "book", place)


def test_one_product_on_4x8() -> None:
    # 8.shard
    forward = two_matmul_layer().shard(strategy("tp")).forward
    gather, product = forward.collectives[0], forward.computes[0]
    weights = product.inputs[1].bytes
    values = {B: 64, D: 8192, F: 28672, Y: 32, W_ici: number("8.shard", "W_ici"), C: V5E[C]}
    check(gather.volume / W_ici, values, "8.shard", "ici")
    check(weights / number("8.shard", "W_2025"), values, "8.shard", "hbm_old")
    check(weights / number("8.shard", "W"), values, "8.shard", "hbm_new")
    check(product.flops / C, values, "8.shard", "math")
    wall = named_crossover("ici-or-hbm", "llama-3-70b").expr
    ratio = {W_hbm: number("8.shard", "beta") * 10**9, W_ici: 10**9, M_Y: 1}
    check(wall, {**values, **ratio}, "8.shard", "Y")


def test_prefill_of_a_long_prompt() -> None:
    # 8.prefill: the book's 70e9 parameters, then the program's own products.
    study = inference("llama-3-70b", "int8", causal="half")
    length, chips = number("8.prefill", "T"), number("8.prefill", "n")
    peak = chips * number("8.prefill", "mfu") * number("8.prefill", "C")
    linear = flops_per_parameter() / 3 * number("8.prefill", "P") * length
    check(linear / peak, {}, "8.prefill", "book")
    scores = study.model.attention_flops_per_token(length, causal="half") * length
    check((linear + scores) / peak, study.model, "8.prefill", "with_causal_attn")
    found = prefill(study.at(V5E, chips=16, batch=32, context=8192), 8192, mfu=0.4)
    assert found.time == pytest.approx(exact("8.prefill", "with_causal_attn"), rel=0.02)


def test_tokens_that_leave_the_cache() -> None:
    # 8.evict
    found = Batching()
    values = by_name(found.evicted, b=32, S_in=8192, S_out=4096)
    check(found.finishing, values, "8.evict", "seq")
    check(found.evicted, values, "8.evict", "tok")


def by_name(expr: Expr, **numbers: Any) -> dict[Symbol, Any]:
    return {symbol: numbers[symbol.name] for symbol in expr.free_symbols}


def test_servers_for_prefill() -> None:
    # 8.disagg
    found = Disaggregation().ratio
    for batch in (32, 43):
        given = {"b": batch, "S_out": 512}
        times = {
            "t_prefill": number("8.disagg", "t_prefill"),
            "t_step": number("8.disagg", "t_gen"),
        }
        check(found, by_name(found, **given, **times), "8.disagg", f"B{batch}")


def test_bounds_of_405b() -> None:
    # 8.Q1
    study = inference("llama-3.1-405b", {"others": "int8", "norms": NOTHING}, strategy="2d")
    found = study.model
    parameters = whole_weights(study).subs(found)
    forward = flops_per_parameter() / 3 * parameters
    check(forward, {}, "8.Q1", "flops")
    check(forward / C, V5E, "8.Q1", "t_flops_times_N")
    values = {**found, X: 2, Y: 8, Z: 1, **V5E}
    check(study.memory.weights * 16 / W_hbm, values, "8.Q1", "t_hbm_int8_times_N")
    check(study.memory.weights * 32 / W_hbm, values, "8.Q1", "t_hbm_bf16_times_N")
    layers = inference(found, "int8").sharded[:-1]
    step = one_pass(layers, study.kv)
    comms = sum(step.comms(inference(found).network).values()).subs({M_Z: 0, M_Y: 1})
    check(comms / B, {**found, **V5E}, "8.Q1", "t_ici_per_token_1axis")


def test_llama_3_8b_at_240() -> None:
    # 8.Q2
    study = inference("llama-3-8b", {"others": "int8", "norms": NOTHING}, "int8")
    found = study.model
    weights = whole_weights(study).subs(found)
    assert weights == exact("8.Q2", "params")
    assert found.params.count == exact("8.Q2", "with_norms")
    check(found.kv_bytes_per_token("int8"), found, "8.Q2", "kv_per_token")
    layer = study.layers[0].program.arrays
    check(layer["Gate"].bytes + layer["Up"].bytes, {**found, B: 240}, "8.Q2", "act_mlp")
    logits = study.layers[-1].program.arrays["Logits"]
    check(4 * logits.size, {**found, B: 240}, "8.Q2", "logits_fp32")
    for length, slice_ in (("8k", 16), ("4k", 8), ("2k", 4)):
        tokens = {"8k": 8192, "4k": 4096, "2k": 2048}[length]
        check(240 * found.kv_bytes(tokens, "int8"), found, "8.Q2", f"kv_{length}")
        chips = evenly(study, tokens).threshold
        check(chips, {B: 240, HBM_BYTES: number("8.Q2", "hbm")}, "8.Q2", f"chips_{length}")
        assert fit(study, V5E, batch=240, context=tokens).chips == slice_
    check(evenly(study, 8192).threshold * HBM_BYTES, {B: 240}, "8.Q2", "total_8k")


def test_405b_within_15_ms() -> None:
    # 8.Q3
    weights, cache = number("8.Q3", "P"), number("8.Q3", "cache") * number("8.Q3", "S")
    check(weights / number("8.Q3", "hbm"), {}, "8.Q3", "min_chips_int8")
    forward = flops_per_parameter() / 3 * weights
    step = rounded(weights / n, B * cache / n, B * forward / (n * C)).compute("aggregate")
    limit_ = number("8.Q3", "limit")
    for chips, row in exact("8.Q3", "chips").items():
        values = {n: Integer(chips), W_hbm: number("8.Q3", "W"), C: number("8.Q3", "C")}
        assert float(step.subs(values).subs(B, Rational(1, 10**9)).doit()) * 1000 == pytest.approx(
            row["param_only_ms"]
        )
        answer = crossover(limit_, step.subs(values), B)
        batch = 0 if answer.threshold is None else int(floor(answer.threshold))
        assert batch == row["max_batch_15ms"]
        assert batch / limit_ == pytest.approx(row["tok_s"])
        assert batch / limit_ / int(chips) == pytest.approx(row["tok_s_chip"])
        room = (int(chips) * number("8.Q3", "hbm") - weights) / cache
        assert int(floor(room)) == row["mem_cap"]
    found = model("llama-3.1-405b")
    comms = sum(one_pass(inference(found, "int8").sharded[:-1], inference(found).kv)
                .comms(inference(found).network).values())  # fmt: skip
    values = {**found, **V5E, M_Z: 0, M_Y: 2, B: number("8.Q3", "B_ici")}
    check(comms.subs(M_Z, 0), values, "8.Q3", "ici_time_B143_2axes")
