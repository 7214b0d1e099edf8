"""Each collective, performed on shards as its definition says and without looking at the result."""

from __future__ import annotations

import numpy as np

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
    return 0.0
