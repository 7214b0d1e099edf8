"""A pipeline, event by event: devices that work through their lists, messages that travel.

The referee of the closed forms. It knows nothing of them, and nothing of the package's own way to
play an order out: a device takes its next slot when all that it waits for has arrived.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import Any

Token = tuple[str, int, int]


@dataclass
class Outcome:
    """What was seen."""

    starts: list[Fraction]
    ends: list[Fraction]
    busy: list[Fraction]
    peaks: list[int]
    sent: list[int]
    makespan: Fraction = Fraction(0)
    times: dict[tuple[int, str, int, int], tuple[Fraction, Fraction]] = field(default_factory=dict)

    @property
    def span(self) -> Fraction:
        return max(e - s for s, e in zip(self.starts, self.ends, strict=True))


class Machine:
    """``places`` tells, of each microbatch and stage, the device; found from the order itself."""

    def __init__(
        self,
        order: Sequence[Sequence[Sequence[Any]]],
        duration: Callable[[Sequence[Any]], Fraction],
        latency: Fraction = Fraction(0),
    ) -> None:
        self.order, self.duration, self.latency = order, duration, latency
        self.places: dict[tuple[int, int], int] = {}
        for device, slots in enumerate(order):
            for work in (w for slot in slots for w in slot):
                assert self.places.setdefault((work.microbatch, work.stage), device) == device
        self.stages = 1 + max(stage for _, stage in self.places)
        n = len(order)
        self.here: list[set[Token]] = [set() for _ in range(n)]
        self.at = [0] * n
        self.working = [False] * n
        self.held = [0] * n
        zero = [Fraction(0)] * n
        self.seen = Outcome([Fraction(-1)] * n, zero[:], zero[:], [0] * n, [0] * n)
        self.events: list[tuple[Fraction, int, Callable[[Fraction], None]]] = []
        self.tick = count()

    def run(self) -> Outcome:
        for device in range(len(self.order)):
            self._try(device, Fraction(0))
        while self.events:
            now, _, event = heapq.heappop(self.events)
            event(now)
        left = [d for d, slots in enumerate(self.order) if self.at[d] < len(slots)]
        assert not left, f"devices {left} wait for ever"
        assert not any(self.held), "activations never given back"
        self.seen.makespan = max(self.seen.ends)
        return self.seen

    def _later(self, when: Fraction, event: Callable[[Fraction], None]) -> None:
        heapq.heappush(self.events, (when, next(self.tick), event))

    def _wants(self, slot: Sequence[Any]) -> set[Token]:
        tokens: set[Token] = set()
        for work in slot:
            i, s = work.microbatch, work.stage
            if work.kind == "F" and s:
                tokens.add(("activation", i, s))
            if work.kind in ("B", "BW"):
                tokens.add(("saved", i, s))
                if s < self.stages - 1:
                    tokens.add(("gradient", i, s))
            if work.kind == "W":
                tokens.add(("to add", i, s))
        return tokens

    def _try(self, device: int, now: Fraction) -> None:
        slots = self.order[device]
        if self.working[device] or self.at[device] == len(slots):
            return
        slot = slots[self.at[device]]
        if not self._wants(slot) <= self.here[device]:
            return
        self.working[device] = True
        if self.seen.starts[device] < 0:
            self.seen.starts[device] = now
        self.held[device] += sum(work.kind == "F" for work in slot)
        self.seen.peaks[device] = max(self.seen.peaks[device], self.held[device])
        length = self.duration(slot)
        self.seen.busy[device] += length
        for work in slot:
            key = (device, work.kind, work.microbatch, work.stage)
            self.seen.times[key] = (now, now + length)
        self._later(now + length, lambda then: self._finish(device, slot, then))

    def _finish(self, device: int, slot: Sequence[Any], now: Fraction) -> None:
        self.working[device] = False
        self.at[device] += 1
        self.seen.ends[device] = now
        for work in slot:
            i, s = work.microbatch, work.stage
            if work.kind == "F":
                self.here[device].add(("saved", i, s))
                if s < self.stages - 1:
                    self._send(device, ("activation", i, s + 1), now)
            elif work.kind != "W":
                if work.kind == "B":
                    self.here[device].add(("to add", i, s))
                if s:
                    self._send(device, ("gradient", i, s - 1), now)
            self.held[device] -= work.kind in ("W", "BW")
        self._try(device, now)

    def _send(self, device: int, token: Token, now: Fraction) -> None:
        target = self.places[token[1], token[2]]
        if target == device:
            self.here[device].add(token)
            return
        self.seen.sent[device] += 1

        def arrive(then: Fraction) -> None:
            self.here[target].add(token)
            self._try(target, then)

        self._later(now + self.latency, arrive)


def by_kind(
    times: Mapping[str, Fraction], scale: Sequence[Fraction] = ()
) -> Callable[[Sequence[Any]], Fraction]:
    """Durations from F, B, W and (for a pair) FB, multiplied stage by stage."""

    def duration(slot: Sequence[Any]) -> Fraction:
        most = max(scale[work.stage] for work in slot) if scale else Fraction(1)
        if len(slot) == 2:
            return times["FB"] * most
        kind = slot[0].kind
        return most * (times["B"] + times["W"] if kind == "BW" else times[kind])

    return duration


def complete(order: Sequence[Sequence[Sequence[Any]]], stages: int, microbatches: int) -> None:
    """Each microbatch once forward and once backward (in one or two parts) on each stage."""
    done = Counter(
        (part, work.microbatch, work.stage)
        for slots in order
        for slot in slots
        for work in slot
        for part in work.kind
    )
    wanted = {(k, i, s) for k in "FBW" for i in range(microbatches) for s in range(stages)}
    assert set(done) == wanted
    assert set(done.values()) == {1}
