"""How many turns a while loop takes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from symscale.xla.hlo_text import Computation, Instruction, Module

_KNOWN = re.compile(r'\\?"known_trip_count\\?"\s*:\s*\{\s*\\?"n\\?"\s*:\s*\\?"?(\d{1,18})')
_INTEGER = re.compile(r"\s*(-?\d{1,18})\s*")
# Ops that hand on a loop's counter or limit as it is.
_SAME = {"copy", "convert", "bitcast", "reshape"}
# Steps that are followed through copies and fusions before giving up.
_MAX_DEPTH = 50


@dataclass(frozen=True)
class Turns:
    """The number of turns; ``note`` if it is a guess, ``unknown`` if there is not even one."""

    times: int
    note: str = ""
    unknown: bool = False


@dataclass(frozen=True)
class _Value:
    """An instruction of a computation, and the call that the computation was entered by."""

    computation: Computation
    name: str
    caller: _Value | None = None

    @property
    def instruction(self) -> Instruction | None:
        return self.computation.instructions.get(self.name)


def trip_count(module: Module, computation: Computation, loop: Instruction) -> Turns:
    """What ``known_trip_count`` states; else a guess from the loop's condition.

    The guess takes ``counter < constant`` with the counter's first value and step as they are
    written where they are constants, 0 and 1 where not.
    """
    if found := _KNOWN.search(loop.attributes_text):
        return Turns(int(found[1]))
    limit = _limit(module, loop)
    if limit is None:
        return Turns(1, "in a loop of unknown length, counted once.", unknown=True)
    bound, place = limit
    start = _start(module, computation, loop, place)
    step = _step(module, loop, place)
    times = max(0, -(-(bound - start) // step))
    return Turns(times, f"in a loop of {times} turns (guessed from its condition).")


def _limit(module: Module, loop: Instruction) -> tuple[int, int] | None:
    """The first count that stops the loop, and the counter's place in the loop's tuple."""
    computation = _called(module, loop, "condition")
    if computation is None or computation.root is None:
        return None
    value = _seek(module, _Value(computation, computation.root.name))
    found = value.instruction if value else None
    if value is None or found is None or found.opcode != "compare" or len(found.operands) != 2:
        return None
    left, right = (_operand(module, value, name) for name in found.operands)
    direction = found.attributes.get("direction", "")
    if left is not None and _constant(left) is not None:
        left, right = right, left
        direction = {"GT": "LT", "GE": "LE"}.get(direction, direction)
    bound = _constant(right) if right else None
    place = _place(left) if left else None
    if bound is None or place is None or direction not in ("LT", "LE", "NE"):
        return None
    return bound + (direction == "LE"), place


def _start(module: Module, computation: Computation, loop: Instruction, place: int) -> int:
    if len(loop.operands) != 1:
        return 0
    value = _seek(module, _Value(computation, loop.operands[0]))
    return _element_constant(module, value, place, 0)


def _element_constant(module: Module, value: _Value | None, place: int, default: int) -> int:
    found = value.instruction if value else None
    if value is None or found is None or found.opcode != "tuple" or place >= len(found.operands):
        return default
    element = _operand(module, value, found.operands[place])
    constant = _constant(element) if element else None
    return default if constant is None else constant


def _step(module: Module, loop: Instruction, place: int) -> int:
    """The constant that the body adds to the counter; 1 if it cannot be read."""
    body = _called(module, loop, "body")
    root = body.root if body else None
    if body is None or root is None or root.opcode != "tuple" or place >= len(root.operands):
        return 1
    value = _operand(module, _Value(body, root.name), root.operands[place])
    found = value.instruction if value else None
    if value is None or found is None or found.opcode != "add":
        return 1
    terms = [_operand(module, value, name) for name in found.operands]
    constants = [_constant(term) for term in terms if term is not None]
    steps = [number for number in constants if number is not None and number > 0]
    return steps[0] if steps else 1


def _called(module: Module, loop: Instruction, name: str) -> Computation | None:
    names = loop.called(name)
    return module.computations.get(names[0]) if names else None


def _operand(module: Module, value: _Value, name: str) -> _Value | None:
    return _seek(module, _Value(value.computation, name, value.caller))


def _seek(module: Module, value: _Value) -> _Value | None:
    """The value behind copies, into fusions and calls, and out of them by their parameters."""
    for _ in range(_MAX_DEPTH):
        found = value.instruction
        if found is None:
            return None
        if found.opcode in _SAME and len(found.operands) == 1:
            value = _Value(value.computation, found.operands[0], value.caller)
        elif found.opcode in ("fusion", "call"):
            inner = next(iter(found.called("calls", "to_apply")), "")
            computation = module.computations.get(inner)
            if computation is None or computation.root is None:
                return None
            value = _Value(computation, computation.root.name, value)
        elif found.opcode == "parameter" and value.caller is not None:
            outer = value.caller.instruction
            place = _number(found.operands_text)
            if outer is None or place is None or place >= len(outer.operands):
                return None
            value = _Value(value.caller.computation, outer.operands[place], value.caller.caller)
        else:
            return value
    return None


def _constant(value: _Value) -> int | None:
    found = value.instruction
    return _number(found.operands_text) if found and found.opcode == "constant" else None


def _place(value: _Value) -> int | None:
    found = value.instruction
    if found is None or found.opcode != "get-tuple-element":
        return None
    return _number(found.attributes.get("index", ""))


def _number(text: str) -> int | None:
    found = _INTEGER.fullmatch(text)
    return int(found[1]) if found else None
