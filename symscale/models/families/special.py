"""Dense families of the usual plan whose keys say things in their own way.

Source: the modelling code of each family at https://github.com/huggingface/transformers, and of the
models published with code of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from symscale.models.blocks import Attention, Body, Ends, Mlp, NormKind
from symscale.models.families import dense, windows
from symscale.models.families.changes import layer_with, with_attention
from symscale.models.families.dense import Dense
from symscale.models.families.plain import GPT2, GPT_NEOX
from symscale.models.keys import Keys


def gpt_bigcode(keys: Keys) -> Body:
    """GPT-2 with one key/value head where ``multi_query`` says so."""
    body = dense.read(keys, GPT2)
    if not keys.flag("multi_query"):
        return body
    return with_attention(body, lambda a: replace(a, kv_heads=1))


def gpt_neo(keys: Keys) -> Body:
    """Layers that see everything and layers with a window, as ``attention_types`` lists them."""
    family = replace(GPT2, biases="o", rule=_attention_types)
    count = dense.sizes(keys, family)["layers"]
    body = dense.read(keys, replace(family, rule=windows.every("full_attention")))
    words = _attention_types(keys, count)
    reach = windows.reaches(keys, words, body.context, "window_size")
    layers = tuple(
        layer_with(layer, partial(_windowed, at))
        for layer, at in zip(body.layers, reach, strict=True)
    )
    return replace(body, layers=layers)


def _attention_types(keys: Keys, layers: int) -> tuple[str, ...]:
    names = {"global": "full_attention", "local": "sliding_attention"}
    given = keys.own.get("attention_types")
    if given is None:
        keys.defaulted.append("attention_types")
        given = [[["global", "local"], (layers + 1) // 2]]
    try:
        words = tuple(names[kind] for kinds, times in given for _ in range(times) for kind in kinds)
    except (KeyError, TypeError, ValueError):
        keys.wrong("attention_types", given, 'a list like [[["global", "local"], 12]]')
    if len(words) < layers:
        keys.wrong("attention_types", given, f"enough for {layers} layers")
    return words[:layers]


def gpt_neox(keys: Keys) -> Body:
    """Attention and feed-forward at once unless ``use_parallel_residual`` is off."""
    at_once = keys.flag("use_parallel_residual")
    return dense.read(keys, GPT_NEOX if at_once else replace(GPT_NEOX, plan="pre"))


def stablelm(keys: Keys) -> Body:
    """Parallel blocks and norms of queries and keys by switch."""
    family = Dense(
        plan="parallel" if keys.flag("use_parallel_residual") else "pre",
        norm="layernorm",
        biases="qkv",
        bias_key="use_qkv_bias",
        qk_norm="heads",
        qk_norm_key="qk_layernorm",
        qk_norm_kind="gain",
    )
    return dense.read(keys, family)


def opt(keys: Keys) -> Body:
    """Positions start at row 2; the embedding may be narrower; the norms may come after."""
    before = keys.flag("do_layer_norm_before", default=True)
    biased = keys.flag("enable_bias", default=True)
    family = replace(
        GPT2,
        plan="pre" if before else "after",
        biases="qkvo" if biased else "",
        mlp_biases="io" if biased else "",
        ff_factor=None,
        positions=2,
    )
    body = dense.read(keys, replace(family, names={**dense.NAMES, "ff": ("ffn_dim",)}))
    narrow = keys.optional("word_embed_proj_dim")
    removed = keys.flag("_remove_final_layer_norm")
    ends = replace(
        body.ends,
        embed_width=None if narrow in (None, body.width) else narrow,
        final_norm="layernorm" if before and not removed else "none",
    )
    return replace(body, ends=ends)


def bloom(keys: Keys) -> Body:
    """ALiBi instead of positions, and a norm behind the embedding."""
    family = replace(GPT2, act="activation", positions=None, embed_norm="layernorm")
    names = {**dense.NAMES, "ff": ("n_inner",)}
    return dense.read(keys, replace(family, names=names))


def falcon(keys: Keys) -> Body:
    """One key/value head, or groups of them in the new architecture; parallel blocks by switch."""
    new = keys.flag("new_decoder_architecture")
    multi = keys.flag("multi_query")
    at_once = new or keys.flag("parallel_attn")
    norms = keys.optional("num_ln_in_parallel_attn") or (2 if new else 1)
    biased = keys.flag("bias")
    family = replace(
        GPT2,
        plan=("parallel2" if new and norms == 2 else "parallel") if at_once else "pre",
        act="activation",
        biases="qkvo" if biased else "",
        mlp_biases="io" if biased else "",
        positions=None,
        names={**dense.NAMES, "ff": ("ffn_hidden_size",)},
    )
    body = dense.read(keys, family)
    heads = body.find(Attention)[0].heads  # type: ignore[union-attr]
    groups = (keys.optional("num_kv_heads", "n_head_kv") or heads) if new or not multi else 1
    if heads % groups:
        keys.fail(f"num_attention_heads {heads} is not a multiple of num_kv_heads {groups}")
    return with_attention(body, lambda a: replace(a, kv_heads=groups))


def mpt(keys: Keys) -> Body:
    """ALiBi or learned positions, as ``attn_config`` says; no biases unless asked for."""
    plain = keys.flag("no_bias", default=True)
    inner = keys.sub("attn_config")
    alibi = inner.flag("alibi", default=True) if inner else True
    factor = keys.a_size("expansion_ratio", default=4)
    family = replace(
        GPT2,
        norm="gain" if plain else "layernorm",
        biases="" if plain else "qkvo",
        mlp_biases="" if plain else "io",
        ff_factor=factor,
        positions=0 if keys.flag("learned_pos_emb", default=True) and not alibi else None,
    )
    body = dense.read(keys, family)
    groups = inner.optional("kv_n_heads") if inner else None
    return body if groups is None else with_attention(body, lambda a: replace(a, kv_heads=groups))


def seed_oss(keys: Keys) -> Body:
    """Biases of queries, keys and values, and of the output, by switches of their own."""
    biases = "qkv" if keys.flag("attention_bias") else ""
    biases += "o" if keys.flag("attention_out_bias") else ""
    return dense.read(keys, Dense(biases=biases, mlp_biases="gio", mlp_bias_key="mlp_bias"))


def qwen(keys: Keys) -> Body:
    """The first Qwen: ``intermediate_size`` is gate and up together; heads of ``kv_channels``."""
    found = dense.sizes(keys, Dense())
    if found["ff"] % 2:
        keys.wrong("intermediate_size", found["ff"], "even (it is gate and up together)")
    mixer = Attention(
        found["heads"],
        found["heads"],
        dense.head_dim(keys, found["width"], found["heads"], "kv_channels"),
        biases="qkv",
    )
    layer = dense.layer("pre", "rmsnorm", mixer, Mlp(found["ff"] // 2))
    ends = Ends(found["vocab"], keys.tied())
    context = keys.optional("seq_length", "max_position_embeddings")
    return Body(found["width"], (layer,) * found["layers"], ends, context)


def chatglm(keys: Keys) -> Body:
    """GLM published with its own code: padded vocabulary, groups under their own key."""
    found = keys.require(
        layers=("num_layers", "num_hidden_layers"),
        width=("hidden_size",),
        ff=("ffn_hidden_size",),
        heads=("num_attention_heads",),
        vocab=("padded_vocab_size", "vocab_size"),
    )
    grouped = keys.flag("multi_query_attention")
    both = "qkvo" if keys.flag("add_bias_linear") else ""
    mixer = Attention(
        found["heads"],
        dense.kv_heads(keys, found["heads"], "multi_query_group_num")
        if grouped
        else found["heads"],
        dense.head_dim(keys, found["width"], found["heads"], "kv_channels"),
        biases=both or ("qkv" if keys.flag("add_qkv_bias") else ""),
    )
    feed = Mlp(found["ff"], biases="gio" if both else "")
    norm: NormKind = "rmsnorm" if keys.flag("rmsnorm", default=True) else "layernorm"
    layer = dense.layer("pre", norm, mixer, feed)
    final: NormKind = norm if keys.flag("post_layer_norm", default=True) else "none"
    ends = Ends(found["vocab"], keys.tied(), final_norm=final)
    return Body(found["width"], (layer,) * found["layers"], ends, keys.optional("seq_length"))


def baichuan(keys: Keys) -> Body:
    """Multi-head, with ``model_max_length`` or the usual key for the context."""
    body = dense.read(keys, Dense(kv_key=None))
    return replace(body, context=body.context or keys.optional("model_max_length"))


def _windowed(at: windows.Reach, one: Attention) -> Attention:
    return replace(one, window=at.window)


#: One reader a family.
SPECIAL: Mapping[str, Callable[[Keys], Body]] = MappingProxyType(
    {
        "gpt_bigcode": gpt_bigcode,
        "gpt_neo": gpt_neo,
        "gpt_neox": gpt_neox,
        "stablelm": stablelm,
        "opt": opt,
        "bloom": bloom,
        "falcon": falcon,
        "mpt": mpt,
        "seed_oss": seed_oss,
        "qwen": qwen,
        "chatglm": chatglm,
        "baichuan": baichuan,
    }
)
