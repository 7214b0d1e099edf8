"""Differences between XLA's plan and the derived one whose reason is known.

Each looks, among collectives that found no equal, for a group of its kind. The order matters:
what needs the most evidence comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from symscale.xla.compare_lists import Derived, same
from symscale.xla.readings import Emitted

_SUMS = ("ReduceScatter", "AllReduce")
_MOVES = ("AllGather", "AllToAll", "CollectivePermute")


@dataclass(frozen=True)
class Found:
    """The collectives of both sides that one difference is about."""

    derived: tuple[Derived, ...] = ()
    emitted: tuple[Emitted, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.derived or self.emitted)


@dataclass(frozen=True)
class Left:
    """What found no equal, with what is needed to judge it: all derived collectives, the mesh, and
    matrix FLOPs on a device by both accounts.
    """

    all_derived: tuple[Derived, ...]
    derived: tuple[Derived, ...]
    emitted: tuple[Emitted, ...]
    flops: int
    other_flops: int
    mesh: Mapping[str, int] = field(default_factory=dict)

    def without(self, found: Found) -> Left:
        """What is left when a group is taken out."""
        derived, emitted = list(self.derived), list(self.emitted)
        for one in found.derived:
            derived.remove(one)
        for other in found.emitted:
            emitted.remove(other)
        return replace(self, derived=tuple(derived), emitted=tuple(emitted))

    def ways(self, axes: Sequence[str]) -> int:
        """Over how many devices these axes go; sub-axes count for nothing."""
        return prod(self.mesh.get(name, 1) for name in axes)


@dataclass(frozen=True)
class Known:
    """A known difference: its name, the reason, and how it is recognised.

    ``moves_flops``: the same reason makes matrix FLOPs differ. ``symbolic``: where XLA's way can be
    the cheaper one, why a plan for any sizes cannot choose it.
    """

    name: str
    reason: str
    find: Callable[[Left], Found]
    moves_flops: bool = False
    symbolic: str = ""


def _same_axes(own: Derived, other: Emitted) -> bool:
    return set(own.axes) == set(other.axes)


def _pairs(left: Left) -> Iterator[tuple[Derived, Emitted]]:
    for own in left.derived:
        for other in left.emitted:
            yield own, other


def _added_late(left: Left) -> Found:
    """More reductions like that of a sum of gradients."""
    for own in left.all_derived:
        more = tuple(e for e in left.emitted if own.added and e.kind in _SUMS and _reduces(own, e))
        if more:
            return Found(tuple(d for d in left.derived if d == own)[:1], more)
    return Found()


def _reduces(own: Derived, other: Emitted) -> bool:
    """Whether both reduce the same bytes over the same axes."""
    bytes_own = own.volume // (2 if own.kind == "AllReduce" else 1)
    bytes_other = other.volume // (2 if other.kind == "AllReduce" else 1)
    return set(other.axes) <= set(own.axes) and bytes_own == bytes_other


def _one_dim_at_a_time(left: Left) -> Found:
    """An AllReduce over two axes as two of the same bytes, one for each summed dim."""
    for own in left.derived:
        if own.kind != "AllReduce" or len(own.axes) < 2:
            continue
        parts = _covering(own.axes, [
            e for e in left.emitted if e.kind == "AllReduce" and e.volume == own.volume
        ])  # fmt: skip
        if parts:
            return Found((own,), parts)
    return Found()


def _covering(axes: Sequence[str], candidates: Sequence[Emitted]) -> tuple[Emitted, ...]:
    """Candidates over disjoint axes that together are these axes."""
    open_axes, out = set(axes), []
    for one in candidates:
        if one.axes and set(one.axes) <= open_axes:
            open_axes -= set(one.axes)
            out.append(one)
    return tuple(out) if not open_axes and len(out) > 1 else ()


def _two_scatters(left: Left) -> Found:
    """ReduceScatters into two dims as AllReduces of the whole array and a slice."""
    own = tuple(d for d in left.derived if d.kind in _SUMS)
    if len(own) < 2 or not any(d.kind == "ReduceScatter" for d in own):
        return Found()
    axes = {name for d in own for name in d.axes}
    whole = max(d.volume for d in own if d.kind == "ReduceScatter")
    other = tuple(
        e for e in left.emitted if e.kind in _SUMS and set(e.axes) <= axes
        and e.volume in (whole, 2 * whole)
    )  # fmt: skip
    covered = {name for e in other for name in e.axes}
    return Found(own, other) if covered == axes else Found()


def _sliced(left: Left) -> Found:
    """An operand's gather as an AllReduce of the result, with so many times fewer FLOPs."""
    for own, other in _pairs(left):
        fewer = left.other_flops * left.ways(own.axes) <= left.flops
        kinds = own.kind == "AllGather" and other.kind in _SUMS
        if kinds and _same_axes(own, other) and fewer and left.flops:
            return Found((own,), (other,))
    return Found()


