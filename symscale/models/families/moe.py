"""Which layers have experts, and how many: the rules of each family."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from symscale.models.blocks import Experts, Mlp
from symscale.models.keys import Keys
from symscale.models.moe_layers import moe_layers

#: Families whose checkpoints hold a bias for every expert that steers the choice and nothing else.
STEERED = (
    "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe", "glm4_moe_lite", "dots1",
)  # fmt: skip

#: Feed-forward of each layer.
Feed = tuple[Mlp | Experts, ...]
Rule = Callable[[Keys, int, Mlp], Feed]


def dense(keys: Keys, layers: int, mlp: Mlp) -> Feed:
    """No experts anywhere."""
    return (mlp,) * layers


def choose(layers: int, chosen: Iterable[int], experts: Experts, mlp: Mlp) -> Feed:
    """Experts in the chosen layers, a dense block in the others."""
    picked = frozenset(chosen)
    return tuple(experts if i in picked else mlp for i in range(layers))


def routed(keys: Keys, *names: str) -> int | None:
    """The number of routed experts; None where the keys say that there are none.

    Null, 0, 1 and an absent key that has no class default all mean a dense model.
    """
    if keys.present(*names) is None and any(name in keys.own for name in names):
        return None
    found = keys.number_of(*names)
    return found if found > 1 else None


def top_k(keys: Keys, experts: int, *names: str, default: int | None = None) -> int:
    """Routed experts a token visits; at most as many as there are."""
    found = keys.a_size(*names, default=default)
    if found > experts:
        keys.fail(f"{names[0]} {found} is more than the {experts} experts there are")
    return found


def mixtral(keys: Keys, layers: int, mlp: Mlp) -> Feed:
    """Every layer, an expert as wide as ``intermediate_size``."""
    count = routed(keys, "num_local_experts", "num_experts")
    if count is None:
        return dense(keys, layers, mlp)
    per_token = top_k(keys, count, "num_experts_per_tok", "experts_per_token", default=2)
    return (
        Experts(count, per_token, mlp.width, gated=mlp.gated, activation=mlp.activation),
    ) * layers


def qwen(shared: bool) -> Rule:
    """Layers with index + 1 a multiple of ``decoder_sparse_step``, but for ``mlp_only_layers``."""

    def rule(keys: Keys, layers: int, mlp: Mlp) -> Feed:
        count = routed(keys, "num_experts", "num_local_experts")
        if count is None:
            return dense(keys, layers, mlp)
        step = keys.a_size("decoder_sparse_step", default=1)
        skipped = keys.indices("mlp_only_layers")
        made = Experts(
            count,
            top_k(keys, count, "num_experts_per_tok"),
            keys.a_size("moe_intermediate_size"),
            shared=keys.number_of("shared_expert_intermediate_size") if shared else 0,
            shared_gate=shared,
        )
        return choose(layers, moe_layers("qwen", layers, step, dense=skipped), made, mlp)

    return rule


def deepseek(keys: Keys, layers: int, mlp: Mlp) -> Feed:
    """Layers from ``first_k_dense_replace`` on whose index is a multiple of ``moe_layer_freq``."""
    count = routed(keys, "n_routed_experts", "num_local_experts")
    if count is None:
        return dense(keys, layers, mlp)
    width = keys.a_size("moe_intermediate_size")
    made = Experts(
        count,
        top_k(keys, count, "num_experts_per_tok"),
        width,
        correction=keys.model_type in STEERED or keys.own.get("topk_method") == "noaux_tc",
        shared=width * keys.number_of("n_shared_experts"),
    )
    given = keys.words("mlp_layer_types", layers, ("dense", "sparse"))
    if given is not None:
        return choose(layers, (i for i, word in enumerate(given) if word == "sparse"), made, mlp)
    first = keys.number_of("first_k_dense_replace")
    step = keys.number_of("moe_layer_freq", default=1) or 1
    chosen = moe_layers("deepseek", layers, step, first_dense=first)
    return choose(layers, chosen, made, mlp)


def llama4(keys: Keys, layers: int, mlp: Mlp) -> Feed:
    """Every ``interleave_moe_layer_step``-th layer, the first at index step - 1."""
    count = routed(keys, "num_local_experts", "num_experts")
    dense_mlp = Mlp(keys.a_size("intermediate_size_mlp", default=mlp.width))
    if count is None:
        return dense(keys, layers, dense_mlp)
    made = Experts(
        count,
        top_k(keys, count, "num_experts_per_tok", default=1),
        mlp.width,
        shared=mlp.width,
    )
    step = keys.number_of("interleave_moe_layer_step", default=1)
    chosen = keys.indices("moe_layers") or (moe_layers("llama4", layers, step) if step else ())
    return choose(layers, chosen, made, dense_mlp)
