"""Tokens on their way to experts and back: dispatch, combine, and the picking of gate values.

Each group of devices sorts its own tokens: the slots of an expert (dim ``c``) carry the mesh axes
that the tokens (dim ``B``) carry, and slots of a block hold tokens of that block alone. So the
three ops are local, whatever the sharding of the tokens; what moves tokens between devices is the
resharding of the slots, ``Xe[E, c_X, D]`` to ``Xe[E_X, c, D]``: an AllToAll.

Slots have no order of their own. They lie as tokens do unless the sharding of the ids says in which
other order (``SendIds[E, c_XYZ]`` for tokens ``B_XZY``, so that Z can be taken off alone).

Source: GShard, https://arxiv.org/abs/2006.16668, section 3.2 (groups dispatch on their own).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from symscale.algebra.errors import ProgramError
from symscale.arrays.array import Array
from symscale.arrays.dtype import DTYPES
from symscale.programs.ops import Op

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Pick(Op):
    """Of each row, the columns its ids name: ``pick(PickIds[B, k], P[B, E]) -> Q[B, k]``.

    A device that holds part of the columns yields zeros for the others. In reverse, gradients are
    added into the columns.
    """

    reverse: bool = field(default=False, kw_only=True)

    @property
    def row(self) -> str:
        """The dim that is picked from."""
        return (self.output if self.reverse else self.inputs[1]).labels[-1]

    @property
    def name(self) -> str:
        """``pick``, primed in reverse."""
        return "pick'" if self.reverse else "pick"


@dataclass(frozen=True)
class Routed(Op):
    """What dispatch and combine share: tokens on one side, slots of experts on the other.

    ``ids_by_slot``: there is an id for each slot, else for each token's choice.
    """

    ids_by_slot: ClassVar[bool]
    reverse: bool = field(default=False, kw_only=True)

    @property
    def name(self) -> str:
        """The op's name, primed in reverse."""
        return type(self).__name__.lower() + ("'" if self.reverse else "")

    @property
    def _far(self) -> Array:
        """What the ids point into; in reverse, its gradient."""
        return self.output if self.reverse else self.inputs[1]

    @property
    def tokens(self) -> str:
        """The dim of the tokens."""
        return (self._far if self.ids_by_slot else self.inputs[0]).labels[0]

    @property
    def experts(self) -> str:
        """The dim of the experts."""
        return (self.inputs[0] if self.ids_by_slot else self._far).labels[0]

    @property
    def slots(self) -> str:
        """The dim of an expert's slots."""
        return (self.inputs[0] if self.ids_by_slot else self._far).labels[1]

    @property
    def to_experts(self) -> bool:
        """Whether rows go into slots, not out of them."""
        return self.slots in self.output.labels

    @property
    def summed(self) -> Axes:
        """On the way back, a device that holds part of the experts has part of the sum."""
        return () if self.to_experts else (self.experts,)


@dataclass(frozen=True)
class Dispatch(Routed):
    """Tokens into the slots of experts: ``dispatch(SendIds[E, c], X[B, D]) -> Xe[E, c, D]``.

    In reverse, gradients are added up over the slots that a token went to.
    """

    ids_by_slot = True


@dataclass(frozen=True)
class Combine(Routed):
    """Results out of the slots: ``combine(BackIds[B, k], Ye[E, c, D]) -> Yk[B, k, D]``.

    An id counts slots through all experts. In reverse, gradients are added into the slots.
    """

    ids_by_slot = False


@dataclass(frozen=True)
class SlotOrder:
    """The mesh axes that tokens carry, and the same axes in the order in which slots carry them."""

    tokens: Axes = ()
    slots: Axes = ()

    @property
    def turned(self) -> SlotOrder:
        """From slots to tokens."""
        return SlotOrder(self.slots, self.tokens)

    def match(self, axes: Axes) -> tuple[Axes, Axes]:
        """As many of these axes of tokens as cut tokens and slots into the same blocks, and those
        of the slots.

        >>> order = SlotOrder(("X", "Z", "Y"), ("X", "Y", "Z"))
        >>> order.match(("X", "Z", "Y"))
        (('X', 'Z', 'Y'), ('X', 'Y', 'Z'))
        >>> order.match(("X", "Z"))
        (('X',), ('X',))
        """
        count = 0
        for count in range(min(len(axes), len(self.tokens)), -1, -1):
            alike = axes[:count] == self.tokens[:count]
            if alike and set(axes[:count]) == set(self.slots[:count]):
                break
        # What cuts the finest blocks further cuts both alike.
        rest = axes[count:] if count == len(self.tokens) else ()
        return axes[:count] + rest, self.slots[:count] + rest


_SAME = SlotOrder()


def slot_orders(ops: Iterable[Op], lying: Callable[[str], Array]) -> dict[str, SlotOrder]:
    """For dims of slots that lie in another order than their tokens, by the sharding of the ids."""
    out: dict[str, SlotOrder] = {}
    for op in ops:
        if isinstance(op, Dispatch):
            ids, rows = (lying(array.name) for array in op.inputs)
            tokens, slots = rows.dim(op.tokens).axes, ids.dim(op.slots).axes
            if set(tokens) == set(slots) and tokens != slots:
                out.setdefault(op.slots, SlotOrder(tokens, slots))
    return out