def _nested(left: Left) -> Found:
    """A partial gather and a reduction as gathers of both operands, with more FLOPs."""
    gathers = tuple(d for d in left.derived if d.kind == "AllGather")
    sums = tuple(d for d in left.derived if d.kind in _SUMS)
    other = tuple(e for e in left.emitted if e.kind == "AllGather")
    wider = any(set(d.axes) < set(e.axes) for d in gathers for e in other)
    if sums and wider and len(other) > 1 and left.other_flops > left.flops:
        return Found((*gathers, *sums), other)
    return Found()


def _by_result(left: Left) -> Found:
    """A product sharded as its result lies, so operands are gathered and work is repeated."""
    sums = {frozenset(d.axes) for d in left.derived if d.kind == "ReduceScatter"}
    only_sums = bool(sums) and all(d.kind == "ReduceScatter" for d in left.derived)
    staged = tuple(e for e in left.emitted if "staged" in e.note)
    same_axes = bool(staged) and all(frozenset(e.axes) in sums for e in staged)
    kinds = {e.kind for e in left.emitted}
    if left.other_flops > left.flops and only_sums and same_axes and kinds <= {"AllGather", *_SUMS}:
        return Found(left.derived, left.emitted)
    return Found()


def _gathered_twice(left: Left) -> Found:
    """A gather that is already among the paired ones."""
    own = [d for d in left.all_derived if d.kind == "AllGather" and d not in left.derived]
    return Found((), tuple(e for e in left.emitted if any(same(d, e) for d in own))[:1])


def _gathered_whole(left: Left) -> Found:
    """A gather of what the derived plan cuts first, so many times the bytes."""
    for own, other in _pairs(left):
        gathers = own.kind == other.kind == "AllGather" and own.dtype == other.dtype
        whole = own.sliced > 1 and other.volume == own.volume * own.sliced
        if gathers and whole and _same_axes(own, other):
            return Found((own,), (other,))
    return Found()


def _shifted_first(left: Left) -> Found:
    """The rows at the edges sent on, beside a gather of what is to be shifted."""
    for own in left.all_derived:
        rows = tuple(
            e for e in left.emitted
            if e.kind == "CollectivePermute" and _same_axes(own, e)
            and own.volume % (e.volume * left.ways(own.axes)) == 0
        )  # fmt: skip
        if own.kind == "AllGather" and own.shifted and rows:
            return Found((), rows[:1])
    return Found()


def _windowed(left: Left) -> Found:
    """A gather or reduction as a chain of permutes over the same axes, as many bytes in all."""
    for own in left.derived:
        chain = tuple(
            e for e in left.emitted if e.kind == "CollectivePermute" and _same_axes(own, e)
            and e.volume * left.ways(own.axes) == own.volume
        )[: left.ways(own.axes)]  # fmt: skip
        if own.kind in ("AllGather", "ReduceScatter") and len(chain) >= left.ways(own.axes) - 1 > 0:
            return Found((own,), chain)
    return Found()


def _kinds(left: Left) -> set[str]:
    return {d.kind for d in left.derived} | {e.kind for e in left.emitted}


def _one_array(left: Left) -> bool:
    """Whether what is left are moves of a single array, without reductions."""
    names = {d.array.partition("[")[0] for d in left.derived}
    return len(names) == 1 and bool(left.emitted) and _kinds(left) <= set(_MOVES)


def _bytes(side: Sequence[Derived] | Sequence[Emitted]) -> int:
    return sum(one.volume for one in side)


def _sub_axes(left: Left) -> Found:
    """Moves that split a mesh axis, or skip steps since one block lies within another."""
    if not _one_array(left):
        return Found()
    split = any(":" in axis for e in left.emitted for axis in e.axes)
    permuted = all(e.kind == "CollectivePermute" for e in left.emitted)
    if split or (permuted and _bytes(left.emitted) < _bytes(left.derived)):
        return Found(left.derived, left.emitted)
    return Found()


def _smaller_operand(left: Left) -> Found:
    """Other operands moved over the same axes, fewer bytes in all, for the same FLOPs."""
    axes = {frozenset(d.axes) for d in left.derived} | {frozenset(e.axes) for e in left.emitted}
    names = {d.array.partition("[")[0] for d in left.all_derived}
    cheaper = 0 < _bytes(left.emitted) < _bytes(left.derived)
    alike = left.flops == left.other_flops and len(axes) == 1
    if _kinds(left) <= {"AllGather", "AllToAll"} and cheaper and alike and len(names) > 1:
        return Found(left.derived, left.emitted)
    return Found()


