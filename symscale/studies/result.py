"""A training step with its numbers in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sympy import Expr, Symbol

from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, axis
from symscale.algebra.table import Table
from symscale.algebra.time import Overlap, Time
from symscale.hardware.chip import Chip
from symscale.hardware.placement import Placement
from symscale.studies.notes import notes
from symscale.studies.stage import Held

if TYPE_CHECKING:
    from symscale.parallel.strategy import Strategy
    from symscale.studies.remedy import Remedy
    from symscale.studies.training import TrainingStep


@dataclass(frozen=True)
class StepResult:
    """Seconds, bytes and the bottleneck of one training step.

    ``time`` is in seconds under ``overlap``; ``bottleneck`` the resource that sets the pace
    (``math``, ``hbm``, or the mesh axis of a communication); ``memory`` bytes on a device by kind.
    """

    step: TrainingStep
    chip: Chip
    values: Mapping[Symbol, Expr]
    overlap: Overlap = "full"
    placement: Placement | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)

    def again(self, strategy: Strategy | None = None, **changes: Any) -> StepResult:
        """The same step on the same chip, asked for as it was but for these changes.

        Raises:
            SymscaleError: as :meth:`TrainingStep.at`.
        """
        step = self.step.changed(strategy or self.step.strategy)
        return step.at(self.chip, **{**self.asked, **changes})

    def seconds(self, expr: Expr) -> float:
        """An expression of the step in numbers."""
        return float(evaluate(expr, self.values))

    @property
    def chips(self) -> int:
        """The number of chips: the product of the mesh axes."""
        count = 1
        for name in self.step.strategy.mesh_axes:
            count *= int(self.values[axis(name)])
        return count

    @property
    def mesh(self) -> dict[str, int]:
        """The mesh axes' sizes."""
        return {name: int(self.values[axis(name)]) for name in self.step.strategy.mesh_axes}

    @cached_property
    def time(self) -> float:
        """Seconds a step."""
        return self.seconds(self.step.seconds(self.overlap))

    @property
    def math(self) -> float:
        """Seconds of matrix arithmetic, what devices repeat for one another included."""
        return self.seconds(self.step.time.math)

    @cached_property
    def useful_math(self) -> float:
        """Seconds of matrix arithmetic if no device repeated another's work."""
        return self.seconds(self.step.whole_math) / self.chips

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Seconds that each resource is busy."""
        return MappingProxyType(busy_seconds(self.step.time, self.values))

    @cached_property
    def binding(self) -> Mapping[str, float]:
        """Seconds of the passes that each resource is the busiest in."""
        out: dict[str, float] = {}
        for stage in self.step.time.stages:
            busy = busy_seconds(Time((stage,)), self.values)
            name = max(busy, key=lambda key: busy[key])
            out[name] = out.get(name, 0.0) + busy[name]
        return MappingProxyType(out)

    @property
    def bottleneck(self) -> str:
        """The resource that sets the pace for the longest part of the step."""
        return max(self.binding, key=lambda name: self.binding[name])

    @property
    def compute_fraction(self) -> float:
        """Seconds of useful matrix arithmetic over seconds of the step."""
        return self.useful_math / self.time

    @cached_property
    def held(self) -> Held:
        """Bytes on the device that holds most, and which one it is."""
        return self.step.stage_memory.peak(self.values)

    @property
    def memory(self) -> Mapping[str, int]:
        """Bytes on one device, by kind: in a pipeline, on the stage that holds most."""
        return self.held.by_kind

    @property
    def memory_bytes(self) -> int:
        """Bytes on one device, all kinds together."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether it fits the chip's HBM."""
        return self.memory_bytes <= int(self.chip.hbm_bytes)

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second over all chips."""
        return float(self.values[B]) / self.time

    @property
    def times(self) -> Mapping[str, float]:
        """Seconds a step under each assumption on overlap, from the least to the most."""
        words: tuple[Overlap, ...] = ("full", "critical", "none")
        return MappingProxyType({word: self.seconds(self.step.seconds(word)) for word in words})

    @cached_property
    def bubble(self) -> float:
        """The share of the step (of the total, that is) in which a device waits for its pipeline.

        What unequal stages cost is in it. Zero without a pipeline.
        """
        if self.step.strategy.pipeline is None:
            return 0.0
        return 1 - self.seconds(self.step.time.total(self.overlap)) / self.time

    @property
    def missing_bytes(self) -> int:
        """By how many bytes it does not fit; zero where it does."""
        return max(0, self.memory_bytes - int(self.chip.hbm_bytes))

    @cached_property
    def remedy(self) -> Remedy | None:
        """The least change that makes it fit; None where it fits, or where nothing was found."""
        from symscale.studies.remedy import remedy

        return None if self.fits else remedy(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers take in or leave out here."""
        return tuple(notes(self))

    def table(self) -> Table:
        """The headline numbers."""
        rows: list[tuple[str, str | float | int]] = [
            ("chips", self.chips),
            ("seconds a step", self.time),
            ("compute fraction", self.compute_fraction),
            *((("bubble, of the step", self.bubble),) if self.bubble else ()),
            ("bottleneck", self.bottleneck),
            *((f"busy: {name}, s", value) for name, value in self.busy.items()),
            *((f"{kind}, bytes", value) for kind, value in self.memory.items()),
            ("fits", "yes" if self.fits else f"no: {self.missing_bytes:,} bytes too many"),
        ]
        return Table(("", "value"), tuple(rows))

    def __repr__(self) -> str:
        mesh = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        head = f"{self.step.model.name}, {self.step.strategy.name}, {self.chip.name}, {mesh}"
        return "\n".join([head, str(self.table()), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "model": self.step.model.name,
            "strategy": self.step.strategy.name,
            "chip": self.chip.name,
            "mesh": self.mesh,
            "chips": self.chips,
            "placement": self.placement.to_dict() if self.placement else None,
            "overlap": self.overlap,
            "step_time_s": self.time,
            "compute_fraction": self.compute_fraction,
            "bottleneck": self.bottleneck,
            "bubble": self.bubble,
            "step_times_s": dict(self.times),
            "busy_s": dict(self.busy),
            "tokens_per_s": self.tokens_per_second,
            "memory_bytes": self.memory_bytes,
            "memory": dict(self.memory),
            "fits": self.fits,
            "missing_bytes": self.missing_bytes,
            "techniques": self.step.strategy.techniques.to_dict(),
            "notes": list(self.notes),
        }


def busy_seconds(time: Time, values: Mapping[Symbol, Expr]) -> dict[str, float]:
    """Seconds that each resource is busy over all stages."""
    out: dict[str, float] = {}
    for term in time.merged().terms:
        out[term.resource] = out.get(term.resource, 0.0) + float(evaluate(term.value, values))
    return out
