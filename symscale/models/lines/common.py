"""Lines of notation with what goes with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from symscale.models.blocks import NormKind

_BRACKETS = re.compile(r"\[[^\]]*\]|;[^)]*\)")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Lines:
    """Lines of a program and what a cost needs to know of them.

    Attributes:
        text: the lines, in order.
        sizes: the number behind each dim that they bring.
        fused: arrays that stay on chip.
        inputs: arrays that come from outside.
        cached: arrays that are kept for every token that was read (the KV cache).
        state: arrays of which each sequence keeps the last entry.
        tails: arrays of which each sequence keeps the last J - 1 entries (before a convolution).
        whole: products that pair every query with every key though attention proper does not.
    """

    text: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    fused: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()


def joined(pieces: Iterable[Lines]) -> Lines:
    """Several pieces as one."""
    made = tuple(pieces)
    sizes: dict[str, int] = {}
    for piece in made:
        sizes |= piece.sizes
    return Lines(
        tuple(line for piece in made for line in piece.text),
        MappingProxyType(sizes),
        *(
            tuple(dict.fromkeys(name for piece in made for name in getattr(piece, kind)))
            for kind in ("fused", "inputs", "cached", "state", "tails", "whole")
        ),
    )


def renamed(lines: Lines, names: Mapping[str, str]) -> Lines:
    """The same lines with other names for some dims.

    >>> renamed(Lines(("A[B, D] * W[D, F] -> F[B, F]",), {"F": 4}), {"F": "F_2"}).text
    ('A[B, D] * W[D, F_2] -> F[B, F_2]',)
    """

    def inside(found: re.Match[str]) -> str:
        return _WORD.sub(lambda word: names.get(word[0], word[0]), found[0])

    sizes = {names.get(dim, dim): size for dim, size in lines.sizes.items()}
    text = tuple(_BRACKETS.sub(inside, line) for line in lines.text)
    return replace(lines, text=text, sizes=MappingProxyType(sizes))


def norm(kind: NormKind, source: str, result: str, gain: str, dims: str, over: str) -> list[str]:
    """A norm of an array over some of its dims; no line where there is none.

    A layer norm without bias is written as the root-mean-square norm: the same weights, and the
    same traffic.

    >>> norm("layernorm", "In", "Xa", "g1", "B, D", "D")
    ['layernorm(In[B, D], g1[D], g1b[D]; D) -> Xa[B, D]']
    """
    if kind == "none":
        return []
    if kind == "layernorm":
        bias = f"{gain}b"
        args = f"{source}[{dims}], {gain}[{over}], {bias}[{over}]; {over}"
        return [f"layernorm({args}) -> {result}[{dims}]"]
    return [f"rmsnorm({source}[{dims}], {gain}[{over}]; {over}) -> {result}[{dims}]"]


def linear(
    source: str, weight: str, result: str, dims: tuple[str, str, str], bias: str | None = None
) -> list[str]:
    """A product with a weight, and its bias if there is one.

    ``dims`` are those of the operand, the weight and the result; the bias has the result's but B.

    >>> linear("Xm", "Win", "Up", ("B, D", "D, F", "B, F"), "bin")
    ['Xm[B, D] * Win[D, F] -> Up0[B, F]', 'Up0[B, F] + bin[F] -> Up[B, F]']
    """
    before, within, after = dims
    raw = f"{result}0" if bias else result
    made = [f"{source}[{before}] * {weight}[{within}] -> {raw}[{after}]"]
    if bias:
        made.append(f"{raw}[{after}] + {bias}[{after.removeprefix('B, ')}] -> {result}[{after}]")
    return made


def activated(activation: str, gate: str | None, up: str, result: str, dims: str) -> str:
    """The activation of a feed-forward block, gated where there is a gate."""
    if gate is not None:
        name = "swiglu" if activation == "silu" else "geglu"
        return f"{name}({gate}[{dims}], {up}[{dims}]) -> {result}[{dims}]"
    name = {"silu": "silu", "relu": "relu", "relu2": "relu"}.get(activation, "gelu")
    return f"{name}({up}[{dims}]) -> {result}[{dims}]"
