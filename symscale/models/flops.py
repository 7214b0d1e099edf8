"""FLOPs for one token, with the conventions they follow printed beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any

from sympy import Expr, Rational

from symscale.algebra.errors import ModelError, near
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import S as Keys
from symscale.algebra.symbols import T
from symscale.models.conventions import CAUSAL, Conventions
from symscale.models.model import Model, model
from symscale.models.scores import Causal


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
            *_wrapped(str(self.formula)),
            f"  = {self.value:,.0f} FLOPs a token",
            *(f"  {name}: {said}" for name, said in self.conventions.items()),
            *(line for note in self.model.notes for line in _wrapped(f"covers: {note}")),
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
            "notes": list(self.model.notes),
        }


def _wrapped(text: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, 78, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def flops_per_token(
    source: str | os.PathLike[str] | Mapping[str, Any] | Model,
    length: int,
    **conventions: Any,
) -> FlopsPerToken:
    """Count a token's matrix FLOPs.

    Args:
        source: a model, or what names one.
        length: tokens in a sequence.
        conventions: those of :class:`Conventions`: ``training``, ``causal``, ``head``,
            ``embeddings``, ``recompute``, ``capacity``, ``mtp``.

    Raises:
        ModelError: an unknown model or convention, or a recomputation without a backward pass.

    >>> flops_per_token("llama-2-7b", 4096).value
    15361638400.0
    """
    found, how = model(source), _conventions(conventions)
    value = float(found.flops_by(how, length).subs(found))
    return FlopsPerToken(found, length, found.flops_by(how), value, how.said(found.params))


def _conventions(given: Mapping[str, Any]) -> Conventions:
    known = tuple(field.name for field in fields(Conventions))
    for name in given:
        if name not in known:
            raise ModelError(
                f"no convention {name!r}; known: {', '.join(known)}{near(name, known)}"
            )
    return Conventions(**given)


def decode_flops(
    source: str | os.PathLike[str] | Mapping[str, Any] | Model,
    context: int,
    *,
    absorbed: bool = True,
) -> FlopsPerToken:
    """Count the matrix FLOPs of one new token behind a cached context.

    >>> decode_flops("llama-2-7b", 4096).value
    15361638400.0
    """
    found = model(source)
    formula = found.decode_flops_per_token(Keys, absorbed)
    amount = found.decode_flops_per_token(context, absorbed).subs(found)
    if not amount.is_number:
        raise ModelError(f"{found.name}: a decode step is counted for decoders without an encoder")
    value = float(amount)
    said = {
        "multiply-add": "2 FLOPs",
        "passes": "one decode step",
        "attention scores": "all cached",
    }
    if "R_kv" in {symbol.name for symbol in found}:
        said["latent attention"] = "absorbed" if absorbed else "keys and values made again"
    return FlopsPerToken(found, context, formula, value, MappingProxyType(said))


@dataclass(frozen=True)
class RuleOfThumb:
    """FLOPs for one token as a multiple of N, with the N that was meant."""

    factor: int
    parameters: Expr
    number: int
    attention: Expr | None
    value: Rational
    conventions: Mapping[str, str]

    def __repr__(self) -> str:
        said = "; ".join(f"{name}: {text}" for name, text in self.conventions.items())
        return (
            f"{self.factor} N = {float(self.value):.6g} FLOPs a token, N = {self.number:,} ({said})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Number, N and conventions."""
        return {
            "factor": self.factor,
            "N": self.number,
            "flops_per_token": float(self.value),
            "formula": str(self.parameters),
            "conventions": dict(self.conventions),
        }


def rule_of_thumb(
    source: str | os.PathLike[str] | Mapping[str, Any] | Model,
    *,
    training: bool = True,
    recompute: bool = False,
    active: bool = True,
    embedding: bool = True,
    head: bool = True,
    positions: bool = True,
    length: int | None = None,
    causal: Causal = False,
) -> RuleOfThumb:
    """2N, 6N or 8N for a token, by the N that is meant; with ``length``, plus the scores' part.

    Args:
        source: a model, or what names one.
        training: 6N instead of 2N.
        recompute: 8N: the whole forward pass a second time (hardware FLOPs).
        active: of a mixture of experts, the parameters that a token meets.
        embedding: count the input embedding in N.
        head: count the output head in N.
        positions: count learned positions in N.
        length: tokens in a sequence; adds attention's scores (12 L H Q T in training).
        causal: how the scores are counted (see :func:`mean_keys`).

    Source: PaLM, https://arxiv.org/abs/2204.02311, appendix B.

    >>> rule_of_thumb("llama-3-8b", embedding=False).value
    45029548032
    """
    found = model(source)
    expr = found.params.of(active=active, embedding=embedding, head=head, positions=positions)
    number = int(expr.xreplace(dict(found)))
    factor = (8 if recompute else 6) if training else 2
    value = Rational(factor * number)
    scores = None
    if length is not None:
        scores = found.attention_flops_per_token(T, causal=causal)
        at = found.attention_flops_per_token(exact(length, "length"), causal=causal)
        value += Rational(at.subs(found)) * Rational(factor, 2)
    said = {
        "N": "active parameters" if active and found.params.sparse else "all parameters",
        "input embedding": _yes(embedding),
        "output head": _head(found, embedding, head),
        "recompute": f"{_yes(recompute)} ({'HFU' if recompute else 'MFU'})",
        "attention scores": "left out" if length is None else CAUSAL[causal],
    }
    return RuleOfThumb(factor, expr, number, scores, value, MappingProxyType(said))


def _yes(counted: bool) -> str:
    return "counted" if counted else "not counted"


def _head(found: Model, embedding: bool, head: bool) -> str:
    if not found.config.tied:
        return _yes(head)
    return "one array with the embedding, counted once" if embedding or head else "not counted"
