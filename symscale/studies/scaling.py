"""Strong scaling: tokens a second against chips at a fixed batch, and where the curve bends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from os import PathLike
from typing import Any

from sympy import Expr

from symscale.algebra.errors import HardwareError, ShardingError, StrategyError, SymbolError
from symscale.algebra.symbols import B
from symscale.algebra.table import Table
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.studies.result import StepResult
from symscale.studies.training import TrainingStep
from symscale.studies.walls import Wall, least_wall, resource_text, walls

#: A share that counts as all of it in words.
_ALL = 0.995
#: The largest axis that is tried when no sizes are given.
_MOST = 2**20


@dataclass(frozen=True)
class Bend:
    """Where arithmetic stops hiding everything else as chips are added.

    ``chips`` is the last number at which it does; ``wall`` says what overtakes it, in a step placed
    as in ``result``. ``jump`` is true where no formula's threshold is passed but the axis reaches
    the next level of the network, whose links are slower.
    """

    result: StepResult
    wall: Wall
    chips: float
    jump: bool = False

    @property
    def formula(self) -> Expr | None:
        """The number of chips in closed form, the model's sizes put in; None for a jump."""
        return None if self.jump else self.wall.formula

    @property
    def symbols(self) -> Expr | None:
        """The same with the model's sizes as symbols."""
        same = (self.wall.part, self.wall.resource)
        found = walls(self.result.step.formulas, self.wall.axis)
        wall = next(one for one in found if (one.part, one.resource) == same)
        return None if self.jump else wall.formula

    @property
    def words(self) -> str:
        """The bend in a sentence."""
        what = resource_text(self.wall.resource)
        if self.chips < 1:
            return f"At no number of chips does arithmetic hide {what} in the {self.wall.part}."
        cause = (
            f"mesh axis {self.wall.axis} reaches slower links, and the {self.wall.part} waits for "
            if self.jump
            else f"the {self.wall.part} waits for "
        )
        return (
            f"Up to {int(self.chips):,} chips arithmetic hides everything; beyond them {cause}"
            f"{what}, and a step no longer gets faster in step with the chips."
        )

    def to_dict(self) -> dict[str, Any]:
        """The bend for JSON."""
        return {
            "chips": self.chips,
            "formula": None if self.symbols is None else str(self.symbols),
            "resource": self.wall.resource,
            "part": self.wall.part,
            "jump": self.jump,
            "words": self.words,
        }


@dataclass(frozen=True)
class Growth:
    """What going from fewer chips to more buys, at the same batch."""

    before: StepResult
    after: StepResult

    @property
    def chips(self) -> float:
        """Chips after, over chips before."""
        return self.after.chips / self.before.chips

    @property
    def speedup(self) -> float:
        """Tokens a second after, over those before."""
        return self.after.tokens_per_second / self.before.tokens_per_second

    @property
    def efficiency(self) -> float:
        """The speed-up over what as many more chips could give: 1 when nothing is lost."""
        return self.speedup / self.chips

    @property
    def cost(self) -> float:
        """Chip-hours of a token after, over those before."""
        return 1 / self.efficiency

    @property
    def words(self) -> str:
        """The growth in a sentence."""
        head = f"From {self.before.chips:,} to {self.after.chips:,} chips a step becomes "
        if self.efficiency > _ALL:
            return f"{head}{self.speedup:.3g} times as fast, and a token costs the same."
        gain = f"{self.speedup:.3g} times as fast" if self.speedup > 2 - _ALL else "slower"
        return (
            f"{head}{gain if abs(self.speedup - 1) > 1 - _ALL else 'no faster'}: "
            f"{100 * self.efficiency:.0f}% of the chips' worth, and a token costs {self.cost:.3g} "
            f"times as much. The step then waits for {resource_text(self.after.bottleneck)}."
        )


