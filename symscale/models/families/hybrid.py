"""Families whose layers keep a state instead of keys and values, all of them or most.

Source: the modelling code of each family at https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from symscale.models.blocks import (
    Attention,
    Body,
    DeltaNet,
    Ends,
    Experts,
    GatedRecurrence,
    Layer,
    Lightning,
    Mamba,
    Mixer,
    Mlp,
    Residual,
    ShortConv,
)
from symscale.models.families import dense, moe, windows
from symscale.models.families.changes import with_mtp
from symscale.models.families.dense import Dense
from symscale.models.families.windows import Reach
from symscale.models.keys import Keys

_FULL = ("full_attention", "attention")
_WORDS = (*windows.SOFTMAX, *windows.STATE, "attention", "mlp", "moe")


def _interval(keys: Keys, layers: int) -> tuple[str, ...]:
    step = keys.a_size("full_attention_interval", default=4)
    return tuple("linear_attention" if (i + 1) % step else "full_attention" for i in range(layers))


def _assemble(
    keys: Keys,
    words: tuple[str, ...],
    softmax: Attention,
    state: Mixer,
    feeds: moe.Feed,
    found: Mapping[str, int],
) -> Body:
    """A body with softmax attention where the words say so and the state's mixer elsewhere."""
    layers = tuple(
        dense.layer("pre", "rmsnorm", softmax if word in _FULL else state, feed)
        for word, feed in zip(words, feeds, strict=True)
    )
    context = keys.optional("max_position_embeddings")
    return Body(found["width"], layers, Ends(found["vocab"], keys.tied()), context)


def qwen3_next(keys: Keys) -> Body:
    """Gated delta-rule layers with gated softmax attention in every fourth."""
    only_experts = keys.present("intermediate_size") is None and keys.present("num_experts")
    family = Dense(qk_norm="head", biases="qkvo", bias_key="attention_bias")
    if only_experts:
        family = replace(family, names={k: v for k, v in dense.NAMES.items() if k != "ff"})
    found = dense.sizes(keys, family)
    words = windows.layer_words(keys, found["layers"], _interval, _WORDS)
    softmax = replace(dense.attention(keys, family, found, Reach()), gate="width")
    state = DeltaNet(
        keys.a_size("linear_num_key_heads"),
        keys.a_size("linear_num_value_heads"),
        keys.a_size("linear_key_head_dim"),
        keys.a_size("linear_value_head_dim"),
        keys.a_size("linear_conv_kernel_dim"),
    )
    mlp = dense.mlp(keys, family, found.get("ff", 1))
    feeds = moe.qwen(shared=True)(keys, found["layers"], mlp)
    body = _assemble(keys, words, softmax, state, feeds, found)
    last = body.layers[words.index("full_attention")] if "full_attention" in words else None
    made = with_mtp(keys, body, "mtp_num_hidden_layers")
    return (
        made
        if made.mtp is None or last is None
        else replace(made, mtp=replace(made.mtp, layer=last))
    )


def minimax(keys: Keys) -> Body:
    """Lightning attention with softmax attention in some layers, experts everywhere."""
    found = dense.sizes(keys, Dense())
    count = found["layers"]

    def rule(keys: Keys, layers: int) -> tuple[str, ...]:
        given = keys.indices("attn_type_list")
        if given and len(given) != layers:
            keys.wrong("attn_type_list", list(given), f"a list of {layers} numbers")
        if given:
            return tuple("full_attention" if one else "linear_attention" for one in given)
        return tuple("full_attention" if (i + 1) % 2 else "linear_attention" for i in range(layers))

    words = windows.layer_words(keys, count, rule, _WORDS)
    softmax = dense.attention(keys, Dense(), found, Reach())
    state = Lightning(softmax.heads, softmax.head_dim)
    feeds = moe.mixtral(keys, count, dense.mlp(keys, Dense(), found["ff"]))
    return _assemble(keys, words, softmax, state, feeds, found)


def _mamba2(keys: Keys, width: int) -> Mamba:
    heads = keys.a_size("mamba_n_heads", "mamba_num_heads")
    given = keys.own.get("mamba_d_head", keys.own.get("mamba_head_dim"))
    if given in (None, "auto"):
        inner = keys.a_size("mamba_expand", "expand", default=2) * width
        if inner % heads:
            keys.fail(f"mamba_n_heads {heads} does not divide the inner width {inner}")
        head_dim = inner // heads
    else:
        head_dim = keys.a_size("mamba_d_head", "mamba_head_dim")
    return Mamba(
        2,
        heads,
        head_dim,
        keys.a_size("mamba_n_groups", "n_groups", default=1),
        keys.a_size("mamba_d_state", "ssm_state_size"),
        keys.a_size("mamba_d_conv", "conv_kernel", default=4),
        conv_bias=keys.flag("mamba_conv_bias", "use_conv_bias", default=True),
        bias=keys.flag("mamba_proj_bias"),
    )


