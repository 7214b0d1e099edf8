"""When attention's scores cost as much as the matmuls around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr, S, cancel

from symscale.algebra.symbols import B, T
from symscale.models.model import Model, is_score
from symscale.programs.phase import Compute
from symscale.programs.program import Program
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover

_DENSE = ("Wgate", "Win", "Wout")
_EXPERTS = ("Wr", "Egate", "Ein", "Eout", "Sgate", "Sin", "Sout")

#: What the scores may be compared with: the weights of the products on the other side.
RIVALS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "projections": ("Wq", "Wk", "Wv", "Wo"),
        "mlp": (*_DENSE, *_EXPERTS),
        "layer": ("Wq", "Wk", "Wv", "Wo", *_DENSE, *_EXPERTS),
    }
)


@dataclass(frozen=True)
class AttentionShare:
    """A layer's forward FLOPs for one token: the scores', the rival's, and where they meet."""

    rival: str
    scores: Expr
    other: Expr
    answer: Crossover

    @property
    def wall(self) -> Expr:
        """The sequence length, in tokens, from which the scores cost more."""
        return self.answer.thresholds[0]

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

    The rival is ``"mlp"``, ``"projections"`` or ``"layer"`` (all matmuls with weights). Both sides
    are summed over the layer's products; ``causal`` counts half of the scores.

    >>> from symscale.models.model import model
    >>> attention_passes(model("llama-3-70b")).answer.threshold
    3*D*F/(2*H*N)
    """
    phase = _layer(model).shard().forward
    scores = sum((s.flops for s in phase.computes if is_score(s)), S.Zero)
    other = sum((s.flops for s in phase.computes if _uses(s, RIVALS[rival])), S.Zero)
    share = S.Half if causal else S.One
    left, right = cancel(share * scores / B), cancel(other / B)
    return AttentionShare(rival, left, right, crossover(left, right, T))


def _layer(model: Model) -> Program:
    """The one kind of layer there is, experts and all; a model of several kinds says so itself."""
    kinds = {kind.program for kind in model.programs.kinds}
    return kinds.pop() if len(kinds) == 1 else model.programs.layer


def _uses(step: Compute, weights: tuple[str, ...]) -> bool:
    return any(array.name in weights for array in step.inputs)
