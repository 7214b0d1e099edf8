"""Crossovers of attention: against the rest of the layer, and against memory and links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

from sympy import S as Singletons

from symscale.algebra.symbols import G, S, T, X
from symscale.programs.program import Program, program
from symscale.solve.crossover import crossover
from symscale.studies.attention import attention_passes
from symscale.studies.catalogue_common import Entry, Found, Setting, found

GROUP = "attention"


@cache
def attention_core() -> Program:
    """Scores and values of fused attention: what is between the projections."""
    return program(
        "Qs[b, T, K, G, H] * Ks[b, S, K, H] -> Scores[b, K, G, T, S]",
        "softmax(Scores[b, K, G, T, S]; S) -> Probs[b, K, G, T, S]",
        "Probs[b, K, G, T, S] * Vs[b, S, K, H] -> Os[b, T, K, G, H]",
        inputs=("Qs", "Ks", "Vs"),
        fused=("Scores", "Probs"),
    )


def against(rival: str) -> Callable[[Setting], Found]:
    """The sequence length from which attention's scores cost more than a rival."""

    def build(setting: Setting) -> Found:
        return found(attention_passes(setting.model, rival).answer, "T", "tokens")

    return build


def prefill(setting: Setting) -> Found:
    """The length from which attention over a whole prompt is compute-bound."""
    time = attention_core().shard().forward.time
    return found(crossover(time.math.subs(S, T), time.hbm.subs(S, T), T), "T", "tokens")


def generation(setting: Setting) -> Found:
    """The query heads a key/value head from which attention of one new token is compute-bound."""
    time = attention_core().shard().forward.time
    one = {T: Singletons.One}
    return found(crossover(time.math.subs(one), time.hbm.subs(one), G), "G", "heads")


def ring_block(setting: Setting) -> Found:
    """The block of queries on each chip whose arithmetic hides the passing of keys and values."""
    sharded = attention_core().shard(
        "Qs[b, T_X, K, G, H]", "Ks[b, S_X, K, H]", "Vs[b, S_X, K, H]",
        "Scores[b, K, G, T_X, S]", "Probs[b, K, G, T_X, S]", "Os[b, T_X, K, G, H]",
    )  # fmt: skip
    time = sharded.forward.time_on(setting.network)
    return found(crossover(time.math, time.comms, T), "T", "tokens").scaled(
        1 / X, "T/X", "tokens a chip"
    )


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "attention-mlp": Entry(
            GROUP,
            "From which sequence length do attention's scores cost more than the MLP?",
            against("mlp"),
        ),
        "attention-projections": Entry(
            GROUP,
            "From which sequence length do attention's scores cost more than its projections?",
            against("projections"),
        ),
        "attention-layer": Entry(
            GROUP,
            "From which sequence length do attention's scores cost more than all else in a layer?",
            against("layer"),
        ),
        "attention-prefill": Entry(
            GROUP, "From which length is attention over a whole prompt compute-bound?", prefill
        ),
        "attention-generation": Entry(
            GROUP,
            "From how many query heads a key/value head is attention compute-bound in generation "
            "(with fewer: never)?",
            generation,
        ),
        "ring-attention-block": Entry(
            GROUP,
            "From which block on does ring attention's arithmetic hide its keys' and values' way?",
            ring_block,
        ),
    }
)
