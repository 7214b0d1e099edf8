"""The conventions of a FLOP count: named, kept with the number, and printed beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr

from symscale.algebra.errors import ModelError
from symscale.models.params import Parameters
from symscale.models.remat import Policy
from symscale.models.scores import Causal

#: How a causal mask is counted, in words.
CAUSAL: Mapping[Any, str] = MappingProxyType(
    {
        False: "all of them",
        True: "half of them (causal)",
        "half": "half of them (causal)",
        "exact": "every pair of the causal mask",
    }
)


@dataclass(frozen=True)
class Conventions:
    """What a count of FLOPs takes in.

    Attributes:
        training: forward and backward instead of forward alone.
        causal: how a causal mask is counted (see :func:`mean_keys`).
        head: the product with the output head.
        embeddings: the lookup in the embedding as the one-hot product it stands for.
        recompute: what this policy computes a second time.
        capacity: experts work on buffers this many times their even share of tokens.
        mtp: multi-token-prediction modules, each with a head of its own.
    """

    training: bool = False
    causal: Causal = False
    head: bool = True
    embeddings: bool = False
    recompute: Policy | None = None
    capacity: Expr | float = 1
    mtp: bool = False

    def __post_init__(self) -> None:
        if self.recompute is not None and not self.training:
            raise ModelError(
                "recompute counts what the backward pass repeats; it needs training=True"
            )

    def said(self, params: Parameters) -> Mapping[str, str]:
        """The conventions in words, those that matter to a model.

        >>> from symscale.models.model import model
        >>> Conventions(training=True).said(model("gpt2").params)["passes"]
        'forward and backward, nothing recomputed (MFU)'
        """
        made = {
            "multiply-add": "2 FLOPs",
            "passes": self._passes(),
            "attention scores": CAUSAL[self.causal],
            "embedding": self._ends(),
        }
        if params.sparse:
            share = f"{float(self.capacity):g}"
            made["experts"] = f"those a token visits; buffers of {share} times their share"
        if params.mtp != 0:
            counted = "counted, each module with a head"
            made["multi-token prediction"] = counted if self.mtp else "not counted"
        return MappingProxyType(made)

    def _passes(self) -> str:
        if not self.training:
            return "forward"
        if self.recompute is None:
            return "forward and backward, nothing recomputed (MFU)"
        return f"forward, backward, and what policy {self.recompute} recomputes (HFU)"

    def _ends(self) -> str:
        first = "one-hot product" if self.embeddings else "lookup, no FLOPs"
        return f"{first}; the output head is {'counted' if self.head else 'not counted'}"
