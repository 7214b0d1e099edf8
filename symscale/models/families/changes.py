"""Changes to parts of a body that has been read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from symscale.models.blocks import Attention, Body, Experts, Layer, Mtp
from symscale.models.keys import Keys


def with_mtp(keys: Keys, body: Body, key: str = "num_nextn_predict_layers") -> Body:
    """The body with its multi-token-prediction modules, which repeat the last layer."""
    modules = keys.number_of(key)
    if not modules:
        return body
    return replace(body, mtp=Mtp(modules, body.layers[-1], body.ends.final_norm))


def layer_with(layer: Layer, change: Callable[[Attention], Attention]) -> Layer:
    """A layer with its attention changed."""
    blocks = tuple(
        replace(b, parts=tuple(change(p) if isinstance(p, Attention) else p for p in b.parts))
        for b in layer.blocks
    )
    return replace(layer, blocks=blocks)


def with_attention(body: Body, change: Callable[[Attention], Attention]) -> Body:
    """A body with the attention of every layer changed."""
    return replace(body, layers=tuple(layer_with(layer, change) for layer in body.layers))


def with_experts(body: Body, change: Callable[[Experts], Experts]) -> Body:
    """A body with its experts changed."""

    def changed(layer: Layer) -> Layer:
        blocks = tuple(
            replace(b, parts=tuple(change(p) if isinstance(p, Experts) else p for p in b.parts))
            for b in layer.blocks
        )
        return replace(layer, blocks=blocks)

    return replace(body, layers=tuple(changed(layer) for layer in body.layers))
