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
PIPELINE = ("schedule", "chunks")


@dataclass(frozen=True)
class Pipeline:
    """The mesh axis of the stages, and the schedule that runs over it.

    The schedule's devices are the size of the axis, its durations are left as symbols.
    """

    axis: str
    schedule: Schedule

    @property
    def devices(self) -> Expr:
        """The size of the axis."""
        return axis(self.axis)

    def durations(self, values: Mapping[str, Any], layers: Any, last: Any) -> Schedule:
        """The schedule with durations of a microbatch on a device's even share of the layers.

        ``layers`` are those of the model, ``last`` what the head adds to the last stage, in layers.
        """
        return self.schedule.at(**values, layers=layers, last=last)

    @property
    def splits_backward(self) -> bool:
        """Whether gradients of inputs and of weights are pieces of work of their own."""
        kinds = {leg.kind for walk in self.schedule.walks for leg in walk.legs}
        return not kinds <= {"F", "BW"}

    def stage_layers(self, layers: int, devices: int) -> tuple[tuple[int, ...], ...]:
        """The layers on each device, counted from 0, dealt out as evenly as they go.

        The first stages take one more where they do not divide. A device may hold several stages.

        Raises:
            StrategyError: for more stages than layers.

        >>> pipeline("P", {}).stage_layers(5, 2)
        ((0, 1, 2), (3, 4))
        >>> pipeline("P", {"schedule": "interleaved", "chunks": 2}).stage_layers(4, 2)
        ((0, 2), (1, 3))
        """
        pieces = int(self.schedule.pieces)
        stages = devices * pieces
        if layers < stages:
            raise StrategyError(
                f"{layers} layers leave {stages - layers} of {stages} stages without a layer; "
                f"at most {layers} stages are possible"
            )
        held = [_dealt(layers, stages, number) for number in range(stages)]
        return tuple(
            tuple(layer for number in self._stages_of(device, devices) for layer in held[number])
            for device in range(devices)
        )

    def _stages_of(self, device: int, devices: int) -> tuple[int, ...]:
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
    start = number * share + min(number, more)
    return range(start, start + share + (number < more))


def pipeline(name: str, options: Mapping[str, Any], microbatches: Any = m) -> Pipeline:
    """A pipeline along a mesh axis, by the name of its schedule (1f1b unless said).

    Raises:
        StrategyError: for an unknown schedule, or sizes that it cannot have.
    """
    given = MappingProxyType({k: v for k, v in options.items() if v is not None})
    made = schedule(
        given.get("schedule", "1f1b"), p=axis(name), m=microbatches, v=given.get("chunks")
    )
    return Pipeline(name, made)
