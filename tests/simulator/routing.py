"""The way to experts and back: on whole arrays, on shards, and ids that keep to their blocks."""

from __future__ import annotations

import numpy as np

from symscale.programs.ops import Op
from symscale.programs.phase import Compute
from symscale.programs.routing import Combine, Dispatch, Pick, Routed
from symscale.programs.sharded import ShardedProgram
from tests.simulator.devices import Devices


def whole(op: Pick | Routed, ids: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The op on whole arrays."""
    ids = ids.astype(int)
    match op:
        case Dispatch():
            return rows[ids]
        case Combine():
            return rows.reshape((-1, *rows.shape[2:]))[ids]
        case Pick():
            return np.take_along_axis(rows, ids, axis=1)
    raise AssertionError(op)


def whole_reverse(
    op: Pick | Routed, ids: np.ndarray, rows: np.ndarray, grad: np.ndarray
) -> np.ndarray:
    """The gradient of the rows, entry by entry."""
    made = np.zeros_like(rows)
    for where in np.ndindex(ids.shape):
        place = int(ids[where])
        if isinstance(op, Dispatch):
            made[place] += grad[where]
        elif isinstance(op, Combine):
            made[divmod(place, rows.shape[1])] += grad[where]
        else:
            made[where[0], place] += grad[where]
    return made


def local(step: Compute, operands: list[np.ndarray], devices: Devices) -> np.ndarray:
    """The op on every device; an id that leaves the device's block of tokens or slots fails."""
    op = step.op
    assert isinstance(op, Pick | Routed)
    made = np.zeros((*devices.shape, *devices.local_shape(step.output)))
    far = step.output if op.reverse else step.inputs[1]
    for device in devices:
        ids, rows = operands[0][device].astype(int), operands[1][device]
        block = devices.block(device, far)
        if isinstance(op, Dispatch):
            here, index = np.full(ids.shape, True), (ids - block[0].start,)
            assert _inside(index[0], block[0]).all(), f"{op.name}: a token of another device"
        elif isinstance(op, Combine):
            expert, slot = np.divmod(ids, devices.shape_of(far)[1])
            index = expert - block[0].start, slot - block[1].start
            here = _inside(index[0], block[0])
            assert _inside(index[1], block[1]).all(), f"{op.name}: a slot of another device"
        else:
            line = np.broadcast_to(np.arange(ids.shape[0])[:, None], ids.shape)
            index = line, ids - block[1].start
            here = _inside(index[1], block[1])
        chosen = tuple(part[here] for part in index)
        if op.reverse:
            np.add.at(made[device], chosen, rows[here])
        else:
            made[device][here] = rows[chosen]
    return made


def _inside(places: np.ndarray, block: slice) -> np.ndarray:
    return (places >= 0) & (places < block.stop - block.start)


def random_ids(
    sharded: ShardedProgram, devices: Devices, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Ids of all ops on the way to experts: slots of a block hold tokens of that block.

    There are as many blocks as devices, so that it holds however tokens are cut.
    """
    out, homes = {}, _homes(sharded, devices)
    for op in sharded.program.ops:
        if isinstance(op, Pick):
            shape = devices.shape_of(op.inputs[0])
            out[op.inputs[0].name] = rng.integers(devices.shape_of(op.inputs[1])[1], size=shape)
        elif isinstance(op, Routed):
            same = np.arange(devices.count)
            ids = _blockwise(op, devices, rng, homes.get(op.slots, same))
            out[op.inputs[0].name] = ids
    return {name: ids.astype(float) for name, ids in out.items()}


def _homes(sharded: ShardedProgram, devices: Devices) -> dict[str, np.ndarray]:
    """For each block of tokens the block of slots that lies with it, where ids state an order."""
    out: dict[str, np.ndarray] = {}
    for op in sharded.program.ops:
        names = [array.name for array in op.inputs]
        if not (isinstance(op, Dispatch) and set(names) <= set(sharded.shardings)):
            continue
        slots = sharded.shardings[names[0]].dim(op.slots).axes
        tokens = sharded.shardings[names[1]].dim(op.tokens).axes
        if set(slots) == set(tokens) and op.slots not in out:
            finer = devices.count // devices.ways(tokens)
            made = np.zeros((devices.ways(tokens), finer), dtype=int)
            for device in devices:
                start = devices.rank(device, slots) * finer
                made[devices.rank(device, tokens)] = np.arange(start, start + finer)
            out[op.slots] = made.reshape(-1)
    return out


def _blockwise(
    op: Routed, devices: Devices, rng: np.random.Generator, homes: np.ndarray
) -> np.ndarray:
    sizes = _sizes(op, devices)
    blocks = devices.count
    tokens, slots = sizes[op.tokens], sizes[op.slots]
    assert tokens % blocks == slots % blocks == 0, "blocks of tokens and slots are whole"
    shape = devices.shape_of(op.inputs[0])
    if isinstance(op, Dispatch):
        block = np.argsort(homes)[np.arange(slots) // (slots // blocks)] * (tokens // blocks)
        return rng.integers(tokens // blocks, size=shape) + block[None, :]
    block = homes[np.arange(tokens) // (tokens // blocks)] * (slots // blocks)
    slot = rng.integers(slots // blocks, size=shape) + block[:, None]
    return rng.integers(sizes[op.experts], size=shape) * slots + slot


def _sizes(op: Op, devices: Devices) -> dict[str, int]:
    out: dict[str, int] = {}
    for array in (*op.inputs, op.output):
        out.update(zip(array.labels, devices.shape_of(array), strict=True))
    return out
