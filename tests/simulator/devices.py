"""A mesh of numbered devices, and arrays laid over it block by block.

Shards are one NumPy array whose leading axes are the mesh and whose other axes are a device's own
local array: ``shards[device]`` is what that device holds.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from sympy import Expr, Integer, Symbol

from symscale.algebra.symbols import axis
from symscale.arrays.array import Array

Device = tuple[int, ...]


@dataclass(frozen=True)
class Devices:
    """A mesh with numbers, and the numbers of all other sizes."""

    axes: Mapping[str, int]
    sizes: Mapping[Symbol, int]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.axes.values())

    @property
    def count(self) -> int:
        return int(np.prod(self.shape, dtype=int))

    def __iter__(self) -> Iterator[Device]:
        return itertools.product(*map(range, self.shape))

    def number(self, expr: Expr) -> int:
        """A size or volume with all numbers in."""
        values = {**self.sizes, **{axis(name): size for name, size in self.axes.items()}}
        made = expr.xreplace({key: Integer(value) for key, value in values.items()})
        assert made.is_Integer, f"{expr} comes to {made}"
        return int(made)

    def coordinate(self, device: Device, name: str) -> int:
        return device[list(self.axes).index(name)]

    def ways(self, axes: tuple[str, ...]) -> int:
        return int(np.prod([self.axes[name] for name in axes], dtype=int))

    def rank(self, device: Device, axes: tuple[str, ...]) -> int:
        """A device's number among those along these axes, the first axis being the major one."""
        out = 0
        for name in axes:
            out = out * self.axes[name] + self.coordinate(device, name)
        return out

    def group(self, device: Device, axes: tuple[str, ...]) -> list[Device]:
        """The devices that differ from this one along these axes only, by rank."""
        order = list(self.axes)
        out = []
        for places in itertools.product(*(range(self.axes[name]) for name in axes)):
            member = list(device)
            for name, place in zip(axes, places, strict=True):
                member[order.index(name)] = place
            out.append(tuple(member))
        return out

    def shape_of(self, array: Array) -> tuple[int, ...]:
        return tuple(self.number(size) for size in array.global_shape)

    def local_shape(self, array: Array) -> tuple[int, ...]:
        out = []
        for size, dim in zip(self.shape_of(array), array.dims, strict=True):
            assert size % self.ways(dim.axes) == 0, f"{array} does not divide"
            out.append(size // self.ways(dim.axes))
        return tuple(out)

    def block(self, device: Device, array: Array) -> tuple[slice, ...]:
        """Which part of the whole array a device holds."""
        local = self.local_shape(array)
        starts = [
            self.rank(device, dim.axes) * size for dim, size in zip(array.dims, local, strict=True)
        ]
        return tuple(slice(at, at + size) for at, size in zip(starts, local, strict=True))


def scatter(
    array: Array, value: np.ndarray, devices: Devices, rng: np.random.Generator
) -> np.ndarray:
    """A whole array laid over the devices; partial sums are split at random."""
    assert value.shape == devices.shape_of(array)
    ways = devices.ways(array.unreduced)
    parts = rng.normal(size=(ways, *value.shape))
    parts[-1] = value - parts[:-1].sum(axis=0)
    shards = np.empty((*devices.shape, *devices.local_shape(array)))
    for device in devices:
        rank = devices.rank(device, array.unreduced)
        shards[device] = parts[(rank, *devices.block(device, array))]
    return shards


def assemble(array: Array, shards: np.ndarray, devices: Devices) -> np.ndarray:
    """The whole array put together again; replicas must agree."""
    assert shards.shape == (*devices.shape, *devices.local_shape(array)), f"{array}: wrong shape"
    whole = np.full(devices.shape_of(array), np.nan)
    for device in devices:
        group = devices.group(device, array.unreduced)
        value = np.sum([shards[member] for member in group], axis=0)
        block = devices.block(device, array)
        held = whole[block]
        fresh = np.isnan(held).all()
        scale = 1 + np.abs(value).max(initial=0)
        agree = fresh or np.allclose(held, value, rtol=1e-9, atol=1e-9 * scale)
        assert agree, f"{array}: replicas differ on {device}"
        whole[block] = value
    assert not np.isnan(whole).any(), f"{array}: some blocks are nowhere"
    return whole


def copies(array: Array, devices: Devices) -> int:
    """How many devices hold each element, counted one by one; it must be the same for all."""
    counts = np.zeros(devices.shape_of(array), dtype=int)
    for device in devices:
        counts[devices.block(device, array)] += 1
    assert counts.min() == counts.max()
    return int(counts.min())
