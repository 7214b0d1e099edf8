"""The configurations' own model classes, built without memory, where transformers is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from symscale.models.model import model

transformers = pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

TRUTH = Path(__file__).parents[1] / "truth" / "checkpoints.json"
MODELS = json.loads(TRUTH.read_text())["models"]
_AUTO = {
    "bert": "AutoModel",
    "roberta": "AutoModel",
    "t5": "AutoModelForSeq2SeqLM",
    "mt5": "AutoModelForSeq2SeqLM",
    "umt5": "AutoModelForSeq2SeqLM",
    "bart": "AutoModelForSeq2SeqLM",
}


def built(config: dict[str, Any]) -> int:
    """Parameters of the class's own model; a router's correction bias is a buffer there."""
    keys = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    made = transformers.CONFIG_MAPPING[config["model_type"]](**keys)
    name = _AUTO.get(config["model_type"], "AutoModelForCausalLM")
    name = "AutoModelForMaskedLM" if "architectures" in config else name
    with torch.device("meta"):
        whole = getattr(transformers, name).from_config(made)
    steering = (b for n, b in whole.named_buffers() if n.endswith("e_score_correction_bias"))
    return sum(p.numel() for p in whole.parameters()) + sum(b.numel() for b in steering)


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row["config"]["model_type"])
def test_count_on_the_meta_device(row: dict[str, Any]) -> None:
    assert model(row["config"]).params.count == built(row["config"])
