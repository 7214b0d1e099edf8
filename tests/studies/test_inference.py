"""Generation as a program: held against simulated devices, other counts, and a count by hand."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Expr

from symscale import inference, model
from symscale.algebra.errors import (
    ModelError,
    ShardingError,
    StrategyError,
    SymbolError,
    SymscaleError,
)
from symscale.algebra.symbols import B, C, D, E, W_hbm, X, Y, Z, k
from symscale.algebra.symbols import S as KEYS
from symscale.arrays.dtype import dtype
from symscale.models.model import Model
from symscale.programs.sharded import ShardedProgram
from symscale.studies.inference import Inference
from symscale.studies.inference_difference import difference
from symscale.studies.inference_layout import CACHE_CUTS, CacheCut, serving_layout
from symscale.studies.inference_mix import mixed
from symscale.studies.inference_prefill import prefill
from symscale.studies.inference_program import Types, served_layer
from tests.models.cases import llama
from tests.simulator import plain
from tests.simulator.check import Run

#: One of each kind: grouped heads, windows, latent vectors, experts, recurrent states.
ZOO = ("llama-3-70b", "gpt2", "gemma-2-9b", "gpt-oss-20b", "mixtral-8x7b", "deepseek-v3",
       "deepseek-v3.2", "qwen3-next-80b-a3b", "mamba-130m", "llama-4-maverick")  # fmt: skip

#: What one simulated device each cuts evenly; 4 key/value heads of 2 query heads each.
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 4,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "vocab_size": 8,
}


def small(**keys: Any) -> Model:
    return llama(**SMALL | keys)


def layer(
    found: Model, strategy: str, cache: CacheCut = "heads", generation: bool = True
) -> ShardedProgram:
    types = Types(lambda name: dtype("bf16"), dtype("bf16"), dtype("f32"))
    served = served_layer(found.programs.kinds[0], types, generation)
    return serving_layout(strategy, cache).shard(served)


def on_devices(sharded: ShardedProgram, found: Model, mesh: dict[str, int], **sizes: int) -> None:
    """The forward pass on simulated devices: every array, and every declared cost."""
    from symscale.algebra.substitution import bindings

    run = Run.of(sharded, mesh, bindings(found, **sizes))
    outside = run.outside()
    run.check_forward(outside, plain.forward(run.program, outside, run.devices))


# --- the partitioned step against simulated devices ----------------------------------------------


@pytest.mark.parametrize("cache", CACHE_CUTS)
@pytest.mark.parametrize("strategy", ["tp", "2d"])
def test_generation_on_simulated_devices(strategy: str, cache: CacheCut) -> None:
    mesh = {"X": 2, "Y": 2, "Z": 2} if strategy == "2d" else {"Y": 2, "Z": 2}
    on_devices(layer(small(), strategy, cache), small(), mesh, B=4, S=6)


@pytest.mark.parametrize("strategy", ["wg", "ep"])
def test_generation_with_a_batch_cut(strategy: str) -> None:
    on_devices(layer(small(), strategy), small(), {"X": 2, "Y": 2}, B=4, S=6)


@pytest.mark.parametrize("strategy", ["tp", "2d", "wg"])
def test_prefill_on_simulated_devices(strategy: str) -> None:
    mesh = {"X": 2, "Y": 2} if strategy != "tp" else {"Y": 2, "Z": 2}
    sharded = layer(small(), strategy, generation=False)
    if strategy == "2d":
        mesh |= {"Z": 1}
    on_devices(sharded, small(), mesh, B=12, T=3)


def test_experts_exchanged_on_simulated_devices() -> None:
    found = small(model_type="mixtral", num_local_experts=4, num_experts_per_tok=2, hidden_size=16)
    on_devices(layer(found, "ep"), found, {"X": 2, "Y": 2}, B=16, S=6)


def test_experts_in_place_cost_what_their_ops_do() -> None:
    """One op for the way back: the same products, and one sum of tokens for k sums of choices."""
    found = model("mixtral-8x7b")
    types = Types(lambda name: dtype("bf16"), dtype("bf16"), dtype("f32"))
    served = served_layer(found.programs.kinds[0], types)
    apart = served.program.shard("Eout[E, F_e_Y, D]", "Ae[E, c, F_e_Y]")
    joint = mixed(served.program).shard("Eout[E, F_e_Y, D]", "Ae[E, c, F_e_Y]")
    assert joint.forward.flops == apart.forward.flops
    assert apart.forward.volume()[Y] == k * joint.forward.volume()[Y]


# --- against other counts of the same ------------------------------------------------------------


def number(expr: Expr, found: Model, **sizes: int) -> float:
    from symscale.algebra.substitution import bindings, evaluate

    return float(evaluate(expr, bindings(found, **{"X": 1, "Y": 1, "Z": 1, "C": 1, **sizes})))


@pytest.mark.parametrize("name", ZOO)
def test_flops_are_those_of_a_decoded_token(name: str) -> None:
    found = model(name)
    length = min(found.context or 1000, 1000)
    step = inference(name, "bf16").step
    counted = number(step.total("math"), found, B=1, S=length)
    assert counted == pytest.approx(number(found.decode_flops_per_token(length), found))


@pytest.mark.parametrize("name", ["deepseek-v3", "deepseek-v2-lite"])
def test_flops_of_latent_vectors_made_again(name: str) -> None:
    found = model(name)
    step = inference(name, "bf16", absorbed=False).step
    counted = number(step.total("math"), found, B=1, S=512)
    assert counted == pytest.approx(number(found.decode_flops_per_token(512, False), found))


@pytest.mark.parametrize("name", ZOO)
@pytest.mark.parametrize("kind", ["bf16", "int8"])
def test_weights_and_cache_are_those_of_the_model(name: str, kind: str) -> None:
    found = model(name)
    memory = inference(name, kind, kind).memory
    sizes = {"B": 3, "S": min(found.context or 700, 700)}
    assert number(memory.weights, found, **sizes) == number(found.weight_bytes(kind), found)
    cache = 3 * found.kv_bytes(sizes["S"], kind)
    assert number(memory.cache, found, **sizes) == number(cache, found)
    assert number(memory.state, found, **sizes) == 3 * number(found.state_bytes(), found)


@pytest.mark.parametrize("ways", [1, 2, 8, 16, 64])
def test_a_sequence_on_one_of_many_chips(ways: int) -> None:
    """Key/value heads are dealt out, then repeated: as the model counts them on its own."""
    found = model("llama-3-70b")
    made = inference(found).at("h100", chips=ways, batch=1, context=1000)
    assert made.needed_cache == number(found.kv_bytes_per_device(1000, ways), found)


def test_prefill_flops_are_those_of_the_prompt() -> None:
    found = model("llama-3-8b")
    step = inference(found, "bf16", causal="half").prefill
    counted = number(step.total("math"), found, B=2048, T=2048)
    all_but_head = found.flops_per_token(2048, causal="half", head=False) * 2048
    head = found.flops_per_token(1) - found.flops_per_token(1, head=False)
    assert counted == pytest.approx(number(all_but_head + head, found))


def test_bytes_of_a_step_by_hand() -> None:
    """Every matrix once, every vector once, two rows of the table, every key and value once."""
    wide, ff, vocab, heads, kv, head, layers, keys, batch = 16, 24, 8, 8, 4, 4, 1, 6, 2
    found = small()
    one = 0
    for rows, columns in (
        (wide, heads * head), (wide, kv * head), (wide, kv * head), (heads * head, wide),
        (wide, ff), (wide, ff), (ff, wide),
    ):  # fmt: skip
        one += rows * columns
    one += 2 * wide
    weights = layers * one + wide + vocab * wide + batch * wide
    cache = batch * layers * 2 * kv * head * (keys + 1)
    study = inference(found, "int8", "bf16")
    step = study.step
    assert number(step.total("weights"), found, B=batch, S=keys) == weights
    assert number(step.total("cache"), found, B=batch, S=keys) == 2 * cache
    assert number(step.total("tables"), found, B=batch, S=keys) == (vocab - batch) * wide


def test_experts_that_a_batch_meets_are_read() -> None:
    """ME-17: of 8 experts, 3 tokens with 2 each meet 4.625, neither 2 nor 6 nor 8."""
    found = llama(model_type="mixtral", num_local_experts=8, num_experts_per_tok=2)
    step = inference(found, "int8").step
    experts = [one for one in step.kernels if one.name in ("Ge", "Ue", "Mlp")]
    read = sum((one.count * one.weights for one in experts), 0 * B)
    whole = found.params.counts()["experts"]
    assert number(read, found, B=3, S=5) == pytest.approx(whole * 4.625 / 8)
    assert number(read, found, B=10**3, S=5) == pytest.approx(whole)
    assert number(read, found, B=1, S=5) == pytest.approx(whole * 2 / 8)
    assert E in inference(found).formulas.step.total("weights").free_symbols


# --- the two models of a step --------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "context"), [(1, 8192), (8, 4096), (32, 8192)])
@pytest.mark.parametrize("chips", [8, 16])
def test_both_models_agree_where_their_assumptions_do(batch: int, context: int, chips: int) -> None:
    """Bound by HBM, activations on chip, the table of tokens small beside the weights."""
    study = inference("llama-3-70b", {"others": "int8", "embedding": "int4"}, "int8")
    found = difference(study.at("tpu-v5e", chips=chips, batch=batch, context=context))
    assert found.agree
    assert abs(found.per_op / found.aggregate - 1) <= 0.01


@pytest.mark.parametrize(
    ("name", "how", "reason"),
    [
        ("llama-3-70b", {"batch": 64, "activations": "hbm"}, "activations"),
        ("llama-3-8b", {"batch": 1}, "tables"),
        ("deepseek-v3", {"batch": 512}, "attention computes"),
        ("deepseek-v3", {"batch": 256, "context": 64}, "do not hide"),
    ],
)
def test_where_they_differ_the_reasons_add_up(name: str, how: dict[str, Any], reason: str) -> None:
    asked = {"chips": 8, "context": 4096, **how}
    found = difference(inference(name, "fp8", "fp8").at("h200", **asked))
    assert sum(found.reasons.values()) == pytest.approx(found.per_op - found.aggregate)
    assert max(found.reasons, key=lambda name: abs(found.reasons[name])).find(reason) >= 0
    assert not found.agree
    assert reason in repr(found)


def test_aggregate_is_the_textbooks() -> None:
    """B KV / W + max(2 B P / C, P / W), all chips alike: from sizes alone, by hand."""
    made = inference("llama-3-70b", "int8", "int8").at("tpu-v5e", chips=8, batch=512, context=1)
    params, products = 70_553_706_496, 70_553_706_496 - 8192 * 128_256
    flops, rate, links = 2 * 512 * products, 8 * 1.97e14, 8 * 8.19e11
    by_hand = max(flops / rate, params / links) + 512 * 2 * 163_840 / links
    # Norms are whole on every chip; the key that is written counts beside the one that is read.
    assert made.seconds("aggregate") == pytest.approx(by_hand, rel=1e-3)
    assert made.bottleneck == "math"


def test_overlaps_are_ordered() -> None:
    made = inference("llama-3-70b", "int8", "int8").at("tpu-v5e", chips=16, batch=32)
    full, critical, none = (made.seconds(overlap=how) for how in ("full", "critical", "none"))
    assert full < critical < none
    assert none == pytest.approx(sum(made.busy.values()))


def test_hops_make_small_batches_latency_bound() -> None:
    how = {"chips": 64, "batch": 1, "context": 128, "overlap": "critical"}
    study = inference("llama-3-8b", "int8", cache="heads")
    with pytest.raises(ShardingError, match="largest number below that does is 32"):
        study.at("tpu-v5e", **how)
    how["chips"] = 32
    times = [study.at("tpu-v5e", fidelity=f, **how).step_time for f in ("ideal", "ring", "latency")]
    assert times[0] < times[2]
    # 2 AllReduces a layer and one for the table, there and back over 8 + 4 chips without wrap.
    assert times[2] - times[1] == pytest.approx(65 * 2 * (7 + 3) * 1e-6)


# --- shardings -----------------------------------------------------------------------------------


def test_a_cache_cut_by_batch_costs_two_exchanges() -> None:
    moves = layer(model("llama-3-70b"), "tp", "batch").forward.collectives
    exchanged = [move for move in moves if move.name == "AllToAll_Z"]
    heads = model("llama-3-70b").programs.kinds[0].program.arrays["Q"].bytes
    assert [move.volume for move in exchanged] == [heads / (Y * Z)] * 2
    kept = layer(model("llama-3-70b"), "tp", "heads").forward.collectives
    assert {move.name for move in kept} == {"AllReduce_YZ"}


@pytest.mark.parametrize(
    ("name", "sums"),
    [("llama-3-70b", 2), ("pythia-1.4b", 1), ("deepseek-v3", 2), ("gpt2", 2), ("command-r", 1)],
)
def test_what_is_added_up_is_reduced_once(name: str, sums: int) -> None:
    """Two sums of activations a layer; one where attention lies beside the block; shared experts
    add none of their own.
    """
    study = inference(name, cache="heads")
    found = model(name)
    last = study.layers[len(found.programs.kinds) - 1]
    moves = [one.move for one in study.step.exchanges if one.count == last.count]
    reduced = [move for move in moves if move.kind == "AllReduce"]
    assert [move.volume for move in reduced] == [4 * B * D] * sums


@pytest.mark.parametrize(("cache", "share"), [("heads", 8), ("batch", 32), ("sequence", 32)])
def test_ways_beyond_the_heads(cache: CacheCut, share: int) -> None:
    """32 ways, 8 key/value heads: repeated four times, or cut along sequences or their keys."""
    study = inference("llama-3-70b", "int8", "int8", cache=cache)
    made = study.at("tpu-v5e", chips=32, batch=32, context=8192)
    assert made.needed_cache * share == made.kv_bytes
    assert made.batch_step == (4 if cache == "batch" else 1)


def test_replicas_share_the_batch_and_nothing_else() -> None:
    study = inference("llama-3-8b", "int8", "int8")
    two = study.at("tpu-v5e", chips=16, batch=64, context=4096, replicas=2)
    one = study.at("tpu-v5e", chips=8, batch=32, context=4096)
    assert two.step_time == one.step_time
    assert two.tokens_per_second == pytest.approx(2 * one.tokens_per_second)
    assert two.memory == one.memory
    assert two.largest_batch == 2 * one.largest_batch


def test_windows_limit_what_is_read() -> None:
    found = model("gpt-oss-20b")
    step = inference(found, kv="bf16").step
    short, long = (number(step.total("cache"), found, B=1, S=s) for s in (128, 1024))
    full = 12 * 2 * 8 * 64 * 2
    assert long - short == full * (1024 - 128)
    written = 24 * 2 * 8 * 64 * 2
    assert short == 2 * full * 128 + written


# --- numbers, and what is refused ----------------------------------------------------------------


def test_the_surface() -> None:
    serve = inference("llama-3-70b", weights="int8", kv="int8").at(
        chip="tpu-v5e", chips=8, batch=32, context=8192
    )
    assert serve.kv_bytes == 42_949_672_960
    assert serve.step_time == pytest.approx((42_949_672_960 + 69_5e8) / (8 * 8.19e11), rel=0.01)
    assert serve.tokens_per_second == pytest.approx(32 / serve.step_time)
    assert serve.fits
    assert serve.bottleneck == "hbm"
    assert serve.cost_per_million_tokens == pytest.approx(
        1.2 * 8 / 3600 / serve.tokens_per_second * 1e6
    )
    assert set(serve.to_dict()) >= {
        "step_time_s", "tokens_per_s", "kv_bytes_per_token", "memory_bytes", "fits", "bottleneck",
    }  # fmt: skip
    assert "42" in repr(serve)


def test_a_batch_that_does_not_fit_says_what_does() -> None:
    made = inference("llama-3-70b", "int8", "int8").at("tpu-v5e", chips=8, batch=64, context=8192)
    assert not made.fits
    assert made.missing_bytes == made.memory_bytes - 16 * 10**9
    assert made.again(batch=made.largest_batch).fits
    assert not made.again(batch=made.largest_batch + 1).fits
    assert f"largest batch at this context is {made.largest_batch}" in made.notes[-1]


@pytest.mark.parametrize(
    ("name", "how", "words"),
    [
        ("mixtral-8x7b", {"batch": 3}, "of 8 experts a layer's step meets 4.62"),
        ("gpt2", {"chips": 4}, "a vocabulary of 50,257 is padded to 50,260 on 4 chips"),
        ("qwen3-next-80b-a3b", {"chips": 2}, "recurrent layers are whole on each of 2"),
        ("llama-3-70b", {"chips": 16, "batch": 1}, "keys and values are repeated on 2 chips"),
        (
            "llama-3-70b",
            {"chips": 16, "batch": 67, "context": 8192},
            "cut over 2 ways: the fullest has 34",
        ),
    ],
)
def test_notes_say_what_is_left_out(name: str, how: dict[str, Any], words: str) -> None:
    made = inference(name).at("h200", **{"chips": 1, "batch": 4, "context": 64, **how})
    assert any(words in note for note in made.notes)
    assert words in repr(made)


def test_the_aggregates_bottleneck() -> None:
    study = inference("llama-3-8b", "int8", "int8")
    how = {"chips": 1, "method": "aggregate"}
    found = [
        study.at("h100", batch=b, context=s, **how) for b, s in ((1, 64), (400, 64), (400, 8192))
    ]
    assert [one.bottleneck for one in found] == ["hbm", "math", "hbm"]
    assert found[0].reserved_cache == found[0].needed_cache == 64 * 65536


def test_largest_batch_in_closed_form() -> None:
    study = inference("llama-3-70b", "int8", "int8", cache="heads")
    made = study.at("tpu-v5e", chips=16, batch=16, context=8192)
    wall = made.study.memory.put({KEYS: 8192}).largest_batch
    numbers = {**{s.name: v for s, v in made.values.items() if s in (Y, Z)}, "M_hbm": 16 * 10**9}
    assert int(wall.at(**numbers).threshold) == made.largest_batch


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"chips": 3}, ShardingError, "3 chips .* 64 query heads over 8 .* does is 2"),
        ({"chips": 128}, ShardingError, "does is 64"),
        ({"chips": 8, "context": 9000}, ModelError, "at most 8192"),
        ({}, SymbolError, "no number of chips"),
        ({"chips": 8, "batch": 0}, SymbolError, "above zero"),
        ({"chips": 8, "batch": 1.5}, SymbolError, "whole number"),
        ({"chips": 8, "replicas": 3}, SymbolError, "not shared evenly"),
        ({"chips": 8, "share": 2}, SymbolError, "at most 1"),
        ({"chips": 8, "buffers": 10**12}, SymbolError, "buffers"),
        ({"chips": 8, "activations": "lost"}, SymbolError, "'on chip', 'hbm'"),
        ({"chips": 8, "Q": 2}, SymbolError, "no mesh axis of tp"),
        ({"X": 2}, SymbolError, "no mesh axis of tp"),
        ({"chips": 9, "Y": 8}, SymbolError, "have 8"),
        ({"chips": 8, "overlap": "some"}, SymscaleError, "overlap"),
        ({"chips": 8, "method": "guess"}, SymscaleError, "method"),
    ],
)
def test_refused_numbers(how: dict[str, Any], error: type[Exception], words: str) -> None:
    study = inference("llama-3-70b", "int8")
    with pytest.raises(error, match=words) as caught:
        _ = study.at("tpu-v5e", **{"batch": 8, **how}).step_time
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda: inference("t5-small"), ModelError, "encoder"),
        (lambda: inference("bert-base").step, ModelError, "only decoders"),
        (lambda: inference("llama-3-8b", "int9"), ModelError, "unknown storage format"),
        (lambda: inference("llama-3-8b", {"experts": "int8"}), ModelError, "no component"),
        (lambda: inference("llama-3-8b", strategy="pt"), StrategyError, "did you mean tp"),
        (lambda: inference("llama-3-8b", cache="tokens"), StrategyError, "heads, batch, seq"),
    ],
)
def test_refused_studies(ask: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ask()


def test_a_batch_cut_over_ways_that_do_not_divide_it() -> None:
    study = inference("llama-3-8b", strategy="wg")
    made = [study.at("tpu-v5e", X=4, Y=2, batch=n, context=1024) for n in (3, 7, 8)]
    assert [one.padded_batch for one in made] == [4, 8, 8]
    assert made[1].step_time == made[2].step_time
    assert made[1].memory == made[2].memory
    assert "cut over 4 ways: the fullest has 2" in made[1].notes[0]


def test_prefill_is_refused_beyond_the_context() -> None:
    made = inference("llama-3-8b").at("h100", chips=1, batch=1, context=100)
    with pytest.raises(ModelError, match="at most 8192"):
        prefill(made, 8193)
    with pytest.raises(SymbolError, match="above 0 and at most 1"):
        prefill(made, 10, mfu=1.5)
    assert prefill(made, 1024).time < prefill(made, 2048).time < prefill(made, 2048, mfu=0.5).time


@pytest.fixture
def study() -> Inference:
    return inference("llama-3-8b", "int8", "int8")


def test_times_are_formulas(study: Inference) -> None:
    """Symbolic in batch, keys, mesh axes and rates; numbers come last."""
    found = study.formulas.time("aggregate")
    assert {B, KEYS, C, W_hbm, Y, Z} <= found.free_symbols
    assert X not in found.free_symbols
    assert study.to_dict()["weights"]["mlp"] == "int8"
    assert "weights" in repr(study)
