"""Chains of CollectivePermutes: a shard passed on from device to device, a gather in steps.

With a dot on each shard as it comes by, it is a collective matmul, which XLA calls a windowed
einsum: the AllGather or ReduceScatter runs while the dots do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from symscale.xla.hlo_calls import Calls
from symscale.xla.hlo_text import Computation, Instruction, Module
from symscale.xla.readings import Chain, Emitted

_PASSED_ON = {
    "copy",
    "convert",
    "bitcast",
    "bitcast-convert",
    "reshape",
    "transpose",
    "collective-permute-done",
    "optimization-barrier",
}
# Copies one behind the other that are seen through.
_MAX_COPIES = 64


def find_chains(
    module: Module, calls: Calls, computation: Computation, found: Sequence[Emitted]
) -> tuple[list[Emitted], list[Chain]]:
    """Collectives of one computation with their chains noted, and the chains."""
    permutes = {entry.name: entry for entry in found if entry.kind == "CollectivePermute"}
    if not permutes:
        return list(found), []
    chains = _straight(module, computation, permutes) + _turning(
        module, calls, computation, permutes
    )
    notes = {
        name: chain.step_note(place) for chain in chains for place, name in enumerate(chain.names)
    }
    noted = [
        replace(entry, note="; ".join(filter(None, (entry.note, notes.get(entry.name, "")))))
        for entry in found
    ]
    return noted, chains


def _straight(
    module: Module, computation: Computation, permutes: Mapping[str, Emitted]
) -> list[Chain]:
    """Permutes one behind the other in one computation, over the same axes."""
    multiplied = _multiplied(module, computation)
    before: dict[str, str] = {}
    for name, entry in permutes.items():
        source = _source(computation, computation.instructions[name])
        known = permutes.get(source.name) if source else None
        if known is not None and (known.axes, known.volume) == (entry.axes, entry.volume):
            before[name] = known.name
    after = {first: second for second, first in before.items()}
    chains = []
    for name in permutes:
        if name in before or name not in after:
            continue
        names = [name]
        while names[-1] in after:
            names.append(after[names[-1]])
        entry = permutes[name]
        sent = {*names, *computation.instructions[name].operands}
        windowed = not sent.isdisjoint(multiplied)
        chains.append(Chain(tuple(names), entry.axes, len(names), entry.volume, windowed))
    return chains


def _turning(
    module: Module, calls: Calls, computation: Computation, permutes: Mapping[str, Emitted]
) -> list[Chain]:
    """Permutes in a loop's body whose result the next turn permutes again."""
    loops = [
        call
        for call in calls.callers.get(computation.name, ())
        if call.instruction.opcode == "while"
        and computation.name in call.instruction.called("body")
    ]
    root = computation.root
    if not loops or root is None or root.opcode != "tuple":
        return []
    chains = []
    windowed = any(_is_dot(module, entry) for entry in computation.instructions.values())
    for name, entry in permutes.items():
        source = _source(computation, computation.instructions[name])
        if source is None or source.opcode != "get-tuple-element":
            continue
        place = source.attributes.get("index", "")
        if not place.isdecimal() or len(place) > 6 or int(place) >= len(root.operands):
            continue
        returned = _behind(computation, root.operands[int(place)])
        if returned is not None and returned.name == name:
            chains.append(Chain((name,), entry.axes, entry.times, entry.volume, windowed))
    return chains


def _source(computation: Computation, permute: Instruction) -> Instruction | None:
    """What a permute sends, seen through copies."""
    return _behind(computation, permute.operands[0]) if permute.operands else None


def _behind(computation: Computation, name: str) -> Instruction | None:
    """The instruction that made a value, seen through copies and a permute's own -done."""
    for _ in range(_MAX_COPIES):
        found = computation.instructions.get(name)
        if found is None or found.opcode not in _PASSED_ON or not found.operands:
            return found
        name = found.operands[0]
    return None


def _multiplied(module: Module, computation: Computation) -> set[str]:
    """Names of the values that go into a dot, also through copies."""
    names: set[str] = set()
    for entry in reversed(list(computation.instructions.values())):
        if _is_dot(module, entry) or (entry.opcode in _PASSED_ON and entry.name in names):
            names.update(entry.operands)
    return names


def _is_dot(module: Module, found: Instruction) -> bool:
    if found.opcode != "fusion":
        return found.opcode == "dot"
    called = (module.computations.get(name) for name in found.called("calls"))
    return any(inner is not None and inner.has_dot for inner in called)