@dataclass(frozen=True)
class Scaling:
    """A step at a fixed batch on more and more chips, all of which one mesh axis takes.

    ``results`` are the steps in numbers, from the fewest chips up.
    """

    axis: str
    results: tuple[StepResult, ...]

    @property
    def chips(self) -> tuple[int, ...]:
        """Numbers of chips of the curve."""
        return tuple(result.chips for result in self.results)

    @property
    def tokens_per_second(self) -> tuple[float, ...]:
        """Tokens a second over all chips, at each number of them."""
        return tuple(result.tokens_per_second for result in self.results)

    @property
    def ideal(self) -> tuple[float, ...]:
        """Tokens a second if chips did useful matrix FLOPs at their peak."""
        return tuple(float(r.values[B]) / r.useful_math for r in self.results)

    @property
    def formula(self) -> Expr:
        """Tokens a second in symbols, with the axes placed as on the most chips."""
        last = self.results[-1]
        return B / last.step.seconds(last.overlap)

    @cached_property
    def bend(self) -> Bend | None:
        """Where it bends; None where arithmetic hides everything at any number of chips."""
        before = 0
        for result in self.results:
            wall, chips = least_wall(result, self.axis)
            if wall is not None and chips < result.chips:
                return Bend(result, wall, max(chips, before), jump=chips < before)
            before = result.chips
        return None if wall is None else Bend(result, wall, chips)

    @property
    def growths(self) -> tuple[Growth, ...]:
        """What each step along the curve buys."""
        return tuple(Growth(a, b) for a, b in pairwise(self.results))

    def growth(self, chips: int) -> Growth:
        """What the next step of the curve buys from this number of chips.

        Raises:
            SymbolError: for a number that the curve does not start a step from.
        """
        for one in self.growths:
            if one.before.chips == chips:
                return one
        raise SymbolError(
            f"chips = {chips}: the curve grows from {', '.join(map(str, self.chips[:-1]))}"
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The curve in sentences: where it bends, and what the last step buys."""
        if self.bend is None:
            said = ["Arithmetic hides everything else at any number of chips."]
        else:
            said = [self.bend.words]
        return (*said, *(growth.words for growth in self.growths[-1:]))

    def table(self) -> Table:
        """Chips, tokens a second, and how well each number of chips does."""
        rows = tuple(
            (r.chips, f"{r.tokens_per_second:,.0f}", f"{100 * r.compute_fraction:.1f}%",
             r.bottleneck, "yes" if r.fits else "no")
            for r in self.results
        )  # fmt: skip
        head = ("chips", "tokens/s", "compute fraction", "waits for", "fits")
        return Table(head, rows)

    def __repr__(self) -> str:
        return "\n".join([str(self.table()), *self.words])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The curve for JSON."""
        return {
            "axis": self.axis,
            "chips": list(self.chips),
            "tokens_per_s": list(self.tokens_per_second),
            "compute_fraction": [r.compute_fraction for r in self.results],
            "bottleneck": [r.bottleneck for r in self.results],
            "fits": [r.fits for r in self.results],
            "bend": None if self.bend is None else self.bend.to_dict(),
            "words": list(self.words),
        }


def strong_scaling(
    step: TrainingStep,
    chip: str | PathLike[str] | Chip,
    grow: str | None = None,
    sizes: Iterable[int] | None = None,
    **numbers: Any,
) -> Scaling:
    """A step at a fixed batch on more and more chips.

    Args:
        step: the step, in symbols.
        chip: what it runs on.
        grow: the mesh axis that takes all chips; the first but the pipeline's.
        sizes: its sizes; powers of two as far as they divide the dims and fit the network.
        numbers: what :meth:`TrainingStep.at` takes: ``B``, the other mesh axes, ``overlap``,
            ``fidelity``, ``layout``, ``efficiency``...

    Raises:
        StrategyError: for an axis that the strategy does not have, or that cuts its pipeline.
        ShardingError, HardwareError, StrategyError: when no size of the axis works; the message is
            the last one's.

    >>> from symscale.studies.training import training
    >>> curve = strong_scaling(training("llama-3-70b", "fsdp"), "tpu-v5p", B=2**21)
    >>> curve.bend.words
    'Up to 2,... chips arithmetic hides everything; beyond them the forward pass waits for the \
links of mesh axis X, and a step no longer gets faster in step with the chips.'
    """
    name = _grown(step, grow)
    found = find_chip(chip)
    results: list[StepResult] = []
    wrong: Exception | None = None
    for size in _sizes(step, found, name, sizes, numbers):
        try:
            results.append(step.at(found, **{**numbers, name: size}))
        except (ShardingError, HardwareError, StrategyError) as error:
            wrong = error
    if not results:
        raise wrong or StrategyError(f"no size of mesh axis {name} to try")
    return Scaling(name, tuple(results))


def scaling_of(result: StepResult) -> Scaling:
    """The curve around a step: its first axis from an eighth of its size to eight times that.

    >>> from symscale.studies.training import training
    >>> scaling_of(training("llama-3-70b", "fsdp").at("tpu-v5p", B=2**21, X=1024)).chips
    (128, 256, 512, 1024, 2048, 4096, 8192)
    """
    mesh = result.mesh
    name = _grown(result.step, None)
    sizes = [mesh[name] * 2**i // 8 for i in range(7) if (mesh[name] * 2**i) % 8 == 0]
    given = {key: value for key, value in result.asked.items() if key != name}
    return strong_scaling(result.step, result.chip, name, sizes, **given)


def given_of(result: StepResult) -> dict[str, Any]:
    """What a step was given besides its mesh and its place."""
    return {k: v for k, v in result.asked.items() if k not in (*result.mesh, "layout")}


def _grown(step: TrainingStep, grow: str | None) -> str:
    names = step.strategy.mesh_axes
    stages = "" if step.strategy.pipeline is None else step.strategy.pipeline.axis
    name = grow or next((one for one in names if one != stages), names[0])
    if name not in names:
        raise StrategyError(
            f"{step.strategy.name} has no mesh axis {name}; it has {', '.join(names)}"
        )
    if name == stages:
        raise StrategyError(f"mesh axis {name} is the pipeline's: its schedule changes with it")
    return name


def _sizes(
    step: TrainingStep, chip: Chip, name: str, sizes: Iterable[int] | None, numbers: Any
) -> tuple[int, ...]:
    if sizes is not None:
        return tuple(sorted(set(sizes)))
    others = prod(int(numbers.get(one, 1)) for one in step.strategy.mesh_axes if one != name)
    most = min(_MOST, chip.reach // max(1, others))
    return tuple(2**i for i in range(max(1, most).bit_length()))
