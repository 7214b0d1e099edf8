"""Faults in counting FLOPs and utilisation, each with two more inputs of its kind."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Rational

from symscale import einsum
from symscale.algebra.symbols import B, D, F, H, K, N, S, T, W_hbm
from symscale.algebra.symbols import C as Peak
from symscale.hardware.chips import chip
from symscale.models.flops import flops_per_token, rule_of_thumb
from symscale.models.model import Model, model
from symscale.models.scores import mean_keys
from symscale.models.utilisation import against_peak, utilisation
from tests.models.cases import given, gpt2, llama, number, right, wrong


def layer_flops(found: Model) -> Any:
    """Forward FLOPs of one token in one layer's products with weights."""
    parts = found.flops_by_component()
    total = parts["attention"] + parts["mlp"]
    return number(found, total) / found.config.layers


@pytest.mark.parametrize(("width", "ratio"), [(56, 4), (24, 4), (24, 3)])
def test_a_gate_is_a_third_matrix(width: int, ratio: int) -> None:
    sizes = {"hidden_size": width, "intermediate_size": ratio * width, "head_dim": width // 4}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 4}
    gated = Rational(layer_flops(llama(**sizes)), width**2)
    plain = Rational(layer_flops(llama(model_type="nemotron", **sizes)), width**2)
    assert (gated, plain) == (8 + 6 * ratio, 8 + 4 * ratio)
    if ratio == given("FL-01")["ffn_over_h"]:
        assert gated == right("FL-01")["fwd_coefficient_bsh2"]
        assert plain == wrong("FL-01")["fwd_coefficient_bsh2"]


@pytest.mark.parametrize(("width", "heads", "groups"), [(4096, 32, 8), (48, 6, 3), (60, 10, 2)])
def test_groups_shrink_keys_and_values_alone(width: int, heads: int, groups: int) -> None:
    found = llama(
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=width // heads,
        num_hidden_layers=1,
    )
    each = number(found, found.flops_by_component()["attention"])
    assert Rational(each, width**2) == 4 + Rational(4 * groups, heads)
    if width == 4096:
        assert float(each / width**2) == right("FL-02")["attn_projection_coefficient_bsh2"]


@pytest.mark.parametrize(
    ("width", "layers", "vocab", "length"),
    [(1024, 24, 50257, 2048), (48, 3, 1003, 64), (60, 5, 99, 7)],
)
def test_logits_cost_the_same_whether_or_not_layers_are_recomputed(
    width: int, layers: int, vocab: int, length: int
) -> None:
    heads = 16 if width == 1024 else 6
    found = gpt2(
        n_embd=width, n_layer=layers, n_head=heads, vocab_size=vocab, n_positions=max(length, 77)
    )
    once = number(found, found.flops_per_token(length, training=True)) * length
    head = 6 * length * width * vocab
    assert once == 72 * length * layers * width**2 + 12 * layers * length**2 * width + head
    again = number(found, found.recomputed_flops_per_token("block", length)) * length
    # The layer's last product need not be computed again: nothing in the layer reads it.
    assert again == (24 - 8) * length * layers * width**2 + 4 * layers * length**2 * width
    if width == 1024:
        assert once == right("FL-03")["flops"]


@pytest.mark.parametrize(("inner", "per_token"), [(768, 8), (100, 3), (64, 1)])
def test_experts_cost_their_own_width_times_those_visited(inner: int, per_token: int) -> None:
    keys = given("FL-04") | {
        "moe_intermediate_size": inner,
        "num_experts_per_tok": per_token,
        "model_type": "qwen3_moe",
        "num_hidden_layers": 1,
    }
    found = llama(**keys)
    parts = found.flops_by_component()
    assert number(found, parts["experts"]) == 6 * per_token * inner * 2048
    assert number(found, parts["router"]) == right("FL-04")["router_fwd_flops_per_token"]
    if inner == 768:
        assert number(found, parts["experts"]) == right("FL-04")["mlp_fwd_flops_per_token"]


@pytest.mark.parametrize(("tokens", "width"), [(4096, 192), (64, 48), (1000, 60)])
def test_scores_are_counted(tokens: int, width: int) -> None:
    found = gpt2(n_embd=width, n_positions=tokens)
    whole = number(found, found.flops_per_token(tokens, head=False))
    weights = layer_flops(found) * found.config.layers
    assert Rational(whole, weights) == 1 + Rational(tokens, 6 * width)
    if width == 192:
        assert round(float(whole / weights), 4) == right("FL-10")["undercount_factor"]


@pytest.mark.parametrize(
    ("heads", "length", "wide", "sequences"), [(5, 9, 4, 2), (3, 16, 10, 1), (7, 5, 6, 3)]
)
def test_scores_are_counted_once(heads: int, length: int, wide: int, sequences: int) -> None:
    found = llama(
        num_attention_heads=heads, num_key_value_heads=heads, head_dim=wide, num_hidden_layers=1
    )
    each = number(found, found.attention_flops_per_token(length))
    assert each * length * sequences == 4 * sequences * heads * length**2 * wide
    if heads == given("FL-11")["H"]:
        assert each * length * sequences == right("FL-11")["flops"]


@pytest.mark.parametrize(
    ("heads", "groups", "length", "wide"), [(8, 2, 256, 64), (6, 3, 16, 10), (12, 1, 9, 4)]
)
def test_scores_follow_the_query_heads(heads: int, groups: int, length: int, wide: int) -> None:
    found = llama(
        num_attention_heads=heads, num_key_value_heads=groups, head_dim=wide, num_hidden_layers=1
    )
    each = number(found, found.attention_flops_per_token(length)) * length
    assert each == 4 * heads * length**2 * wide
    if heads == given("FL-12")["Hq"]:
        assert each == right("FL-12")["flops"]
        assert each * groups / heads == wrong("FL-12")["flops"]


class TestCausalHalvingIsStated:
    def test_published_table(self) -> None:
        sizes = given("FL-15")
        tokens = sizes["seq_len"] * sizes["sequences"]
        keys = {k: sizes[k] for k in ("hidden_size", "intermediate_size", "vocab_size")}
        found = llama(
            **keys, num_hidden_layers=sizes["num_layers"], num_attention_heads=32,
            num_key_value_heads=32, head_dim=128,
        )  # fmt: skip

        def tera(length: int, causal: Any) -> float:
            each = number(found, found.flops_per_token(length, training=True, causal=causal))
            return float(each * tokens * length / sizes["seq_len"]) / 1e12

        assert tera(8192, False) == pytest.approx(wrong("FL-15")["full_square_TFLOP"], abs=0.01)
        assert tera(8192, True) == pytest.approx(right("FL-15")["total_causal_TFLOP"], abs=0.01)
        long = 129024
        each = number(found, found.flops_per_token(long, training=True)) * long
        half = number(found, found.flops_per_token(long, training=True, causal="half")) * long
        assert float(each) * 4 / 1e12 == pytest.approx(right("FL-15")["seq_129024_full"], abs=0.1)
        assert float(half) * 4 / 1e12 == pytest.approx(right("FL-15")["seq_129024_causal"], abs=0.1)

    @pytest.mark.parametrize("length", [1, 7, 100])
    def test_three_counts_of_one_mask(self, length: int) -> None:
        found = llama()
        full, half, exact = (
            number(found, found.attention_flops_per_token(length, causal=how))
            for how in (False, "half", "exact")
        )
        assert half == full / 2
        assert exact == half * (length + 1) / length

    def test_it_is_printed(self) -> None:
        printed = {
            flops_per_token(llama(), 64, causal=how).conventions["attention scores"]
            for how in (False, "half", "exact")
        }
        assert len(printed) == 3


@pytest.mark.parametrize(
    ("length", "window"), [(8192, 128), (100, 7), (33, 33), (5, 8), (4096, 1), (1000, 999)]
)
def test_a_window_is_not_halved(length: int, window: int) -> None:
    walked = sum(min(i, window) for i in range(1, length + 1))
    assert mean_keys(length, window=window) == Rational(walked, length)
    if window == given("FL-16")["window"]:
        assert float(mean_keys(length, window=window)) == right("FL-16")["mean_keys_exact"]


@pytest.mark.parametrize(("length", "chunk"), [(8192, 128), (100, 7), (33, 33), (5, 8), (9, 1)])
def test_chunks_with_a_short_last_one(length: int, chunk: int) -> None:
    walked = sum(i % chunk + 1 for i in range(length))
    assert mean_keys(length, chunk=chunk) == Rational(walked, length)


class TestAttentionWiderThanTheModel:
    def test_published_count(self) -> None:
        sizes = {k: v for k, v in given("FL-17").items() if k not in ("seq_len", "causal_halving")}
        found = llama(**sizes, model_type="qwen3_moe", num_experts=128, intermediate_size=12288)
        length = given("FL-17")["seq_len"]
        each = number(found, found.flops_per_token(length, training=True, causal=True))
        total = float(each * length) / 1e15
        assert total == pytest.approx(right("FL-17")["PFLOP_per_sequence"], rel=3e-3)
        narrow = model(dict(found.config.raw) | {"head_dim": 64})
        each = number(narrow, narrow.flops_per_token(length, training=True, causal=True))
        ratio = total / (float(each * length) / 1e15)
        assert ratio == pytest.approx(right("FL-17")["ratio"], rel=2e-3)

    @pytest.mark.parametrize("wide", [10, 40])
    def test_scores_follow_heads_times_their_width(self, wide: int) -> None:
        found = llama(head_dim=wide)
        assert number(found, found.attention_flops_per_token(16)) == 3 * 4 * 16 * 6 * wide


@pytest.mark.parametrize(("heads", "length", "wide"), [(16, 4096, 128), (6, 64, 10), (3, 9, 20)])
def test_a_fused_backward_pass_makes_the_scores_again(heads: int, length: int, wide: int) -> None:
    found = llama(
        num_attention_heads=heads, num_key_value_heads=heads, head_dim=wide, num_hidden_layers=1
    )
    forward = number(found, found.attention_flops_per_token(length, causal=True)) * length
    again = number(found, found.recomputed_flops_per_token("none", length, causal=True)) * length
    assert forward == 2 * heads * length**2 * wide
    assert again == forward / 2
    if heads == given("FL-20")["H"]:
        assert forward == right("FL-20")["fwd"]
        assert 2 * forward == right("FL-20")["bwd_model"]
        assert 2 * forward + again == right("FL-20")["bwd_hardware"]


@pytest.mark.parametrize(("rows", "inner", "columns"), [(2, 73, 256), (3, 5, 7), (1, 64, 9)])
def test_a_product_costs_two_flops_a_term(rows: int, inner: int, columns: int) -> None:
    made = einsum("A[B, D] * W[D, F] -> Out[B, F]").flops
    found = made.subs({B: rows, D: inner, F: columns})
    assert found == 2 * rows * inner * columns
    if rows == given("FL-22")["n"]:
        assert found == right("FL-22")["flops_matmul"]


@pytest.mark.parametrize(
    "sizes", [(1024, 1024, 1024), (2**20, 2**20, 2**20), (3**30, 5**20, 7**20)]
)
def test_counts_do_not_overflow(sizes: tuple[int, int, int]) -> None:
    made = einsum("A[B, D] * W[D, F] -> Out[B, F]").flops
    rows, inner, columns = sizes
    assert made.subs({B: rows, D: inner, F: columns}) == 2 * rows * inner * columns
    if rows == 1024:
        assert int(made.subs({B: rows, D: inner, F: columns})) == right("FL-23")["flops"]


@pytest.mark.parametrize(("heads", "wide"), [(64, 128), (6, 10), (3, 7)])
def test_a_cached_token_costs_two_products(heads: int, wide: int) -> None:
    found = llama(num_attention_heads=heads, num_key_value_heads=1, head_dim=wide)
    per_token = found.decode_flops_per_token(S).diff(S).subs(found) / found.config.layers
    assert per_token == 4 * heads * wide
    if heads == given("FL-24")["num_heads"]:
        assert per_token == right("FL-24")["flops_per_ctx_token_per_layer"]


class TestUtilisation:
    @pytest.mark.parametrize(
        ("value", "assumed", "true"),
        [(1.04, 312e12, 989.4e12), (0.5, 312e12, 125e12), (0.4, 197e12, 459e12)],
    )
    def test_a_rate_against_another_chips_peak(
        self, value: float, assumed: float, true: float
    ) -> None:
        found = float(against_peak(value, assumed, true))
        assert found == pytest.approx(value * assumed / true)
        if value == given("MF-02")["reported_mfu"]:
            assert round(found, 3) == right("MF-02")["mfu"]

    @pytest.mark.parametrize("name", ["GB200", "B200", "GB300"])
    def test_a_chips_name_is_not_a_part_of_anothers(self, name: str) -> None:
        found = float(chip(name.lower())[Peak])
        assert found == pytest.approx(right("MF-03")[f"{name}_bf16"], rel=0.02)

    @pytest.mark.parametrize(("name", "key"), [("h100-pcie", "peak_dense"), ("h100", "sxm_dense")])
    def test_dense_peaks_of_the_variants_of_one_chip(self, name: str, key: str) -> None:
        assert float(chip(name)[Peak]) == pytest.approx(right("MF-05")[key], rel=2e-3)
        assert chip("h100-pcie")[W_hbm] != chip("h100")[W_hbm]

    @pytest.mark.parametrize(
        ("parameters", "rate", "peak"),
        [(7e9, 3000, 312e12), (1e9, 9000, 197e12), (13e9, 1200, 459e12)],
    )
    def test_what_is_recomputed_counts_for_the_hardware_alone(
        self, parameters: float, rate: float, peak: float
    ) -> None:
        model_share = utilisation(6 * parameters, rate, peak)
        hardware = utilisation(6 * parameters, rate, peak, recomputed=2 * parameters)
        assert float(hardware) == pytest.approx(float(model_share) * 8 / 6)
        assert "not counted" in repr(model_share)
        assert repr(hardware).startswith("HFU")
        if parameters == given("MF-08")["N"]:
            assert round(float(model_share), 4) == right("MF-08")["mfu"]
            assert round(float(hardware), 4) == right("MF-08")["hfu"]

    @pytest.mark.parametrize("name", ["llama-3-8b", "gpt2-xl", "pythia-1.4b"])
    def test_which_parameters_the_rule_of_six_takes(self, name: str) -> None:
        found = model(name)
        counts = found.params.counts()
        whole = rule_of_thumb(found)
        without = rule_of_thumb(found, embedding=False)
        saved = 0 if found.config.tied else counts["embedding"]
        assert whole.value - without.value == 6 * saved
        assert whole.number == found.params.count
        bare = rule_of_thumb(found, embedding=False, head=False)
        assert bare.number == whole.number - counts["embedding"] - counts.get("head", 0)
        if name == "llama-3-8b":
            assert without.value == right("MF-09")["6N_per_token"]
            assert whole.value == wrong("MF-09")["6N_per_token"]

    @pytest.mark.parametrize(
        ("cores", "each", "clock"),
        [(148, 8192, 2.062e9), (132, 4096, 1.83e9), (108, 2048, 1.41e9)],
    )
    def test_a_peak_is_units_times_rate_times_clock_once(
        self, cores: int, each: int, clock: float
    ) -> None:
        peak = cores * each * clock
        assert float(utilisation(1.0, peak, peak)) == 1
        if cores == given("MF-10")["sms"]:
            assert round(peak / 1e12) == right("MF-10")["peak_TFLOPs"]


def test_formulas_are_of_the_symbols() -> None:
    found = llama()
    assert found.attention_flops_per_token() == 4 * found.programs.kinds[0].count * H * N * T
    assert K in found.flops_per_token().free_symbols
