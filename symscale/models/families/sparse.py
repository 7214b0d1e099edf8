"""Families with experts whose keys say things in their own way.

Source: the modelling code of each family at https://github.com/huggingface/transformers, and of the
models published with code of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from symscale.models.blocks import Attention, Body, Ends, Experts, Mlp
from symscale.models.families import dense, moe, windows
from symscale.models.families.changes import layer_with, with_experts, with_mtp
from symscale.models.families.dense import Dense
from symscale.models.keys import Keys


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
    return with_experts(body, lambda e: replace(e, biases="gio", router_bias=True))


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
    return with_experts(body, lambda e: replace(e, shared=shared))


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
    body = with_experts(body, lambda e: replace(e, correction=steered))
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

    family = Dense(biases="qkvo", bias_key=biased, mlp_biases="gio", mlp_bias_key=biased, feed=feed)
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
        layer_with(layer, partial(_sharing, bool(i % every))) for i, layer in enumerate(body.layers)
    )
    return replace(body, layers=layers)


def _sharing(shares: bool, one: Attention) -> Attention:
    return replace(one, shares_kv=shares)


#: One reader a family.
SPARSE: Mapping[str, Callable[[Keys], Body]] = MappingProxyType(
    {
        "phimoe": phimoe,
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
    }
)