def bamba(keys: Keys) -> Body:
    """State-space layers with softmax attention at some indices, dense blocks everywhere."""
    family = Dense(
        biases="qkvo", bias_key="attention_bias", mlp_biases="gio", mlp_bias_key="mlp_bias"
    )
    found = dense.sizes(keys, family)
    at = keys.indices("attn_layer_indices")
    words = tuple("attention" if i in at else "mamba" for i in range(found["layers"]))
    softmax = dense.attention(keys, family, found, Reach())
    feeds = moe.dense(keys, found["layers"], dense.mlp(keys, family, found["ff"]))
    return _assemble(keys, words, softmax, _mamba2(keys, found["width"]), feeds, found)


def granite_hybrid(keys: Keys) -> Body:
    """State-space or softmax layers; a shared block, beside experts where there are any."""
    family = Dense(biases="qkvo", bias_key="attention_bias")
    found = dense.sizes(keys, family)
    words = windows.layer_words(keys, found["layers"], windows.every("mamba"), (*_WORDS,))
    softmax = dense.attention(keys, family, found, Reach())
    shared = keys.a_size("shared_intermediate_size")
    mlp = dense.mlp(keys, family, found["ff"])
    feeds = moe.mixtral(keys, found["layers"], mlp)
    feeds = tuple(
        replace(feed, shared=shared) if isinstance(feed, Experts) else replace(feed, width=shared)
        for feed in feeds
    )
    return _assemble(keys, words, softmax, _mamba2(keys, found["width"]), feeds, found)


