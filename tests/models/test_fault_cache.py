"""Faults in sizing the KV cache and stored weights, each with two more inputs of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from symscale.algebra.errors import ModelError
from symscale.models.model import Model, model
from symscale.models.params import experts_touched
from symscale.models.quantised import stored_formats
from tests.models.cases import given, gpt2, llama, number, right, wrong

LATENT: dict[str, Any] = {
    "model_type": "deepseek_v3",
    "num_key_value_heads": 6,
    "kv_lora_rank": 14,
    "q_lora_rank": 18,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 6,
    "v_head_dim": 8,
    "n_routed_experts": 0,
}


def each(found: Model, dtype: str = "bf16") -> int:
    return int(number(found, found.kv_bytes_per_token(dtype)))


def oss(**keys: Any) -> Model:
    base = {"model_type": "gpt_oss", "num_local_experts": 4, "num_experts_per_tok": 2}
    sizes = {"num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64}
    return llama(**(base | sizes | {"sliding_window": 128} | keys))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        *((given("KV-03")[k], right("KV-03")["bytes_per_token_layer"][k]) for k in "ABC"),
        (
            {"hidden_size": 64, "num_attention_heads": 4, "head_dim": 24, "num_key_value_heads": 2},
            192,
        ),
        (
            {"hidden_size": 60, "num_attention_heads": 6, "head_dim": 7, "num_key_value_heads": 3},
            84,
        ),
    ],
)
def test_explicit_head_width_sizes_the_cache(sizes: dict[str, int], expected: int) -> None:
    found = llama(**sizes, num_hidden_layers=5)
    assert each(found) == 5 * expected
    quotient = sizes["hidden_size"] // sizes["num_attention_heads"]
    assert quotient != sizes["head_dim"]


class TestLatentVectors:
    def test_published_model(self) -> None:
        found = model("deepseek-v3")
        assert each(found) == right("KV-04")["bytes_per_token"]
        sequence = number(found, found.kv_bytes(65536, "int4"))
        assert float(sequence) / 2**20 == right("KV-04")["MiB_64k_at_4_bits"]

    @pytest.mark.parametrize(("rank", "rope"), [(14, 6), (32, 2)])
    def test_one_vector_and_one_rotated_key_a_layer(self, rank: int, rope: int) -> None:
        found = llama(**LATENT | {"kv_lora_rank": rank, "qk_rope_head_dim": rope})
        assert each(found) == 2 * 3 * (rank + rope)

    @pytest.mark.parametrize("ways", [2, 4, 8])
    def test_it_is_whole_on_every_tensor_parallel_device(self, ways: int) -> None:
        found = model("deepseek-v3")
        held = number(found, found.kv_bytes_per_device(1, tensor=ways))
        assert held == given("KV-05")["latent_bytes_per_token"]
        if ways == given("KV-05")["tp"]:
            assert held == right("KV-05")["per_gpu_bytes_per_token_tp8"]

    @pytest.mark.parametrize(("ways", "share"), [(2, 2), (4, 2), (1, 1)])
    def test_heads_are_dealt_out_and_then_repeated(self, ways: int, share: int) -> None:
        found = llama()
        whole = number(found, found.kv_bytes(100))
        assert number(found, found.kv_bytes_per_device(100, tensor=ways)) == whole / share

    def test_heads_that_cannot_be_dealt_out(self) -> None:
        with pytest.raises(ModelError, match="2 key/value heads cannot be dealt out to 3 devices"):
            llama().kv_bytes_per_device(100, tensor=3)


@pytest.mark.parametrize(("tensor", "data"), [(4, 2), (2, 3), (8, 5)])
def test_a_request_lives_on_one_replica(tensor: int, data: int) -> None:
    # Whatever the number of replicas, a device holds the request's cache over the tensor axis.
    found = llama(num_attention_heads=8, num_key_value_heads=8, head_dim=128, num_hidden_layers=8)
    request = number(found, found.kv_bytes(2**18))
    held = number(found, found.kv_bytes_per_device(2**18, tensor=tensor))
    assert held == request / tensor
    assert held != request / (tensor * data)
    if tensor == given("KV-08")["tp"]:
        assert request == given("KV-08")["request_bytes"]
        assert float(held / 2**30) == right("KV-08")["per_gpu_GiB"]


@pytest.mark.parametrize(("layers", "context"), [(36, 1), (6, 100), (6, 1000)])
def test_windowed_layers_keep_their_window(layers: int, context: int) -> None:
    found = oss(num_hidden_layers=layers)
    half = layers // 2
    kept = number(found, found.kv_bytes(context))
    assert kept == 2 * 2 * 8 * 64 * (half * context + half * min(context, 128))
    if layers == given("KV-10")["layers"]:
        assert kept == right("KV-10")["bytes"]
        budget = int(5.38 * 2**30)
        assert abs(budget // kept - right("KV-10")["tokens_in_5.38GiB"]) <= 1


class TestLegacyKeys:
    def test_published_sizes(self) -> None:
        tokens = given("KV-13")["tokens"]
        first = gpt2(**given("KV-13")["A"])
        assert each(first) * tokens == right("KV-13")["A_bytes"]
        second = gpt2(**given("KV-13")["B"])
        assert each(second) * tokens == right("KV-13")["B_bytes"]

    @pytest.mark.parametrize("heads", [6, 12])
    def test_a_boolean_multi_query(self, heads: int) -> None:
        one = gpt2(model_type="gpt_bigcode", n_head=heads, multi_query=True)
        many = gpt2(model_type="gpt_bigcode", n_head=heads, multi_query=False)
        assert each(many) == heads * each(one)

    @pytest.mark.parametrize(
        "names", [("n_layer", "n_embd", "n_head"), ("num_hidden_layers", "hidden_size", "n_head")]
    )
    def test_either_name_of_a_size(self, names: tuple[str, str, str]) -> None:
        keys = dict(zip(names, (3, 48, 6), strict=True))
        found = model({"model_type": "gpt2", "vocab_size": 99, **keys})
        assert each(found) == 2 * 2 * 3 * 48


@pytest.mark.parametrize(("layers", "budget"), [(36, 2**30), (6, 10**7), (10, 5 * 10**8)])
def test_tokens_that_fit_are_not_the_budget_over_one_tokens_bytes(layers: int, budget: int) -> None:
    found = oss(num_hidden_layers=layers)
    longest = found.longest_sequence(budget)
    assert number(found, found.kv_bytes(longest)) <= budget
    assert number(found, found.kv_bytes(longest + 1)) > budget
    assert longest > budget // each(found)
    if layers == 36:
        assert longest == right("KV-14")["tokens_one_sequence"]
        assert budget // each(found) == wrong("KV-14")["tokens_from_len1_rate"]


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v3", "gpt-oss-20b"])
def test_the_caches_element_type_is_used(name: str) -> None:
    found = model(name)
    assert each(found) == 2 * each(found, "fp8") == 4 * each(found, "int4")


def test_two_logs_with_one_rate() -> None:
    first, second = given("KV-15")["A"], given("KV-15")["B"]
    rates = [
        first["GiB"] * 2**30 / first["tokens"],
        second["GiB_needed"] * 2**30 / second["tokens"],
    ]
    assert [round(rate) for rate in rates] == list(right("KV-15").values())
    expected = each(model("gpt-oss-20b"))
    assert all(rate == pytest.approx(expected, rel=1e-3) for rate in rates)


class TestStoredWeights:
    def test_four_bit_experts_with_scales(self) -> None:
        found = model("gpt-oss-120b")
        assert found.params.count == right("ME-12")["params"]
        stored = number(found, found.weight_bytes("bf16", {"experts": "mxfp4"}))
        assert stored == right("ME-12")["bytes"]

    @pytest.mark.parametrize(
        ("kind", "bits"), [("int4-g128", 4.125), ("nvfp4", 4.5), ("mxfp4", 4.25)]
    )
    def test_bits_of_a_weight_with_its_scale(self, kind: str, bits: float) -> None:
        found = llama()
        assert float(number(found, found.weight_bytes(kind))) == found.params.count * bits / 8

    def test_the_count_does_not_change(self) -> None:
        found = llama()
        before = found.params.count
        found.weight_bytes("int4")
        assert found.params.count == before

    def test_all_experts_are_resident(self) -> None:
        found = model("mixtral-8x7b")
        assert number(found, found.weight_bytes()) == 2 * found.params.count
        assert found.params.active_count < found.params.count / 3

    def test_unknown_format_and_component(self) -> None:
        with pytest.raises(ModelError, match=r"unknown storage format 'int3'.*did you mean int"):
            llama().weight_bytes("int3")
        with pytest.raises(ModelError, match="no component 'experts'; the model has embedding"):
            llama().weight_bytes("bf16", {"experts": "mxfp4"})


@pytest.mark.parametrize(("experts", "picked", "batch"), [(8, 2, 3), (4, 1, 2), (6, 3, 2)])
def test_distinct_experts_of_a_batch(experts: int, picked: int, batch: int) -> None:
    """By going through every way that a batch may pick."""
    from itertools import combinations, product

    choices = list(combinations(range(experts), picked))
    ways = list(product(choices, repeat=batch))
    touched = sum(len(set().union(*way)) for way in ways)
    found = experts_touched(batch, experts, picked)
    assert found * len(ways) == touched
    if experts == given("ME-17")["experts"]:
        assert float(found) == right("ME-17")["expected_distinct"]


class TestQuantisedConfigurations:
    @pytest.mark.parametrize(("name", "gib"), [("gpt-oss-120b", 60.8), ("gpt-oss-20b", 12.8)])
    def test_published_checkpoint_sizes(self, name: str, gib: float) -> None:
        found = model(name)
        stored = number(found, found.weight_bytes("bf16", stored_formats(found.config)))
        assert round(float(stored) / 2**30, 1) == gib

    @pytest.mark.parametrize(
        ("keys", "bits"),
        [
            ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4.125),
            ({"quant_method": "awq", "bits": 8, "group_size": 64}, 8.25),
            ({"quant_method": "fp8"}, 8),
            ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8 + 32 / 128**2),
            (given("PC-05")["quantization_config"], 4),
        ],
    )
    def test_bits_of_the_matrices_alone(self, keys: dict[str, Any], bits: float) -> None:
        found, plain = llama(quantization_config=keys), llama()
        assert found.params.count == plain.params.count
        formats = stored_formats(found.config)
        assert {float(kind.bits_per_weight) for kind in formats.values()} == {bits}
        assert "embedding" not in formats
        assert "norms" not in formats

    @pytest.mark.parametrize(
        "keys",
        [
            {"quant_method": "magic"},
            {"quant_method": "gptq", "bits": 4.5},
            {"quant_method": "awq", "bits": 4, "group_size": "all"},
        ],
    )
    def test_what_is_not_known_is_refused(self, keys: dict[str, Any]) -> None:
        with pytest.raises(ModelError) as caught:
            stored_formats(llama(quantization_config=keys).config)
        assert str(caught.value).isprintable()
