"""Encoders (BERT type) and encoder-decoders (T5 and BART type).

Source: the modelling code of each family at https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from symscale.models.blocks import Attention, Body, Ends, Layer, Mlp, NormKind, Residual
from symscale.models.families import dense
from symscale.models.families.dense import Dense
from symscale.models.keys import Keys

_ENCODER = "an encoder: FLOPs are those of a token that sees the whole sequence"
_FORWARD = ("relu", "gelu", "silu", "gated-gelu", "gated-silu", "gated-relu")
_PAIR = (
    "an encoder-decoder: FLOPs are those of one token in and one token out, both sequences of the "
    "same length"
)


def bert(keys: Keys) -> Body:
    """Post-norm encoder with learned positions and token types."""
    family = Dense(
        plan="after",
        norm="layernorm",
        gated=False,
        biases="qkvo",
        mlp_biases="io",
        kv_key=None,
        positions=0,
        embed_norm="layernorm",
    )
    body = dense.read(keys, family)
    masked = _ends_with(keys, "ForMaskedLM")
    ends = replace(
        body.ends,
        tied=True,
        final_norm="none",
        token_types=keys.number_of("type_vocab_size", default=2),
        head=masked,
        head_bias=masked,
        transform="layernorm" if masked else None,
        pooler=not masked,
    )
    return replace(body, layers=_bidirectional(body.layers), ends=ends, notes=(_ENCODER,))


def _ends_with(keys: Keys, suffix: str) -> bool:
    given = keys.own.get("architectures")
    return isinstance(given, list) and any(str(name).endswith(suffix) for name in given)


def _bidirectional(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    def changed(block: Residual) -> Residual:
        parts = (replace(p, causal=False) if isinstance(p, Attention) else p for p in block.parts)
        return replace(block, parts=tuple(parts))

    return tuple(replace(one, blocks=tuple(map(changed, one.blocks))) for one in layers)


def _pair(norm: NormKind, own: Attention, mlp: Mlp, after: bool) -> tuple[Layer, Layer]:
    """An encoder's layer and a decoder's, which also attends to the encoder's output."""

    def layer(*parts: Attention | Mlp) -> Layer:
        pre: NormKind = "none" if after else norm
        post: NormKind = norm if after else "none"
        return Layer(tuple(Residual((part,), pre, after=post) for part in parts))

    cross = replace(own, cross=True, causal=False)
    return layer(replace(own, causal=False), mlp), layer(own, cross, mlp)


def t5(keys: Keys) -> Body:
    """Encoder-decoder with tables of relative positions and no biases."""
    found = keys.require(
        layers=("num_layers",),
        width=("d_model",),
        ff=("d_ff",),
        heads=("num_heads",),
        vocab=("vocab_size",),
    )
    act = keys.word("feed_forward_proj", _FORWARD, default="relu")
    heads, head_dim = found["heads"], keys.a_size("d_kv", default=64)
    mlp = Mlp(found["ff"], act.startswith("gated"), activation=act.removeprefix("gated-"))
    below, above = _pair("rmsnorm", Attention(heads, heads, head_dim), mlp, after=False)
    buckets = keys.a_size("relative_attention_num_buckets", default=32)
    count = keys.optional("num_decoder_layers") or found["layers"]
    # A umt5 has a table of relative positions in every layer, the others one a stack.
    each = keys.model_type == "umt5"
    ends = Ends(found["vocab"], keys.tied(), buckets=buckets * (count if each else 1))
    below_ends = replace(ends, head=False, buckets=buckets * (found["layers"] if each else 1))
    return Body(
        found["width"],
        (above,) * count,
        ends,
        keys.optional("n_positions"),
        encoder=(below,) * found["layers"],
        encoder_ends=below_ends,
        notes=(_PAIR,),
    )


def bart(keys: Keys) -> Body:
    """Post-norm encoder-decoder; both sides have learned positions that start at row 2."""
    found = keys.require(
        below=("encoder_layers",),
        above=("decoder_layers",),
        width=("d_model",),
        ff=("encoder_ffn_dim",),
        ff_above=("decoder_ffn_dim",),
        heads=("encoder_attention_heads",),
        heads_above=("decoder_attention_heads",),
        vocab=("vocab_size",),
    )
    if (found["ff"], found["heads"]) != (found["ff_above"], found["heads_above"]):
        keys.fail("encoder and decoder differ in heads or ffn_dim; counted are those that agree")
    heads = found["heads"]
    own = Attention(heads, heads, dense.head_dim(keys, found["width"], heads), biases="qkvo")
    mlp = Mlp(found["ff"], False, "io", "gelu")
    below, above = _pair("layernorm", own, mlp, after=True)
    context = keys.a_size("max_position_embeddings")
    ends = Ends(
        found["vocab"],
        keys.tied(),
        positions=context + 2,
        embed_norm="layernorm",
        final_norm="none",
    )
    return Body(
        found["width"],
        (above,) * found["above"],
        ends,
        context,
        encoder=(below,) * found["below"],
        encoder_ends=replace(ends, head=False),
        notes=(_PAIR,),
    )


#: One reader a family.
ENCODERS: Mapping[str, Callable[[Keys], Body]] = MappingProxyType(
    {
        "bert": bert,
        "roberta": bert,
        "xlm-roberta": bert,
        "camembert": bert,
        "t5": t5,
        "mt5": t5,
        "umt5": t5,
        "bart": bart,
    }
)
