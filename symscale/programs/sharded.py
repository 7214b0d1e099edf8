"""A program under shardings: forward, backward and update passes, derived by the partitioner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.errors import ProgramError, near
from symscale.algebra.substitution import bindings
from symscale.arrays.array import Array, check_axes
from symscale.arrays.notation import parse_array
from symscale.programs.collectives import Move
from symscale.programs.partition import Partitioner
from symscale.programs.phase import Phase
from symscale.programs.program import Keep, Program
from symscale.programs.reshard import reshard
from symscale.programs.reverse import differentiable, gradient, gradient_name, transpose
from symscale.programs.routing import SlotOrder, slot_orders


@dataclass(frozen=True)
class ShardedProgram:
    """A program with a sharding for its arrays.

    ``forward``, ``backward`` and ``update`` are passes (:class:`Phase`). The backward pass
    transposes every op for each operand and partitions the result by the same rules; gradients take
    the sharding of what they are gradients of, unless a line says otherwise. The update pass moves
    gradients to where the optimizer state lies and new weights to where the weights lie.
    """

    program: Program
    shardings: Mapping[str, Array]
    keep: Keep = "activations"
    sizes: Mapping[str, int] | None = None

    @classmethod
    def of(
        cls,
        program: Program,
        lines: tuple[Any, ...],
        keep: Keep = "activations",
        sizes: Mapping[str, int] | None = None,
    ) -> ShardedProgram:
        """From lines of notation, or strategies that make them."""
        if keep not in ("activations", "all", "none"):
            raise ProgramError(f"keep={keep!r} is none of 'activations', 'all', 'none'")
        shardings: dict[str, Array] = {}
        for line in lines:
            for text in (line,) if isinstance(line, str) else line.lines(program):
                array = _placed(program, text)
                if array.name in shardings:
                    raise ProgramError(f"{array.name} is given two shardings")
                shardings[array.name] = array
        known = None if sizes is None else MappingProxyType(dict(sizes))
        return cls(program, MappingProxyType(shardings), keep, known)

    @cached_property
    def _numbers(self) -> Mapping[Symbol, Expr] | None:
        return None if self.sizes is None else bindings(**self.sizes)

    @cached_property
    def _orders(self) -> Mapping[str, SlotOrder]:
        return slot_orders(self.program.ops, self._stated)

    def _stated(self, name: str) -> Array:
        return self.shardings.get(name, self.program.arrays[name])

    def sharding(self, name: str) -> Array:
        """The array of this name as it lies; a gradient is ``dW``, an optimizer state ``mW``."""
        if name in self._forward[1]:
            return self._forward[1][name]
        return self._own(name)

    def _own(self, name: str) -> Array:
        """The stated sharding, or what follows from that of the array it belongs to."""
        if name in self.shardings:
            return self.shardings[name]
        if name in self.program.arrays:
            return self.program.arrays[name].unsharded
        if name[:1] in ("d", "m") and name[1:] in self.program.arrays:
            base = self.sharding(name[1:])
            return Array(name, base.dims, base.dtype)
        raise ProgramError(f"no array {name!r}{near(name, self.program.arrays)}")

    @cached_property
    def _forward(self) -> tuple[Phase, Mapping[str, Array], Mapping[str, tuple[Array, ...]]]:
        """The pass, every array as it lies after it, and all copies at hand."""
        names = frozenset(self.program.weights)
        wanted = {n: a for n, a in self.shardings.items() if n in self.program.arrays}
        made = Partitioner(wanted, names, names, self._numbers, self._orders)
        for name in (*self.program.inputs, *self.program.weights):
            made.hold(self._own(name))
        for op in self.program.ops:
            made.run(op)
        lying = {name: held[0] for name, held in made.copies.items()}
        copies = {name: tuple(held) for name, held in made.copies.items()}
        phase = self._carried(Phase("forward", tuple(made.steps), self.program.fused))
        return phase, MappingProxyType(lying), MappingProxyType(copies)

    @property
    def forward(self) -> Phase:
        """The forward pass."""
        return self._forward[0]

    @cached_property
    def backward(self) -> Phase:
        """The backward pass: gradients of all weights and float inputs."""
        lying = self._forward[1]
        wanted = {gradient_name(name): self._own(gradient_name(name)) for name in lying}
        hidable = frozenset((*self.program.weights, *map(gradient_name, self.program.weights)))
        weights = frozenset(self.program.weights)
        made = Partitioner(wanted, hidable, weights, self._numbers, self._orders)
        self._hand_over(made)
        uses = Counter(array.name for op in self.program.ops for array in op.inputs)
        shared = frozenset(name for name, count in uses.items() if count > 1)
        parts: dict[str, list[Array]] = {}
        for op in reversed(self.program.ops):
            reached = gradient_name(op.output.name) in made.copies
            for step in transpose(op, shared) if reached else ():
                name = step.output.name.partition("(")[0]
                parts.setdefault(name, []).append(made.compute(step))
            for array in op.inputs:
                uses[array.name] -= 1
                name = gradient_name(array.name)
                if not uses[array.name] and name in parts:
                    made.settle_sum(name, parts.pop(name))
        fused = self.program.fused | set(map(gradient_name, self.program.fused))
        return self._carried(Phase("backward", tuple(made.steps), fused))

    def _carried(self, phase: Phase) -> Phase:
        """A pass with the movements that carry out what the partitioner asked for: its own."""
        return phase

    def _hand_over(self, made: Partitioner) -> None:
        """What the backward pass finds at hand: gradients of outputs, and kept forward copies."""
        _, lying, copies = self._forward
        for name in self.program.outputs:
            if differentiable(self.program.arrays[name]):
                made.hold(self._own(gradient_name(name)))
        for name, held in copies.items():
            is_weight = name in self.program.weights
            keep = self.keep == "all" or (self.keep == "activations" and not is_weight)
            for array in held if keep else (lying[name],):
                made.hold(array)

    @cached_property
    def update(self) -> Phase:
        """The optimizer step's movements; nothing where state, gradient and weight lie alike."""
        steps: list[Move] = []
        reached = {step.output.name for step in self.backward.computes}
        for name in self.program.weights:
            if gradient_name(name) not in reached:
                continue
            weight, state = self._own(name), self._own(f"m{name}")
            grad = self._own(gradient_name(name))
            steps += reshard(grad, grad.placed(state.sharding), critical=False)
            steps += reshard(weight.placed(state.sharding), weight, critical=False)
        return Phase("update", tuple(steps))

    @property
    def phases(self) -> tuple[Phase, ...]:
        """All passes of a training step, in order."""
        return self.forward, self.backward, self.update

    def __str__(self) -> str:
        return "\n\n".join(f"{phase.name}:\n{phase}" for phase in self.phases if phase.steps)

    __repr__ = __str__

    def to_dict(self) -> dict[str, Any]:
        """Shardings and passes as plain text."""
        return {
            "shardings": {name: array.short for name, array in self.shardings.items()},
            "passes": [phase.to_dict() for phase in self.phases],
        }


def _placed(program: Program, text: str) -> Array:
    """The program's array (or gradient, or optimizer state) under the sharding of one line."""
    parsed = parse_array(text)
    arrays = program.arrays
    check_axes(parsed, (dim.name for array in arrays.values() for dim in array.dims))
    if parsed.name in arrays:
        base = arrays[parsed.name]
    elif parsed.name[:1] in "dm" and parsed.name[1:] in arrays:
        base = arrays[parsed.name[1:]]
    else:
        raise ProgramError(f"{text}: no array {parsed.name!r}{near(parsed.name, arrays)}")
    if tuple(dim.name for dim in parsed.dims) != base.labels:
        raise ProgramError(f"{text}: the dims of {parsed.name} are [{', '.join(base.labels)}]")
    whole = gradient(base) if parsed.name.startswith("d") and parsed.name not in arrays else base
    named = Array(parsed.name, whole.dims, parsed.dtype or whole.dtype)
    return named.placed({dim.name: dim.axes for dim in parsed.dims}, parsed.unreduced)
