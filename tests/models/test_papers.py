"""Counts against published tables: parameters, caches, FLOPs of a token, utilisation."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from sympy import Rational

from symscale.algebra.symbols import B, T
from symscale.models.flops import rule_of_thumb
from symscale.models.model import Model, model
from symscale.models.utilisation import utilisation
from tests.models.cases import gpt2, llama, number

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "papers_models.json").read_text())
ROWS: list[dict[str, Any]] = TRUTH["rows"]


def rows(*prefixes: str) -> Any:
    chosen = [row for row in ROWS if row["id"].startswith(prefixes)]
    assert chosen
    return pytest.mark.parametrize("row", chosen, ids=[row["id"] for row in chosen])


def close(found: Any, row: dict[str, Any]) -> None:
    value, tol = row["value"], row["tol"]
    if row["tol_kind"] == "exact":
        assert found == value
    elif row["tol_kind"] == "abs":
        assert abs(float(found) - value) <= tol
    else:
        assert abs(float(found) / value - 1) <= tol


#: Models of the zoo under the names of the tables.
ZOO = {
    "gpt2": "gpt2", "gpt2-large": "gpt2-large", "bloom-176b": "bloom", "falcon-180b": "falcon-180b",
    "falcon-40b": "falcon-40b", "llama2-7b": "llama-2-7b", "llama2-13b": "llama-2-13b",
    "llama2-70b": "llama-2-70b", "llama3.1-70b": "llama-3.1-70b", "dbrx": "dbrx",
    "llama3.1-405b": "llama-3.1-405b", "qwen3-8b": "qwen3-8b", "qwen3-32b": "qwen3-32b",
    "qwen3-0.6b": "qwen3-0.6b", "mixtral-8x7b": "mixtral-8x7b", "mixtral-8x22b": "mixtral-8x22b",
    "qwen3-30b-a3b": "qwen3-30b-a3b", "qwen3-235b-a22b": "qwen3-235b-a22b",
    "qwen3-coder-480b": "qwen3-coder-480b-a35b", "deepseek-v3": "deepseek-v3",
    "deepseek-v2": "deepseek-v2", "deepseek-v2-lite": "deepseek-v2-lite", "kimi-k2": "kimi-k2",
    "gpt-oss-120b": "gpt-oss-120b", "gpt-oss-20b": "gpt-oss-20b", "llama4-scout": "llama-4-scout",
    "grok-1": "grok-1", "gemma-2b": "gemma-2b", "gemma-7b": "gemma-7b", "gemma2-2b": "gemma-2-2b",
    "gemma2-9b": "gemma-2-9b", "gemma2-27b": "gemma-2-27b",
}  # fmt: skip


def of(found: Model, **convention: bool) -> int:
    return int(number(found, found.params.of(**convention)))


def quantity(found: Model, part: str) -> Any:
    """What a row of the tables counts, by the convention that its source states."""
    counts = found.params.counts()
    if part in ("", "exact"):
        return found.params.count
    if part == "emb":
        return counts["embedding"]
    if part == "nonemb":
        return of(found, embedding=False, head=False)
    if part == "mlp":
        return counts["experts"] + counts["router"]
    if part == "attn":
        # The card counts the norm before attention with it.
        return counts["attention"] + found.config.layers * found.config.width
    if part == "mtp":
        # The matrix that joins two hidden states is left out.
        return found.params.mtp_count - 2 * found.config.width**2
    if part == "active37":
        return found.params.active_count
    return of(found, active=True, embedding=False)


#: Rows whose active parameters count both tables.
BOTH = ("mixtral-8x22b", "qwen3-30b-a3b", "qwen3-235b-a22b", "qwen3-coder-480b", "llama4-scout")


@rows("params/")
def test_parameters(row: dict[str, Any]) -> None:
    _, name, part = (row["id"] + "/").split("/")[:3]
    if name == "gemma3-12b":
        pytest.skip("counted by test_gemma_3")
    found = model(ZOO[name])
    if part == "emb" and name.startswith("gemma"):
        # The papers' table has 256,128 rows, of which the checkpoints store 256,000.
        found = model(dict(found.config.raw) | {"vocab_size": 256128})
    if part == "active" and name in BOTH:
        made: Any = found.params.active_count
    else:
        made = quantity(found, part)
    scale = {"1e9": 10**9, "-": 1}[row["unit"]]
    close(made if scale == 1 else Rational(made, scale), row)


def test_gemma_3() -> None:
    row = next(row for row in ROWS if row["id"] == "params/gemma3-12b/nonemb")
    sizes = row["model"]
    found = llama(
        model_type="gemma3_text", hidden_size=sizes["d"], num_hidden_layers=sizes["L"],
        num_attention_heads=sizes["H"], num_key_value_heads=sizes["K"], head_dim=sizes["hd"],
        intermediate_size=sizes["ff"], sliding_window=sizes["window"],
        max_position_embeddings=131072,
    )  # fmt: skip
    close(Rational(quantity(found, "nonemb"), 10**6), row)
    assert {kind.name: kind.number for kind in found.programs.kinds} == {"window": 40, "full": 8}


@rows("kv/dsv2")
def test_cached_numbers_of_a_token(row: dict[str, Any]) -> None:
    sizes = row["model"]
    if "d_c" in sizes:
        found = model("deepseek-v2" if sizes["L"] == 60 else "deepseek-v2-lite")
        assert found.config.layers == sizes["L"]
    else:
        found = llama(
            num_hidden_layers=sizes["L"], num_attention_heads=sizes["n_h"],
            num_key_value_heads=sizes["n_h"], head_dim=sizes["d_h"],
        )  # fmt: skip
    close(Rational(number(found, found.kv_bytes_per_token("int8")), 1000), row)


def megatron(sizes: dict[str, Any]) -> Model:
    """A GPT with learned positions: the model of the table."""
    heads = sizes.get("heads", 96)
    return gpt2(
        n_embd=sizes.get("hidden", sizes.get("h")), n_layer=sizes.get("layers", sizes.get("l")),
        n_head=heads, vocab_size=sizes.get("V", sizes.get("v")), n_positions=sizes["s"],
    )  # fmt: skip


@rows("mega/P")
def test_megatron_parameters(row: dict[str, Any]) -> None:
    close(Rational(megatron(row["model"]).params.count, 10**9), row)


@rows("korth/tab5")
def test_korthikanti_utilisation(row: dict[str, Any]) -> None:
    sizes, setting = row["model"], row["setting"]
    found = megatron(sizes)
    each = number(found, found.flops_per_token(sizes["s"], training=True))
    seconds = {"175B": 13.75, "530B": 37.83}[row["id"].split("/")[2]]
    share = utilisation(each, setting["B"] * sizes["s"] / seconds, 312e12, chips=setting["GPUs"])
    close(100 * float(share), row)


def palm() -> Model:
    sizes = next(row["model"] for row in ROWS if row["id"] == "palm/P/540B")
    return llama(
        hidden_size=sizes["d"], num_hidden_layers=sizes["L"], num_attention_heads=sizes["H"],
        num_key_value_heads=1, head_dim=sizes["head"], intermediate_size=sizes["ff"],
        vocab_size=sizes["V"], tie_word_embeddings=True,
    )  # fmt: skip


@rows("palm/P")
def test_palm_parameters(row: dict[str, Any]) -> None:
    # Its attention and feed-forward run in parallel and have one norm, as the published count has.
    close(Rational(palm().params.count, 10**9), row)


@rows("palm/MFU")
def test_palm_utilisation(row: dict[str, Any]) -> None:
    setting = row["setting"] or next(r for r in ROWS if r["id"] == "palm/MFU/noattn")["setting"]
    length = setting["seq"] if row["id"].endswith("/attn") else None
    rule = rule_of_thumb(palm(), length=length)
    share = utilisation(
        rule.value, setting["tok_s"], setting["peak_TF"] * 10**12, chips=setting["chips"]
    )
    close(100 * float(share), row)


def foundry(sizes: dict[str, Any], length: int) -> Model:
    return gpt2(
        n_embd=sizes["d"], n_layer=sizes["L"], n_head=sizes["d"] // 128,
        vocab_size=sizes.get("V", 50368), n_positions=length,
    )  # fmt: skip


@rows("foundry/N")
def test_foundry_parameters(row: dict[str, Any]) -> None:
    assert foundry(row["model"], row["setting"]["seq"]).params.count == row["value"]


@rows("foundry/MFU")
def test_foundry_utilisation(row: dict[str, Any]) -> None:
    """6N with every parameter, and all scores."""
    setting = row["setting"]
    found = foundry(row["model"], setting["seq"])
    assert found.params.count == row["model"]["N"]
    rule = rule_of_thumb(found, length=setting["seq"])
    peak = (989.4e12 if "h100" in setting["gpu"] else 312e12) * (
        1 + ("fp8" in setting["precision"])
    )
    close(100 * float(utilisation(rule.value, setting["tok_s_gpu"], peak)), row)


@rows("chin/A4")
def test_chinchilla_ratio(row: dict[str, Any]) -> None:
    """Counted FLOPs over 6N, with the softmax and without the logits, as the authors did."""
    sizes, length = row["model"], 2048
    found = gpt2(
        n_embd=sizes["d"], n_layer=sizes["layers"], n_head=sizes["heads"], n_inner=sizes["ffw"],
        vocab_size=32000, n_positions=length,
    )  # fmt: skip
    assert sizes["heads"] * sizes["kv"] == sizes["d"]
    kind = found.programs.kinds[0]
    softmax = 3 * kind.number * kind.program.arrays["Probs"].size / B
    each = found.flops_per_token(T, head=False) + softmax
    counted = 3 * float(each.subs(found).subs(T, length))
    # Their N has the projection of relative positions, which their count of FLOPs leaves out.
    size = of(found, positions=False) + sizes["layers"] * sizes["d"] ** 2
    close(counted / (6 * size), row)


@rows("tpu/")
def test_training_flops_of_a_token(row: dict[str, Any]) -> None:
    found = model(row["model"]["name"])
    each = found.flops_per_token(row["setting"]["seq"], training=True, causal="half")
    close(float(number(found, each)) / 1e9, row)


def test_every_row_has_a_source() -> None:
    assert {row["source"] for row in ROWS} <= set(TRUTH["sources"])
    assert all(re.fullmatch(r"[\w./+-]+( ?[\w./+-]+)*", row["id"]) for row in ROWS)
