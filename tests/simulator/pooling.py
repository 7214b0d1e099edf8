"""Pools of tokens: on whole arrays, and what a device makes of its part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from symscale.programs.phase import Compute
from symscale.programs.pool import Pool
from tests.simulator.devices import Devices


def whole(op: Pool, value: np.ndarray, devices: Devices) -> np.ndarray:
    """Block after block of sequences and positions, or back."""
    ways = devices.ways(op.major), devices.ways(op.minor)
    split = devices.shape_of(op.inputs[0] if op.merges else op.output)[:2]
    return _merged(value, ways, 0) if op.merges else _split(value, ways, split, 0)


def whole_reverse(op: Pool, grad: np.ndarray, devices: Devices) -> np.ndarray:
    """The same the other way."""
    return whole(replace(op, inputs=(op.output,), output=op.inputs[0]), grad, devices)


def local(step: Compute, shards: np.ndarray, devices: Devices) -> np.ndarray:
    """A device's rows in order: of the blocks of sequences and positions, those that it holds."""
    op = step.op
    assert isinstance(op, Pool)
    array = step.inputs[0] if op.merges else step.output
    first, second = (array.dim(label).axes for label in op.split)
    assert not second or first == op.major, f"{op}: positions cut before sequences are"
    ways = (
        devices.ways(op.major) // devices.ways(first),
        devices.ways(op.minor) // devices.ways(second),
    )
    split = devices.local_shape(array)[:2]
    lead = len(devices.shape)
    return _merged(shards, ways, lead) if op.merges else _split(shards, ways, split, lead)


def _merged(value: np.ndarray, ways: tuple[int, int], lead: int) -> np.ndarray:
    before, (rows, columns), after = (
        value.shape[:lead], value.shape[lead : lead + 2], value.shape[lead + 2 :],
    )  # fmt: skip
    parts = (ways[0], rows // ways[0], ways[1], columns // ways[1])
    blocks = value.reshape((*before, *parts, *after)).swapaxes(lead + 1, lead + 2)
    return blocks.reshape((*before, rows * columns, *after))


def _split(
    value: np.ndarray, ways: tuple[int, int], split: tuple[int, ...], lead: int
) -> np.ndarray:
    before, after = value.shape[:lead], value.shape[lead + 1 :]
    rows, columns = split
    parts = (ways[0], ways[1], rows // ways[0], columns // ways[1])
    blocks = value.reshape((*before, *parts, *after)).swapaxes(lead + 1, lead + 2)
    return blocks.reshape((*before, rows, columns, *after))
