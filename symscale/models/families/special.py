"""Families of the usual plan whose keys say things in their own way.

Source: the modelling code of each family at https://github.com/huggingface/transformers, and of the
models published with code of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from symscale.models.blocks import Attention, Body, Ends, Experts, Mlp
from symscale.models.families import dense, moe, windows
from symscale.models.families.dense import Dense
from symscale.models.families.plain import GPT2, GPT_NEOX
from symscale.models.keys import Keys


def gpt_bigcode(keys: Keys) -> Body:
    """GPT-2 with one key/value head where ``multi_query`` says so."""
    body = dense.read(keys, GPT2)
    if not keys.flag("multi_query"):
        return body
    return _with_attention(body, lambda a: replace(a, kv_heads=1))


def gpt_neo(keys: Keys) -> Body:
    """Layers that see everything and layers with a window, as ``attention_types`` lists them."""
    family = replace(GPT2, biases="o", rule=_attention_types)
    count = dense.sizes(keys, family)["layers"]
    body = dense.read(keys, replace(family, rule=windows.every("full_attention")))
    words = _attention_types(keys, count)
    reach = windows.reaches(keys, words, body.context, "window_size")
    layers = tuple(
        _layer_with(layer, lambda a, at=at: replace(a, window=at.window))
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
    return _with_attention(body, lambda a: replace(a, kv_heads=groups))


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
    return body if groups is None else _with_attention(body, lambda a: replace(a, kv_heads=groups))


def phimoe(keys: Keys) -> Body:
    """Experts in every layer, layer norms with biases, a head that may have one."""
    family = Dense(
        norm="layernorm",
        biases="qkvo",
        bias_key="attention_bias",
        rule=windows.every("sliding_attention"),
        feed=moe.mixtral,
    )
    body = dense.read(keys, family)
    return replace(body, ends=replace(body.ends, head_bias=keys.flag("lm_head_bias")))


def seed_oss(keys: Keys) -> Body:
    """Biases of queries, keys and values, and of the output, by switches of their own."""
    biases = "qkv" if keys.flag("attention_bias") else ""
    biases += "o" if keys.flag("attention_out_bias") else ""
    return dense.read(keys, Dense(biases=biases, mlp_biases="gio", mlp_bias_key="mlp_bias"))


def gpt_oss(keys: Keys) -> Body:
    """Experts with biases, sinks, and a window in every second layer."""
    family = Dense(
        biases="qkvo",
        bias_key="attention_bias",
        sinks=True,
        rule=windows.alternate("sliding_attention", "full_attention"),
        feed=moe.mixtral,
    )
    body = dense.read(keys, family)
    return _with_experts(body, lambda e: replace(e, biases="gio", router_bias=True))


def dbrx(keys: Keys) -> Body:
    """Attention and experts described in objects of their own."""
    attention, ffn = keys.sub("attn_config"), keys.sub("ffn_config")
    if attention is None or ffn is None:
        keys.fail("missing attn_config, ffn_config; a dbrx config needs both")
    found = keys.require(**{k: v for k, v in dense.NAMES.items() if k != "ff"})
    count = moe.routed(ffn, "moe_num_experts") or 1
    width = ffn.a_size("ffn_hidden_size")
    feed: Mlp | Experts = Mlp(width)
    if count > 1:
        feed = Experts(count, moe.top_k(ffn, count, "moe_top_k"), width)
    mixer = Attention(
        found["heads"],
        dense.kv_heads(attention, found["heads"], "kv_n_heads"),
        dense.head_dim(keys, found["width"], found["heads"]),
    )
    layer = dense.layer("pre", "gain", mixer, feed)
    ends = Ends(found["vocab"], keys.tied(), final_norm="gain")
    context = keys.optional("max_seq_len", "max_position_embeddings")
    return Body(found["width"], (layer,) * found["layers"], ends, context)


def llama4(keys: Keys) -> Body:
    """Chunked layers but for every fourth, a shared expert beside the routed ones."""
    family = Dense(
        biases="qkvo",
        bias_key="attention_bias",
        rule=windows.no_rope_every_fourth,
        feed=moe.llama4,
    )
    return dense.read(keys, family)


def granitemoe(keys: Keys) -> Body:
    """Experts in every layer, perhaps with a shared part of its own width."""
    family = Dense(biases="qkvo", bias_key="attention_bias", feed=moe.mixtral)
    body = dense.read(keys, family)
    shared = keys.number_of("shared_intermediate_size")
    return _with_experts(body, lambda e: replace(e, shared=shared))


def glm4_moe(keys: Keys) -> Body:
    """DeepSeek's experts behind grouped-query attention."""
    family = Dense(
        biases="qkv",
        bias_key="attention_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
        feed=moe.deepseek,
    )
    return with_mtp(keys, dense.read(keys, family))


def dots1(keys: Keys) -> Body:
    """DeepSeek's experts behind multi-head attention with norms of queries and keys."""
    family = Dense(
        biases="qkvo",
        bias_key="attention_bias",
        qk_norm="head",
        rule=windows.from_max_window_layers,
        feed=moe.deepseek,
    )
    return dense.read(keys, family)


def deepseek_moe(keys: Keys) -> Body:
    """The first DeepSeek mixture of experts, with multi-head attention."""
    family = Dense(biases="qkvo", bias_key="attention_bias", feed=moe.deepseek)
    return dense.read(keys, family)


