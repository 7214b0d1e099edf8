"""The prefill of a prompt: its arithmetic as a formula in the prompt's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from sympy import Expr, S, expand, sympify

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import W_hbm, n
from symscale.arrays.dtype import DType, dtype
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.models.scores import Causal
from symscale.studies.serving.words import S_IN


def prompt_flops(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    tokens: Any = S_IN,
    cached: Any = 0,
    causal: Causal = "exact",
) -> Expr:
    """Matrix FLOPs of reading a prompt, of which the first ``cached`` tokens need no reading.

    What the first tokens would have cost is left out: their products, and their scores among
    themselves. The others still meet all keys before them. Only the last token gets logits, as in
    :attr:`Inference.prefill`.

    >>> from symscale.studies.serving.words import PREFIX
    >>> whole = prompt_flops("llama-3-8b")
    >>> twice = prompt_flops("llama-3-8b", cached=PREFIX) + whole.subs(S_IN, PREFIX) - whole
    >>> expand(twice) == 2 * 4096 * 128256  # logits of two prompts instead of one
    True
    """
    found = find_model(model)
    layers = found.flops_per_token(head=False)
    logits = found.flops_per_token() - layers
    linear = layers - found.attention_flops_per_token()

    def first(count: Expr) -> Expr:
        if count is S.Zero:
            return count
        return count * (linear + found.attention_flops_per_token(count, causal))

    whole, known = sympify(tokens, strict=True), sympify(cached, strict=True)
    return expand((first(whole) - first(known) + logits).xreplace(dict(found)))


def prompt_seconds(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    weights: str = "bf16",
    compute: str | DType = "bf16",
    tokens: Any = S_IN,
    cached: Any = 0,
    causal: Causal = "exact",
) -> Expr:
    """Seconds to read a prompt on ``n`` chips: its arithmetic, or the weights if that takes longer.

    >>> time = prompt_seconds("llama-3-8b", tokens=8192)
    >>> sorted(str(arm.free_symbols - {n}) for arm in time.args)
    ['{C}', '{W_hbm}']
    """
    found = find_model(model)
    stored = found.weight_bytes(weights).xreplace(dict(found))
    flops = prompt_flops(found, tokens, cached, causal)
    return Maximum(flops / (n * dtype(compute).rate), stored / (n * W_hbm))
