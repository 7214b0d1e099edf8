"""FLOPs of the dots of a module, on one device."""

from __future__ import annotations

import math
import re

from symscale.xla.hlo_calls import Visit
from symscale.xla.hlo_collectives import joined, operand_shapes
from symscale.xla.hlo_error import HloError
from symscale.xla.hlo_text import Computation, Instruction
from symscale.xla.readings import Dot


def read_dots(computation: Computation, visit: Visit, unread: list[str]) -> list[Dot]:
    """The dots of one computation: 2 x elements of the result x elements of the contracted dims."""
    found = []
    for instruction in computation.instructions.values():
        if instruction.opcode == "dot":
            try:
                flops = dot_flops(computation, instruction)
            except HloError as error:
                unread.append(f"dot {instruction.name}: {error}")
                continue
            note = joined(visit.note)
            found.append(Dot(instruction.name, flops, visit.times, note))
    return found


def dot_flops(computation: Computation, instruction: Instruction) -> int:
    """FLOPs of one dot, a multiply-add counted as two.

    Raises ``HloError`` if its operands or contracting dims cannot be read.
    """
    left = operand_shapes(computation, instruction)[0]
    text = instruction.attributes.get("lhs_contracting_dims", "{}")
    if not re.fullmatch(r"\{\s*(?:\d{1,3}(?:\s*,\s*\d{1,3})*)?\s*\}", text):
        raise HloError(f"lhs_contracting_dims {text!r} is no list of dims")
    places = [int(part) for part in text.strip("{} ").split(",") if part.strip()]
    if any(place >= len(left.dims) for place in places):
        raise HloError(f"lhs_contracting_dims {text} are not dims of {left}")
    contracted = math.prod(left.dims[place] for place in places)
    return 2 * contracted * sum(shape.elements for shape in instruction.shapes)
