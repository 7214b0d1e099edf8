"""Which mesh axis belongs on the fast inner links: its traffic counted, both layouts timed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from os import PathLike
from typing import Any

from sympy import Add, Expr, S

from symscale.algebra.errors import StrategyError
from symscale.algebra.substitution import evaluate
from symscale.algebra.table import Table
from symscale.hardware.chip import Chip
from symscale.hardware.rates import rate_text
from symscale.studies.result import StepResult
from symscale.studies.training import TrainingStep

#: Times that differ by less are the same in words.
_SAME = 1.005


@dataclass(frozen=True)
class Traffic:
    """What one device sends along a mesh axis in a step.

    ``collectives`` of them in a step, of which the next op waits for ``waiting``; ``bytes`` enter
    them (a collective over several axes counts for each).
    """

    axis: str
    bytes: float
    collectives: float
    waiting: float

    def __str__(self) -> str:
        return (
            f"axis {self.axis} has {self.collectives:,.0f} collectives a step, {self.waiting:,.0f} "
            f"of which the next op waits for, and {self.bytes / 1e9:,.3g} GB a chip"
        )


def traffic(result: StepResult) -> tuple[Traffic, ...]:
    """Collectives and bytes along each mesh axis that has more than one device.

    >>> from symscale.studies.training import training
    >>> step = training("llama-3-8b", "fsdp+tp").at("h100", B=2**20, X=16, Y=8)
    >>> [(one.axis, one.waiting > 0) for one in traffic(result=step)]
    [('X', False), ('Y', True)]
    """
    step = result.step
    wide = [name for name, size in result.mesh.items() if size > 1]
    moved = step.cost.filter_by(kind="comm bytes")

    def number(expr: Expr) -> float:
        return float(evaluate(expr, result.values))

    found = []
    for name in wide:
        volume = Add(*(value for key, value in moved.items() if name in key.axes))
        counts = _collectives(step, name)
        found.append(Traffic(name, number(volume), *map(number, counts)))
    return tuple(found)


def _collectives(step: TrainingStep, name: str) -> tuple[Expr, Expr]:
    """How many there are in a step, and how many of them are waited for."""
    every, waiting = S.Zero, S.Zero
    for number in range(3):
        times = step.pace.microbatches if number < 2 else S.One
        groups = [(s.kind.count / step.pace.devices, s.passes[number]) for s in step.shares]
        groups.append((1 / step.pace.devices, (step.ends.phases[number],)))
        for count, phases in groups:
            moves = [
                move
                for phase in phases
                for move in phase.collectives
                if name in move.axes and not move.statistic
            ]
            every += times * count * len(moves)
            waiting += times * count * sum(move.critical for move in moves)
    pipeline = step.strategy.pipeline
    if pipeline is not None and name == pipeline.axis:
        # A message on and one back for each microbatch and visit.
        visits = pipeline.schedule.recipe.visits(pipeline.schedule.v)
        every += 2 * visits * step.pace.microbatches
    return every, waiting


@dataclass(frozen=True)
class Innermost:
    """A step under every order of its mesh axes, the fastest first."""

    orders: tuple[tuple[tuple[str, ...], StepResult], ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The fastest order, outermost axis first."""
        return self.orders[0][0]

    @property
    def gain(self) -> float:
        """Seconds of the slowest order over those of the fastest."""
        return self.orders[-1][1].time / self.orders[0][1].time

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """What moves along each axis."""
        return traffic(self.orders[0][1])

    @property
    def words(self) -> str:
        """Why the innermost axis is where it is, from the numbers."""
        counted = f"Per step, {'; '.join(map(str, self.traffic))}."
        (order, fast), (other, slow) = self.orders[0], self.orders[-1]
        inner = order[-1]
        first, last = _rate(fast, inner), _rate(slow, inner)
        if self.gain < _SAME and first == last:
            return f"{counted} Their order changes nothing: axis {inner} gets {first} in each."
        return (
            f"{counted} With {inner} innermost its links give {first} and a step takes "
            f"{fast.time:.3g} s; with {other[-1]} innermost they give {last} and it takes "
            f"{slow.time:.3g} s, {self.gain:.3g} times as long."
        )

    def table(self) -> Table:
        """Order, seconds, and what the step waits for."""
        rows = tuple(
            (",".join(order), result.time, result.bottleneck) for order, result in self.orders
        )
        return Table(("outer to inner", "seconds a step", "waits for"), rows)

    def __repr__(self) -> str:
        return f"{self.table()}\n{self.words}"

    def to_dict(self) -> dict[str, Any]:
        """Orders with their times, traffic, and the words."""
        return {
            "orders": [
                {"order": list(order), "step_time_s": result.time, "bottleneck": result.bottleneck}
                for order, result in self.orders
            ],
            "traffic": [vars(one) for one in self.traffic],
            "gain": self.gain,
            "words": self.words,
        }


def _rate(result: StepResult, name: str) -> str:
    assert result.placement is not None
    place = next(one for one in result.placement.axes if one.name == name)
    return f"{rate_text(place.rate)} ({place.binding})"


def innermost(step: TrainingStep, chip: str | PathLike[str] | Chip, **numbers: Any) -> Innermost:
    """The step under every order of its mesh axes on a chip's network.

    Args:
        step: the step, in symbols.
        chip: what it runs on.
        numbers: what :meth:`TrainingStep.at` takes, the layout left out.

    Raises:
        StrategyError: for a layout among the numbers, or fewer than two axes with several devices.

    >>> from symscale.studies.training import training
    >>> step = training("llama-3-70b", "fsdp+tp")
    >>> innermost(step, "h100", B=2**20, X=32, Y=8).best
    ('X', 'Y')
    """
    if "layout" in numbers:
        raise StrategyError("layout: every order of the mesh axes is tried; leave it out")
    first = step.at(chip, **numbers)
    wide = [name for name, size in first.mesh.items() if size > 1]
    if len(wide) < 2:
        raise StrategyError(
            f"{step.strategy.name} on {first.chips} chips has no two mesh axes of several devices "
            "to order"
        )
    tried = {
        order: step.at(chip, layout=",".join(order), **numbers) for order in permutations(wide)
    }
    return Innermost(tuple(sorted(tried.items(), key=lambda pair: pair[1].time)))


def innermost_of(result: StepResult) -> Innermost | None:
    """The orders of a step's mesh axes; None where one network joins all chips, or on one axis.

    >>> from symscale.studies.training import training
    >>> step = training("llama-3-8b", "fsdp+tp")
    >>> innermost_of(step.at("h100", B=2**20, T=8192, X=4, Y=8)).best
    ('X', 'Y')
    >>> innermost_of(step.at("tpu-v5p", B=2**20, T=8192, X=4, Y=8)) is None
    True
    """
    levels = result.placement is not None and result.placement.levels
    wide = [name for name, size in result.mesh.items() if size > 1]
    if not levels or len(wide) < 2:
        return None
    asked = {name: value for name, value in result.asked.items() if name != "layout"}
    return innermost(result.step, result.chip, **asked)
