"""When each piece of work runs, for numbers: an order of work played out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from symscale.algebra.errors import StrategyError
from symscale.parallel.schedules.work import Kind, Order, Slot, Work, needs

_Key = tuple[Kind, int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of work on the chart: device, start, end, kind, microbatch.

    ``overlapped`` marks the two of a pair, which fill the same time.
    """

    stage: int
    start: Fraction
    end: Fraction
    kind: Kind
    microbatch: int
    chunk: int = 0
    overlapped: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The block with plain numbers, for JSON."""
        return {
            "stage": self.stage,
            "start": float(self.start),
            "end": float(self.end),
            "kind": self.kind,
            "microbatch": self.microbatch,
            "chunk": self.chunk,
            "overlapped": self.overlapped,
        }


@dataclass(frozen=True)
class Durations:
    """How long a chunk's work takes, by kind; ``scale`` multiplies it stage by stage."""

    times: Mapping[str, Fraction]
    latency: Fraction = Fraction(0)
    scale: Sequence[Fraction] = ()

    def of(self, slot: Slot) -> Fraction:
        """The time of a slot: a pair has its own; the slower stage of the two sets its pace."""
        name = "FB" if len(slot) > 1 else slot[0].kind
        slowest = max((self.scale[work.stage] for work in slot), default=Fraction(1)) \
            if self.scale else Fraction(1)  # fmt: skip
        return self.times[name] * slowest


def play(order: Order, stages: int, durations: Durations) -> tuple[Block, ...]:
    """Every device takes its slots in order, each as soon as what it needs is there.

    Raises:
        StrategyError: when devices wait for one another for ever.
    """
    return tuple(_Player(order, stages, durations).run())


class _Player:
    def __init__(self, order: Order, stages: int, durations: Durations) -> None:
        self._order, self._stages, self._durations = order, stages, durations
        self._done: dict[_Key, tuple[Fraction, int]] = {}
        self._known = {_key(work) for slots in order for slot in slots for work in slot}
        self._next = [0] * len(order)
        self._free = [Fraction(0)] * len(order)

    def run(self) -> Iterator[Block]:
        left = sum(map(len, self._order))
        while left:
            before = left
            for device, slots in enumerate(self._order):
                while self._next[device] < len(slots):
                    start = self._ready(slots[self._next[device]], device)
                    if start is None:
                        break
                    yield from self._take(slots[self._next[device]], device, start)
                    left -= 1
            if left == before:
                raise StrategyError("the order of work cannot be run: devices wait in a circle")

    def _ready(self, slot: Slot, device: int) -> Fraction | None:
        """When a slot may start, or None while something it needs has no end yet."""
        start, own = self._free[device], {_key(work) for work in slot}
        for needed in (_key(item) for work in slot for item in needs(work, self._stages)):
            if needed in own or needed not in self._known:
                continue
            if needed not in self._done:
                return None
            end, where = self._done[needed]
            start = max(start, end + (self._durations.latency if where != device else 0))
        return start

    def _take(self, slot: Slot, device: int, start: Fraction) -> Iterator[Block]:
        end = start + self._durations.of(slot)
        self._free[device] = end
        self._next[device] += 1
        for work in slot:
            self._done[_key(work)] = (end, device)
            yield Block(device, start, end, work.kind, work.microbatch, work.chunk, len(slot) > 1)


def _key(work: Work) -> _Key:
    return work.kind, work.microbatch, work.stage
