"""Each collective, performed on shards as its definition says and without looking at the result."""

from __future__ import annotations

import numpy as np

from symscale.parallel.ring import RingPass
from symscale.programs.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    Move,
    ReduceScatter,
    Slice,
)
from symscale.programs.shift import ShiftPermute
from tests.simulator.devices import Device, Devices


def perform(move: Move, shards: np.ndarray, devices: Devices) -> np.ndarray:
    """What every device holds after the move."""
    if isinstance(move, RingPass):
        return go_round(move, shards, devices)
    parts = {device: _on(move, shards, devices, device) for device in devices}
    made = np.empty((*devices.shape, *next(iter(parts.values())).shape))
    for device, part in parts.items():
        made[device] = part
    return made


def _on(move: Move, shards: np.ndarray, devices: Devices, device: Device) -> np.ndarray:
    group = devices.group(device, move.axes)
    mine = devices.rank(device, move.axes)
    held = [shards[member] for member in group]
    labels = move.before.labels
    match move:
        case AllGather():
            return np.concatenate(held, axis=labels.index(move.dim))
        case ReduceScatter():
            return np.split(sum(held), len(group), axis=labels.index(move.dim))[mine]
        case AllReduce():
            return np.max(held, axis=0) if move.reduction == "max" else sum(held)
        case AllToAll():
            source, target = labels.index(move.source), labels.index(move.target)
            sent = [np.split(part, len(group), axis=target)[mine] for part in held]
            return np.concatenate(sent, axis=source)
        case ShiftPermute():
            sender = mine - move.by
            return held[sender] if 0 <= sender < len(group) else np.zeros_like(held[mine])
        case CollectivePermute():
            return shards[_sender(move, devices, device)]
        case Slice():
            return _slice(move, shards[device], devices, device)
    raise AssertionError(f"unknown movement {move}")


def _sender(move: Move, devices: Devices, device: Device) -> Device:
    """The one device of the group that holds, before the move, the block wanted after it."""
    wanted = devices.block(device, move.after)
    found = [
        member
        for member in devices.group(device, move.axes)
        if devices.block(member, move.before) == wanted
    ]
    assert len(found) == 1, f"{move.name} of {move.before}: {len(found)} senders to {device}"
    return found[0]


def _slice(move: Move, part: np.ndarray, devices: Devices, device: Device) -> np.ndarray:
    for place, (before, after) in enumerate(zip(move.before.dims, move.after.dims, strict=True)):
        fresh = after.axes[len(before.axes) :]
        assert after.axes[: len(before.axes)] == before.axes, "a slice only adds minor axes"
        part = np.split(part, devices.ways(fresh), axis=place)[devices.rank(device, fresh)]
    return part


def seen_volume(move: Move, before: np.ndarray, after: np.ndarray) -> float:
    """Bytes by the convention, counted on what the first device really holds."""
    each = float(move.before.dtype.bytes)
    first = (0,) * (before.ndim - len(move.before.dims))
    held, got = before[first].size * each, after[first].size * each
    match move:
        case AllGather():
            return got
        case ReduceScatter() | AllToAll() | CollectivePermute():
            return held
        case AllReduce():
            return 2 * held
        case RingPass():
            return (held if move.adds else got) - min(held, got)
    return 0.0


def go_round(move: RingPass, shards: np.ndarray, devices: Devices) -> np.ndarray:
    """Block after block handed to the next device of the ring, until each has been everywhere.

    Without ``adds`` a device keeps what comes by, in the blocks' order. With it, the sum for a
    block starts beside the block's home, and every device adds its part to what it is handed.
    """
    along = move.before.labels.index(move.dim)
    made: dict[Device, np.ndarray] = {}
    for first in devices:
        group = devices.group(first, move.axes)
        held = [shards[member] for member in group]
        parts = _summed_round(held, along) if move.adds else _seen_round(held, along)
        made.update(zip(group, parts, strict=True))
    whole = np.empty((*devices.shape, *made[first].shape))
    for device, part in made.items():
        whole[device] = part
    return whole


def _seen_round(held: list[np.ndarray], along: int) -> list[np.ndarray]:
    ways = len(held)
    seen = [{place: block} for place, block in enumerate(held)]
    passing = list(enumerate(held))
    for _ in range(ways - 1):
        passing = [passing[place - 1] for place in range(ways)]
        for place, (owner, block) in enumerate(passing):
            seen[place][owner] = block
    return [np.concatenate([one[owner] for owner in range(ways)], axis=along) for one in seen]


def _summed_round(held: list[np.ndarray], along: int) -> list[np.ndarray]:
    ways = len(held)
    parts = [np.split(part, ways, axis=along) for part in held]
    passing = [(place - 1) % ways for place in range(ways)]
    sums = [parts[place][owner] for place, owner in enumerate(passing)]
    for _ in range(ways - 1):
        passing = [passing[place - 1] for place in range(ways)]
        sums = [sums[place - 1] + parts[place][passing[place]] for place in range(ways)]
    assert passing == list(range(ways))
    return sums