def _gathered_first(left: Left) -> Found:
    """Moves over the same axes that gather before they exchange, at no fewer bytes."""
    if not _one_array(left) or _bytes(left.emitted) < _bytes(left.derived):
        return Found()
    axes = {name for d in left.derived for name in d.axes}
    within = all(set(e.axes) <= axes for e in left.emitted)
    exchanged = any(d.kind in ("AllToAll", "CollectivePermute") for d in left.derived)
    if within and exchanged:
        return Found(left.derived, left.emitted)
    return Found()


KNOWN: tuple[Known, ...] = (
    Known(
        "one dim at a time",
        "XLA reduces over one summed dim at a time, the whole array each time; one AllReduce over "
        "all the axes is cheaper",
        _one_dim_at_a_time,
    ),
    Known(
        "added late",
        "XLA reduces each part of a gradient and adds afterwards; adding the partial sums first "
        "(JAX's `unreduced` in Explicit mode) needs one reduction",
        _added_late,
    ),
    Known(
        "nested sum",
        "a summed dim lies over nested axes: XLA gathers both operands whole and every device does "
        "all the work; the rule gathers the finer part and reduces",
        _nested,
        True,
        "for A[I, J_XY] · B[J_X, K] -> C[I, K] the rule moves IJ/X + 2IK elements, XLA IJ + JK: "
        "the sign of 2IK - JK - IJ(1 - 1/X) depends on the sizes. XLA pays X times the FLOPs for "
        "it",
    ),
    Known(
        "by its result",
        "XLA shards the product as its result lies, gathers operands and repeats work; a "
        "constraint on the product before its reduction mends it",
        _by_result,
        True,
    ),
    Known(
        "two scatters",
        "XLA has no ReduceScatter into two dims: it reduces the whole array and slices",
        _two_scatters,
    ),
    Known(
        "slice or gather",
        "the result is smaller than the operand to be gathered: XLA slices the whole operand, "
        "works on a part of the sum and reduces, as the rule does when given sizes; fewer FLOPs, "
        "and fewer bytes where the result is less than half the operand",
        _sliced,
        True,
        "for A[I, J] · B[J_X, K] -> C[I, K] the rule gathers JK elements, XLA's AllReduce counts "
        "2IK: the rule is cheaper in bytes where J < 2I, XLA's way always has X times fewer "
        "FLOPs. It takes that way where the result has fewer bytes than the operand and no mesh "
        "axis lies idle",
    ),
    Known(
        "gathered twice",
        "XLA gathers an array a second time: two gathers of one operand are not merged when their "
        "device groups come in two spellings",
        _gathered_twice,
    ),
    Known(
        "collective matmul",
        "XLA moves the same bytes in a chain of permutes to overlap them with the product",
        _windowed,
    ),
    Known(
        "numbers known",
        "XLA knows the sizes: one block lies within another, or an axis splits in two; a rule for "
        "any axis sizes cannot say so",
        _sub_axes,
        symbolic="XLA's way needs one mesh axis to divide the other (here Y = 2 divides X = 4): "
        "then a block over X lies within one over Y, or X splits into factors and blocks are "
        "exchanged over one factor alone. With X = 2 and Y = 3 neither exists; a plan holds for "
        "any axis sizes",
    ),
    Known(
        "smaller operand",
        "which operand of the product moves depends on the sizes: XLA, which knows them, moves the "
        "smaller; a rule for any sizes moves the weight, and moves as XLA does when given sizes",
        _smaller_operand,
        symbolic="for A[I_X, J] · B[J_X, K] -> C[I, K_X] the rule moves JK + IK/X elements, XLA "
        "IJ + JK/X; for A[I, J_X] · B[J, K_X] -> C[I_X, K] the rule moves IJ + IK/X, XLA JK + "
        "IJ/X. Either way which is less depends on I, J and K",
    ),
    Known(
        "gathers first",
        "XLA gathers where blocks could be exchanged, or gathers before it exchanges",
        _gathered_first,
    ),
    Known(
        "shifts first",
        "XLA shifts an array while it is cut, which sends the rows at the edges on, and gathers it "
        "afterwards; gathered first, the shift stays within a device",
        _shifted_first,
    ),
    Known(
        "gathers before slicing",
        "XLA gathers the whole array and slices it afterwards; slicing first is free and gathers "
        "less",
        _gathered_whole,
    ),
)
