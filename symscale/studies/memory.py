"""Bytes on one device during training, by kind, as formulas read off the shardings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, S, Symbol, sympify

from symscale.arrays.array import Array
from symscale.parallel.ring import ring_buffers
from symscale.parallel.techniques import STATE_BYTES, Techniques
from symscale.programs.collectives import AllGather, ReduceScatter
from symscale.programs.reverse import gradient_name
from symscale.programs.sharded import ShardedProgram
from symscale.studies.bykind import ByKind
from symscale.studies.saved import read_back, saved
from symscale.studies.share import Share

__all__ = ["KINDS", "STATE_BYTES", "Memory", "ends_memory", "layer_memory", "shared_ends"]

#: What a device holds, in the order it is printed.
KINDS = ("parameters", "gradients", "optimizer", "activations", "logits", "buffers")

#: Gathered weights at a time: those of the layer at work and those of the next.
PREFETCHED = 2


@dataclass(frozen=True, repr=False)
class Memory(ByKind):
    """Bytes on a device by kind.

    ``parameters``, ``gradients`` and ``optimizer`` state; ``activations`` that wait for the
    backward pass; ``logits`` and their gradient; ``buffers`` (gathered weights, gradients not yet
    reduced, a layer's activations while it is computed again).
    """

    by_kind: Mapping[str, Expr]

    @property
    def kinds(self) -> Mapping[str, Expr]:
        """The formula of each kind."""
        return self.by_kind

    def __add__(self, other: Memory) -> Memory:
        names = dict.fromkeys((*self.by_kind, *other.by_kind))
        return Memory(
            MappingProxyType({n: self.get(n, S.Zero) + other.get(n, S.Zero) for n in names})
        )

    def scale(self, count: Any, only: Iterable[str] | None = None) -> Memory:
        """So many times as much, of all kinds or of those named."""
        factor, chosen = sympify(count, strict=True), self.by_kind if only is None else set(only)
        return Memory(
            MappingProxyType(
                {kind: e * factor if kind in chosen else e for kind, e in self.by_kind.items()}
            )
        )

    def without(self, kinds: Iterable[str]) -> Memory:
        """The same with nothing of these kinds."""
        return self.scale(0, kinds)

    def put(self, values: Mapping[Symbol, Any]) -> Memory:
        """The same with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        return Memory(
            MappingProxyType({kind: expr.xreplace(swap) for kind, expr in self.by_kind.items()})
        )


def layer_memory(share: Share, used: Techniques) -> Memory:
    """What one layer takes on a device, for the tokens of one microbatch.

    Activations are those that wait for the backward pass under the policy of rematerialisation.

    Raises:
        ModelError: for an array to be saved that the layer does not have.
    """
    sharded = share.sharded
    every, kept = read_back(sharded), saved(sharded, share.remat)
    found = _states(sharded, used)
    buffers = PREFETCHED * _gathered(sharded) + _unreduced(sharded) + ring_buffers(sharded)
    if share.remat != "none":
        buffers += _bytes(every)
    # What lies on the host comes for the layer at work and the next, gathered or not.
    if "activations" in used.offload:
        buffers += PREFETCHED * _bytes(kept)
    if "parameters" in used.offload:
        buffers += PREFETCHED * found["parameters"]
    return Memory(
        MappingProxyType({**found, "activations": _bytes(kept), "logits": S.Zero,
                          "buffers": buffers})
    )  # fmt: skip


def ends_memory(ends: ShardedProgram, used: Techniques) -> tuple[Memory, Memory]:
    """What the embedding takes on the first stage, and the final norm and head on the last.

    A tied embedding lies on both. Where one device has both ends, what they share counts once: see
    the third memory of :func:`shared_ends`.
    """
    first, last = _ends_weights(ends)
    head = {"activations": _bytes(_kept_for_head(ends, used)), "logits": _bytes(_logits(ends))}
    nothing = dict.fromkeys(_WORK, S.Zero)
    made = []
    for names, work in ((first, nothing), (last, head)):
        buffers = _gathered(ends, names) + _unreduced(ends, names)
        states = _states(ends, used, names)
        made.append(Memory(MappingProxyType({**states, **work, "buffers": buffers})))
    return made[0], made[1]


def _kept_for_head(ends: ShardedProgram, used: Techniques) -> tuple[Array, ...]:
    """What the head's backward pass finds: what it reads, or what the last layer made.

    Arrays to be saved by name are a layer's; the head then keeps nothing that they do not name.
    """
    if isinstance(used.remat, tuple):
        return ()
    if used.remat in ("block", "full"):
        names = [name for name in ends.program.inputs if "D" in ends.program.arrays[name].labels]
        return tuple(ends.sharding(name) for name in names)
    return read_back(ends)


def shared_ends(ends: ShardedProgram, used: Techniques) -> Memory:
    """What both ends have in common, to be taken off where one device holds both."""
    first, last = _ends_weights(ends)
    both = tuple(name for name in first if name in last)
    found = _states(ends, used, both)
    return Memory(MappingProxyType({**found, **dict.fromkeys(_WORK, S.Zero)}))


#: The kinds that do not lie still.
_WORK = ("activations", "logits", "buffers")


def _states(
    sharded: ShardedProgram, used: Techniques, names: tuple[str, ...] | None = None
) -> dict[str, Expr]:
    """Parameters, gradients and optimizer state of weights (all unless named)."""
    chosen = sharded.program.weights if names is None else names
    states = (sharded.sharding(f"m{name}") for name in chosen)
    return {
        "parameters": _bytes(sharded.sharding(name) for name in chosen),
        "gradients": _bytes(sharded.sharding(f"d{name}") for name in chosen),
        "optimizer": used.state_bytes * Add(*(array.elements for array in states)),
    }


def _ends_weights(ends: ShardedProgram) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The weights before the first layer and those behind the last: what leads to which result."""
    program = ends.program
    before, behind = set[str](), {"Last"}
    for op in program.ops:
        names = {array.name for array in op.inputs}
        (behind if names & behind else before).update(names | {op.output.name})
    weights = program.weights
    return (
        tuple(name for name in weights if name in before),
        tuple(name for name in weights if name in behind),
    )


def _logits(ends: ShardedProgram) -> tuple[Array, ...]:
    """The logits and their gradient."""
    program = ends.program
    names = [n for n in program.outputs if "V" in program.arrays[n].labels]
    return tuple(ends.sharding(n) for name in names for n in (name, gradient_name(name)))


def _gathered(sharded: ShardedProgram, names: tuple[str, ...] | None = None) -> Expr:
    """Bytes of weights (all unless named) as products take them, where more than lies here."""
    weights = frozenset(sharded.program.weights if names is None else names)
    last: dict[str, Expr] = {}
    for move in sharded.forward.collectives:
        if isinstance(move, AllGather) and move.after.name in weights:
            last[move.after.name] = move.after.bytes
    return Add(*last.values())


def _unreduced(sharded: ShardedProgram, names: tuple[str, ...] | None = None) -> Expr:
    """Bytes of weights' gradients (all unless named) before they are reduced and split."""
    chosen = frozenset(map(gradient_name, sharded.program.weights if names is None else names))
    first: dict[str, Expr] = {}
    for move in sharded.backward.collectives:
        if isinstance(move, ReduceScatter) and move.before.name in chosen:
            first.setdefault(move.before.name, move.before.bytes)
    return Add(*first.values())


def _bytes(arrays: Iterable[Array]) -> Expr:
    return Add(*(array.bytes for array in arrays))
