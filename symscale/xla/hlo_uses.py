"""What becomes of an AllReduce's result: taken whole, or one part on each device.

XLA's partitioner writes a ReduceScatter as an AllReduce whose result is sliced at an offset that
depends on the device. Followed through everything that only renames or reorders the elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from symscale.xla.groups import Groups
from symscale.xla.hlo_calls import TRANSPARENT, Calls
from symscale.xla.hlo_offsets import Offsets
from symscale.xla.hlo_shapes import Shape
from symscale.xla.hlo_text import Computation, Instruction, Module

_SAME_ELEMENTS = {
    "convert",
    "bitcast",
    "bitcast-convert",
    "copy",
    "copy-start",
    "copy-done",
    "reshape",
    "transpose",
    "optimization-barrier",
    "all-reduce-done",
    "async-done",
    "async-update",
}


@dataclass(frozen=True)
class Place:
    """A value: an instruction's result, or one element of it if it is a tuple."""

    computation: str
    name: str
    element: int | None = None


@dataclass(frozen=True, eq=False)
class Slice:
    """A dynamic slice of a followed value."""

    computation: Computation
    instruction: Instruction

    @property
    def elements(self) -> int:
        """Elements that it takes."""
        return sum(shape.elements for shape in self.instruction.shapes)

    @property
    def cut(self) -> int:
        """How many dims of the value it takes a part of."""
        source = self.computation.instructions.get(self.instruction.operands[0])
        before = source.shapes[0].dims if source and source.shapes else ()
        after = self.instruction.shapes[0].dims
        return sum(a != b for a, b in zip(before, after, strict=False))


@dataclass(frozen=True)
class Uses:
    """All slices of a value, and whether something else needs it whole."""

    slices: tuple[Slice, ...]
    whole: bool


@dataclass(frozen=True)
class Verdict:
    """Whether an AllReduce is a ReduceScatter, with a remark."""

    scattered: bool
    note: str = ""


def judge(uses: Uses, shape: Shape, groups: Groups, offsets: Offsets) -> Verdict:
    """Whether the uses of an AllReduce's result make it a ReduceScatter over its groups."""
    size = len(groups[0]) if groups else 1
    if uses.whole or not uses.slices or size == 1:
        return Verdict(False)
    kept = {found.elements for found in uses.slices}
    if kept != {shape.elements // size} or shape.elements % size:
        parts = ", ".join(f"1/{shape.elements / max(part, 1):g}" for part in sorted(kept))
        return Verdict(
            False, f"only {parts} of it is used, in a group of {size}: a staged reduction"
        )
    if any(found.cut > 1 for found in uses.slices):
        return Verdict(
            False, f"1/{size} of it is used, cut along two dims: a ReduceScatter has one"
        )
    notes = {_parts_of_groups(found, groups, offsets) for found in uses.slices}
    if None in notes:
        return Verdict(False, f"1/{size} of it is used, but not another part on each device")
    note = f"an all-reduce of which each device keeps 1/{size}"
    return Verdict(True, "; ".join([note, *sorted(filter(None, notes))]))


def _parts_of_groups(found: Slice, groups: Groups, offsets: Offsets, skip: int = 1) -> str | None:
    """Nothing unless the slice takes another part on each device of a group; else a remark."""
    names = found.instruction.operands[skip:]
    known = offsets.by_device(found.computation, names)
    if known is None:
        local = offsets.is_local(found.computation, names)
        return "offset taken to follow the group" if local else None
    apart = all(len({known[device] for device in group}) == len(group) for group in groups)
    return "" if apart else None


def is_padded_part(
    computation: Computation, name: str, shape: Shape, groups: Groups, offsets: Offsets
) -> bool:
    """Whether a value is zeros but for this device's part: its sum over a group is a gather."""
    found = computation.instructions.get(name)
    if found is None or found.opcode != "dynamic-update-slice" or len(found.operands) < 3:
        return False
    zeros, part = (computation.instructions.get(operand) for operand in found.operands[:2])
    size = len(groups[0]) if groups else 1
    if zeros is None or part is None or not _is_zero(computation, zeros):
        return False
    if sum(piece.elements for piece in part.shapes) * size != shape.elements:
        return False
    return _parts_of_groups(Slice(computation, found), groups, offsets, skip=2) == ""


def _is_zero(computation: Computation, found: Instruction) -> bool:
    if found.opcode == "broadcast" and found.operands:
        found = computation.instructions.get(found.operands[0], found)
    return found.opcode == "constant" and found.operands_text.strip() in ("0", "-0", "0.0")


def find_uses(module: Module, calls: Calls, start: Place) -> Uses:
    """All uses of a value, across calls; each place is visited once."""
    slices: list[Slice] = []
    whole = False
    stack, seen = [start], {start}
    while stack:
        place = stack.pop()
        for found in _next(module, calls, place):
            if isinstance(found, Slice):
                slices.append(found)
            elif found is None:
                whole = True
            elif found not in seen:
                seen.add(found)
                stack.append(found)
    return Uses(tuple(slices), whole)


def _next(module: Module, calls: Calls, place: Place) -> Iterator[Place | Slice | None]:
    """Where a value goes in one step; nothing for a use of all of it."""
    computation = module.computations[place.computation]
    for user, position in computation.users.get(place.name, ()):
        yield from _through(module, computation, user, position, place.element)
    root = computation.root
    if root is None or root.name != place.name:
        return
    callers = calls.callers.get(place.computation, ())
    if not callers:
        yield None
    for call in callers:
        if call.instruction.opcode in TRANSPARENT:
            yield Place(call.caller, call.instruction.name, place.element)
        else:
            yield None


def _through(
    module: Module, computation: Computation, user: Instruction, position: int, element: int | None
) -> Iterator[Place | Slice | None]:
    opcode = user.opcode
    if opcode == "get-tuple-element":
        if element is None or user.attributes.get("index") == str(element):
            yield Place(computation.name, user.name)
    elif opcode in _SAME_ELEMENTS:
        yield Place(computation.name, user.name, element)
    elif element is not None:
        yield None
    elif opcode == "tuple":
        yield Place(computation.name, user.name, position)
    elif opcode == "dynamic-slice" and position == 0:
        yield Slice(computation, user)
    elif opcode in TRANSPARENT:
        yield from _into(module, user, position)
    else:
        yield None


def _into(module: Module, user: Instruction, position: int) -> Iterator[Place | None]:
    for name in user.called("calls", "to_apply"):
        parameter = module.computations[name].parameters.get(position)
        # A fusion whose text lacks the parameter says nothing about its use.
        yield Place(name, parameter.name) if parameter else None
