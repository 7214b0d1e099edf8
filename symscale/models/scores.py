"""Attention's scores: which products they are, and how many keys a query meets."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias

from sympy import Expr, Integer, S, floor

from symscale.algebra.errors import ModelError
from symscale.algebra.maximum import Minimum
from symscale.algebra.symbols import T
from symscale.models.decoder import LayerKind, Reach
from symscale.programs.ops import Einsum
from symscale.programs.phase import Compute, Phase

#: How a causal mask is counted: not at all (every query with every key); by the usual half; by the
#: exact number of pairs, (T + 1)/2 keys a query.
Causal: TypeAlias = bool | Literal["half", "exact"]


def is_score(step: Compute) -> bool:
    """Whether a product pairs every query with every key: attention's scores, or their use.

    >>> from symscale.models.model import model
    >>> layer = model("llama-3-8b").programs.layer.shard().forward
    >>> [step.output.name for step in layer.computes if is_score(step)]
    ['Scores', 'Os']
    """
    labels = set(step.op.labels)
    return isinstance(step.op, Einsum) and "T" in labels and bool(labels & {"S", "S_x"})


def mean_keys(
    length: Expr | int = T,
    *,
    window: Expr | int | None = None,
    chunk: Expr | int | None = None,
    causal: Causal = "exact",
) -> Expr:
    """The mean number of keys that a query of a sequence meets.

    ``causal`` false counts every query with every key that the window or chunk holds; ``"half"``
    the area under the mask (T/2 without a window); ``"exact"`` the pairs, each query with itself
    included. A window of W under an exact mask: W - W(W - 1)/(2T), for T of W or more.

    Raises:
        ModelError: for another ``causal``.

    >>> mean_keys(8192, window=128)
    16257/128
    >>> mean_keys(T, causal="half"), mean_keys(T)
    (T/2, T/2 + 1/2)
    >>> from symscale.algebra.symbols import symbol
    >>> mean_keys(4096, window=8192, causal="half")
    2048
    """
    if causal not in (False, True, "half", "exact"):
        raise ModelError(f"causal={causal!r} is none of False, True (half), 'half', 'exact'")
    whole = S(length)
    if chunk is not None:
        return _chunked(whole, S(chunk), causal)
    seen = whole if window is None else Minimum(whole, S(window))
    if causal is False:
        return seen
    diagonal = Integer(1) if causal == "exact" else Integer(0)
    if window is None:
        return (whole + diagonal) / 2
    return seen - seen * (seen - diagonal) / (2 * whole)


def _chunked(length: Expr, chunk: Expr, causal: Causal) -> Expr:
    """Within chunks everything is as without them; the last chunk may be short.

    >>> _chunked(S(10), S(4), "exact")
    23/10
    """
    whole = floor(length / chunk)
    rest = length - chunk * whole
    pairs = whole * chunk * mean_keys(chunk, causal=causal)
    return (pairs + rest * mean_keys(rest, causal=causal)) / length


def keys_of(reach: Reach, causal: Causal, length: Expr | int = T) -> Expr:
    """The mean number of keys of a kind of layer; an encoder's tokens see each other both ways."""
    masked = causal if reach.causal else False
    return mean_keys(length, window=reach.window, chunk=reach.chunk, causal=masked)


def masked(phase: Phase, kind: LayerKind, causal: Causal = False) -> Phase:
    """A pass whose products of queries and keys count the keys that a query meets on average.

    >>> from symscale.models.model import model
    >>> kind = model("gpt-oss-20b").programs.kinds[0]
    >>> layer = kind.program.shard().forward
    >>> scores = next(s for s in masked(layer, kind).computes if s.output.name == "Scores0")
    >>> scores.part
    Minimum(S_w, T)/T
    """
    keys = keys_of(kind.reach, causal)
    if keys == T:
        return phase
    steps = (
        replace(step, part=keys / T) if isinstance(step, Compute) and _reached(step, kind) else step
        for step in phase.steps
    )
    return replace(phase, steps=tuple(steps))


def flops_of(phase: Phase, kind: LayerKind, keys: Expr) -> Expr:
    """A pass's matrix FLOPs when each query meets this many keys on average.

    Products with an encoder's output meet all of it, and so does an indexer.
    """
    return S.Zero + sum(
        (step.flops * (keys / T if _reached(step, kind) else 1) for step in phase.computes), S.Zero
    )


def _reached(step: Compute, kind: LayerKind) -> bool:
    return is_score(step) and "S" in step.op.labels and not is_whole(step, kind)


def is_whole(step: Compute, kind: LayerKind) -> bool:
    """Whether a product meets all keys though the layer's attention proper does not."""
    return step.output.name.removeprefix("d") in kind.whole or any(
        array.name.removeprefix("d") in kind.whole for array in step.inputs
    )
