"""Faults of other tools, and small configurations for the whole kind of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from symscale.models.model import Model, model

_TRUTH = Path(__file__).parents[1] / "truth" / "cases_models.json"
CASES: dict[str, dict[str, Any]] = {
    row["id"]: row for row in json.loads(_TRUTH.read_text())["cases"]
}


def given(case: str) -> Any:
    """What the reporter put in."""
    return CASES[case]["input"]


def right(case: str) -> Any:
    """The right value of a case."""
    return CASES[case]["right"]


def wrong(case: str) -> Any:
    """The value that the faulty tool gave."""
    return CASES[case]["wrong"]


def llama(**keys: Any) -> Model:
    """A decoder of the Llama type whose sizes share no factor that could hide a fault."""
    base: dict[str, Any] = {
        "model_type": "llama",
        "num_hidden_layers": 3,
        "hidden_size": 56,
        "intermediate_size": 100,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 10,
        "vocab_size": 1003,
        "max_position_embeddings": 4096,
    }
    return model(base | keys)


def gpt2(**keys: Any) -> Model:
    """A GPT-2 with given keys."""
    base = {"model_type": "gpt2", "n_embd": 48, "n_layer": 3, "n_head": 6, "n_positions": 77}
    return model(base | {"vocab_size": 1003} | keys)


def number(found: Model, expr: Any) -> Any:
    """A formula with a model's sizes in it."""
    return expr.subs(found)
