"""Beside the usual decoder: towers, encoders, further predictions, states, shared keys."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from sympy import Rational

from symscale.algebra.errors import ModelError
from symscale.algebra.symbols import B, S, T, symbol
from symscale.models.model import model
from symscale.models.remat import POLICIES, rematerialise
from tests.models.cases import gpt2, llama, number
from tests.models.test_fault_cache import LATENT

TRUTH = Path(__file__).parents[1] / "truth" / "checkpoints.json"
MULTIMODAL = json.loads(TRUTH.read_text())["multimodal"]


class TestImageTowers:
    @pytest.mark.parametrize("row", MULTIMODAL, ids=lambda row: row["config"]["model_type"])
    def test_by_walking_every_weight(self, row: dict[str, Any]) -> None:
        found = model(row["config"])
        walked = sum(math.prod(shape) * times for _, shape, times in row["tensors"])
        assert found.params.count == walked
        assert any("image tower" in note for note in found.notes)

    @pytest.mark.parametrize("row", MULTIMODAL, ids=lambda row: row["config"]["model_type"])
    def test_flops_are_the_text_models(self, row: dict[str, Any]) -> None:
        text = row["config"]["text_config"] | {"tie_word_embeddings": None}
        alone = model({k: v for k, v in text.items() if v is not None})
        found = model(row["config"])
        for head in (False, True):
            with_tower = number(found, found.flops_per_token(16, head=head))
            assert with_tower == number(alone, alone.flops_per_token(16, head=head))

    def test_a_tower_that_is_not_known_is_named(self) -> None:
        text = dict(llama().config.raw)
        found = model({"model_type": "llava", "text_config": text, "vision_config": {"depth": 3}})
        assert found.params.count == llama().params.count
        assert found.notes == (
            "parameters and FLOPs are those of the text model; vision_config is not counted",
        )


class TestFurtherPredictions:
    def test_counted_apart(self) -> None:
        keys = LATENT | {"num_nextn_predict_layers": 2, "num_hidden_layers": 4}
        found, plain = llama(**keys), llama(**keys | {"num_nextn_predict_layers": 0})
        assert found.params.count == plain.params.count
        layer = llama(**keys | {"num_hidden_layers": 5, "num_nextn_predict_layers": 0})
        each = layer.params.count - plain.params.count
        width = found.config.width
        assert found.params.mtp_count == 2 * (each + 2 * width**2 + 3 * width)
        assert plain.params.mtp_count == 0

    def test_published_module_and_its_flops(self) -> None:
        found = model("deepseek-v3")
        giga = number(found, found.flops_per_token(4096, training=True, causal=True, mtp=True))
        # Published for a recipe that trains with one module: 260 GFLOP a token.
        assert float(giga) / 1e9 == pytest.approx(260, rel=5e-3)


class TestStates:
    @pytest.mark.parametrize("length", [1, 1000])
    def test_a_state_does_not_grow(self, length: int) -> None:
        found = llama(
            model_type="qwen3_next", num_hidden_layers=4, num_experts=0, linear_num_key_heads=2,
            linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12,
            linear_conv_kernel_dim=3,
        )  # fmt: skip
        # Three layers of four: a matrix a head, and two tokens before each convolution.
        numbers = 3 * (4 * 8 * 12 + 2 * (2 * 2 * 8 + 4 * 12))
        assert number(found, found.state_bytes()) == 4 * numbers
        assert number(found, found.kv_bytes(length)) == 2 * 2 * 2 * 10 * length

    def test_state_space_layers(self) -> None:
        found = model("nemotron-h-56b")
        config = found.config.raw
        heads, wide = config["mamba_num_heads"], config["mamba_head_dim"]
        groups, state = config["n_groups"], config["ssm_state_size"]
        each = heads * wide * state + 3 * (heads * wide + 2 * groups * state)
        layers = config["hybrid_override_pattern"].count("M")
        assert number(found, found.state_bytes()) == 4 * layers * each

    def test_a_model_of_states_alone_costs_the_same_at_every_length(self) -> None:
        found = model("nemotron-3-nano-30b-a3b")
        parts = found.flops_by_component()
        assert T not in parts["state"].free_symbols
        assert T in parts["attention scores"].free_symbols


def test_keys_shared_between_layers() -> None:
    keys = {"model_type": "hunyuan_v1_moe", "num_experts": 1, "num_hidden_layers": 6}
    own = llama(**keys)
    shared = llama(**keys, use_cla=True, cla_share_factor=2)
    assert number(own, own.kv_bytes_per_token()) == 2 * number(shared, shared.kv_bytes_per_token())
    saved = 3 * 2 * 56 * 2 * 10
    assert own.params.count - shared.params.count == saved + 3 * 10
    scores = own.attention_flops_per_token(64).subs(own)
    assert scores == shared.attention_flops_per_token(64).subs(shared)


class TestEncoders:
    def test_a_bidirectional_layer_has_no_causal_half(self) -> None:
        found = model("bert-base")
        assert found.attention_flops_per_token(causal=True) == found.attention_flops_per_token()

    def test_an_encoder_decoder_crosses_in_full(self) -> None:
        found = model("t5-base")
        full = number(found, found.attention_flops_per_token(64))
        half = number(found, found.attention_flops_per_token(64, causal=True))
        each = 4 * 12 * 64 * 12 * 64
        assert full == 3 * each
        assert half == Rational(5, 2) * each
        assert any("encoder-decoder" in note for note in found.notes)

    def test_several_kinds_have_no_single_layer(self) -> None:
        with pytest.raises(ModelError, match="12 layer, 12 layer"):
            _ = model("t5-base").programs.layer
        with pytest.raises(ModelError, match=r"3 dense, 58 moe\); use \.kinds"):
            _ = model("deepseek-v3").programs.layer


class TestLatentDecode:
    def test_absorbed_and_not(self) -> None:
        found = llama(**LATENT)
        absorbed = found.decode_flops_per_token(S).expand()
        made_again = found.decode_flops_per_token(S, absorbed=False).expand()
        wide, rank = symbol("H_n") + symbol("H_v"), symbol("R_kv")
        slope = made_again.diff(S) / found.programs.kinds[0].count / symbol("N")
        # Every head's keys and values of every cached token are made again.
        assert (slope - 2 * rank * wide - 2 * (wide + symbol("H_r"))).expand() == 0
        slope = absorbed.diff(S) / found.programs.kinds[0].count / symbol("N")
        assert (slope - 2 * (2 * rank + symbol("H_r"))).expand() == 0

    def test_they_agree_where_nothing_is_cached(self) -> None:
        found = llama(**LATENT)
        alone = found.decode_flops_per_token(1, absorbed=False).subs(found)
        forward = found.flops_per_token(1).subs(found)
        assert alone == forward


class TestRematerialisation:
    @pytest.mark.parametrize("policy", POLICIES)
    def test_what_is_saved_and_what_is_repeated_make_what_is_read(self, policy: str) -> None:
        for found in (llama(), gpt2(), llama(**LATENT), model("mixtral-8x7b")):
            program = found.programs.kinds[0].program
            made = rematerialise(program, policy)  # type: ignore[arg-type]
            saved = {array.name for array in made.saved}
            assert not saved & set(made.recomputed)
            assert not saved & set(program.weights)

    def test_bytes_of_the_blocks_input(self) -> None:
        made = rematerialise(llama().programs.layer, "block")
        assert made.bytes == 2 * B * symbol("D")
        assert rematerialise(llama().programs.layer, "full").bytes == made.bytes

    def test_selective_drops_the_squares(self) -> None:
        program = gpt2().programs.layer
        whole = rematerialise(program, "none", fused=False)
        picked = rematerialise(program, "selective", fused=False)
        length, heads = T, symbol("N")
        # Without a fused kernel the probabilities are kept: two bytes for each query, key and head.
        assert (whole.bytes - picked.bytes - 2 * heads * B * length).expand() == 0
        assert whole.flops == 0
        # Made again: the scores, one of the two products.
        assert picked.flops == 2 * B * length * heads * symbol("H")

    def test_saved_matmuls_are_not_repeated(self) -> None:
        made = rematerialise(llama().programs.layer, "matmul")
        assert {"Q", "Keys", "Vals", "Gate", "Up"} <= {array.name for array in made.saved}
        weighted = {"Q", "Keys", "Vals", "Att", "Gate", "Up", "Mlp"}
        assert not weighted & set(made.recomputed)

    def test_more_is_repeated_where_less_is_saved(self) -> None:
        found = llama()
        order = ("none", "matmul", "block")
        saved = [number(found, found.saved_bytes_per_token(p)) for p in order]  # type: ignore[arg-type]
        again = [number(found, found.recomputed_flops_per_token(p, 64)) for p in order]  # type: ignore[arg-type]
        assert saved == sorted(saved, reverse=True)
        assert again == sorted(again)

    def test_unknown_policy(self) -> None:
        with pytest.raises(ModelError, match=r"policy 'blok' is none of none, selective.*block"):
            rematerialise(llama().programs.layer, "blok")  # type: ignore[arg-type]


class TestCapacity:
    @pytest.mark.parametrize("factor", [1, 1.25, 2])
    def test_padded_buffers_cost_their_padding(self, factor: float) -> None:
        found = model("mixtral-8x7b")
        parts = found.flops_by_component()
        plain = number(found, found.flops_per_token(64))
        padded = number(found, found.flops_per_token(64, capacity=factor))
        experts = number(found, parts["experts"])
        assert padded - plain == (Rational(str(factor)) - 1) * experts

    def test_the_convention_is_printed(self) -> None:
        from symscale.models.flops import flops_per_token

        printed = flops_per_token("mixtral-8x7b", 64, capacity=1.25).conventions
        assert "1.25" in printed["experts"]
