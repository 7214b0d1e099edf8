"""The value of small integer expressions on every device: where each device's slice begins.

XLA computes a slice's offset from ``partition-id`` through a table or a little arithmetic. Worked
out for every device, it tells whether a slice takes another part on each device of a group.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import starmap

from symscale.xla.hlo_calls import TRANSPARENT, Calls
from symscale.xla.hlo_error import HloError
from symscale.xla.hlo_shapes import parse_shape
from symscale.xla.hlo_text import Computation, Instruction, Module

# One device's elements, row by row.
Row = tuple[int, ...]
Rows = tuple[Row, ...]

_MAX_DEPTH = 100
# A table of offsets has an element for each device; larger arrays are data.
# Arithmetic is on scalars.
_MAX_ELEMENTS = 2**16
_MAX_SCALARS = 16
_NUMBER = re.compile(r"-?\d{1,18}|true|false")
_SAME = {"reshape", "bitcast", "copy", "convert", "copy-start", "copy-done", "optimization-barrier"}
_DIRECTIONS: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}


def _quotient(a: int, b: int) -> int:
    """Division that rounds to zero, as machines do."""
    sign = 1 if (a >= 0) == (b >= 0) else -1
    return sign * (abs(a) // abs(b)) if b else 0


_BINARY: Mapping[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": _quotient,
    "remainder": lambda a, b: a - b * _quotient(a, b),
    "minimum": min,
    "maximum": max,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shift-left": lambda a, b: a << b if 0 <= b < 64 else 0,
    "shift-right-logical": lambda a, b: a >> b if 0 <= b < 64 else 0,
}


class Offsets:
    """Values on all devices of one module, each worked out once."""

    def __init__(self, module: Module, calls: Calls, devices: int) -> None:
        self._module = module
        self._calls = calls
        self._devices = devices
        self._known: dict[tuple[str, str], Rows | None] = {}
        self._not_local: set[tuple[str, str]] = set()

    def value(self, computation: Computation, name: str, depth: int = 0) -> Rows | None:
        """Elements on each device; nothing if they cannot be known."""
        key = (computation.name, name)
        if key not in self._known:
            self._known[key] = None
            found = computation.instructions.get(name)
            if found is not None and depth < _MAX_DEPTH:
                self._known[key] = self._work_out(computation, found, depth + 1)
        return self._known[key]

    def by_device(self, computation: Computation, names: Sequence[str]) -> Rows | None:
        """All offsets of a slice together, on each device."""
        values = [self.value(computation, name) for name in names]
        if not values or any(value is None for value in values):
            return None
        columns = [value for value in values if value is not None]
        return tuple(sum(parts, ()) for parts in zip(*columns, strict=True))

    def is_local(self, computation: Computation, names: Sequence[str]) -> bool:
        """Whether any of the values comes from ``partition-id``."""
        stack = [(computation, name) for name in names]
        seen = self._not_local
        while stack:
            where, name = stack.pop()
            found = where.instructions.get(name)
            if found is None or (where.name, name) in seen:
                continue
            seen.add((where.name, name))
            if found.opcode == "partition-id":
                # What was passed on the way here may well be local.
                self._not_local = set()
                return True
            if found.opcode == "parameter":
                outer = self._argument(where, found)
                stack += [outer] if outer else []
            elif found.opcode not in ("constant", "while"):
                stack += [(where, operand) for operand in found.operands]
        return False

    def _argument(self, where: Computation, found: Instruction) -> tuple[Computation, str] | None:
        """What the only caller of a computation gives it as a parameter."""
        calls = self._calls.callers.get(where.name, ())
        place = found.operands_text.strip()
        if len(calls) != 1 or calls[0].instruction.opcode not in TRANSPARENT:
            return None
        operands = calls[0].instruction.operands
        if not place.isdecimal() or len(place) > 9 or int(place) >= len(operands):
            return None
        return self._module.computations[calls[0].caller], operands[int(place)]

    def _work_out(self, where: Computation, found: Instruction, depth: int) -> Rows | None:
        opcode = found.opcode
        if opcode == "partition-id":
            return tuple((device,) for device in range(self._devices))
        if opcode == "replica-id":
            return ((0,),) * self._devices
        if opcode == "constant":
            return self._constant(found)
        if opcode == "parameter":
            outer = self._argument(where, found)
            return self.value(*outer, depth) if outer else None
        if opcode in ("fusion", "call"):
            return self._result(found, depth)
        if not _is_small(found):
            return None
        operands = [self.value(where, name, depth) for name in found.operands]
        if not operands or any(rows is None for rows in operands):
            return None
        columns = zip(*(rows for rows in operands if rows is not None), strict=True)
        results = [_combine(found, parts) for parts in columns]
        return tuple(row for row in results if row is not None) if all(results) else None

    def _result(self, found: Instruction, depth: int) -> Rows | None:
        """What the computation that an instruction calls returns, if it has no other caller."""
        inner = self._module.computations.get(next(iter(found.called("calls", "to_apply")), ""))
        if inner is None or inner.root is None or len(self._calls.callers.get(inner.name, ())) != 1:
            return None
        return self.value(inner, inner.root.name, depth)

    def _constant(self, found: Instruction) -> Rows | None:
        if not _is_small(found) or len(found.operands_text) > 32 * _MAX_ELEMENTS:
            return None
        words = _NUMBER.findall(found.operands_text)
        row = tuple(int(word == "true") if word[0] in "tf" else int(word) for word in words)
        return (row,) * self._devices


def _is_small(found: Instruction) -> bool:
    """Whether the result is one array of integers of no more than a table's size."""
    try:
        shape = parse_shape(found.shape_text)
    except HloError:
        return False
    return shape.dtype[0] in "sup" and shape.elements <= _MAX_ELEMENTS


def _combine(found: Instruction, parts: tuple[Row, ...]) -> Row | None:
    """One device's result of an op on one device's operands; nothing for an unknown op."""
    opcode = found.opcode
    if opcode in _SAME and len(parts) == 1:
        return parts[0]
    if opcode == "dynamic-slice" and len(parts) == 2:
        return _slice(found, parts[0], parts[1][0])
    if found.shapes[0].elements > _MAX_SCALARS:
        return None
    if opcode == "broadcast" and len(parts[0]) == 1:
        return parts[0] * found.shapes[0].elements
    if opcode == "negate":
        return tuple(-number for number in parts[0])
    if opcode in _BINARY and len(parts) == 2 and len(parts[0]) == len(parts[1]):
        return tuple(map(_wrapped, starmap(_BINARY[opcode], zip(*parts, strict=True))))
    if opcode == "compare" and found.attributes.get("direction") in _DIRECTIONS:
        compare = _DIRECTIONS[found.attributes["direction"]]
        return tuple(int(compare(a, b)) for a, b in zip(*parts[:2], strict=False))
    if opcode == "select" and len(parts) == 3 and len(parts[0]) == len(parts[1]):
        return tuple(a if flag else b for flag, a, b in zip(*parts, strict=False))
    if opcode == "clamp" and len(parts) == 3:
        return tuple(max(low, min(number, high)) for low, number, high in zip(*parts, strict=False))
    return None


def _wrapped(number: int) -> int:
    """A number as 64 bits hold it."""
    return (number + 2**63) % 2**64 - 2**63


def _slice(found: Instruction, table: Row, start: int) -> Row:
    size = found.shapes[0].elements
    start = max(0, min(start, len(table) - size))
    return table[start : start + size]
