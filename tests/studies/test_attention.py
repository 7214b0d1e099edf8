"""Where attention's scores pass the rest, for every kind of attention, held against FLOPs."""

from __future__ import annotations

import pytest
from sympy import S

from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import T
from symscale.models.model import Model, model
from symscale.studies.attention import RIVALS, attention_passes

WINDOWED = {
    "model_type": "mistral",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 16,
    "num_hidden_layers": 4,
    "vocab_size": 100,
    "hidden_act": "silu",
    "max_position_embeddings": 4096,
}


def scores_cost_more(found: Model, rival: str, length: int) -> bool:
    """By the model's own FLOPs at that length."""
    parts = found.flops_by_component(length)
    other = sum((parts.get(name, S.Zero) for name in RIVALS[rival]), S.Zero)
    return bool(parts["attention scores"].subs(found) >= other.subs(found))


@pytest.mark.parametrize("rival", sorted(RIVALS))
@pytest.mark.parametrize(
    "name",
    ["gpt2", "llama-3-70b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "gpt-oss-20b"],
)
def test_the_wall_is_where_the_flops_meet(name: str, rival: str) -> None:
    found = model(name)
    answer = attention_passes(found, rival).answer.at(found)
    assert answer.kind == "above"
    wall = float(answer.thresholds[0])
    assert not scores_cost_more(found, rival, int(wall * 0.99))
    assert scores_cost_more(found, rival, int(wall * 1.01) + 1)


def test_scores_that_a_window_caps_never_pass() -> None:
    found = model({**WINDOWED, "sliding_window": 16})
    answer = attention_passes(found, "mlp").answer
    assert answer.at(found).kind == "never"
    assert not any(scores_cost_more(found, "mlp", length) for length in (16, 192, 4096))


def test_a_wide_window_does_not_matter() -> None:
    found = model({**WINDOWED, "sliding_window": 1024})
    answer = attention_passes(found, "mlp").answer.at(found)
    assert answer.thresholds == (192,)
    assert scores_cost_more(found, "mlp", 192)


def test_an_unknown_rival() -> None:
    with pytest.raises(SolveError, match="unknown rival 'head'; rivals: projections, mlp, layer"):
        attention_passes(model("gpt2"), "head")


def test_symbols_of_the_wall() -> None:
    found = attention_passes(model("llama-3-70b"), "layer")
    assert found.scores.has(T)
    assert not found.other.has(T)
