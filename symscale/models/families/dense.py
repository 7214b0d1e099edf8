"""Decoders of the usual plan: attention and a feed-forward block, or both at once, L times.

Each family is a row of switches; how a switch is read from the keys is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from symscale.models.blocks import (
    Attention,
    Body,
    Ends,
    Experts,
    Layer,
    Mlp,
    NormKind,
    QkNorm,
    Residual,
)
from symscale.models.families import moe, windows
from symscale.models.families.windows import Reach
from symscale.models.keys import Keys

#: Where the residual stream is normed: before each block; after it, before the sum; both; after the
#: sum; before attention and feed-forward at once (with one norm, or one each).
Plan = Literal["pre", "post", "both", "after", "parallel", "parallel2"]

ACTIVATIONS = (
    "silu", "swish", "swiglu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "geglu",
    "quick_gelu", "relu", "relu2", "xielu", "gelu_python", "gelu_10", "gelu_accurate",
)  # fmt: skip

#: The names under which the main sizes may stand.
NAMES: Mapping[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "n_embed"),
    "ff": ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
    "vocab": ("vocab_size",),
}


@dataclass(frozen=True)
class Dense:
    """The switches of one family.

    ``biases``, ``mlp_biases`` and ``qk_norm`` hold always, or where the key of that name says so.
    """

    plan: Plan = "pre"
    norm: NormKind = "rmsnorm"
    gated: bool = True
    act: str = "hidden_act"
    biases: str = ""
    bias_key: str | None = None
    mlp_biases: str = ""
    mlp_bias_key: str | None = None
    qk_norm: QkNorm = ""
    qk_norm_key: str | None = None
    qk_norm_kind: NormKind = "rmsnorm"
    kv_key: str | None = "num_key_value_heads"
    ff_factor: int | None = None
    rule: windows.Rule = windows.all_keys
    feed: moe.Rule = moe.dense
    positions: int | None = None
    embed_norm: NormKind = "none"
    head_bias: bool = False
    sinks: bool = False
    names: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: NAMES)


def sizes(keys: Keys, family: Dense, extra: tuple[str, ...] = ()) -> dict[str, int]:
    """The main sizes; the feed-forward width follows from the width where the family lets it."""
    wanted = {k: v for k, v in family.names.items() if k != "ff" or family.ff_factor is None}
    found = keys.require(**wanted)
    if family.ff_factor is not None:
        given = keys.optional(*family.names["ff"])
        found["ff"] = family.ff_factor * found["width"] if given is None else given
    return found


def head_dim(keys: Keys, width: int, heads: int, *names: str) -> int:
    """The explicit head width, else the quotient, which must be whole."""
    names = names or ("head_dim",)
    given = keys.optional(*names)
    if given is not None:
        return given
    if names[0] not in keys.defaulted:
        keys.defaulted.append(names[0])
    if width % heads:
        keys.fail(
            f"hidden_size {width} is not a multiple of num_attention_heads {heads}; give {names[0]}"
        )
    return width // heads


def kv_heads(keys: Keys, heads: int, key: str | None = "num_key_value_heads") -> int:
    """Key/value heads: as given, else the class's default, else one for each query head."""
    if key is None:
        return heads
    given = keys.optional(key)
    if given is None:
        if key not in keys.defaulted:
            keys.defaulted.append(key)
        return heads
    if heads % given:
        keys.fail(f"num_attention_heads {heads} is not a multiple of {key} {given}")
    return given


def attention(keys: Keys, family: Dense, found: Mapping[str, int], reach: Reach) -> Attention:
    """The attention of one layer."""
    heads = found["heads"]
    normed = family.qk_norm
    if family.qk_norm_key is not None and not keys.flag(family.qk_norm_key):
        normed = ""
    return Attention(
        heads=heads,
        kv_heads=kv_heads(keys, heads, family.kv_key),
        head_dim=head_dim(keys, found["width"], heads),
        biases=_switched(keys, family.biases, family.bias_key),
        qk_norm=normed,
        qk_norm_kind=family.qk_norm_kind,
        sinks=family.sinks,
        window=reach.window,
        chunk=reach.chunk,
    )


def _switched(keys: Keys, always: str, key: str | None) -> str:
    return always if key is None or keys.flag(key) else ""


def mlp(keys: Keys, family: Dense, width: int) -> Mlp:
    """The dense feed-forward block; whether it is gated lies in its class, not its activation."""
    named = keys.word(family.act, ACTIVATIONS, default="silu" if family.gated else "gelu")
    activation = "silu" if named in ("silu", "swish", "swiglu") else named.partition("_")[0]
    biases = _switched(keys, family.mlp_biases, family.mlp_bias_key)
    return Mlp(width, family.gated, biases, activation)


def layer(plan: Plan, norm: NormKind, mixer: object, feed: Mlp | Experts) -> Layer:
    """A layer of a mixer and a feed-forward block under a plan of norms."""
    parts = (mixer, feed)
    if plan in ("parallel", "parallel2"):
        return Layer((Residual(parts, norm, own_norms=plan == "parallel2"),))  # type: ignore[arg-type]
    pre: NormKind = norm if plan in ("pre", "both") else "none"
    post: NormKind = norm if plan in ("post", "both") else "none"
    after: NormKind = norm if plan == "after" else "none"
    return Layer(tuple(Residual((part,), pre, post, after) for part in parts))  # type: ignore[arg-type]


def read(keys: Keys, family: Dense) -> Body:
    """A decoder of the usual plan."""
    found = sizes(keys, family)
    context = keys.optional("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
    count = found["layers"]
    words = windows.layer_words(keys, count, family.rule)
    reach = windows.reaches(keys, words, context)
    feeds = family.feed(keys, count, mlp(keys, family, found["ff"]))
    layers = tuple(
        layer(family.plan, family.norm, attention(keys, family, found, at), feed)
        for at, feed in zip(reach, feeds, strict=True)
    )
    ends = Ends(
        vocab=found["vocab"],
        tied=keys.tied(),
        positions=0 if family.positions is None else (context or 0) + family.positions,
        embed_norm=family.embed_norm,
        final_norm=family.norm,
        head_bias=family.head_bias,
    )
    return Body(found["width"], layers, ends, context)
