"""How often each computation of a module runs: calls followed from ENTRY, loops by their turns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from symscale.xla.hlo_error import HloError
from symscale.xla.hlo_loops import trip_count
from symscale.xla.hlo_text import Computation, Instruction, Module

# Ops whose computation is a small function of scalars: a sum, a comparison.
_REDUCERS = {
    "reduce",
    "reduce-window",
    "reduce-scatter",
    "reduce-scatter-start",
    "all-reduce",
    "all-reduce-start",
    "map",
    "sort",
    "scatter",
    "select-and-scatter",
    "topk",
}
_CALLS = ("calls", "to_apply", "called_computations")
_BRANCHES = ("branch_computations", "true_computation", "false_computation")
# Calls whose result is their computation's root, operand for parameter.
TRANSPARENT = frozenset({"fusion", "call", "async-start"})


@dataclass(frozen=True)
class Call:
    """One place that runs a computation: how many times each time it is passed, and a remark."""

    caller: str
    instruction: Instruction
    callee: str
    times: int = 1
    note: str = ""


@dataclass(frozen=True)
class Visit:
    """How often a computation runs in all, and what is uncertain about it."""

    times: int
    note: str = ""


@dataclass(frozen=True, eq=False)
class Calls:
    """All calls of a module that ENTRY reaches, the computations in calling order."""

    visits: Mapping[str, Visit]
    callers: Mapping[str, tuple[Call, ...]]
    unread: tuple[str, ...]


def follow_calls(module: Module) -> Calls:
    """Each reached computation with its number of runs, callers before callees.

    Raises ``HloError`` for a call of a computation that is not there, or of itself.
    """
    unread: list[str] = []
    calls: dict[str, list[Call]] = {}
    order = _order(module, calls, unread)
    visits = {module.entry: Visit(1)}
    callers: dict[str, list[Call]] = {}
    for name in order:
        visit = visits[name]
        for call in calls[name]:
            callers.setdefault(call.callee, []).append(call)
            before = visits.get(call.callee, Visit(0))
            note = " ".join(dict.fromkeys(filter(None, (before.note, visit.note, call.note))))
            visits[call.callee] = Visit(before.times + visit.times * call.times, note)
    return Calls(visits, {name: tuple(found) for name, found in callers.items()}, tuple(unread))


def _order(module: Module, calls: dict[str, list[Call]], unread: list[str]) -> list[str]:
    """Computations that ENTRY reaches, each before those it calls (depth first, no recursion)."""
    finished: list[str] = []
    open_now: set[str] = set()
    stack: list[tuple[str, bool]] = [(module.entry, False)]
    while stack:
        name, leaving = stack.pop()
        if leaving:
            open_now.discard(name)
            finished.append(name)
            continue
        if name in open_now:
            raise HloError(f"HLO computation {name} calls itself")
        if name in calls:
            continue
        calls[name] = list(_calls(module, module.computations[name], unread))
        open_now.add(name)
        stack.append((name, True))
        for callee in dict.fromkeys(call.callee for call in calls[name]):
            if callee in open_now:
                raise HloError(f"HLO computation {callee} calls itself")
            stack.append((callee, False))
    return finished[::-1]


def _calls(module: Module, computation: Computation, unread: list[str]) -> list[Call]:
    found: list[Call] = []
    for instruction in computation.instructions.values():
        # Attributes are taken apart only where a computation may be named.
        if "=" in instruction.attributes_text and instruction.opcode not in _REDUCERS:
            found += _calls_of(module, computation, instruction, unread)
    for call in found:
        if call.callee not in module.computations:
            raise HloError(
                f"HLO instruction {call.instruction.name} calls {call.callee}, which is not in the "
                "text: is it cut off?"
            )
    return found


def _calls_of(
    module: Module, computation: Computation, instruction: Instruction, unread: list[str]
) -> list[Call]:
    caller, opcode = computation.name, instruction.opcode
    if opcode.endswith(("-done", "-update")):
        return []
    if opcode == "while":
        return _loop_calls(module, computation, instruction, unread)
    if opcode == "conditional":
        note = "in a branch of a conditional."
        branches = instruction.called(*_BRANCHES)
        return [Call(caller, instruction, name, 1, note) for name in branches]
    text = instruction.attributes_text
    if not any(f"{name}=" in text for name in _CALLS):
        return []
    return [Call(caller, instruction, name) for name in instruction.called(*_CALLS)]


def _loop_calls(
    module: Module, computation: Computation, instruction: Instruction, unread: list[str]
) -> list[Call]:
    turns = trip_count(module, computation, instruction)
    if turns.unknown:
        unread.append(f"while {instruction.name}: unknown number of turns, its body counted once")
    bodies = [(name, turns.times) for name in instruction.called("body")]
    conditions = [(name, turns.times + 1) for name in instruction.called("condition")]
    return [
        Call(computation.name, instruction, name, times, turns.note)
        for name, times in bodies + conditions
    ]