def jamba(keys: Keys) -> Body:
    """Older state-space layers, softmax attention and experts each with a period and an offset."""
    found = dense.sizes(keys, Dense())
    count, width = found["layers"], found["width"]
    period = keys.a_size("attn_layer_period", default=8)
    first = keys.number_of("attn_layer_offset", default=4)
    words = tuple("attention" if i % period == first else "mamba" for i in range(count))
    inner = keys.a_size("mamba_expand", default=2) * width
    given = keys.own.get("mamba_dt_rank")
    rank = -(-width // 16) if given in (None, "auto") else keys.a_size("mamba_dt_rank")
    state = Mamba(
        1,
        1,
        inner,
        1,
        keys.a_size("mamba_d_state", default=16),
        keys.a_size("mamba_d_conv", default=4),
        step_rank=rank,
        conv_bias=keys.flag("mamba_conv_bias", default=True),
        bias=keys.flag("mamba_proj_bias"),
        inner_norms=True,
    )
    mlp = dense.mlp(keys, Dense(), found["ff"])
    made = moe.mixtral(keys, count, mlp)[0]
    every = keys.a_size("expert_layer_period", default=2)
    start = keys.number_of("expert_layer_offset", default=1)
    chosen = tuple(i for i in range(count) if i % every == start)
    feeds = moe.choose(count, chosen, made, mlp) if isinstance(made, Experts) else (mlp,) * count
    softmax = dense.attention(keys, Dense(), found, Reach())
    return _assemble(keys, words, softmax, state, feeds, found)


def nemotron_h(keys: Keys) -> Body:
    """Layers of one block each: state-space, softmax attention, dense or experts."""
    family = Dense(
        gated=False,
        act="mlp_hidden_act",
        biases="qkvo",
        bias_key="attention_bias",
        mlp_biases="io",
        mlp_bias_key="mlp_bias",
    )
    names = {k: v for k, v in dense.NAMES.items() if k not in ("ff", "layers")}
    found = keys.require(**names)
    parts: dict[str, Mixer | Mlp | Experts] = {}
    layers = []
    for word in _nemotron_words(keys):
        if word not in parts:
            parts[word] = _nemotron_part(keys, family, found, word)
        layers.append(Layer((Residual((parts[word],)),)))
    ends = Ends(found["vocab"], keys.tied())
    return Body(found["width"], tuple(layers), ends, keys.optional("max_position_embeddings"))


def _nemotron_words(keys: Keys) -> tuple[str, ...]:
    pattern = keys.own.get("hybrid_override_pattern")
    letters = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
    if isinstance(pattern, str):
        if not pattern or any(letter not in letters for letter in pattern) or len(pattern) > 10_000:
            keys.wrong("hybrid_override_pattern", pattern, f"letters of {' '.join(letters)}")
        return tuple(letters[letter] for letter in pattern)
    given = keys.own.get("layers_block_type", keys.own.get("layer_types"))
    known = {"linear_attention": "mamba", "full_attention": "attention"}
    if not isinstance(given, list) or not given:
        keys.fail(
            "missing hybrid_override_pattern (or layers_block_type); it says each layer's block"
        )
    words = tuple(known.get(word, word) if isinstance(word, str) else "" for word in given)
    for word in words:
        if word not in letters.values():
            keys.wrong("layers_block_type", given, "a list of mamba, attention, mlp, moe")
    return words


def _nemotron_part(
    keys: Keys, family: Dense, found: Mapping[str, int], word: str
) -> Mixer | Mlp | Experts:
    if word == "mamba":
        return _mamba2(keys, found["width"])
    if word == "attention":
        return dense.attention(keys, family, found, Reach())
    if word == "mlp":
        return dense.mlp(keys, family, keys.a_size("intermediate_size"))
    count = keys.a_size("n_routed_experts", "num_local_experts")
    return Experts(
        count,
        moe.top_k(keys, count, "num_experts_per_tok"),
        keys.a_size("moe_intermediate_size"),
        gated=False,
        activation="relu2",
        correction=True,
        shared=keys.a_size("moe_shared_expert_intermediate_size")
        * keys.number_of("n_shared_experts", default=1),
        latent=keys.optional("moe_latent_size"),
    )


def state_space(keys: Keys) -> Body:
    """State-space layers and nothing else: no attention, no feed-forward block."""
    found = keys.require(
        layers=("num_hidden_layers",), width=("hidden_size",), vocab=("vocab_size",)
    )
    inner = keys.a_size("expand", default=2) * found["width"]
    given = keys.own.get("intermediate_size")
    inner = keys.a_size("intermediate_size") if given is not None else inner
    second = keys.model_type == "mamba2"
    auto = keys.own.get("time_step_rank") in (None, "auto")
    state = Mamba(
        2 if second else 1,
        keys.a_size("num_heads") if second else 1,
        keys.a_size("head_dim") if second else inner,
        keys.a_size("n_groups") if second else 1,
        keys.a_size("state_size"),
        keys.a_size("conv_kernel", default=4),
        step_rank=-(-found["width"] // 16) if auto else keys.a_size("time_step_rank"),
        conv_bias=keys.flag("use_conv_bias", default=True),
        bias=keys.flag("use_bias"),
    )
    layer = Layer((Residual((state,)),))
    return Body(found["width"], (layer,) * found["layers"], Ends(found["vocab"], keys.tied()))


def lfm2(keys: Keys) -> Body:
    """Short convolutions with grouped-query attention in some layers."""
    found = dense.sizes(keys, Dense(act="activation"))
    count, width = found["layers"], found["width"]
    at = keys.own.get("full_attn_idxs")
    chosen = range(count) if at is None else keys.indices("full_attn_idxs")

    def rule(keys: Keys, layers: int) -> tuple[str, ...]:
        return tuple("full_attention" if i in chosen else "conv" for i in range(layers))

    words = windows.layer_words(keys, count, rule, _WORDS)
    ff = found["ff"]
    if keys.flag("block_auto_adjust_ff_dim", default=True):
        ff = int(keys.ratio("block_ffn_dim_multiplier", 1.0) * int(2 * ff / 3))
        multiple = keys.a_size("block_multiple_of", default=256)
        ff = -(-ff // multiple) * multiple
    softmax = dense.attention(keys, Dense(qk_norm="head"), found, Reach())
    state = ShortConv(width, keys.a_size("conv_L_cache", default=3), keys.flag("conv_bias"))
    return _assemble(keys, words, softmax, state, (Mlp(ff),) * count, found)


def recurrent_gemma(keys: Keys) -> Body:
    """Gated recurrences with a windowed attention in every third layer."""
    family = Dense(act="hidden_activation", biases="qkv", bias_key="attention_bias")
    found = dense.sizes(keys, family)
    count, width = found["layers"], found["width"]
    pattern = keys.own.get("block_types", keys.own.get("_block_types"))
    if pattern is None:
        keys.defaulted.append("block_types")
        pattern = ["recurrent", "recurrent", "attention"]
    if not isinstance(pattern, list) or not set(map(str, pattern)) <= {"recurrent", "attention"}:
        keys.wrong("block_types", pattern, "a list of recurrent, attention")
    words = tuple((pattern * count)[:count])
    softmax = dense.attention(keys, family, found, Reach(keys.optional("attention_window_size")))
    softmax = replace(softmax, biases=softmax.biases + "o")
    state = GatedRecurrence(
        keys.a_size("lru_width", default=width), softmax.heads, keys.a_size("conv1d_width")
    )
    if found["ff"] % 2:
        keys.wrong("intermediate_size", found["ff"], "even (it is gate and up together)")
    feeds = (Mlp(found["ff"] // 2, biases="gio", activation="gelu"),) * count
    return _assemble(keys, words, softmax, state, feeds, found)


#: One reader a family.
HYBRID: Mapping[str, Callable[[Keys], Body]] = MappingProxyType(
    {
        "qwen3_next": qwen3_next,
        "qwen3_5_text": qwen3_next,
        "qwen3_5_moe_text": qwen3_next,
        "minimax": minimax,
        "minimax_text_01": minimax,
        "bamba": bamba,
        "granitemoehybrid": granite_hybrid,
        "jamba": jamba,
        "mamba": state_space,
        "mamba2": state_space,
        "falcon_mamba": state_space,
        "nemotron_h": nemotron_h,
        "lfm2": lfm2,
        "recurrent_gemma": recurrent_gemma,
    }
)
