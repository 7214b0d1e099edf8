"""DualPipe and DualPipeV: two chunks a device, fed from both ends of the pipeline.

The eight steps are those of the published code (deepseek-ai/DualPipe); both schedules are one
order of work, laid out over devices in two ways.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from symscale.parallel.schedules.work import Kind, Order, Slot, Work

Place = Callable[[int, int], tuple[int, int]]


def dualpipe(p: int, m: int, v: int = 2) -> Order:
    """Half of the microbatches from each end; device d holds stage d and stage p - 1 - d."""
    return tuple(_device(p // 2, m // 2, min(d, p - 1 - d), _both_ends(p, m, d)) for d in range(p))


def dualpipe_v(p: int, m: int, v: int = 2) -> Order:
    """All microbatches through device 0 to p - 1 and back: stage d, then stage 2p - 1 - d."""
    return tuple(_device(p, m, d, _there_and_back(p, d)) for d in range(p))


def _both_ends(p: int, m: int, device: int) -> Place:
    def place(chunk: int, index: int) -> tuple[int, int]:
        from_end = (chunk == 1) == (device < p // 2)
        return index + from_end * (m // 2), (p - 1 - device) if from_end else device

    return place


def _there_and_back(p: int, device: int) -> Place:
    def place(chunk: int, index: int) -> tuple[int, int]:
        return index, 2 * p - 1 - device if chunk else device

    return place


class _Device:
    """Writes one device's slots, numbering the microbatches of each chunk as they come."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._next: dict[tuple[Kind, int], int] = {}
        self._waiting: deque[Work] = deque()
        self.slots: list[Slot] = []

    def _work(self, kind: Kind, chunk: int) -> Work:
        direction: Kind = "F" if kind == "F" else "B"
        index = self._next.get((direction, chunk), 0)
        self._next[direction, chunk] = index + 1
        return Work(kind, *self._place(chunk, index), chunk)

    def forward(self, chunk: int) -> None:
        self.slots.append((self._work("F", chunk),))

    def backward(self, chunk: int, split: bool = False) -> None:
        done = self._work("B" if split else "BW", chunk)
        self.slots.append((done,))
        if split:
            self._waiting.append(Work("W", done.microbatch, done.stage, done.chunk))

    def weights(self) -> None:
        self.slots.append((self._waiting.popleft(),))

    def pair(self, forward: int, backward: int) -> None:
        self.slots.append((self._work("F", forward), self._work("BW", backward)))


def _device(half: int, m: int, rank: int, place: Place) -> tuple[Slot, ...]:
    """The slots of the ``rank``-th device from an end, of ``half`` to the turn."""
    device, inner = _Device(place), half - rank - 1
    _fill(device, inner, rank)
    for turn in range(m - 2 * half + rank + 1):
        if turn or inner:
            device.pair(0, 1)
        else:
            device.forward(0)
            device.backward(1)
        device.pair(1, 0)
    _drain(device, inner, rank)
    return tuple(device.slots)


def _fill(device: _Device, inner: int, rank: int) -> None:
    for _ in range(2 * inner):
        device.forward(0)
    for _ in range(rank + 1):
        device.forward(0)
        device.forward(1)
    for _ in range(inner):
        device.backward(1, split=True)
        device.weights()
        device.forward(1)


def _drain(device: _Device, inner: int, rank: int) -> None:
    for _ in range(inner):
        device.backward(1)
        device.pair(1, 0)
    for turn, split in enumerate(_halves(rank + 1)):
        device.backward(turn % 2 == 0, split)
    for _ in range(inner):
        device.weights()
        device.backward(0, split=True)
    for _ in range(rank + 1):
        device.weights()


def _halves(turns: int) -> Iterator[bool]:
    """Of 2 x ``turns`` backwards, the second half with the weights split off."""
    yield from (index >= turns for index in range(2 * turns))
