"""What sets the kinds of a model's layers apart, in a word."""

from __future__ import annotations

from collections import Counter

from symscale.models.blocks import (
    Attention,
    DeltaNet,
    Experts,
    GatedRecurrence,
    Latent,
    Layer,
    Lightning,
    Mamba,
    Mlp,
    ShortConv,
)

_STATE = {
    DeltaNet: "linear",
    Lightning: "linear",
    Mamba: "ssm",
    ShortConv: "conv",
    GatedRecurrence: "recurrent",
}


def names_of(layers: tuple[Layer, ...]) -> tuple[str, ...]:
    """A name for each kind: the words that not all of them share, numbered where those are equal.

    >>> from symscale.models.blocks import Residual
    >>> dense = Layer((Residual((Mlp(8),)),))
    >>> names_of((dense, Layer((Residual((Experts(4, 2, 8),)),))))
    ('dense', 'moe')
    """
    columns = [(_mixer(one), _feed(one), _sharing(one)) for one in layers]
    varying = [len(set(column)) > 1 for column in zip(*columns, strict=True)]
    raw = [
        "_".join(word for word, tells in zip(words, varying, strict=True) if tells and word)
        for words in columns
    ]
    seen: Counter[str] = Counter()
    out = []
    for name in raw:
        seen[name] += 1
        repeated = raw.count(name) > 1
        out.append(f"{name}{seen[name]}" if repeated and len(layers) > 1 else name)
    return tuple(out)


def _mixer(layer: Layer) -> str:
    for part in layer.parts:
        if isinstance(part, Attention):
            if part.window is not None:
                return "window"
            return "chunk" if part.chunk is not None else "full"
        if isinstance(part, Latent):
            return "full"
        if type(part) in _STATE:
            return _STATE[type(part)]
    return ""


def _feed(layer: Layer) -> str:
    for part in layer.parts:
        if isinstance(part, Experts):
            return "moe"
        if isinstance(part, Mlp):
            return "dense"
    return ""


def _sharing(layer: Layer) -> str:
    shared = any(isinstance(part, Attention) and part.shares_kv for part in layer.parts)
    return "shared" if shared else ""


def reach_of(layer: Layer) -> tuple[bool, int | None, int | None, bool]:
    """Causal or not, window, chunk, and whether the cache forgets what lies behind them."""
    for part in layer.parts:
        if isinstance(part, Attention) and not part.cross:
            return part.causal, part.window, part.chunk, True
        if isinstance(part, Latent):
            return True, part.indexer.keys if part.indexer else None, None, False
    return True, None, None, True
