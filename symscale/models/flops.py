"""FLOPs for one token, with the conventions they follow printed beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr

from symscale.algebra.symbols import T
from symscale.models.model import Model, model


@dataclass(frozen=True)
class FlopsPerToken:
    """A count of FLOPs for one token: formula, number, and how it was counted."""

    model: Model
    length: int
    formula: Expr
    value: float
    conventions: Mapping[str, str]

    def __str__(self) -> str:
        rows = [
            f"{self.model.name}, sequences of {self.length:,} tokens",
            f"  {self.formula}",
            f"  = {self.value:,.0f} FLOPs a token",
            *(f"  {name}: {said}" for name, said in self.conventions.items()),
        ]
        return "\n".join(rows)

    def to_dict(self) -> dict[str, Any]:
        """Number, formula and conventions."""
        whole = self.value == int(self.value)
        return {
            "model": self.model.name,
            "context": self.length,
            "flops_per_token": int(self.value) if whole else self.value,
            "formula": str(self.formula),
            "conventions": dict(self.conventions),
        }


def flops_per_token(
    source: str | os.PathLike[str] | Mapping[str, Any] | Model,
    length: int,
    *,
    training: bool = False,
    causal: bool = False,
) -> FlopsPerToken:
    """Count a token's matrix FLOPs (see :meth:`Model.flops_per_token`).

    >>> flops_per_token("llama-2-7b", 4096).value
    15361638400.0
    """
    found = model(source)
    formula = found.flops_per_token(T, training=training, causal=causal)
    value = float(formula.subs(found).subs(T, length))
    said = {
        "multiply-add": "2 FLOPs",
        "passes": "forward and backward, nothing recomputed" if training else "forward",
        "attention scores": "half of them (causal)" if causal else "all of them",
        "embedding": "lookup, no FLOPs; the output head is counted",
    }
    return FlopsPerToken(found, length, formula, value, MappingProxyType(said))
