"""FLOPs of whole models, summed over the products of their programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sympy import Add, Expr, S, Symbol

from symscale.algebra.symbols import B, L, T, symbol
from symscale.models.decoder import Decoder, LayerKind
from symscale.models.remat import Policy, rematerialise
from symscale.models.scores import Causal, flops_of, is_score, is_whole, keys_of, mean_keys
from symscale.programs.phase import Compute
from symscale.programs.program import Program


Count: TypeAlias = Callable[[LayerKind], Expr]


def over_layers(programs: Decoder, count: Count) -> Expr:
    """A count summed over all layers; what all kinds share is written once, for L of them."""
    total = _summed(programs.kinds, L, count)
    return total + _summed(programs.encoder, symbol("L_enc"), count)


def _summed(kinds: tuple[LayerKind, ...], every: Symbol, count: Count) -> Expr:
    if not kinds:
        return S.Zero
    each = [set(Add.make_args(count(kind).expand())) for kind in kinds]
    common = set.intersection(*each)
    own = (kind.count * Add(*(terms - common)) for kind, terms in zip(kinds, each, strict=True))
    return every * Add(*common) + Add(*own)


def model_flops(
    programs: Decoder,
    *,
    training: bool,
    causal: Causal,
    head: bool,
    embeddings: bool,
    recompute: Policy | None,
    mtp: bool,
) -> Expr:
    """Matrix FLOPs of B tokens through a model, forward or in training."""
    total = over_layers(programs, lambda kind: kind_flops(kind, training, causal))
    if recompute is not None and training:
        total += over_layers(programs, lambda kind: again(kind, recompute, causal))
    last = ends_flops(programs.ends, training) if head else S.Zero
    total += last
    if embeddings:
        table = programs.ends.arrays["Emb"].size
        total += 2 * B * table * (3 if training else 1)
    if mtp:
        total += sum((k.count * kind_flops(k, training, causal) for k in programs.mtp), S.Zero)
        total += last * (programs.mtp[0].count if programs.mtp else 0)
    return total


def kind_flops(kind: LayerKind, training: bool, causal: Causal) -> Expr:
    """Matrix FLOPs of B tokens through one layer of a kind."""
    keys = _mean(kind, causal)
    sharded = kind.program.shard()
    forward = flops_of(sharded.forward, kind, keys)
    return forward + (flops_of(sharded.backward, kind, keys) if training else 0)


def _mean(kind: LayerKind, causal: Causal) -> Expr:
    return keys_of(kind.reach, causal)


def again(kind: LayerKind, policy: Policy, causal: Causal) -> Expr:
    """Matrix FLOPs that a layer of a kind computes a second time under a policy."""
    steps = rematerialise(kind.program, policy).steps
    return sum((step.flops * _share(step, kind, causal) for step in steps), S.Zero)


def ends_flops(ends: Program, training: bool) -> Expr:
    """Matrix FLOPs of B tokens through the head (an embedding's lookup has none)."""
    sharded = ends.shard()
    return sharded.forward.flops + (sharded.backward.flops if training else 0)


def scores_flops(programs: Decoder, causal: Causal) -> Expr:
    """The scores' part of the forward FLOPs of B tokens: both products with keys and values."""

    def count(kind: LayerKind) -> Expr:
        return sum(
            (
                step.flops * _share(step, kind, causal)
                for step in kind.program.shard().forward.computes
                if is_score(step)
            ),
            S.Zero,
        )

    return over_layers(programs, count)


def _share(step: Compute, kind: LayerKind, causal: Causal) -> Expr:
    """The part of a product that is counted: of a score, the pairs that meet."""
    if not is_score(step) or "S" not in step.op.labels:
        return S.One
    return (mean_keys(causal=causal) if is_whole(step, kind) else _mean(kind, causal)) / T


def decode_flops(programs: Decoder, context: Expr, absorbed: bool) -> Expr:
    """Matrix FLOPs of one new token behind ``context`` cached ones (itself among them).

    Where only the latent vectors are cached and the matrices are not absorbed, keys and values of
    every cached token are made again.
    """

    def count(kind: LayerKind) -> Expr:
        seen = mean_keys(context, window=kind.reach.window, chunk=kind.reach.chunk, causal=False)
        remade = not absorbed and "Ckv" in kind.cached
        total = S.Zero
        for step in kind.program.shard().forward.computes:
            each = step.flops / B
            if is_score(step) and "S" in step.op.labels:
                each *= (context if is_whole(step, kind) else seen) / T
            elif remade and {"Wuk", "Wuv"} & {array.name for array in step.inputs}:
                each *= seen
            total += each
        return total

    return over_layers(programs, count) + ends_flops(programs.ends, training=False) / B
