"""Operations on whole arrays: what a program says before anything is sharded."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from sympy import Expr, Integer, Mul, Symbol

from symscale.algebra.errors import ProgramError
from symscale.arrays.array import Array, Dim
from symscale.arrays.dtype import DType, product_dtype
from symscale.programs.functions import Function


@dataclass(frozen=True)
class Op:
    """One operation: named arrays in, one named array out."""

    inputs: tuple[Array, ...]
    output: Array

    @property
    def name(self) -> str:
        """What a cost record calls it."""
        return type(self).__name__.lower()

    @property
    def labels(self) -> tuple[str, ...]:
        """All dims that occur, each once, in order of appearance."""
        seen: dict[str, None] = {}
        for array in (*self.inputs, self.output):
            seen.update(dict.fromkeys(array.labels))
        return tuple(seen)

    @property
    def summed(self) -> tuple[str, ...]:
        """Dims of the operands that the result no longer has."""
        return tuple(label for label in self.labels if label not in self.output.labels)

    def flops(self, local: dict[str, Expr]) -> Expr:
        """Matrix FLOPs, given the size of each dim on a device."""
        return Integer(0)

    def vector_flops(self, local: dict[str, Expr]) -> Expr:
        """Operations on the vector unit, given the size of each dim on a device."""
        return Integer(0)

    @property
    def moves_bytes(self) -> bool:
        """Whether it reads and writes HBM."""
        return True


@dataclass(frozen=True)
class Einsum(Op):
    """A product of two arrays, summed over the dims that the result lacks.

    FLOPs are twice the product of all distinct dims. ``math`` is the type it runs in: the wider of
    the operands' unless given.
    """

    math: DType | None = None

    def __post_init__(self) -> None:
        left, right = self.inputs
        for label in self.summed:
            if not (label in left.labels and label in right.labels):
                raise ProgramError(
                    f"{describe(self)}: dim {label} is in one operand only and not in the result; "
                    f"sum it first, with sum(...; {label})"
                )
        for label in self.output.labels:
            if label not in left.labels and label not in right.labels:
                raise ProgramError(f"{describe(self)}: the result's dim {label} is in no operand")

    @property
    def math_dtype(self) -> DType:
        """The element type that sets the matrix rate."""
        return self.math or product_dtype(self.inputs[0].dtype, self.inputs[1].dtype)

    @property
    def rate(self) -> Symbol:
        """The chip's rate that it runs at."""
        return self.math_dtype.rate

    def flops(self, local: dict[str, Expr]) -> Expr:
        """Twice the product of all dims, given the size of each on a device."""
        return 2 * Mul(*(local[label] for label in self.labels))


@dataclass(frozen=True)
class Pointwise(Op):
    """An elementwise function, or one along some dims (``over``), or a reduction over them.

    As the reverse of a function (``reverse`` true) its inputs are the incoming gradient and what
    the function's reverse needs; dims that its result lacks are summed.
    """

    function: Function = field(kw_only=True)
    over: tuple[str, ...] = field(default=(), kw_only=True)
    reverse: bool = field(default=False, kw_only=True)
    wrt: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        if self.function.shifts and len(self.over) > 1:
            raise ProgramError(f"{self.function.name} works along one dim: name a single one")

    @property
    def name(self) -> str:
        """The function's name, primed in reverse."""
        return self.function.name + ("'" if self.reverse else "")

    @property
    def stats(self) -> int:
        """How many f32 numbers a row must collect from all devices along sharded ``over`` dims.

        The reverse for a norm's gain needs none: the forward pass kept the row's scale.
        """
        if self.reverse:
            return self.function.reverse_stats if self.wrt == 0 else 0
        return self.function.stats

    @property
    def moves_bytes(self) -> bool:
        """A gradient that merely passes through a sum is the same array."""
        passes = self.reverse and self.function.name in ("add", "copy")
        return not (passes and not self.summed)

    def vector_flops(self, local: dict[str, Expr]) -> Expr:
        """The function's operations on an element, times the elements on a device."""
        each = self.function.reverse_flops if self.reverse else self.function.flops
        return each * Mul(*(local[label] for label in self.labels))


