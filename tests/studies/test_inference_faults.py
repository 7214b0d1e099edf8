"""Faults in sizing servers, as users of other tools reported them, each with more of its kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from symscale import inference, model
from symscale.algebra.errors import HardwareError, SymscaleError
from symscale.algebra.symbols import B, D, X, Y, Z
from symscale.models.model import Model
from symscale.studies.inference_fit import fit
from symscale.studies.inference_result import InferenceResult
from tests.models.cases import given, gpt2, llama, right, wrong
from tests.test_cli import refused

TRUTH = Path(__file__).parents[1] / "truth" / "cases_inference.json"
CASES = {row["id"]: row for row in json.loads(TRUTH.read_text("utf-8"))["cases"]}

#: Large enough for every configuration here.
CHIP = "b200"


def step(found: Model, kv: str = "bf16", **how: Any) -> InferenceResult:
    asked = {"chips": 1, "batch": 1, "context": 1, **how}
    cache = asked.pop("cache", None)
    return inference(found, "bf16", kv, cache=cache).at(CHIP, **asked)


# --- the cache -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        *((given("KV-03")[k], right("KV-03")["bytes_per_token_layer"][k]) for k in "ABC"),
        (
            {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 24, "num_key_value_heads": 2},
            192,
        ),
    ],
)
def test_explicit_head_width(sizes: dict[str, int], expected: int) -> None:
    made = step(llama(**sizes, num_hidden_layers=5))
    assert made.needed_cache == made.kv_bytes == made.kv_bytes_per_token == 5 * expected


def test_latent_vectors_once_a_token() -> None:
    """KV-04, with KV-05: whole on every tensor-parallel chip, dealt out by attention's batch."""
    found = model("deepseek-v3")
    one = step(found)
    assert one.needed_cache == right("KV-04")["bytes_per_token"]
    assert one.needed_cache not in wrong("KV-04").values()
    long = step(found, "int4", context=65536)
    assert long.needed_cache / 2**20 == right("KV-04")["MiB_64k_at_4_bits"]
    for ways in (2, given("KV-05")["tp"]):
        whole = step(found, chips=ways, batch=ways, cache="heads")
        dealt = step(found, chips=ways, batch=ways, cache="batch")
        assert whole.needed_cache == ways * right("KV-05")["per_gpu_bytes_per_token_tp8"]
        assert dealt.needed_cache == right("KV-05")["per_gpu_bytes_per_token_tp8"]
    mean = step(found, chips=8, batch=8, cache="batch").needed_cache / 8
    assert mean == right("KV-05")["per_gpu_mean_with_dp_attention_8"]


@pytest.mark.parametrize(("ways", "copies"), [(4, 2), (2, 4), (8, 1)])
def test_a_request_lives_on_one_replica(ways: int, copies: int) -> None:
    """KV-08: 8 GiB of a request on 4 ways are 2 GiB each, however many replicas there are."""
    found = model("llama-3-70b")
    made = step(found, chips=ways * copies, replicas=copies, batch=copies, context=8192)
    assert made.needed_cache == made.kv_bytes / copies / ways
    case = given("KV-08")
    if (ways, copies) == (case["tp"], case["dp"]):
        share = made.needed_cache / (made.kv_bytes / copies)
        assert case["request_bytes"] * share / 2**30 == right("KV-08")["per_gpu_GiB"]


@pytest.mark.parametrize("context", [1, 128])
def test_layers_with_a_window_keep_tokens_too(context: int) -> None:
    """KV-10: half of the layers are not skipped."""
    made = step(model("gpt-oss-120b"), context=context)
    assert made.needed_cache == context * right("KV-10")["bytes"]
    assert made.needed_cache != context * wrong("KV-10")["bytes"]


