"""Pipeline parallelism as part of a strategy: a mesh axis whose devices hold successive layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr

from symscale.algebra.errors import StrategyError
from symscale.algebra.symbols import axis, m
from symscale.parallel.schedules.lookup import schedule
from symscale.parallel.schedules.schedule import Schedule

#: What :func:`pipeline` takes besides microbatches, which a strategy without stages has too.
PIPELINE = ("schedule", "chunks", "ends")


@dataclass(frozen=True)
class Pipeline:
    """The mesh axis of the stages, and the schedule that runs over it.

    The schedule's devices are the size of the axis, its durations are left as symbols. ``ends``:
    as how many layers embedding and head count when layers are dealt out; None: the embedding,
    which has no products, as none, and the head by its FLOPs.
    """

    axis: str
    schedule: Schedule
    ends: tuple[int, int] | None = None

    @property
    def devices(self) -> Expr:
        """The size of the axis."""
        return axis(self.axis)

    @property
    def splits_backward(self) -> bool:
        """Whether gradients of inputs and of weights are pieces of work of their own."""
        kinds = {leg.kind for walk in self.schedule.walks for leg in walk.legs}
        return not kinds <= {"F", "BW"}

    def slots(self, head: Any) -> tuple[Any, Any]:
        """As how many layers embedding and head count, the head's FLOPs coming to ``head``."""
        return (0, head) if self.ends is None else self.ends

    def stage_layers(self, layers: int, devices: int, head: int = 0) -> tuple[tuple[int, ...], ...]:
        """The layers on each device, counted from 0, dealt out as evenly as they go.

        Embedding and head take the places of so many layers at either end. The last stages take
        one more where they do not divide: they have the fewest microbatches in flight, and behind
        them nobody waits. A device may hold several stages.

        Raises:
            StrategyError: for more stages than there is something to deal out.

        >>> pipeline("P", {}).stage_layers(5, 2)
        ((0, 1), (2, 3, 4))
        >>> pipeline("P", {"schedule": "interleaved", "chunks": 2}).stage_layers(4, 2)
        ((0, 2), (1, 3))
        >>> pipeline("P", {}).stage_layers(7, 2, head=1)
        ((0, 1, 2, 3), (4, 5, 6))
        >>> pipeline("P", {"ends": (1, 1)}).stage_layers(4, 2)
        ((0, 1), (2, 3))
        """
        first, last = self.slots(head)
        pieces = int(self.schedule.pieces)
        stages = devices * pieces
        if first + layers + last < stages:
            most = first + layers + last
            raise StrategyError(
                f"{layers} layers leave {stages - most} of {stages} stages without a layer; "
                f"at most {most} stages are possible"
            )
        held = [_dealt(first + layers + last, stages, number) for number in range(stages)]
        return tuple(
            tuple(
                slot - first
                for number in self.stages_of(device, devices)
                for slot in held[number]
                if first <= slot < first + layers
            )
            for device in range(devices)
        )

    def stages_of(self, device: int, devices: int) -> tuple[int, ...]:
        """The stages that a device holds, both copies of a pair that runs in two directions."""
        if self.schedule.recipe.weights > 1:
            return tuple(sorted({device, devices - 1 - device}))
        if self.schedule.recipe.turns:
            return device, 2 * devices - 1 - device
        return tuple(range(device, devices * int(self.schedule.pieces), devices))

    def __repr__(self) -> str:
        return f"stages along {self.axis}, {self.schedule.name}"

    def to_dict(self) -> dict[str, Any]:
        """Axis and schedule."""
        return {"axis": self.axis, "schedule": self.schedule.name}


def _dealt(layers: int, stages: int, number: int) -> range:
    share, more = divmod(layers, stages)
    before = max(0, number - (stages - more))
    start = number * share + before
    return range(start, start + share + (number >= stages - more))


def pipeline(name: str, options: Mapping[str, Any], microbatches: Any = m) -> Pipeline:
    """A pipeline along a mesh axis, by the name of its schedule (1f1b unless said).

    Raises:
        StrategyError: for an unknown schedule, or sizes that it cannot have.
    """
    given = MappingProxyType({k: v for k, v in options.items() if v is not None})
    if not isinstance(given.get("schedule", ""), str):
        raise StrategyError(f"schedule {given['schedule']!r}: the name of a schedule is wanted")
    made = schedule(
        given.get("schedule", "1f1b"), p=axis(name), m=microbatches, v=given.get("chunks")
    )
    return Pipeline(name, made, _ends(given.get("ends")))


def _ends(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2 or not all(type(one) is int and one >= 0 for one in pair):
        raise StrategyError(
            f"ends = {value!r}: two whole numbers, of the embedding and the head, in layers"
        )
    return pair[0], pair[1]