@dataclass(frozen=True)
class Edge(Op):
    """The last row along a dim (the first in reverse) of the part that each device holds."""

    label: str = ""
    reverse: bool = False

    @property
    def over(self) -> tuple[str, ...]:
        """The dim along which the row is taken."""
        return (self.label,)

    @property
    def moves_bytes(self) -> bool:
        """The row is sent from where it lies."""
        return False


@dataclass(frozen=True)
class Lookup(Op):
    """Rows of a table: ``lookup(Ids[B], Table[V, D]) -> Out[B, D]``; no FLOPs.

    A device that holds part of the table's rows yields zeros for the others, so a result from a
    row-sharded table is a partial sum. In reverse, gradients are added into the table's rows.
    """

    reverse: bool = field(default=False, kw_only=True)

    @property
    def row(self) -> str:
        """The dim that is looked up."""
        table = self.output if self.reverse else self.inputs[1]
        return table.labels[0]

    @property
    def name(self) -> str:
        """``lookup``, primed in reverse."""
        return "lookup'" if self.reverse else "lookup"


@dataclass(frozen=True)
class View(Op):
    """The same elements under other dims: a dim split into factors, or factors merged."""

    @property
    def summed(self) -> tuple[str, ...]:
        """Nothing is summed: dims only change their names."""
        return ()

    @property
    def moves_bytes(self) -> bool:
        """The elements stay where they are."""
        return False

    @cached_property
    def groups(self) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
        """Which dims of the operand become which of the result: one to many or many to one.

        Raises:
            ProgramError: when the sizes do not match up.
        """
        source, target = self.inputs[0].dims, self.output.dims
        out = []
        while source and target:
            taken = _match(source, target)
            if taken is None:
                break
            count, ways = taken
            names = tuple(dim.name for dim in source[:count]), tuple(d.name for d in target[:ways])
            out.append(names)
            source, target = source[count:], target[ways:]
        if source or target:
            raise ProgramError(
                f"{describe(self)}: the dims do not match up; sizes "
                f"{self.inputs[0].global_shape} against {self.output.global_shape}"
            )
        for left, right in out:
            moved = [d for d in left if d in self.output.labels and d not in right]
            if moved:
                raise ProgramError(
                    f"{describe(self)}: dim {moved[0]} keeps its name but not its elements"
                )
        return tuple(out)


def _match(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> tuple[int, int] | None:
    """How many leading dims of each side hold the same elements; one side gives one dim."""
    for count in range(1, len(target) + 1):
        if Mul(*(dim.size for dim in target[:count])) == source[0].size:
            return 1, count
    for count in range(2, len(source) + 1):
        if Mul(*(dim.size for dim in source[:count])) == target[0].size:
            return count, 1
    return None


def describe(op: Op) -> str:
    """The op as a line of notation.

    >>> from symscale.arrays.array import array
    >>> describe(Einsum((array("A[B, D]"), array("W[D, F]")), array("Out[B, F]")))
    'A[B, D] · W[D, F] -> Out[B, F]'
    """
    return f"{expression(op, op.inputs)} -> {op.output}"


def expression(op: Op, inputs: tuple[Array, ...]) -> str:
    """The right-hand side of an op, with these (sharded) operands."""
    names = [array.short for array in inputs]
    if isinstance(op, Einsum):
        return " · ".join(names)
    if isinstance(op, View):
        return names[0]
    if isinstance(op, Pointwise) and op.name == "add":
        return " + ".join(names)
    along = op.over if isinstance(op, Pointwise | Edge) else ()
    over = f"; {', '.join(along)}" if along else ""
    return f"{op.name}({', '.join(names)}{over})"
