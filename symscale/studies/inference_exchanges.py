"""Which movements of a pass a server makes: sums that are added anyway are reduced once.

The partitioner reduces each partial sum where its product ends. Where several of them are only
added up (routed and shared experts, attention beside a block), it is the sum that is reduced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from symscale.programs.collectives import AllReduce, Collective, ReduceScatter
from symscale.programs.ops import Op, Pointwise
from symscale.programs.program import Program
from symscale.programs.sharded import ShardedProgram


def exchanges_of(sharded: ShardedProgram) -> tuple[Collective, ...]:
    """The collectives of the forward pass, reductions of summands of one sum counted once.

    >>> from symscale.programs.program import program
    >>> two = program(
    ...     "A[B, D] * W[D, F] -> P[B, F]", "A[B, D] * V[D, F] -> Q[B, F]",
    ...     "P[B, F] + Q[B, F] -> R[B, F]",
    ... ).shard("A[B, D_Y]", "W[D_Y, F]", "V[D_Y, F]")
    >>> [m.name for m in two.forward.collectives], [m.name for m in exchanges_of(two)]
    (['AllReduce_Y', 'AllReduce_Y'], ['AllReduce_Y'])
    """
    spared: set[int] = set()
    moves = sharded.forward.collectives
    for summands in sums(sharded.program):
        seen: set[tuple[object, ...]] = set()
        for place, move in enumerate(moves):
            if not isinstance(move, AllReduce | ReduceScatter) or move.after.name not in summands:
                continue
            key = (type(move), move.axes, move.volume)
            if key in seen:
                spared.add(place)
            seen.add(key)
    return tuple(move for place, move in enumerate(moves) if place not in spared)


def sums(program: Program) -> Iterator[frozenset[str]]:
    """The arrays that are added up and used for nothing else, one set a sum."""
    uses = Counter(array.name for op in program.ops for array in op.inputs)
    adds = {op.output.name: op for op in program.ops if _adds(op)}
    inner = {
        array.name
        for op in adds.values()
        for array in op.inputs
        if array.name in adds and uses[array.name] == 1
    }
    for name, op in adds.items():
        if name not in inner:
            yield frozenset(n for n in _leaves(op, adds, inner) if uses[n] == 1)


def _adds(op: Op) -> bool:
    return isinstance(op, Pointwise) and op.function.name == "add"


def _leaves(op: Op, adds: dict[str, Op], inner: set[str]) -> Iterator[str]:
    for array in op.inputs:
        if array.name in inner:
            yield from _leaves(adds[array.name], adds, inner)
        else:
            yield array.name
