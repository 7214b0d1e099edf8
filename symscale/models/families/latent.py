"""Families with multi-head latent attention.

Source: https://github.com/deepseek-ai/DeepSeek-V3 and the modelling code of each family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from symscale.models.blocks import Body, Ends, Indexer, Latent
from symscale.models.families import dense, moe
from symscale.models.families.changes import with_mtp
from symscale.models.families.dense import Dense
from symscale.models.keys import Keys


def deepseek(keys: Keys) -> Body:
    """Latent attention in every layer, experts after the first few."""
    found = dense.sizes(keys, Dense())
    mixer = latent(keys, found["heads"])
    mlp = dense.mlp(keys, Dense(), found["ff"])
    feeds = moe.deepseek(keys, found["layers"], mlp)
    layers = tuple(dense.layer("pre", "rmsnorm", mixer, feed) for feed in feeds)
    ends = Ends(found["vocab"], keys.tied())
    context = keys.optional("max_position_embeddings")
    return with_mtp(keys, Body(found["width"], layers, ends, context))


def latent(keys: Keys, heads: int) -> Latent:
    """The sizes of latent attention; ``q_lora_rank`` null or 0 projects queries in one step."""
    q_rank = keys.own.get("q_lora_rank")
    one_step = q_rank == 0 and type(q_rank) is int
    rank = None if one_step else keys.optional("q_lora_rank")
    indexer = None
    if keys.present("index_topk", "index_n_heads") is not None:
        indexer = Indexer(
            keys.a_size("index_n_heads"), keys.a_size("index_head_dim"), keys.a_size("index_topk")
        )
    return Latent(
        heads=heads,
        q_rank=rank,
        kv_rank=keys.a_size("kv_lora_rank"),
        nope=keys.a_size("qk_nope_head_dim"),
        rope=keys.a_size("qk_rope_head_dim"),
        value_dim=keys.a_size("v_head_dim"),
        bias=keys.flag("attention_bias"),
        indexer=indexer,
    )


def minicpm3(keys: Keys) -> Body:
    """Latent attention with dense blocks."""
    return deepseek(keys)


#: One reader a family.
LATENT: Mapping[str, Callable[[Keys], Body]] = MappingProxyType(
    {
        "deepseek_v2": deepseek,
        "deepseek_v3": deepseek,
        "deepseek_v32": deepseek,
        "kimi_k2": deepseek,
        "glm_moe_dsa": deepseek,
        "glm4_moe_lite": deepseek,
        "minicpm3": minicpm3,
    }
)
