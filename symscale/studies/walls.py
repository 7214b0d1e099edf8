"""Walls of a step: what overtakes arithmetic as chips are added, and which wall is hit now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any

from sympy import Expr, Mul, Symbol, oo

from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import axis
from symscale.algebra.time import HBM, MATH
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.solve.numeric import numeric
from symscale.studies.result import StepResult
from symscale.studies.training import TrainingStep

#: An axis this long stands for any length.
_FAR = 2.0**40
_HALVINGS = 60
_PARTS = ("forward pass", "backward pass")


@dataclass(frozen=True)
class Wall:
    """Where one resource of a pass overtakes arithmetic as a mesh axis grows.

    ``answer`` is the condition on the axis under which arithmetic (``math``) takes at least as long
    as the resource (``seconds``); None where that has no closed form. ``others`` is the product of
    the other axes.
    """

    part: str
    resource: str
    axis: str
    others: Expr
    math: Expr
    seconds: Expr

    @cached_property
    def answer(self) -> Crossover | None:
        """The condition on the axis, solved."""
        try:
            return crossover(self.math, self.seconds, axis(self.axis))
        except SolveError:
            return None

    @property
    def formula(self) -> Expr | None:
        """The number of chips at the wall, where there is exactly one."""
        wall = None if self.answer is None else self.answer.threshold
        return None if wall is None else wall * self.others

    def at(self, values: Mapping[Symbol, Expr]) -> float:
        """The most chips at which arithmetic still hides the resource; 0 for none, inf for any."""
        return float(evaluate(self.others, values)) * self._size(values)

    def _size(self, values: Mapping[Symbol, Expr]) -> float:
        if self.answer is None:
            return self._searched(values)
        variable = self.answer.variable
        answer = self.answer.at({key: value for key, value in values.items() if key != variable})
        if not answer.intervals:
            return 0.0
        end = answer.intervals[-1][1]
        return inf if end == oo else float(evaluate(end, values))

    def _searched(self, values: Mapping[Symbol, Expr]) -> float:
        """The same by halving, where the axis has one wall but no formula."""
        size = axis(self.axis)
        known = {key: value for key, value in values.items() if key != size}
        spare = numeric((self.math - self.seconds).xreplace(known), size)
        if float(spare(1)) < 0:
            return 0.0
        low, high = 1.0, 2.0
        while float(spare(high)) >= 0:
            low, high = high, 2 * high
            if high > _FAR:
                return inf
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if float(spare(middle)) >= 0 else (low, middle)
        return low

    def to_dict(self) -> dict[str, Any]:
        """The wall for JSON."""
        return {
            "part": self.part,
            "resource": self.resource,
            "axis": self.axis,
            "chips": None if self.formula is None else str(self.formula),
            "answer": None if self.answer is None else self.answer.to_dict(),
        }


def walls(step: TrainingStep, name: str) -> tuple[Wall, ...]:
    """The walls of a step as a mesh axis grows: every resource of each pass against arithmetic.

    >>> from symscale.studies.training import training
    >>> found = walls(training("llama-3-8b", "fsdp").formulas, "X")
    >>> [(wall.part, wall.resource, wall.answer.kind) for wall in found][1]
    ('forward pass', 'X', 'below')
    """
    others = Mul(*(axis(one) for one in step.strategy.mesh_axes if one != name))
    return tuple(
        Wall(part, resource, name, others, busy[MATH], seconds)
        for part, stage in zip(_PARTS, step.time.stages, strict=False)
        if MATH in (busy := stage.by_resource())
        for resource, seconds in busy.items()
        if resource != MATH and seconds != 0
    )


def least_wall(result: StepResult, name: str) -> tuple[Wall | None, float]:
    """The wall met first as an axis grows, placed as in this result, and its number of chips."""
    ends = [(wall.at(result.values), wall) for wall in walls(result.step, name)]
    if not ends:
        return None, inf
    chips, wall = min(ends, key=lambda pair: pair[0])
    return (None, inf) if chips == inf else (wall, chips)


def resource_text(resource: str) -> str:
    """A resource in words.

    >>> resource_text("hbm"), resource_text("X"), resource_text("dcn")
    ('HBM', 'the links of mesh axis X', 'the data-centre network')
    """
    names = {
        MATH: "arithmetic", HBM: "HBM", "dcn": "the data-centre network",
        "nvlink": "the links inside a node", "pcie": "the link to the host",
    }  # fmt: skip
    return names.get(resource, f"the links of mesh axis {resource}")


def wall_text(result: StepResult) -> str:
    """Which wall a step has hit, in a sentence: size, the throughput of something, or none.

    >>> from symscale.studies.training import training
    >>> step = training("llama-3-8b", "dp")
    >>> print(wall_text(step.at("tpu-v5e", B=2**20, X=256)))
    Size: a chip would have to hold ... GB and has 16 GB.
    """
    if not result.fits:
        held, has = result.memory_bytes / 1e9, float(result.chip.hbm_bytes) / 1e9
        return f"Size: a chip would have to hold {held:,.3g} GB and has {has:.3g} GB."
    share = f"{100 * result.compute_fraction:.0f}% of the step is useful arithmetic"
    if result.bottleneck == MATH:
        return f"Throughput of arithmetic: {share}; more chips make it faster."
    return f"Throughput of {resource_text(result.bottleneck)}: {share}."
