"""What a device of a pipeline does: forward, backward and weight-gradient work, in an order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

#: Forward; gradient of the inputs; gradient of the weights; both gradients in one go.
Kind = Literal["F", "B", "W", "BW"]


@dataclass(frozen=True, slots=True)
class Work:
    """One microbatch's work of one kind on one stage.

    ``stage`` counts in the direction in which the microbatch travels, over all model chunks;
    ``chunk`` is the device's own number of the chunk it works on.

    >>> Work("F", 3, 1)
    F3 on stage 1
    """

    kind: Kind
    microbatch: int
    stage: int
    chunk: int = 0

    def __repr__(self) -> str:
        return f"{self.kind}{self.microbatch} on stage {self.stage}"


#: One item, or a forward and a backward whose communication hides under each other's arithmetic.
Slot: TypeAlias = tuple[Work, ...]
#: Each device's slots, in the order in which it takes them.
Order: TypeAlias = tuple[tuple[Slot, ...], ...]


def needs(work: Work, stages: int) -> Iterator[Work]:
    """What has to be done before a piece of work can start, on whatever device.

    >>> list(needs(Work("BW", 0, 2), stages=4))
    [F0 on stage 2, BW0 on stage 3, B0 on stage 3]
    """
    i, s = work.microbatch, work.stage
    if work.kind == "F":
        if s > 0:
            yield Work("F", i, s - 1)
    elif work.kind == "W":
        yield Work("B", i, s)
    else:
        yield Work("F", i, s)
        if s < stages - 1:
            yield Work("BW", i, s + 1)
            yield Work("B", i, s + 1)


def single(items: Iterable[Work]) -> tuple[Slot, ...]:
    """Slots of one item each."""
    return tuple((item,) for item in items)