def test_one_key_head_of_many_queries() -> None:
    """KV-13: old key names, and a boolean that says there is one key/value head."""
    case = given("KV-13")
    plain = gpt2(n_embd=768, n_layer=12, n_head=12, n_positions=8192)
    assert step(plain, context=case["tokens"]).needed_cache == right("KV-13")["A_bytes"]
    sizes = case["B"] | {"n_positions": 8192, "vocab_size": 1003}
    made = step(model(sizes), context=case["tokens"])
    assert made.needed_cache == right("KV-13")["B_bytes"]
    assert made.needed_cache != wrong("KV-13")["B_alias_only"]


def oss(**keys: Any) -> Model:
    base = {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2}
    sizes = {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64}
    return llama(**(base | sizes | {"sliding_window": 128, "num_hidden_layers": 36} | keys))


def test_tokens_are_not_memory_over_a_rate() -> None:
    """KV-14: behind its window a layer stops growing, so that far longer sequences fit."""
    case, found = given("KV-14"), oss(max_position_embeddings=40000)
    longest = right("KV-14")["tokens_one_sequence"]
    held = [step(found, context=size).needed_cache for size in (longest, longest + 1)]
    assert held[0] <= case["budget_bytes"] < held[1]
    assert longest > wrong("KV-14")["tokens_from_len1_rate"]


@pytest.mark.parametrize("case", ["A", "B"])
def test_the_type_of_the_cache_counts(case: str) -> None:
    """KV-15: 48 KiB a token in fp8, twice that in bf16; both published runs give the same rate."""
    found = llama(num_hidden_layers=24, num_key_value_heads=8, num_attention_heads=8,
                  head_dim=128, max_position_embeddings=262144)  # fmt: skip
    reported = given("KV-15")[case]
    made = step(found, "fp8", context=reported["tokens"])
    size = reported.get("GiB", reported.get("GiB_needed")) * 2**30
    assert made.needed_cache == pytest.approx(size, rel=1e-3)
    assert step(found, context=reported["tokens"]).needed_cache == 2 * made.needed_cache


