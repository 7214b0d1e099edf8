"""A sharded program as JAX in which XLA inserts the collectives: arguments, intermediates and
results carry the program's shardings, everything else is left to XLA's partitioner.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from symscale.arrays.array import Array, Dim
from symscale.arrays.dtype import DTYPES
from symscale.programs.collectives import Move
from symscale.programs.ops import Edge, Einsum, Op, Pointwise
from symscale.programs.phase import AddGradients, Compute, Phase
from symscale.programs.reverse import differentiable, gradient_name
from symscale.programs.routing import Routed
from symscale.programs.sharded import ShardedProgram
from symscale.xla.emit_module import Module, Written, function_source, tuple_source
from symscale.xla.emit_names import partition_specs, quoted, spec_source
from symscale.xla.emit_ops import Writer, kept_rows
from symscale.xla.emit_setting import Setting, XlaError

__all__ = ["Pass", "auto", "kept_array", "partition_specs"]

Pass = Literal["forward", "backward", "joint"]

_PLACED = '''def placed(array, name):
    """The array under the sharding that the program states for it."""
    return lax.with_sharding_constraint(array, sharding(name))


'''


def auto(
    sharded: ShardedProgram, setting: Setting, which: Pass = "forward", pinned: bool = False
) -> Written:
    """A pass of a sharded program as JAX source for XLA's partitioner.

    ``backward`` is a program of its own, as published accounts have it: its arguments are the
    activations that the forward pass left (in every sharding in which they are found again), the
    weights and the gradients of the results. ``joint`` is the forward pass and its gradient by
    ``jax.vjp`` in one program. ``pinned`` states every sharding of the derived pass, so that XLA
    only chooses the collectives: how each op takes its operands, where it computes, and that
    gradients are added before they are reduced.

    Raises:
        XlaError: for a stated sharding with partial sums, which JAX cannot say.
        ShardingError: for an axis that the mesh lacks or that does not divide a dim.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> sharded = two_matmul_layer().shard("In[B_X, D]", "Win[D_X, F]")
    >>> written = auto(sharded, Setting({"X": 4}, {"B": 16, "D": 32, "F": 64}))
    >>> [line.strip() for line in written.text.splitlines() if "einsum" in line]
    ['Tmp = placed(jnp.einsum("ab,bc->ac", In, Win), "Tmp")', 'Out = jnp.einsum("ab,bc->ac", \
Tmp, Wout)']
    """
    made = _Auto(sharded, setting, pinned)
    if which == "forward":
        return made.forward()
    return made.backward() if which == "backward" else made.joint()


def kept_array(step: Compute, name: str) -> Array:
    """A number that the forward pass kept of each row of a norm's operand."""
    assert isinstance(step.op, Pointwise)
    row = step.inputs[1]
    dims = tuple(
        Dim(dim.name, dim.size / dim.size, ()) if dim.name in step.op.over else dim
        for dim in row.dims
    )
    return Array(f"{row.name}.{name}", dims, DTYPES["f32"])


