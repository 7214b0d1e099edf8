"""A shift along a sharded dim: what lies within a device moves there, the row at its edge goes on.

``shift(A[P, B]; P) -> C[P, B]`` puts row p of A at p + 1: what a pipeline does with its stages'
results at every step. The last row leaves and the first becomes zero; in reverse it shifts back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sympy import Mul

from symscale.algebra.links import CollectiveKind
from symscale.algebra.symbols import axis
from symscale.arrays.array import Array
from symscale.arrays.notation import axes_text
from symscale.programs.collectives import CollectivePermute
from symscale.programs.layout import Layout
from symscale.programs.ops import Edge, Pointwise


@dataclass(frozen=True)
class ShiftPermute(CollectivePermute):
    """Each device's block goes to the next along the axes (``by`` = 1) or to the one before (-1).

    The block of the last device leaves, and the first one gets zeros.
    """

    by: int = 1

    @property
    def kind(self) -> CollectiveKind:
        """The collective's standard name."""
        return "CollectivePermute"

    @property
    def name(self) -> str:
        """How an algorithm in a paper writes it."""
        return f"{self.kind}_{axes_text(self.axes)}"


def shift_layout(op: Pointwise, where: Layout, operand: Array) -> Layout:
    """Shift before the result is sliced finer along the dim: within a device nothing is sent."""
    label = op.over[0]
    held = operand.dim(label).axes
    if where[label][: len(held)] == held:
        return {**where, label: held}
    return where


def edge_moves(op: Pointwise, operand: Array, critical: bool) -> tuple[Edge, ShiftPermute] | None:
    """The row at the edge of each device's part and its way to the neighbour; none if unsharded.

    Its array has one row a device, so its bytes are the operand's over the local size of the dim.

    >>> from symscale.arrays.array import array
    >>> from symscale.programs.program import program
    >>> op = program("shift(A[P, B]; P) -> C[P, B]", sizes={"P": 8}).ops[0]
    >>> _, move = edge_moves(op, array("A[P_X, B]"), True)
    >>> print(move.name, move.before.short, move.volume)
    CollectivePermute_X A.edge[P_X, B] 2*B
    """
    label = op.over[0]
    axes = operand.dim(label).axes
    if not axes:
        return None
    rows = Mul(*map(axis, axes))
    dims = tuple(replace(d, size=rows) if d.name == label else d for d in operand.dims)
    before = Array(f"{operand.name}.edge", dims, operand.dtype)
    after = replace(before, name=f"{op.output.name}.edge")
    edge = Edge((operand.unsharded,), before.unsharded, label, op.reverse)
    return edge, ShiftPermute(before, after, axes, critical, by=-1 if op.reverse else 1)