@pytest.mark.parametrize("block", [1, 16, 256])
def test_blocks_reserve_what_they_do_not_hold(block: int) -> None:
    """Of a paged cache the last block of each sequence is not full; a window's blocks are."""
    for found, context in ((model("llama-3-8b"), 1000), (oss(), 1000)):
        made = step(found, batch=3, context=context, block=block)
        assert made.needed_cache <= made.memory["cache"]
        whole = -(-context // block) * block
        if found.name == "llama-3-8b":
            assert made.memory["cache"] * context == made.needed_cache * whole
    full = step(model("llama-3-8b"), context=1024, block=block)
    assert full.needed_cache == full.memory["cache"]


# --- weights and buffers -------------------------------------------------------------------------


def experts(found: Model, layout: str, **sizes: int) -> float:
    """Bytes of routed experts on a chip, one byte each."""
    nothing: dict[str, Any] = dict.fromkeys(found.params.components, _NOTHING)
    study = inference(found, nothing | {"experts": "int8"}, strategy=layout)
    ones = {symbol: sizes.get(symbol.name, 1) for symbol in (X, Y, Z)}
    return float(study.memory.weights.subs(ones))


def _nothing() -> Any:
    from symscale.models.storage import Format

    return Format("left out", 0)


_NOTHING = _nothing()


def test_experts_are_divided_by_their_own_ways() -> None:
    """ME-06: by expert ways (times ways within an expert), not by attention's tensor ways."""
    found = model("mixtral-8x7b")
    total = found.params.counts()["experts"]
    assert total == CASES["ME-06"]["input"]["expert_params"]
    answers = CASES["ME-06"]["right"]
    assert experts(found, "ep", X=2) == answers["A"] == total / 2
    assert experts(found, "tp+ep", Y=8) == answers["B"] == total / 8
    assert experts(found, "ep", X=8, Y=2) == total / 16
    assert experts(found, "tp", Y=8) == total / 8


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3"])
def test_all_experts_are_resident(name: str) -> None:
    """ME-11: memory has all experts; a token meets few, and so does a small batch's traffic."""
    found = model(name)
    made = inference(found, "int8").at(CHIP, chips=8, batch=1, context=1)
    held, read = 8 * made.memory["weights"], 8 * made.number(made.study.step.total("weights"))
    assert held >= found.params.count
    assert read < held / 2
    assert read > found.params.active_count * 0.9


def test_a_checkpoint_as_it_is_stored() -> None:
    """ME-12: experts in 4.25 bits, the rest in 16."""
    made = inference("gpt-oss-120b").at("h100", chips=1, batch=1, context=1)
    assert made.memory["weights"] == right("ME-12")["bytes"]
    assert made.memory["weights"] not in wrong("ME-12").values()
    assert fit(made.study, "h100", context=1).weight_bytes == right("ME-12")["bytes"]


@pytest.mark.parametrize("ways", [1, 2, 8])
def test_buffers_follow_the_shard(ways: int) -> None:
    """ME-14: a buffer that is a tenth of the weights is a tenth of the chip's own weights."""
    case = CASES["ME-14"]["input"]
    made = inference("llama-3-70b", "bf16").at(CHIP, chips=ways, batch=8, context=1)
    buffer = case["buffer_fraction"] * made.memory["weights"] / 1e9
    expected = case["buffer_fraction"] * case["weights_GB"] / ways
    assert buffer == pytest.approx(expected, rel=0.01)
    if ways == case["tp"]:
        assert expected == CASES["ME-14"]["right"]["buffer_GB_per_gpu"]
        assert expected < CASES["ME-14"]["wrong"]["buffer_GB_per_gpu"]
    # What a step works on lies as its arrays do: the logits of 8 tokens, in 16 bits.
    one = inference("gpt2", "bf16").at(CHIP, chips=1, batch=8, context=1)
    assert one.memory["working"] == 2 * 8 * (50257 + 768)


def test_ways_that_a_batch_does_not_fill_are_padded() -> None:
    """103 sequences need no more chips than 104, and an odd batch is no slower than the next."""
    study = inference("llama-3-70b", "int8", "int8")
    odd, even = (study.at("tpu-v5e", chips=16, batch=n, context=8192) for n in (103, 104))
    assert odd.step_time == even.step_time
    assert odd.tokens_per_second == pytest.approx(even.tokens_per_second * 103 / 104)
    assert odd.fits
    assert odd.largest_batch == even.largest_batch == 136
    assert fit(study, "tpu-v5e", batch=103, context=8192).chips == 16
    assert fit(study, "tpu-v5e", batch=54, context=8192).speedup_of_doubling > 1
    latent = inference("deepseek-v3")
    steps = [latent.at("h200", chips=8, batch=n, context=1024).step_time for n in (63, 64)]
    assert steps[0] == steps[1]


def test_what_does_not_fit_is_shown_on_the_mesh_with_room_for_most() -> None:
    study = inference("llama-3-70b", strategy="ep")
    made = study.at("h100", chips=16, batch=16000, context=8192)
    assert dict(made.mesh) == {"X": 2, "Y": 8}
    each = [
        study.at("h100", X=x, Y=16 // x, batch=16, context=8192).largest_batch
        for x in (2, 4, 8, 16)
    ]
    assert made.largest_batch == max(each) > 0
    with pytest.raises(HardwareError, match="hold 23680, the most of any number"):
        fit(study, "h100", batch=10**6, context=8192)


def test_chips_for_the_weights_have_only_their_usable_share() -> None:
    study = inference("llama-3-70b")
    usable = 40 * 10**9
    found = fit(study, "h100", share=0.5)
    assert found.chips_for_weights == -(-found.weight_bytes // usable) == 4


def test_gathered_weights_are_held_while_they_are_used() -> None:
    """Weight-gathered Llama 3 70B, X=8, Y=2: the head gathered along X is what takes most."""
    study = inference("llama-3-70b", strategy="wg")
    made = study.at("tpu-v5p", X=8, Y=2, batch=64, context=1024)
    head = 128256 * 8192 * 2 / 2 * 7 / 8
    assert head < made.memory["working"] < head * 1.01
    assert made.again(batch=made.largest_batch).fits
    assert not made.again(batch=made.largest_batch + 1).fits
    layer = [one for one in study.step.kernels if one.name == "Up"]
    assert layer[0].gathered.subs({X: 8, Y: 2}) == 8192 * 28672 * 7 // 8
    stationary = inference("llama-3-70b", strategy="2d").step.kernels
    assert all(one.gathered == 0 for one in stationary)


def test_a_lookup_gathers_no_table() -> None:
    """Rows are exchanged, not the table: 2 B D/X bytes instead of 2 D V/Y."""
    study = inference("llama-3-70b", strategy="wg")
    ends = [one.move for one in study.step.exchanges if one.count == 1]
    gathered = [move.after.name for move in ends if move.kind == "AllGather"]
    assert gathered == ["Head"]
    rows = [move.volume for move in ends if move.kind == "AllToAll"]
    assert rows == [2 * B * D / X]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"buffers": "a"}, "buffers = 'a': a number"),
        ({"buffers": 1.5}, "buffers = 1.5: a whole number"),
        ({"buffers": 10**12}, "79999999999 is the most"),
        ({"buffers": -1}, "above zero"),
        ({"layout": 3}, "layout 3"),
        ({"M_Y": "a"}, "M_Y = 'a': a number"),
        ({"M_Y": 1.5}, "M_Y = 1.5: a whole number"),
        ({"beyond": "x"}, "beyond = 'x': True or False"),
        ({"replicas": 3}, "2 is the largest number below that shares it, 6 the next batch"),
        ({"replicas": 4, "batch": 8}, "2 is the largest number below that shares them"),
        ({"batch": [1]}, "batch ="),
        ({"chips": 1.5}, "chips = 1.5: a whole number"),
    ],
)
def test_wrong_numbers_are_refused_in_one_line(how: dict[str, Any], words: str) -> None:
    study = inference("llama-3-8b")
    asked = {"chips": 2, "batch": 4, "context": 64, **how}
    with pytest.raises(SymscaleError, match=words) as caught:
        study.at("h100", **asked)
    assert "\n" not in str(caught.value)
    assert study.at("h100", chips=2.0, batch=4.0, context=64.0).chips == 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"weights": 5}, "storage format 5"),
        ({"weights": ["int8"]}, "storage format"),
        ({"weights": {"mlp": 5}}, "storage format 5"),
        ({"kv": 5}, "dtype 5"),
        ({"compute": 5}, "dtype 5"),
        ({"strategy": 5}, "serving strategy 5: one of tp"),
        ({"absorbed": "x"}, "absorbed = 'x'"),
    ],
)
def test_wrong_kinds_of_words_are_refused_in_one_line(how: dict[str, Any], words: str) -> None:
    with pytest.raises(SymscaleError, match=words):
        inference("llama-3-8b", **how)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (("--mfu", "0.5"), "--mfu says nothing without --prefill"),
        (("--naive",), "--naive is for latent attention; llama-3-8b has none"),
        (("--buffers", "1e12"), "79999999999 is the most"),
        (("--replicas", "3"), "2 is the largest number below"),
        (("--layout", "Y=2"), "no torus"),
    ],
)
def test_options_that_say_nothing_are_refused(
    capsys: pytest.CaptureFixture[str], how: tuple[str, ...], words: str
) -> None:
    ask = ("serve", "llama-3-8b", "--chip", "h100", "--chips", "2", "--batch", "4",
           "--context", "64")  # fmt: skip
    assert words in refused(capsys, *ask, *how)


def test_fit_finds_the_mesh() -> None:
    with pytest.raises(SymscaleError, match="leave Y out"):
        fit(inference("llama-3-8b"), "h100", Y=2)
