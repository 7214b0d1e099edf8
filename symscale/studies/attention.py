"""When attention's scores cost as much as the matmuls around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, S, cancel

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Minimum
from symscale.algebra.symbols import L, T
from symscale.models.model import Model
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover

#: What the scores may be compared with: components of the model's forward FLOPs.
RIVALS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "projections": ("attention", "cross attention"),
        "mlp": ("mlp", "router", "experts", "shared experts"),
        "layer": ("attention", "cross attention", "mlp", "router", "experts", "shared experts"),
    }
)


@dataclass(frozen=True)
class AttentionShare:
    """A layer's forward FLOPs for one token: the scores', the rival's, and where they meet."""

    rival: str
    scores: Expr
    other: Expr
    answer: Crossover

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain text."""
        return {
            "rival": self.rival,
            "scores": str(self.scores),
            "other": str(self.other),
            "length": str(self.answer.threshold),
        }


def attention_passes(model: Model, rival: str = "mlp", causal: bool = False) -> AttentionShare:
    """The sequence length from which attention's scores cost more than a rival.

    The rival is ``"mlp"`` (experts and router included), ``"projections"`` or ``"layer"`` (all
    matmuls with weights but the head). Both sides are summed over all layers' products, whatever
    their kinds: latent attention with its low-rank products, windows with the keys they see.
    ``causal`` counts half of the scores. Where windows leave the symbols' order open, the model's
    sizes are put in first.

    Raises:
        SolveError: for an unknown rival, or a model without attention.

    >>> from symscale.models.model import model
    >>> attention_passes(model("llama-3-70b")).answer.threshold
    3*D*F/(2*H*N)
    >>> attention_passes(model("gpt-oss-20b"), "projections").answer.kind
    'above'
    """
    if rival not in RIVALS:
        raise SolveError(f"unknown rival {rival!r}; rivals: {', '.join(RIVALS)}")
    parts = model.flops_by_component(T, causal)
    if "attention scores" not in parts:
        raise SolveError(f"{model.name} has no attention scores")
    scores, other = parts["attention scores"], Add(*(parts.get(k, S.Zero) for k in RIVALS[rival]))
    left, right = _of_one_layer(scores, other)
    try:
        answer = crossover(_smallest(left), right, T)
    except SolveError:
        left, right = scores.subs(model), other.subs(model)
        answer = crossover(_smallest(left), right, T)
    return AttentionShare(rival, left, right, answer)


def _smallest(expr: Expr) -> Expr:
    """Minima (of a window and a length) drawn out of a sum that grows with each of them."""
    arms = {expr}
    while found := {m for arm in arms for m in arm.atoms(Minimum)}:
        one = min(found, key=str)
        arms = {arm.xreplace({one: choice}) for arm in arms for choice in one.args}
    return Minimum(*arms)


def _of_one_layer(scores: Expr, other: Expr) -> tuple[Expr, Expr]:
    """Both sides over the number of layers, where all layers are alike."""
    each = cancel(scores / L), cancel(other / L)
    return each if not any(side.has(L) for side in each) else (scores, other)
