"""One op as a JAX expression, on whole arrays or on one device's parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from string import ascii_letters

from symscale.arrays.array import Array
from symscale.programs.ops import Edge, Einsum, Lookup, Op, Pointwise, View
from symscale.programs.phase import AddGradients, Compute
from symscale.programs.routing import Pick, Routed
from symscale.xla.emit_functions import FUNCTIONS, KEPT
from symscale.xla.emit_names import axes_source, dtype_source
from symscale.xla.emit_routing import routed_source
from symscale.xla.emit_setting import Setting, XlaError


@dataclass
class Writer:
    """Writes ops as expressions; ``local``: on one device's parts, with the mesh axes in sight."""

    setting: Setting
    local: bool
    called: set[str] = field(default_factory=set)

    def shape(self, array: Array) -> tuple[int, ...]:
        """The shape an array has where the op runs."""
        return self.setting.local(array) if self.local else self.setting.shape(array)

    def expression(self, step: Compute, operands: Sequence[str]) -> str:
        """The right-hand side of a line that makes the step's output.

        ``operands`` are the inputs' variables, then those of what the forward pass kept of rows.
        """
        op = step.op
        if isinstance(op, AddGradients):
            return " + ".join(operands)
        if isinstance(op, Einsum):
            return self._einsum(op, step.output, operands)
        if isinstance(op, View):
            return f"{operands[0]}.reshape({self.shape(step.output)})"
        if isinstance(op, Lookup):
            return self._lookup(op, step, operands)
        if isinstance(op, Pick | Routed):
            return routed_source(self, op, step, operands)
        if isinstance(op, Edge):
            return self.call("edge", operands[0], *_way(op))
        if isinstance(op, Pointwise):
            return self._pointwise(op, step, operands)
        raise XlaError(f"no JAX is known for {type(op).__name__.lower()}")

    def call(self, name: str, *arguments: str) -> str:
        """A call of one of the functions that a written program carries."""
        self.called.add(name)
        return f"{name}({', '.join(arguments)})"

    def _einsum(self, op: Einsum, output: Array, operands: Sequence[str]) -> str:
        kinds = {array.dtype for array in op.inputs}
        made = f'jnp.einsum("{self.subscripts(op)}", {operands[0]}, {operands[1]})'
        return made if kinds == {output.dtype} else f"{made}.astype({dtype_source(output.dtype)})"

    def subscripts(self, op: Op) -> str:
        """A product's dims as einsum takes them: a letter each."""
        letters = dict(zip(op.labels, ascii_letters, strict=False))
        left, right, out = ("".join(letters[x] for x in a.labels) for a in (*op.inputs, op.output))
        return f"{left},{right}->{out}"

    def first(self, array: Array, label: str) -> str:
        """Where a device's part of a dim begins."""
        axes = array.dim(label).axes
        if not (self.local and axes):
            return "0"
        size = self.shape(array)[array.labels.index(label)]
        return f"lax.axis_index({axes_source(axes)}) * {size}"

    def _lookup(self, op: Lookup, step: Compute, operands: Sequence[str]) -> str:
        if op.reverse:
            first = self.first(step.output, op.row)
            return self.call("scattered", *operands, str(self.shape(step.output)), first)
        table = step.inputs[1]
        if not self.local:
            return f'jnp.take({operands[1]}, {operands[0]}, axis=0, mode="clip")'
        return self.call("taken", operands[1], operands[0], self.first(table, op.row))

    def _pointwise(self, op: Pointwise, step: Compute, operands: Sequence[str]) -> str:
        lined = [
            aligned(text, array.labels, op.labels)
            for text, array in zip(operands, op.inputs, strict=False)
        ]
        kept = list(operands[len(op.inputs) :])
        lost = tuple(op.labels.index(label) for label in op.summed)
        if op.function.reduces and not op.reverse:
            return self._reduction(op, lined[0], lost)
        made = self._function(op, step, lined, kept)
        if lost:
            made = self.call("added", made, str(lost))
        rest = tuple(label for label in op.labels if label not in op.summed)
        made = aligned(made, rest, op.output.labels)
        if not set(op.output.labels) <= {x for array in op.inputs for x in array.labels}:
            made = f"jnp.broadcast_to({made}, {self.shape(step.output)})"
        return made

    def _reduction(self, op: Pointwise, operand: str, lost: tuple[int, ...]) -> str:
        if op.function.reduces == "max":
            return f"jnp.max({operand}, axis={lost})"
        share = f"{operand} / {self._count(op)}" if op.function.reduces == "mean" else operand
        return self.call("added", share, str(lost))

    def _count(self, op: Pointwise) -> int:
        """How many elements a whole row has."""
        dims = {dim.name: dim.size for a in (*op.inputs, op.output) for dim in a.dims}
        return prod(self.setting.number(dims[label]) for label in op.over)

    def _function(self, op: Pointwise, step: Compute, lined: list[str], kept: list[str]) -> str:
        name = op.function.name
        if op.function.shifts:
            return self.call("shifted" if kept else "shift", *lined, *kept, *_way(op))
        if op.reverse and name in ("copy", "add", "sum"):
            return lined[0]
        if op.reverse and name == "mean":
            return f"{lined[0]} / {self._count(op)}"
        if op.reverse and op.function.product:
            return " * ".join(lined)
        if name == "rope":
            main = step.inputs[0]
            firsts = (self.first(main, main.labels[0]), self.first(main, main.labels[-1]))
            return self.call("rope", lined[0], "-1" if op.reverse else "1", *firsts)
        row = [str(self._places(op)), self._axes(step), str(self._count(op))] if op.over else []
        if not op.reverse:
            return self.call(name, *lined, *row)
        if f"{name}_reverse" in FUNCTIONS:
            row = row if name != "max" else []
            return self.call(f"{name}_reverse", str(op.wrt), *lined, *kept, *row)
        self.called.add(name)
        return self.call("reverse", name, str(op.wrt), *lined)

    def _places(self, op: Pointwise) -> tuple[int, ...]:
        return tuple(op.labels.index(label) for label in op.over)

    def _axes(self, step: Compute) -> str:
        return repr(step.stat_axes if self.local else ())


def _way(op: Pointwise | Edge) -> tuple[str, str]:
    """Along which place rows are shifted, and by how many."""
    return str(op.inputs[0].labels.index(op.over[0])), "-1" if op.reverse else "1"


def kept_rows(op: Op) -> tuple[str, ...]:
    """What the reverse of a function finds kept of each row (a norm's scale).

    >>> from symscale.programs.program import program
    >>> from symscale.programs.reverse import transpose
    >>> norm = program("rmsnorm(In[B, D], g[D]; D) -> Out[B, D]").ops[0]
    >>> [kept_rows(op) for op in transpose(norm)]
    [('scale',), ('scale',)]
    """
    if isinstance(op, Pointwise) and op.reverse:
        return KEPT.get(op.function.name, ())
    return ()


def aligned(text: str, labels: tuple[str, ...], wanted: tuple[str, ...]) -> str:
    """An operand with its dims in a wanted order, those it lacks with length one.

    >>> aligned("x", ("D",), ("B", "D")), aligned("x", ("F", "B"), ("B", "F"))
    ('x[None, :]', 'x.transpose((1, 0))')
    """
    order = tuple(sorted(range(len(labels)), key=lambda place: wanted.index(labels[place])))
    if order != tuple(range(len(labels))):
        text = f"{text}.transpose({order})"
    if len(labels) < len(wanted):
        marks = ", ".join(":" if label in labels else "None" for label in wanted)
        text = f"{text}[{marks}]"
    return text
