"""A token's forward FLOPs by part of the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sympy import Expr, S, cancel, factor

from symscale.algebra.symbols import B, L
from symscale.models.decoder import COMPONENTS
from symscale.models.model import Model, is_score
from symscale.programs.phase import Compute, Phase


def flops_breakdown(model: Model) -> Mapping[str, Expr]:
    """Forward matrix FLOPs for one token: projections, attention scores, MLP, head.

    >>> from symscale.models.model import model
    >>> flops_breakdown(model("llama-3-70b"))["attention scores"]
    4*H*L*N*T
    """
    layer = model.programs.layer.shard().forward
    ends = model.programs.ends.shard().forward
    parts = {
        "attention projections": L * _of(layer, "attention"),
        "attention scores": L * sum((s.flops for s in layer.computes if is_score(s)), S.Zero),
        "MLP": L * _of(layer, "mlp"),
        "head": _of(ends, "head") + _of(ends, "embedding"),
    }
    return MappingProxyType({name: factor(cancel(expr / B)) for name, expr in parts.items()})


def _of(phase: Phase, component: str) -> Expr:
    names = COMPONENTS[component]
    return sum((step.flops for step in phase.computes if _uses(step, names)), S.Zero)


def _uses(step: Compute, weights: tuple[str, ...]) -> bool:
    return any(array.name in weights for array in step.inputs)