def minimax_m2(keys: Keys) -> Body:
    """Experts in every layer; queries and keys normed over all heads together."""
    family = Dense(qk_norm="width", feed=moe.mixtral)
    body = dense.read(keys, family)
    steered = keys.flag("use_routing_bias", default=True)
    body = _with_experts(body, lambda e: replace(e, correction=steered))
    return with_mtp(keys, body, "num_mtp_modules") if keys.flag("use_mtp") else body


def ernie4_5_moe(keys: Keys) -> Body:
    """Experts between two layer numbers, every ``moe_layer_interval``-th layer."""
    biased = "use_bias"

    def feed(keys: Keys, layers: int, mlp: Mlp) -> moe.Feed:
        count = moe.routed(keys, "moe_num_experts", "num_experts")
        if count is None:
            return moe.dense(keys, layers, mlp)
        width = keys.a_size("moe_intermediate_size")
        made = Experts(
            count,
            moe.top_k(keys, count, "moe_k", "num_experts_per_tok"),
            width,
            biases=mlp.biases,
            correction=True,
            shared=width * keys.number_of("moe_num_shared_experts"),
        )
        step = keys.a_size("moe_layer_interval", default=1)
        first = keys.number_of("moe_layer_start_index")
        last = keys.own.get("moe_layer_end_index")
        end = layers - 1 if last in (None, -1) else keys.number_of("moe_layer_end_index")
        chosen = (i for i in range(layers) if (i + 1) % step == 0 and first <= i <= end)
        return moe.choose(layers, chosen, made, mlp)

    family = Dense(
        biases="qkvo", bias_key=biased, mlp_biases="gio", mlp_bias_key=biased, feed=feed
    )
    return dense.read(keys, family)


def hunyuan_moe(keys: Keys) -> Body:
    """A shared expert as wide as a routed one beside the routed ones; keys may be shared."""

    def feed(keys: Keys, layers: int, mlp: Mlp) -> moe.Feed:
        count = moe.routed(keys, "num_experts", "num_local_experts")
        if count is None:
            return moe.dense(keys, layers, mlp)
        per_token = moe.top_k(keys, count, "moe_topk", "num_experts_per_tok", default=1)
        return (Experts(count, per_token, mlp.width, shared=mlp.width),) * layers

    family = Dense(biases="qkvo", bias_key="attention_bias", qk_norm="head", feed=feed)
    body = dense.read(keys, family)
    if not keys.flag("use_cla"):
        return body
    every = keys.a_size("cla_share_factor")
    layers = tuple(
        _layer_with(layer, lambda a, i=i: replace(a, shares_kv=bool(i % every)))
        for i, layer in enumerate(body.layers)
    )
    return replace(body, layers=layers)


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
        dense.kv_heads(keys, found["heads"], "multi_query_group_num") if grouped else found["heads"],
        dense.head_dim(keys, found["width"], found["heads"], "kv_channels"),
        biases=both or ("qkv" if keys.flag("add_qkv_bias") else ""),
    )
    feed = Mlp(found["ff"], biases="gio" if both else "")
    norm = "rmsnorm" if keys.flag("rmsnorm", default=True) else "layernorm"
    layer = dense.layer("pre", norm, mixer, feed)
    final = norm if keys.flag("post_layer_norm", default=True) else "none"
    ends = Ends(found["vocab"], keys.tied(), final_norm=final)  # type: ignore[arg-type]
    return Body(found["width"], (layer,) * found["layers"], ends, keys.optional("seq_length"))


def baichuan(keys: Keys) -> Body:
    """Multi-head, with ``model_max_length`` or the usual key for the context."""
    body = dense.read(keys, Dense(kv_key=None))
    return replace(body, context=body.context or keys.optional("model_max_length"))


def with_mtp(keys: Keys, body: Body, key: str = "num_nextn_predict_layers") -> Body:
    """The body with its multi-token-prediction modules, which repeat the last layer."""
    from symscale.models.blocks import Mtp

    modules = keys.number_of(key)
    if not modules:
        return body
    return replace(body, mtp=Mtp(modules, body.layers[-1], body.ends.final_norm))


def _layer_with(layer: dense.Layer, change: Callable[[Attention], Attention]) -> dense.Layer:
    blocks = tuple(
        replace(b, parts=tuple(change(p) if isinstance(p, Attention) else p for p in b.parts))
        for b in layer.blocks
    )
    return replace(layer, blocks=blocks)


def _with_attention(body: Body, change: Callable[[Attention], Attention]) -> Body:
    return replace(body, layers=tuple(_layer_with(layer, change) for layer in body.layers))


def _with_experts(body: Body, change: Callable[[Experts], Experts]) -> Body:
    def changed(layer: dense.Layer) -> dense.Layer:
        blocks = tuple(
            replace(b, parts=tuple(change(p) if isinstance(p, Experts) else p for p in b.parts))
            for b in layer.blocks
        )
        return replace(layer, blocks=blocks)

    return replace(body, layers=tuple(changed(layer) for layer in body.layers))


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
        "phimoe": phimoe,
        "seed_oss": seed_oss,
        "gpt_oss": gpt_oss,
        "dbrx": dbrx,
        "llama4_text": llama4,
        "granitemoe": granitemoe,
        "granitemoeshared": granitemoe,
        "glm4_moe": glm4_moe,
        "dots1": dots1,
        "deepseek": deepseek_moe,
        "minimax_m2": minimax_m2,
        "ernie4_5_moe": ernie4_5_moe,
        "hunyuan_v1_moe": hunyuan_moe,
        "hunyuan": hunyuan_moe,
        "qwen": qwen,
        "chatglm": chatglm,
        "baichuan": baichuan,
    }
)