@dataclass
class _Auto:
    sharded: ShardedProgram
    setting: Setting
    pinned: bool
    module: Module = field(init=False)
    writer: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.module = Module(self.setting)
        self.writer = Writer(self.setting, local=False)

    def forward(self) -> Written:
        results = self._forward_lines(self.sharded.program.made)
        body = function_source("forward", self.module.parameters, self.module.lines)
        return self._finished("forward", body, results)

    def _forward_lines(self, results: tuple[str, ...]) -> list[str]:
        module, program = self.module, self.sharded.program
        for name in program.arrays:
            if name not in program.made:
                module.take(name, self._stated(name))
        for op in program.ops:
            self._line(op, self._stated(op.output.name))
        module.lines.append(f"return {tuple_source([module.names.of(n) for n in results])}")
        return list(results)

    def _stated(self, name: str) -> Array:
        found = self.sharding_of(name)
        if found.unreduced:
            raise XlaError(
                f"{found.short} holds partial sums, which a PartitionSpec cannot say; "
                "check the explicit version"
            )
        return found

    def sharding_of(self, name: str) -> Array:
        """The array as it lies after its pass."""
        return self.sharded.sharding(name)

    @cached_property
    def _computed(self) -> dict[str, Compute]:
        """How the derived forward pass computes every result, before it is moved."""
        return {step.output.name: step for step in self.sharded.forward.computes}

    def _copy(self, op: Op, variable: str, lying: Array, fetched: Array) -> str:
        """An operand as the op takes it: a line of its own where it is moved and that is stated.

        It always is for tokens on the way to experts, where each group keeps to itself.
        """
        if not (self.pinned or isinstance(op, Routed)) or lying == fetched:
            return variable
        key = self.module.spec(fetched.short, fetched)
        copy = self.module.names.of(key)
        line = f"{copy} = placed({variable}, {quoted(key)})"
        if line not in self.module.lines:
            self.module.lines.append(line)
        return copy

    def _pin(self, text: str, computed: Array, stated: Array) -> str:
        where = computed.placed(computed.sharding)
        if not self.pinned or where == stated:
            return text
        return f"placed({text}, {quoted(self.module.spec(where.short, where))})"

    def _line(self, op: Op, stated: Array) -> None:
        names = self.module.names
        computed = self._computed[stated.name]
        # Groups of tokens that keep to themselves are as many as the derived pass cuts.
        step = computed if isinstance(op, Routed) else Compute(op, op.inputs, op.output)
        operands = [
            self._copy(op, names.of(array.name), self._stated(array.name), fetched)
            for array, fetched in zip(op.inputs, _operands(computed), strict=True)
        ]
        made = self.writer.expression(step, operands)
        made = self._pin(made, computed.output, stated)
        key = self.module.spec(stated.name, stated)
        if key not in self.sharded.program.outputs:
            made = f"placed({made}, {quoted(key)})"
        self.module.lines.append(f"{names.of(key)} = {made}")

    def backward(self) -> Written:
        results = []
        roots = _Roots(self.sharded.backward)
        used = {array.name for step in roots.phase.computes for array in step.inputs}
        sums = unreduced_sums(roots.phase) if self.pinned else {}
        parts = {part.output for made in sums.values() for part in made}
        for step in roots.computes():
            name = step.output.name
            if self._is_gradient(name):
                results.append(name)
            if step.output in parts:
                continue
            if step.output in sums:
                made = self._summed(step.output, sums[step.output], roots)
            else:
                made = self._backward_line(step, roots)
            if self._is_gradient(name) and name in used:
                made = f"placed({made}, {quoted(self.module.spec(name, self._stated(name)))})"
            self.module.lines.append(f"{self.module.names.of(name)} = {made}")
        variables = [self.module.names.of(name) for name in results]
        self.module.lines.append(f"return {tuple_source(variables)}")
        body = function_source("backward", self.module.parameters, self.module.lines)
        return self._finished("backward", body, results)

    def _backward_line(self, step: Compute, roots: _Roots) -> str:
        operands = [
            self._copy(step.op, self._root(roots.of(array)), roots.of(array), array)
            for array in _operands(step)
        ]
        operands += [self._kept(step, name) for name in kept_rows(step.op)]
        made = self.writer.expression(step, operands)
        name = step.output.name
        if not self._is_gradient(name):
            return made
        stated = self._stated(name)
        self.module.spec(name, stated)
        return self._pin(made, step.output, stated)

    def _summed(self, total: Array, parts: tuple[Compute, ...], roots: _Roots) -> str:
        """A sum of products that stay partial sums until they are added."""
        self.writer.called.add("summed")
        gradient = self._is_gradient(total.name)
        goal = self._stated(total.name) if gradient else total.placed(total.sharding)
        if gradient:
            self.module.spec(total.name, goal)
        lines = []
        for part in parts:
            variables = [
                self._copy(part.op, self._root(roots.of(array)), roots.of(array), array)
                for array in part.inputs
            ]
            operands = ", ".join(
                f"({variable}, {spec_source(array)})"
                for variable, array in zip(variables, part.inputs, strict=True)
            )
            lines.append(f'("{self.writer.subscripts(part.op)}", {operands})')
        partial = spec_source(total, unreduced=True)
        return f"summed({partial}, {spec_source(goal)}, {', '.join(lines)})"

    def _is_gradient(self, name: str) -> bool:
        return name[:1] == "d" and name[1:] in self.sharded.program.arrays

    def _root(self, root: Array) -> str:
        """The variable of what an operand was moved from: an argument, or a line before."""
        if any(step.output.name == root.name for step in self.sharded.backward.computes):
            return self.module.names.of(root.name)
        return self._argument(root)

    def _argument(self, array: Array) -> str:
        stated = array.name in self.sharded.program.arrays and self.sharding_of(array.name) == array
        key = array.name if stated else array.short
        known = [argument[0] for argument in self.module.arguments]
        return self.module.names.of(key) if key in known else self.module.take(key, array)

    def _kept(self, step: Compute, name: str) -> str:
        return self._argument(kept_array(step, name))

    def joint(self) -> Written:
        program = self.sharded.program
        if not all(differentiable(array) for array in program.arrays.values()):
            raise XlaError("a joint pass takes no arrays of indices; check forward and backward")
        self._forward_lines(program.outputs)
        module = self.module
        forward = function_source("forward", module.parameters, module.lines)
        given = list(module.parameters)
        keys = [argument[0] for argument in module.arguments]
        grads = [module.take(g, self._stated(g)) for g in map(gradient_name, program.outputs)]
        results = [gradient_name(key) for key in keys]
        for name in results:
            module.spec(name, self._stated(name))
        lines = [
            f"results, pull = jax.vjp(forward, {', '.join(given)})",
            f"return results + pull({tuple_source(grads)})",
        ]
        body = f"{forward}\n\n\n{function_source('joint', module.parameters, lines)}"
        return self._finished("joint", body, [*program.outputs, *results])

    def _finished(self, which: str, body: str, results: list[str]) -> Written:
        title = f"{which.capitalize()} pass; XLA's partitioner inserts the collectives."
        program = f"jax.jit({which}, out_shardings=tuple(map(sharding, RESULTS)))"
        text = self.module.text(title, self.writer.called, _PLACED + body, program, results)
        return Written(which, text, self.setting)


