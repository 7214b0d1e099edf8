"""FLOPs of whole models, summed over the products of their programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sympy import Expr, S

from symscale.algebra.symbols import B, L, T, symbol
from symscale.models.conventions import Conventions
from symscale.models.decoder import COMPONENTS, Decoder, LayerKind, over_layers
from symscale.models.params import component_of
from symscale.models.remat import Policy, rematerialise
from symscale.models.scores import Causal, flops_of, is_score, is_whole, keys_of, mean_keys
from symscale.programs.ops import Einsum
from symscale.programs.phase import Compute
from symscale.programs.program import Program

Count: TypeAlias = Callable[[LayerKind], Expr]


def over_all(programs: Decoder, count: Count) -> Expr:
    """A count summed over all layers, an encoder's too."""
    return over_layers(programs.kinds, L, count) + over_layers(
        programs.encoder, symbol("L_enc"), count
    )


def model_flops(programs: Decoder, how: Conventions) -> Expr:
    """Matrix FLOPs of B tokens through a model, forward or in training."""
    training, causal = how.training, how.causal
    total = over_all(programs, lambda kind: kind_flops(kind, training, causal))
    if how.recompute is not None:
        policy = how.recompute
        total += over_all(programs, lambda kind: again(kind, policy, causal))
    last = ends_flops(programs.ends, training) if how.head else S.Zero
    total += last
    if how.embeddings:
        table = programs.ends.arrays["Emb"].size
        total += 2 * B * table * (3 if training else 1)
    if how.mtp:
        total += sum((k.count * kind_flops(k, training, causal) for k in programs.mtp), S.Zero)
        if how.recompute is not None:
            policy = how.recompute
            total += sum((k.count * again(k, policy, causal) for k in programs.mtp), S.Zero)
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

    return over_all(programs, count)


def _share(step: Compute, kind: LayerKind, causal: Causal) -> Expr:
    """The part of a product that is counted: of a score, the pairs that meet."""
    if not is_score(step) or "S" not in step.op.labels:
        return S.One
    return (mean_keys(causal=causal) if is_whole(step, kind) else _mean(kind, causal)) / T


def flops_by_component(programs: Decoder, causal: Causal) -> dict[str, Expr]:
    """Forward matrix FLOPs of B tokens by component; the scores are one of their own.

    A product belongs to the component of its weight; one of two activations that are no scores (a
    recurrent state's) to ``state``.
    """
    found: dict[str, Expr] = {}
    for component in (*COMPONENTS, "attention scores", "state"):

        def count(kind: LayerKind, component: str = component) -> Expr:
            steps = kind.program.shard().forward.computes
            chosen = (s for s in steps if _belongs(s, kind.program, component))
            return sum((s.flops * _share(s, kind, causal) for s in chosen), S.Zero)

        amount = over_all(programs, count)
        steps = programs.ends.shard().forward.computes
        chosen = (s.flops for s in steps if _belongs(s, programs.ends, component))
        amount += sum(chosen, S.Zero)
        if amount != 0:
            found["head" if component == "embedding" else component] = amount
    return found


def _belongs(step: Compute, program: Program, component: str) -> bool:
    if not isinstance(step.op, Einsum):
        return False
    weights = [array.name for array in step.inputs if array.name in program.weights]
    if weights:
        return component_of(weights[0]) == component
    return component == ("attention scores" if is_score(step) else "state")


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

    return over_all(programs, count) + ends_flops(programs.ends, training=False) / B
