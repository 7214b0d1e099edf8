"""Crossovers of serving: what binds a step of generation, and what fills the memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sympy import Add, Expr

from symscale.algebra.symbols import B, C, D, E, F, S, W_hbm, Y, b, k
from symscale.algebra.time import Time
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.strategy import strategy
from symscale.programs.program import program
from symscale.programs.sharded import ShardedProgram
from symscale.solve.crossover import crossover
from symscale.solve.leading import leading
from symscale.studies.catalogue_common import Entry, Found, Setting, found

GROUP = "serving"


def weight_time(sharded: ShardedProgram) -> Expr:
    """Seconds to read a device's weights from HBM."""
    sizes = (sharded.sharding(name).bytes for name in sharded.program.weights)
    return Add(*sizes) / W_hbm


def _leading(time: Time, unit: str) -> Found:
    """The batch at which a layer's arithmetic outgrows its HBM traffic, to leading order."""
    answer = crossover(time.math, time.hbm, B)
    wall = found(answer, "B", unit)
    order = leading(wall.expr, small=[C / (D * W_hbm), C / (F * W_hbm)])
    return Found("B", unit, order.term, answer, wall.derivation + order.derivation)


def decode_mlp(weights: str) -> Found:
    """The sequences in flight from which the MLP of a step of generation is compute-bound."""
    mlp = program(
        f"Xm[B, D] * Wgate: {weights}[D, F] -> Gate[B, F]",
        f"Xm[B, D] * Win: {weights}[D, F] -> Up[B, F]",
        "swiglu(Gate[B, F], Up[B, F]) -> Act[B, F]",
        f"Act[B, F] * Wout: {weights}[F, D] -> Out[B, D]",
        fused=("Gate", "Up", "Act"),
    )
    return _leading(mlp.shard().forward.time, "sequences")


def decode_moe(setting: Setting) -> Found:
    """The same where each token goes to k of E experts."""
    experts = program(
        "In[E, c, D] * Win[E, D, F] -> Tmp[E, c, F]",
        "Tmp[E, c, F] * Wout[E, F, D] -> Out[E, c, D]",
        sizes={"c": B * k / E},
    )
    return _leading(experts.shard().forward.time, "sequences")


def ici_or_hbm(setting: Setting) -> Found:
    """The tensor-parallel ways from which a step waits for links more than for its weights."""
    layer = two_matmul_layer().shard(strategy("tp"))
    comms = layer.forward.time_on(setting.network).comms
    return found(crossover(comms, weight_time(layer), Y), "Y", "ways")


def replicas(setting: Setting) -> Found:
    """The batch from which Y replicas read their weights sooner than Y ways exchange sums."""
    layer = two_matmul_layer()
    split = layer.shard(strategy("tp"))
    comms = split.forward.time_on(setting.network).comms
    together = weight_time(split) + comms
    return found(crossover(together, weight_time(layer.shard()), B), "B", "sequences")


def cache_or_weights(setting: Setting) -> Found:
    """The sequences whose KV cache takes as many bytes as the weights."""
    cache = b * S * setting.model.kv_bytes_per_token()
    weights = 2 * setting.model.params.total
    return found(crossover(cache, weights, b), "b", "sequences")


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "decode-mlp": Entry(
            GROUP,
            "From how many sequences is the MLP compute-bound in generation?",
            lambda setting: decode_mlp("bf16"),
        ),
        "decode-mlp-int8": Entry(
            GROUP,
            "From how many sequences is the MLP with int8 weights compute-bound in generation?",
            lambda setting: decode_mlp("int8"),
        ),
        "decode-moe": Entry(
            GROUP,
            "From how many sequences is a mixture of experts compute-bound in generation?",
            decode_moe,
        ),
        "ici-or-hbm": Entry(
            GROUP,
            "From how many tensor-parallel ways does generation wait for links, not for HBM?",
            ici_or_hbm,
        ),
        "replicas-or-tensor": Entry(
            GROUP,
            "From which batch do Y replicas answer sooner than Y-way tensor parallelism, both "
            "bound by HBM?",
            replicas,
        ),
        "cache-or-weights": Entry(
            GROUP,
            "From how many sequences does the KV cache take more bytes than the weights?",
            cache_or_weights,
        ),
    }
)