def _operands(step: Compute) -> tuple[Array, ...]:
    """A step's operands without what a neighbour sends to it, which XLA moves itself."""
    return step.inputs[: len(step.op.inputs)]


def unreduced_sums(phase: Phase) -> dict[Array, tuple[Compute, ...]]:
    """The sums of gradients whose parts are products that lie as partial sums, with their parts."""
    products = {
        step.output: step for step in phase.computes
        if isinstance(step.op, Einsum) and step.output.unreduced
    }  # fmt: skip
    return {
        step.output: tuple(products[array] for array in step.inputs)
        for step in phase.computes
        if isinstance(step.op, AddGradients) and all(array in products for array in step.inputs)
    }


@dataclass
class _Roots:
    """Follows every array of a pass back through the moves to what it was made from."""

    phase: Phase
    origin: dict[Array, Array] = field(default_factory=dict)

    def computes(self) -> Iterator[Compute]:
        """The computations on whole arrays, in order, with all moves before them followed."""
        for step in self.phase.steps:
            if isinstance(step, Compute):
                if not isinstance(step.op, Edge):
                    yield step
            elif isinstance(step, Move):
                self.origin.setdefault(step.after, self.of(step.before))

    def of(self, array: Array) -> Array:
        """Where the array came from: itself, unless it was moved."""
        return self.origin.get(array, array)