def routed_layout(
    op: Routed,
    rows: Array,
    wanted: Mapping[str, Axes] | None,
    partial: Axes = (),
    order: SlotOrder = _SAME,
) -> dict[str, Axes]:
    """The mesh axes of every dim while the op runs; slots are cut into the blocks of the tokens.

    Args:
        op: the op.
        rows: the operand beside the ids, as it lies.
        wanted: the sharding that the result should end with.
        partial: the axes along which the result may stay a partial sum.
        order: in which order slots carry the axes of tokens.
    """
    made = _there(op, rows, wanted) if op.to_experts else _back(op, rows, wanted, partial, order)
    made[op.tokens], made[op.slots] = order.match(made[op.tokens])
    return made


def _there(op: Routed, rows: Array, wanted: Mapping[str, Axes] | None) -> dict[str, Axes]:
    """Where tokens lie. The slots are more than the tokens, so what has to be gathered is before.

    An axis that leaves a dim for another one stays until then (an AllToAll); one that nobody holds
    cuts the result for free.
    """
    held = {label: rows.dim(label).axes for label in rows.labels if label in op.output.labels}
    held[op.slots] = rows.dim(op.tokens).axes
    out: dict[str, Axes] = dict.fromkeys(op.labels, ())
    goal = held if wanted is None else wanted
    homes = {axis for axes in goal.values() for axis in axes}
    for label, axes in held.items():
        out[label] = _without_minor(axes, homes)
    for label, axes in goal.items():
        used = {axis for some in out.values() for axis in some}
        if axes[: len(out[label])] == out[label]:
            out[label] += _unclaimed(axes[len(out[label]) :], used)
    return {**out, op.tokens: out[op.slots]}


def _without_minor(axes: Axes, homes: set[str]) -> Axes:
    while axes and axes[-1] not in homes:
        axes = axes[:-1]
    return axes


def _unclaimed(axes: Axes, used: set[str]) -> Axes:
    """The leading axes that nobody uses."""
    out: list[str] = []
    for axis in axes:
        if axis in used:
            break
        out.append(axis)
    return tuple(out)


def _back(
    op: Routed,
    rows: Array,
    wanted: Mapping[str, Axes] | None,
    partial: Axes,
    order: SlotOrder,
) -> dict[str, Axes]:
    """Where the tokens' results are wanted; other dims stay cut where that is undone later.

    Experts of one token may lie apart if the result then is smaller than what would be gathered
    before (a sum over a token's slots), or if it may stay a partial sum.
    """
    goal = {} if wanted is None else wanted
    out: dict[str, Axes] = {label: goal.get(label, ()) for label in op.labels}
    if wanted is None:
        out[op.tokens] = order.turned.match(rows.dim(op.slots).axes)[1]
    taken = {axis for label in op.output.labels for axis in out[label]}
    for label in op.output.labels:
        if label in rows.labels and label not in (op.tokens, op.slots):
            held = rows.dim(label).axes
            if held[: len(out[label])] == out[label]:
                out[label] += _unclaimed(held[len(out[label]) :], taken)
                taken.update(out[label])
    stays = rows.dim(op.experts).axes
    out[op.experts] = tuple(
        axis for axis in stays if axis not in taken and (op.reverse or axis in partial)
    )
    return out


def routed(name: str, operands: tuple[Array, ...], result: Array) -> Op:
    """A line of one of the three ops, checked.

    Raises:
        ProgramError: for operands that do not fit.
    """
    if len(operands) != 2:
        raise ProgramError(f"{name} takes ids and an array")
    ids, rows = operands
    if ids.dtype != DTYPES["int32"]:
        raise ProgramError(f"{name}: {ids.name} is {ids.dtype}; write {ids.name}: int32[...]")
    expected = _EXPECTED[name](ids.labels, rows.labels)
    if expected is None:
        raise ProgramError(f"{name} of {ids.short} in {rows.short}: it is {_SHAPES[name]}")
    if result.labels != expected:
        raise ProgramError(
            f"{name} of {ids.short} in {rows.short} makes [{', '.join(expected)}], "
            f"not {result.short}"
        )
    return _OPS[name]((ids, rows), result)


def _dispatched(ids: Axes, rows: Axes) -> Axes | None:
    fits = len(ids) == 2 and rows and not set(ids) & set(rows)
    return ids + rows[1:] if fits else None


def _combined(ids: Axes, rows: Axes) -> Axes | None:
    fits = len(ids) == 2 and len(rows) >= 2 and not set(ids) & set(rows)
    return ids + rows[2:] if fits else None


def _picked(ids: Axes, rows: Axes) -> Axes | None:
    return ids if len(ids) == len(rows) == 2 and ids[0] == rows[0] and ids[1] != rows[1] else None


_EXPECTED = {"dispatch": _dispatched, "combine": _combined, "pick": _picked}
_OPS: Mapping[str, type[Op]] = {"dispatch": Dispatch, "combine": Combine, "pick": Pick}
_SHAPES: Mapping[str, str] = {
    "dispatch": "dispatch(Ids[E, c], X[B, ...])",
    "combine": "combine(Ids[B, k], Y[E, c, ...])",
    "pick": "pick(Ids[B, k], P[B, E])",
}
ROUTES = tuple(_OPS)
