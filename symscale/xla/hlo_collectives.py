"""The collectives of a module, each with the mesh axes it runs over and its volume."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from symscale.xla.groups import Groups, parse_groups, parse_pairs
from symscale.xla.groups_axes import Axes, axes_of_groups, axes_of_pairs
from symscale.xla.hlo_calls import Calls, Visit
from symscale.xla.hlo_error import HloError
from symscale.xla.hlo_offsets import Offsets
from symscale.xla.hlo_shapes import Shape
from symscale.xla.hlo_text import Computation, Instruction, Module
from symscale.xla.hlo_uses import Place, find_uses, is_padded_part, judge
from symscale.xla.readings import Emitted

KINDS: Mapping[str, str] = {
    "all-gather": "AllGather",
    "reduce-scatter": "ReduceScatter",
    "all-reduce": "AllReduce",
    "all-to-all": "AllToAll",
    "collective-permute": "CollectivePermute",
}
# What moves data between devices, or to the host, as far as a name can tell.
_COMMUNICATION = re.compile(
    r"^(?:all-|collective-|ragged-all|reduce-scatter|send|recv|infeed|outfeed)"
)
_TARGET = re.compile(
    r"gather|all_?to_?all|all_?reduce|reduce_?scatter|permute|nccl|collective|gemm|matmul|dot|conv",
    re.IGNORECASE,
)
_BEFORE_PARTITIONING = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}
# Products whose FLOPs are not read off a dot.
_PRODUCTS = {"convolution", "ragged-dot", "scaled-dot"}


@dataclass(eq=False)
class CollectiveReader:
    """Reads collectives one by one; what is not understood goes to ``unread``."""

    module: Module
    calls: Calls
    mesh: Mapping[str, int]
    unread: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._devices = math.prod(self.mesh.values())
        self._offsets = Offsets(self.module, self.calls, self._devices)
        self._axes: dict[tuple[str, str], Axes] = {}

    def read(self, computation: Computation, visit: Visit) -> Iterator[Emitted]:
        """The collectives of one computation, in order."""
        for instruction in computation.instructions.values():
            opcode = instruction.opcode
            base = opcode.removesuffix("-start")
            if base in KINDS:
                if opcode != base and "calls=" in instruction.attributes_text:
                    # The called computation holds the collective itself.
                    continue
                yield from self._read_one(computation, instruction, base, visit)
            elif (reason := unread_reason(instruction)) is not None:
                self.unread.append(f"{opcode} {instruction.name}: {reason}")

    def _read_one(
        self, computation: Computation, instruction: Instruction, base: str, visit: Visit
    ) -> Iterator[Emitted]:
        try:
            axes, groups = self._axes_of(instruction, base)
            shapes = operand_shapes(computation, instruction)
        except HloError as error:
            self.unread.append(f"{instruction.opcode} {instruction.name}: {error}")
            return
        if not axes.names and not axes.note:
            self.notes.append(f"{instruction.name}: groups of one device, moves nothing")
            return
        if base == "all-to-all" and len(shapes) > 1:
            # One operand for each peer: together they are the array that changes hands.
            whole = Shape(shapes[0].dtype, (sum(shape.elements for shape in shapes),))
            shapes = (whole,)
        for place, shape in enumerate(shapes):
            name = instruction.name if len(shapes) == 1 else f"{instruction.name}[{place}]"
            made = _emitted(KINDS[base], axes, shape, groups, name, visit)
            if base == "all-reduce":
                made = self._reduction(made, computation, instruction, place, groups)
            yield made

    def _reduction(
        self,
        made: Emitted,
        computation: Computation,
        instruction: Instruction,
        place: int,
        groups: Groups,
    ) -> Emitted:
        """An AllReduce under the name that its uses, or its operand, give it."""
        made = replace(made, note=joined(made.note, self._function(instruction)))
        shape = Shape(made.dtype, made.dims)
        if is_padded_part(computation, instruction.operands[place], shape, groups, self._offsets):
            note = joined(made.note, "an all-reduce of parts padded with zeros")
            return replace(made, kind="AllGather", volume=made.volume // 2, note=note)
        element = place if instruction.is_tuple else None
        start = Place(computation.name, instruction.name, element)
        uses = find_uses(self.module, self.calls, start)
        verdict = judge(uses, shape, groups, self._offsets)
        made = replace(made, note=joined(made.note, verdict.note))
        if not verdict.scattered:
            return made
        return replace(made, kind="ReduceScatter", volume=made.volume // 2)

    def _function(self, instruction: Instruction) -> str:
        """The reduction, if it is not a sum."""
        names = instruction.called("to_apply")
        reducer = self.module.computations.get(names[0]) if names else None
        root = reducer.root if reducer else None
        return "" if root is None or root.opcode in ("add", "parameter") else f"of {root.opcode}"

    def _axes_of(self, instruction: Instruction, base: str) -> tuple[Axes, Groups]:
        permute = base == "collective-permute"
        attribute = "source_target_pairs" if permute else "replica_groups"
        text = instruction.attributes.get(attribute)
        if text is None and permute:
            raise HloError("it has no source_target_pairs")
        text = "{}" if text is None else text
        groups = (parse_pairs if permute else parse_groups)(text, self._devices)
        if (attribute, text) not in self._axes:
            find = axes_of_pairs if permute else axes_of_groups
            self._axes[attribute, text] = find(groups, self.mesh)
        return self._axes[attribute, text], groups


def _emitted(
    kind: str, axes: Axes, shape: Shape, groups: Groups, name: str, visit: Visit
) -> Emitted:
    factor = {"AllGather": len(groups[0]) if groups else 1, "AllReduce": 2}.get(kind, 1)
    return Emitted(
        kind=kind,
        axes=axes.names,
        volume=factor * shape.bytes,
        dtype=shape.dtype,
        times=visit.times,
        name=name,
        note=joined(axes.note, visit.note),
        dims=shape.dims,
    )


def joined(*notes: str) -> str:
    """Remarks in one line."""
    return "; ".join(note.rstrip(".") for note in notes if note)


def operand_shapes(computation: Computation, instruction: Instruction) -> tuple[Shape, ...]:
    """Shapes of the operands, looked up where the operands were made.

    Raises ``HloError`` for an operand that is not in the computation, or none at all.
    """
    found: list[Shape] = []
    for name in instruction.operands:
        made = computation.instructions.get(name)
        if made is None:
            raise HloError(f"its operand {name} is not in computation {computation.name}")
        found += made.shapes
    if not found:
        raise HloError("it has no operands")
    return tuple(found)


def unread_reason(instruction: Instruction) -> str | None:
    """Why an instruction that may move data or multiply is not counted; nothing if it does not."""
    opcode = instruction.opcode
    if opcode.endswith(("-done", "-update")) or opcode in ("copy-start", "async-start"):
        return None
    if opcode in _PRODUCTS:
        return "its FLOPs are not counted"
    if _COMMUNICATION.match(opcode):
        return "a movement of data that is not counted"
    if opcode == "custom-call":
        target = instruction.attributes.get("custom_call_target", "").strip('"')
        if target in _BEFORE_PARTITIONING:
            return f"its target {target} is of a module that is not partitioned yet"
        if _TARGET.search(target):
            return f"its target {target} may move data or multiply"
    return None
