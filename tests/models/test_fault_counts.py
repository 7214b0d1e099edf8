"""Faults in counting parameters and reading configurations, each with two more of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from symscale.models.blocks import Attention, Experts
from symscale.models.config import read_config
from symscale.models.model import Model, model
from symscale.models.moe_layers import moe_layers
from symscale.models.storage import packed_parameters
from tests.models.cases import given, gpt2, llama, number, right, wrong


def attentions(found: Model) -> list[Attention]:
    return [part for part in found.config.body.find(Attention) if isinstance(part, Attention)]


@pytest.mark.parametrize("keys", [given("PC-02"), "bloom-560m", "gemma-2b"], ids=str)
def test_tied_head_is_not_counted_twice(keys: Any) -> None:
    found = model(keys)
    assert "head" not in found.params.components
    assert sum(found.params.counts().values()) == found.params.count
    untied = dict(found.config.raw) | {"tie_word_embeddings": False}
    table = found.config.vocab * found.config.width
    assert model(untied).params.count == found.params.count + table
    if keys == given("PC-02"):
        assert found.params.count == right("PC-02")["params"]
        assert found.params.count + table == wrong("PC-02")["params"]


@pytest.mark.parametrize(
    ("shape", "bits", "container", "parameters"),
    [
        ((4096, 512), 4, 32, right("PC-05")["params"]),
        ((100, 30), 8, 32, 12_000),
        ((7, 9), 2, 8, 252),
    ],
)
def test_packed_low_bit_weights_are_counted_unpacked(
    shape: tuple[int, int], bits: int, container: int, parameters: int
) -> None:
    stored = shape[0] * shape[1]
    found = packed_parameters(stored, bits, container)
    assert found == parameters
    assert found * bits == stored * container
    if bits == given("PC-05")["quantization_config"]["num_bits"]:
        assert found * bits // 8 == right("PC-05")["bytes"]


@pytest.mark.parametrize("layers", [24, 5, 11])
def test_block_scales_are_no_parameters(layers: int) -> None:
    keys = {k: v for k, v in given("PC-06").items() if not k.startswith("expert_weight")}
    keys |= {"model_type": "gpt_oss", "num_experts_per_tok": 4, "num_hidden_layers": layers}
    found = model(keys)
    weights = layers * 32 * 3 * 2880 * 2880
    packed = number(found, found.weight_bytes("bf16", {"experts": "mxfp4"}))
    assert packed == 2 * (found.params.count - weights) + weights // 2 + weights // 32
    if layers == 24:
        assert found.params.count == right("PC-06")["params"]
        assert found.params.count + weights // 32 == wrong("PC-06")["scales_added"]


@pytest.mark.parametrize(("width", "ff"), [(4096, 11008), (56, 100), (24, 7)])
def test_a_gated_mlp_has_three_matrices_of_the_given_width(width: int, ff: int) -> None:
    found = llama(hidden_size=width, intermediate_size=ff, num_hidden_layers=1)
    mlp = found.params.counts()["mlp"]
    assert mlp == 3 * width * ff
    if ff == 11008:
        assert mlp == right("PC-07")["mlp_params_per_layer"]


@pytest.mark.parametrize(("layers", "width"), [(32, 4096), (3, 56), (7, 24)])
def test_two_norms_a_layer_with_or_without_bias(layers: int, width: int) -> None:
    sizes = {"num_hidden_layers": layers, "hidden_size": width}
    plain = llama(**sizes).params.counts()["norms"] - width
    biased = llama(model_type="nemotron", **sizes).params.counts()["norms"] - 2 * width
    assert (plain, biased) == (2 * layers * width, 4 * layers * width)
    if layers == 32:
        assert {"rmsnorm": plain, "layernorm_with_bias": biased} == right("PC-08")


class TestEveryNthLayerHasExperts:
    def llama4(self, **keys: Any) -> Model:
        base = {k: v for k, v in given("PC-09").items() if k != "shared_experts"}
        return model(base | {"model_type": "llama4_text", "tie_word_embeddings": False} | keys)

    def sparse(self, found: Model) -> int:
        return len(found.config.body.find(Experts))

    def test_step_one_means_every_layer(self) -> None:
        found = self.llama4()
        assert self.sparse(found) == right("PC-09")["moe_layers"]
        assert found.params.count == right("PC-09")["text_params"]
        wide = self.llama4(num_local_experts=128, interleave_moe_layer_step=2)
        assert wide.params.count == right("PC-09")["same_formula_128_experts_step_2"]

    @pytest.mark.parametrize(("layers", "step", "sparse"), [(7, 1, 7), (7, 3, 2), (25, 2, 12)])
    def test_other_steps(self, layers: int, step: int, sparse: int) -> None:
        keys = {"num_hidden_layers": layers, "interleave_moe_layer_step": step}
        assert self.sparse(self.llama4(**keys)) == sparse

    @pytest.mark.parametrize(
        ("convention", "case", "seven_by_three"),
        [
            ("qwen", "qwen_moe (idx+1)%step==0 and not in mlp_only_layers", 2),
            ("llama4", "llama4 range(step-1,L,step)", 2),
            ("megatron", "megatron i%freq==0", 3),
            ("deepseek", "deepseek idx>=first_k_dense and idx%freq==0 (first_k=1)", 2),
        ],
    )
    def test_the_four_conventions(self, convention: str, case: str, seven_by_three: int) -> None:
        sizes = given("FL-25")
        found = moe_layers(convention, sizes["num_hidden_layers"], sizes["step"], first_dense=1)
        assert len(found) == right("FL-25")[case]
        assert len(moe_layers(convention, 7, 3, first_dense=1)) == seven_by_three

    @pytest.mark.parametrize(("layers", "step"), [(25, 2), (7, 3), (8, 3)])
    def test_the_readers_follow_them(self, layers: int, step: int) -> None:
        qwen = llama(
            model_type="qwen3_moe", num_hidden_layers=layers, num_experts=6, num_experts_per_tok=2,
            moe_intermediate_size=20, decoder_sparse_step=step,
        )  # fmt: skip
        assert self.sparse(qwen) == len(moe_layers("qwen", layers, step))
        deepseek = llama(
            model_type="deepseek", num_hidden_layers=layers, n_routed_experts=6,
            num_experts_per_tok=2, moe_intermediate_size=20, n_shared_experts=1,
            first_k_dense_replace=1, moe_layer_freq=step,
        )  # fmt: skip
        assert self.sparse(deepseek) == len(moe_layers("deepseek", layers, step, first_dense=1))


@pytest.mark.parametrize(
    ("model_type", "tied"),
    [("gemma2", True), ("cohere", True), ("starcoder2", True), ("llama", False), ("phi3", False)],
)
def test_absent_tie_flag_takes_the_default_of_the_class(model_type: str, tied: bool) -> None:
    found = llama(model_type=model_type)
    assert found.config.tied is tied
    assert "tie_word_embeddings" in found.config.defaulted
    other = llama(model_type=model_type, tie_word_embeddings=not tied)
    table = found.config.vocab * found.config.width
    assert abs(other.params.count - found.params.count) == table


def test_absent_tie_flag_of_a_published_model() -> None:
    keys = {k: v for k, v in given("PC-10").items() if k != "norms_per_layer"}
    assert model(keys).params.count == right("PC-10")["params"]
    nested = {"model_type": "wrapper", "tie_word_embeddings": False, "text_config": keys}
    assert model(nested).params.count == wrong("PC-10")["params_if_missing_means_untied"]
    inner = {"text_config": keys | {"tie_word_embeddings": True}, "tie_word_embeddings": False}
    assert model(inner).params.count == right("PC-10")["params"]


class TestHeadWidthNormsAndBiases:
    def test_published_totals(self) -> None:
        first = {k: v for k, v in given("PC-11")["A"].items() if k != "qk_norm"}
        assert model(first | {"model_type": "qwen3"}).params.count == right("PC-11")["A"]
        second = {k: v for k, v in given("PC-11")["B"].items() if k != "qkv_bias"}
        assert model(second | {"model_type": "qwen2"}).params.count == right("PC-11")["B"]

    @pytest.mark.parametrize("head_dim", [10, 16])
    def test_explicit_head_width(self, head_dim: int) -> None:
        found = llama(model_type="qwen3", head_dim=head_dim)
        each = 56 * head_dim * (2 * 6 + 2 * 2)
        assert found.params.counts()["attention"] == 3 * each
        assert found.params.counts()["norms"] == 3 * (2 * 56 + 2 * head_dim) + 56

    @pytest.mark.parametrize("kv", [2, 3])
    def test_biases_of_queries_keys_and_values_alone(self, kv: int) -> None:
        plain = llama(num_key_value_heads=kv).params.count
        biased = llama(model_type="qwen2", num_key_value_heads=kv).params.count
        assert biased - plain == 3 * 10 * (6 + 2 * kv)


@pytest.mark.parametrize(("narrow", "before"), [(512, False), (24, True), (40, False)])
def test_an_embedding_narrower_than_the_model(narrow: int, before: bool) -> None:
    keys = dict(given("PC-12")) if narrow == 512 else {
        "model_type": "opt", "hidden_size": 48, "num_hidden_layers": 2, "ffn_dim": 90,
        "vocab_size": 1003, "max_position_embeddings": 77,
    }  # fmt: skip
    keys |= {"num_attention_heads": 16 if narrow == 512 else 6}
    keys |= {"word_embed_proj_dim": narrow, "do_layer_norm_before": before}
    found = model(keys)
    width, rows = keys["hidden_size"], keys["max_position_embeddings"] + 2
    counts = found.params.counts()
    assert counts["embedding"] == keys["vocab_size"] * narrow + 2 * narrow * width
    assert counts["positions"] == rows * width
    layers = 4 * width * keys["num_hidden_layers"]
    assert counts["norms"] == layers + (2 * width if before else 0)
    if narrow == 512:
        assert found.params.count == right("PC-12")["params"]


class TestReadingConfigurations:
    @pytest.mark.parametrize(("outer", "inner"), [(33, 40), (24, 61), (48, 16)])
    def test_the_text_part_wins_over_the_tower(self, outer: int, inner: int) -> None:
        text = dict(llama().config.raw) | {"num_hidden_layers": inner}
        found = read_config({"num_hidden_layers": outer, "text_config": text})
        assert found.layers == inner
        if inner == right("CF-02")["layers"]:
            missed = 100 * (1 - outer / inner)
            assert f"{missed:.1f}%" == right("CF-02")["undercount"]

    @pytest.mark.parametrize(("first", "sliding"), [(36, 0), (30, 6), (0, 36)])
    def test_layers_from_max_window_layers_on_have_the_window(
        self, first: int, sliding: int
    ) -> None:
        keys = given("CF-05") | {"max_window_layers": first, "model_type": "qwen2"}
        found = llama(**keys, max_position_embeddings=32768)
        windows = [part.window for part in attentions(found)]
        assert windows.count(4096) == sliding
        assert all(window is None for window in windows[:first])
        if first == 36:
            assert sliding == right("CF-05")["sliding_layers_by_code"]

    def test_explicit_layer_types_win(self) -> None:
        kinds = ["sliding_attention", "full_attention", "full_attention"]
        keys = {"layer_types": kinds, "use_sliding_window": True, "sliding_window": 64}
        found = llama(model_type="qwen2", max_window_layers=0, **keys)
        assert [part.window for part in attentions(found)] == [64, None, None]

    @pytest.mark.parametrize(
        ("which", "more"), [("A", {}), ("B", {}), ("C", {"num_hidden_layers": 2, "head_dim": 64})]
    )
    def test_falcon_key_value_heads(self, which: str, more: dict[str, Any]) -> None:
        keys = given("CF-06")[which] | more
        heads, wide = keys["num_attention_heads"], keys.pop("head_dim")
        keys |= {"model_type": "falcon", "hidden_size": heads * wide, "vocab_size": 65024}
        found = model(keys)
        assert {part.kv_heads for part in attentions(found)} == {right("CF-06")[f"{which}_kv"]}
        if which != "C":
            each = right("CF-06")[f"{which}_bytes_per_token"]
            assert number(found, found.kv_bytes_per_token()) == each

    @pytest.mark.parametrize("groups", [2, 3])
    def test_falcon_groups_count_only_where_they_apply(self, groups: int) -> None:
        keys = {
            "model_type": "falcon", "hidden_size": 48, "num_hidden_layers": 2, "vocab_size": 99,
            "num_attention_heads": 6, "num_kv_heads": groups,
        }  # fmt: skip
        for new, multi, kv in ((True, True, groups), (False, True, 1), (False, False, groups)):
            switches = {"new_decoder_architecture": new, "multi_query": multi}
            assert {part.kv_heads for part in attentions(model(keys | switches))} == {kv}

    @pytest.mark.parametrize(
        ("keys", "rows"),
        [
            (given("CF-07")["A"], right("CF-07")["A_qkv_rows"]),
            (given("CF-07")["B"] | {"num_key_value_heads": 24}, 3 * right("CF-07")["B_q_rows"]),
            ({"num_attention_heads": 5, "num_key_value_heads": 1, "head_dim": 7}, 49),
        ],
    )
    def test_rows_follow_heads_and_their_width(self, keys: dict[str, Any], rows: int) -> None:
        found = llama(**keys, num_hidden_layers=1)
        part = attentions(found)[0]
        attention = found.params.counts()["attention"]
        output = part.heads * part.head_dim * found.config.width
        assert attention - output == rows * found.config.width

    @pytest.mark.parametrize(
        ("width", "inner", "ff"), [(1024, None, 4096), (48, 50, 50), (60, None, 240)]
    )
    def test_absent_inner_width_is_four_times_the_width(
        self, width: int, inner: int | None, ff: int
    ) -> None:
        heads = 16 if width == 1024 else 6
        found = gpt2(n_embd=width, n_inner=inner, n_head=heads, n_ctx=1024)
        assert found.config.ff == ff
        if width == given("CF-10")["n_embd"]:
            assert ff == right("CF-10")["ffn"]

    @pytest.mark.parametrize("which", ["A", "B", "C", "D"])
    def test_element_type_under_both_names_at_both_levels(self, which: str) -> None:
        keys = given("CF-12")[which]
        text = dict(llama().config.raw)
        if "text_config" in keys:
            found = read_config({"text_config": text | keys["text_config"]})
        else:
            found = read_config(text | keys)
        assert found.dtype == "bf16"
        assert ("torch_dtype" in found.defaulted) == (which == "D")
        if which != "D":
            assert right("CF-12")[which] == 2

    @pytest.mark.parametrize(("layers", "every", "full"), [(40, 4, 10), (10, 3, 3), (7, 8, 0)])
    def test_every_nth_layer_is_full_attention(self, layers: int, every: int, full: int) -> None:
        found = llama(
            model_type="qwen3_next", num_hidden_layers=layers, full_attention_interval=every,
            num_experts=0, linear_num_key_heads=2, linear_num_value_heads=4,
            linear_key_head_dim=8, linear_value_head_dim=12, linear_conv_kernel_dim=4,
        ) if full else None  # fmt: skip
        if found is not None:
            assert len(attentions(found)) == full
        if layers == given("CF-13")["num_hidden_layers"]:
            assert full == right("CF-13")["full_layers"]
