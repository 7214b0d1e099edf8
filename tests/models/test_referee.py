"""The brute-force referee: every weight of small models of every family, walked one by one.

The shapes are those that the families' own model classes make; no formula of symscale is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Integer

from symscale.algebra.symbols import B
from symscale.models.blocks import Attention, Experts, Latent
from symscale.models.model import Model, model
from symscale.programs.ops import Einsum

TRUTH = Path(__file__).parents[1] / "truth" / "checkpoints.json"
MODELS = json.loads(TRUTH.read_text())["models"]

#: Tensors that no token is multiplied with: tables, norms, convolutions, decay rates, vectors.
NOT_A_MATRIX = re.compile(
    r"wte|wpe|word_embeddings|embed_tokens|embed_in|embed_positions|position_embeddings|"
    r"token_type_embeddings|shared\.weight$|embeddings\.weight$|norm|ln_|conv1d|conv_1d|conv\.conv|A_log|"
    r"relative_attention_bias|bias|pooler"
)
TABLE = re.compile(
    r"wte|word_embeddings|embed_tokens|embed_in|^(model\.)?shared\.weight|^(model|backbone)\.embeddings"
)


def named(row: dict[str, Any]) -> str:
    config = row["config"]
    words = [f"{k}={v}" for k, v in config.items() if isinstance(v, bool)]
    return "-".join([config["model_type"], *words])


CASES = pytest.mark.parametrize("row", MODELS, ids=named)


def tensors(row: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shape, times in row["tensors"]:
        for _ in range(times):
            yield name, tuple(shape)


@CASES
def test_parameters_by_walking_every_weight(row: dict[str, Any]) -> None:
    walked = sum(np.broadcast_to(np.int8(0), shape).size for _, shape in tensors(row))
    assert model(row["config"]).params.count == walked


def uses(name: str, shape: tuple[int, ...], found: Model) -> int:
    """Multiply-adds of one token with a tensor, were it met by itself."""
    routed = found.config.body.find(Experts)
    if len(shape) == 3 and "experts" in name:
        spec = routed[0]
        assert isinstance(spec, Experts)
        return int(np.prod(shape)) * spec.per_token // spec.experts
    return int(np.prod(shape))


@CASES
def test_multiply_adds_by_walking_every_weight(row: dict[str, Any]) -> None:
    found = model(row["config"])
    walked = sum(
        uses(name, shape, found)
        for name, shape in tensors(row)
        if len(shape) >= 2 and not NOT_A_MATRIX.search(name)
    )
    ends = found.config.body.ends
    if ends.tied and ends.head:
        table = next(shape for name, shape in tensors(row) if TABLE.search(name))
        walked += int(np.prod(table))
    assert weighted_flops(found) == 2 * walked


def weighted_flops(found: Model) -> Integer:
    """FLOPs of a token's products with weights, forward, by the programs."""
    programs = found.programs
    total = Integer(0)
    both = [(kind.program, kind.number) for kind in (*programs.kinds, *programs.encoder)]
    for program, times in [*both, (programs.ends, 1)]:
        for step in program.shard().forward.computes:
            named = {array.name for array in step.inputs} & set(program.weights)
            if isinstance(step.op, Einsum) and named - {"Wpool"}:
                total += times * (step.flops / B).subs(found)
    return total


def pairs(length: int, window: int | None, chunk: int | None, causal: bool) -> int:
    """Query and key pairs that meet, each looked at."""
    rows, columns = np.mgrid[:length, :length]
    met = columns <= rows if causal else np.ones((length, length), bool)
    if window is not None:
        met = met & (rows - columns < window)
    if chunk is not None:
        met = met & (rows // chunk == columns // chunk)
    return int(met.sum())


@CASES
@pytest.mark.parametrize("length", [1, 7, 33])
def test_scores_by_looking_at_every_pair(row: dict[str, Any], length: int) -> None:
    found = model(row["config"])
    body = found.config.body
    walked = 0
    for layer in (*body.layers, *body.encoder):
        for part in layer.parts:
            if isinstance(part, Attention):
                wide = part.head_dim + (part.value_dim or part.head_dim)
                met = pairs(length, part.window, part.chunk, part.causal)
                walked += 2 * part.heads * wide * met
            elif isinstance(part, Latent):
                wide = part.nope + part.rope + part.value_dim
                limit = part.indexer.keys if part.indexer else None
                walked += 2 * part.heads * wide * pairs(length, limit, None, True)
                if part.indexer:
                    each = part.indexer.heads * part.indexer.head_dim
                    walked += 2 * each * pairs(length, None, None, True)
    counted = found.attention_flops_per_token(length, causal="exact").subs(found)
    assert counted * length == walked


@CASES
def test_training_is_three_times_forward(row: dict[str, Any]) -> None:
    found = model(row["config"])
    if found.config.body.find(Attention) or found.config.body.find(Latent):
        forward = found.flops_per_token(16).subs(found)
        assert found.flops_per_token(16, training=True).subs(found) == 3 * forward


@CASES
def test_active_parameters_by_walking(row: dict[str, Any]) -> None:
    found = model(row["config"])
    walked = 0
    for name, shape in tensors(row):
        routed = "experts" in name and "shared" not in name
        spec = found.config.body.find(Experts)[0] if routed else None
        share = spec.per_token / spec.experts if isinstance(spec, Experts) else 1
        # A shared part that is stored beside the experts is met by every token.
        walked += round(int(np.prod(shape)) * share)
    assert found.params.active_count == walked
