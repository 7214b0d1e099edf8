"""Published values of inference: volumes, contexts, utilisation, and measured times as bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sympy import Eq, Expr, Integer, Rational

from symscale import chip, crossover, inference, minimise
from symscale.algebra.symbols import B, C, D, F, W_hbm, X, Y, n
from symscale.algebra.symbols import S as KEYS
from symscale.models.decoder import two_matmul_layer
from symscale.studies.inference_layout import serving_layout
from symscale.studies.inference_prefill import prefill
from symscale.studies.inference_program import Served
from tests.book.test_transformers import flops_per_parameter

TRUTH = Path(__file__).parents[1] / "truth" / "papers_inference.json"
ROWS: dict[str, dict[str, Any]] = {
    row["id"]: row for row in json.loads(TRUTH.read_text("utf-8"))["rows"]
}
V4 = chip("tpu-v4p")

#: PaLM 540B: one key/value head, three matrices a block, one table.
PALM: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 18432,
    "num_hidden_layers": 118,
    "num_attention_heads": 48,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "intermediate_size": 73728,
    "vocab_size": 256000,
    "max_position_embeddings": 65536,
    "tie_word_embeddings": True,
}
#: With a key/value head for each of 64 heads, 48 of them padded, half as wide.
MULTIHEAD = {"num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 128}
#: Padded to 64 query heads, so that they can be dealt out to 64 chips.
ONE_HEAD = {"num_attention_heads": 64}


def rows(start: str) -> list[str]:
    found = [name for name in ROWS if name.startswith(start)]
    assert found
    return found


def holds(found: float, name: str) -> bool:
    row = ROWS[name]
    if row["kind"] == "floor":
        low, high = row["tol"]
        return bool(low <= found / row["value"] <= high)
    size = row["tol"] if row["kind"] == "abs" else row["tol"] * row["value"]
    return bool(abs(found - row["value"]) <= size)


def elements(strategy: str) -> Expr:
    """Elements that the textbook's layer moves on a device under a layout, links alike."""
    served = Served(two_matmul_layer(), Integer(1))
    volume = serving_layout(strategy).without(frozenset({"Z"})).shard(served).forward.volume()
    return sum(volume.values()) / 2


@pytest.mark.parametrize("name", rows("esti/2dws"))
def test_volume_of_two_dims_of_weights(name: str) -> None:
    best = minimise(elements("2d"), over=(X, Y), subject_to=Eq(X * Y, n))
    values = {D: 18432, F: 73728, B: 1, n: ROWS[name]["setting"]["n"]}
    assert holds(float(best.value.subs(values)), name)


@pytest.mark.parametrize("name", rows("esti/wg"))
def test_volume_of_gathered_weights(name: str) -> None:
    best = minimise(elements("wg"), over=(X, Y), subject_to=Eq(X * Y, n))
    setting = ROWS[name]["setting"]
    values = {D: 18432, F: 73728, B: setting["tokens"], n: setting["n"]}
    assert holds(float(best.value.subs(values)), name)


@pytest.mark.parametrize("name", rows("esti/T1"))
def test_longest_context_by_layout(name: str) -> None:
    """30 % of 32 GiB of 64 chips for the cache: the context solved from the cache's own bytes."""
    setting = ROWS[name]["setting"]
    heads = MULTIHEAD if setting["layout"] == "multihead" else ONE_HEAD
    cut = "batch" if setting["layout"] == "optMQ" else "heads"
    study = inference(PALM | heads, "bf16", cache=cut)  # type: ignore[arg-type]
    made = study.at(V4, chips=64, batch=setting["B"], context=1)
    cache = made.study.memory.cache.subs({B: setting["B"], **made.axes})
    room = Rational(3, 10) * 32 * 2**30
    wall = crossover(cache, room, KEYS).threshold
    assert holds(float(wall), name)


@pytest.mark.parametrize("name", rows("esti/T2"))
def test_utilisation(name: str) -> None:
    """What a model's products take at the peak, each done once, over what was measured.

    On 64 chips a few more are done, as all 16 that share a key/value head project it.
    """
    setting, steps = ROWS[name]["setting"], 1 if "prefill" in name else 64
    batch = 1 if "prefill" in name else setting["tokens"] // steps

    def seconds(**mesh: int) -> tuple[float, float]:
        study = inference(PALM, strategy="2d")
        found = study.at(V4, batch=batch, context=2048, **mesh)
        if "prefill" in name:
            made = prefill(found, setting["tokens"])
            return made.number(found.study.prefill.products), made.time
        return steps * found.number(found.study.step.products), steps * found.step_time

    useful = seconds(X=1, Y=1, Z=1)[0] / 64
    assert holds(100 * useful / setting["t"], name)
    busy, bound = seconds(X=4, Y=1, Z=16)
    assert useful < busy < 1.05 * useful
    assert busy <= bound < setting["t"]
    # The same by what one parameter costs a token, nothing of the engine's layers in it.
    flops = flops_per_parameter() / 3 * 540 * 10**9 * setting["tokens"]
    assert useful == pytest.approx(float(flops / (64 * V4[C])), rel=0.02)


@pytest.mark.parametrize("layout", ["2d", "tp"])
def test_a_measured_step_is_no_faster_than_the_bound(layout: str) -> None:
    """int8 weights on 64 chips, 64 sequences of about 2048 tokens: a quarter of what was measured.

    The 48 heads lie on 16 chips with the width cut over 4; padded to 64, on all.
    """
    sizes = PALM | (ONE_HEAD if layout == "tp" else {})
    study = inference(sizes, "int8", "bf16", strategy=layout)
    how = {"chips": 64} if layout == "tp" else {"X": 4, "Y": 1, "Z": 16}
    made = study.at(V4, batch=64, context=2048, **how)
    assert holds(made.step_time * 1000, "esti/decode_int8")
    weights = 540e9 / (64 * 1.2e12)
    assert made.seconds("aggregate") >= weights


@pytest.mark.parametrize("name", rows("infersim/H800/mla_dec"))
def test_kernels_that_decode_latent_attention(name: str) -> None:
    """One layer's attention: every head reads the latent vectors, which are read once."""
    setting = ROWS[name]["setting"]
    step = inference("deepseek-v3", kv="bf16").step
    kernel = next(one for one in step.kernels if one.attention and one.math != 0)
    peaks = {C: 989 * 10**12, W_hbm: 335 * 10**10}
    values = {B: setting["bs"], KEYS: setting["kv"], Y: 1, **peaks}
    axes = {symbol: 1 for symbol in kernel.math.free_symbols if symbol.name in "XYZ"}
    if ROWS[name]["kind"] == "rel":
        flops = float((kernel.math * C).subs(values).subs(axes))
        assert holds(flops / (setting["us"] * 1e-6) / 989e12, name)
        return
    bound = max(float(part.subs(values).subs(axes)) for part in (kernel.math, kernel.hbm(True)))
    assert holds(bound * 1e6, name)
    read = setting["bs"] * setting["kv"] * 576 * 2
    assert float((kernel.hbm(True) * W_hbm).subs(values).subs(axes)) == pytest.approx(read)
