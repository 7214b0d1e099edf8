"""Context parallelism: how a strategy with a ``context`` role splits sequences.

Three parts play the role. ``cp`` gathers keys and values; ``ulysses`` exchanges the sequence for
heads and back; ``ring`` passes keys and values round. What they move falls out of the shardings.

What they leave out: every query's keys are exchanged though a window or the causal mask hides some
of them; latent attention exchanges the keys that it makes for every head, not the latent vectors
(the absorbed form exchanges those); a recurrence cannot be cut.

Ranks of the context axis act as data ranks for weights: gradients are summed along it, and with
FSDP (or ZeRO) weights, gradients or optimizer states are split over data and context axes together,
as Megatron-Core's distributed optimizer and TorchTitan's FSDP have it.

Sources: Llama 3, https://arxiv.org/abs/2407.21783, section 3.3.2 (all-gather of K and V);
DeepSpeed Ulysses, https://arxiv.org/abs/2309.14509; Ring Attention, https://arxiv.org/abs/2310.01889;
Megatron-Core, "Context Parallelism" (gradients are reduced over data and context ranks).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sympy import Expr, Mul, Symbol

from symscale.algebra.errors import StrategyError, SymbolError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import axis
from symscale.arrays.notation import axes_text
from symscale.parallel.experts import data_axes
from symscale.parallel.ring import ringed
from symscale.parallel.sequence import KEYS, by_sequence, core, is_flat
from symscale.programs.collectives import AllToAll
from symscale.programs.program import Keep, Program
from symscale.programs.sharded import ShardedProgram

if TYPE_CHECKING:
    from symscale.parallel.strategy import Strategy

ROLE = "context"

#: Kinds of arrays that activations of attention, and others, and what is learned, lie as.
_LEARNED = ("weights", "gradients", "optimizer")


def axes_of(axes: Mapping[str, tuple[str, ...]], role: str, kind: str) -> tuple[str, ...]:
    """The mesh axes of a role, for a kind of array: what is learned is split over context ranks as
    over data ranks.

    >>> axes_of({"data": ("X",), "context": ("Z",)}, "data", "weights")
    ('X', 'Z')
    >>> axes_of({"data": ("X",), "context": ("Z",)}, "data", "residual")
    ('X',)
    """
    shares = role == "data" and kind in _LEARNED
    return data_axes(axes, role) + (axes.get(ROLE, ()) if shares else ())


def core_of(strategy: Strategy, program: Program) -> frozenset[str]:
    """The arrays of attention itself, where a strategy shards them apart from others.

    Raises:
        StrategyError: when sequences are to be sharded and the program does not tell them apart.
    """
    if ROLE not in strategy.axes:
        return frozenset()
    if is_flat(program):
        raise StrategyError(
            f"strategy {strategy.name!r} shards sequences, and the program holds all tokens in "
            "one dim; use strategy.shard(program), which writes it by sequences"
        )
    return core(program)


def shard_sequences(
    strategy: Strategy, program: Program, keep: Keep, sizes: Mapping[str, int] | None
) -> ShardedProgram:
    """The program, written by sequences, under a strategy with a context role."""
    written = by_sequence(program, strategy.activation)
    made = written.shard(strategy, keep=keep, sizes=sizes)
    if sizes is not None:
        check_heads(made, bindings(**sizes))
    if any(part.ring for part in strategy.parts):
        return ringed(made, strategy.axes[ROLE])
    return made


def check_heads(sharded: ShardedProgram, values: Mapping[Symbol, Expr]) -> None:
    """Refuse to exchange sequences for heads that the ways do not divide.

    Raises:
        StrategyError: naming the heads, the ways, and the most that work.

    >>> from symscale.algebra.symbols import K, Z
    >>> from symscale.parallel.attention_layer import attention_layer
    >>> from symscale.parallel.strategy import strategy
    >>> check_heads(strategy("ulysses").shard(attention_layer()), {K: 8, Z: 16})
    Traceback (most recent call last):
    symscale.algebra.errors.StrategyError: ulysses exchanges sequences for heads, and Z = 16 ways \
do not divide K = 8: at most 8 ways work; for more, gather keys and values (cp) or pass them round \
(ring)
    """
    for move in sharded.forward.collectives:
        if isinstance(move, AllToAll) and move.source in ("T", *KEYS):
            _check_exchange(move, values)


def _check_exchange(move: AllToAll, values: Mapping[Symbol, Expr]) -> None:
    held = move.before.dim(move.target)
    try:
        ways = evaluate(Mul(*map(axis, move.axes)), values)
        heads, here = evaluate(held.size, values), evaluate(held.local, values)
    except SymbolError:
        return
    if (here / ways).is_integer:
        return
    of = f" ({here} on a device)" if held.axes else ""
    raise StrategyError(
        f"ulysses exchanges sequences for heads, and {axes_text(move.axes)} = {ways} ways do not "
        f"divide {held.name} = {heads}{of}: at most {int(here)} ways work; for more, gather keys "
        "and values (cp) or pass them round (ring)"
    )
