"""The meshes that a strategy can have on so many chips, and the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from sympy import Expr, Symbol, divisors

from symscale.algebra.errors import HardwareError, ShardingError, StrategyError
from symscale.algebra.substitution import bindings, evaluate
from symscale.arrays.array import Array
from symscale.hardware.chip import Chip
from symscale.hardware.figure import MissingFigure
from symscale.studies.pressure import Pressure, pressures
from symscale.studies.result import StepResult
from symscale.studies.training import TrainingStep


@dataclass(frozen=True)
class MeshOption:
    """A mesh whose axes divide all their dims, with the step's numbers on it.

    ``pressures`` are communication over arithmetic, summed and overlapped, by part of the step.
    """

    mesh: Mapping[str, int]
    result: StepResult
    pressures: Mapping[str, tuple[float, float]]

    @property
    def chips(self) -> int:
        """The product of the axes."""
        return self.result.chips

    @property
    def textbook(self) -> float:
        """Summed communication over arithmetic on the layer of two matmuls."""
        return next(iter(self.pressures.values()))[0]

    def to_dict(self) -> dict[str, Any]:
        """The mesh and its numbers."""
        return {
            "mesh": dict(self.mesh),
            "step_time_s": self.result.time,
            "pressures": {part: list(pair) for part, pair in self.pressures.items()},
        }


def mesh_options(
    step: TrainingStep, chip: Chip, chips: int, batch: int, length: int | None = None
) -> tuple[MeshOption, ...]:
    """The largest meshes of a strategy on at most ``chips`` chips, best first.

    Every axis divides every dim it shards. The best has the least summed communication on the layer
    of two matmuls, which is what the closed form of the split minimises too. With a pipeline, or
    layers of several kinds, which that layer does not stand for, what fits comes first, then what
    has the faster step.

    Raises:
        ShardingError: when no mesh fits.

    >>> from symscale.hardware.chips import chip
    >>> from symscale.studies.training import training
    >>> step = training("llama-3-70b", "fsdp+tp")
    >>> dict(mesh_options(step, chip("tpu-v5p"), 8960, 2**22)[0].mesh)
    {'X': 2048, 'Y': 4}
    """
    sizes = [mesh for mesh in _sizes(step, chips, batch, length) if _lies(step, chip, mesh)]
    if not sizes:
        raise ShardingError(
            f"no mesh of {step.strategy.name} on at most {chips} chips divides a batch of {batch} "
            f"and the dims of {step.model.name}"
        )
    most = max(prod(mesh.values()) for mesh in sizes)
    extra: dict[str, Any] = {"T": length} if length else {}
    found = []
    for mesh in sizes:
        if prod(mesh.values()) == most:
            numbers: dict[str, Any] = {"B": batch, **mesh, **extra}
            result = step.at(chip, **numbers)
            ratios = _ratios(pressures(result.step), result) if _is_plain(step) else {}
            found.append(MeshOption(mesh, result, ratios))
    return tuple(sorted(found, key=_rank))


def _is_plain(step: TrainingStep) -> bool:
    return step.strategy.pipeline is None and len(step.shares) == 1


def _rank(option: MeshOption) -> tuple[bool, float]:
    if option.pressures:
        return False, option.textbook
    return not option.result.fits, option.result.time


def _lies(step: TrainingStep, chip: Chip, mesh: Mapping[str, int]) -> bool:
    """Whether a mesh fits the chip's network."""
    try:
        chip.placement(step.strategy.mesh_axes, mesh)
    except MissingFigure:
        raise
    except HardwareError:
        return False
    return True


def _ratios(parts: tuple[Pressure, ...], result: StepResult) -> dict[str, tuple[float, float]]:
    return {
        one.part: (one.ratio(result.values), one.ratio(result.values, overlapped=True))
        for one in parts
    }


def _sizes(
    step: TrainingStep, chips: int, batch: int, length: int | None
) -> Iterator[dict[str, int]]:
    context = length or step.model.context
    values = bindings(step.model, B=batch, **({"T": context} if context else {}))
    names = step.strategy.mesh_axes
    limits = [divisors(_common_size(step, name, values)) for name in names]
    for mesh in _combinations(names, limits, chips):
        bound = {**values, **bindings(**mesh)}
        try:
            step.check(bound)
        except (ShardingError, StrategyError):
            continue
        yield mesh


def _combinations(
    names: tuple[str, ...], limits: list[list[int]], chips: int
) -> Iterator[dict[str, int]]:
    if not names:
        yield {}
        return
    for size in limits[0]:
        if size <= chips:
            for rest in _combinations(names[1:], limits[1:], chips // size):
                yield {names[0]: size, **rest}


def _common_size(step: TrainingStep, name: str, values: Mapping[Symbol, Expr]) -> int:
    """The greatest common divisor of all dims that an axis shards; for stages, a power of two.

    Layers need not divide into stages, so that any number of them up to the layers' is possible.
    """
    pipeline = step.strategy.pipeline
    if pipeline is not None and name == pipeline.axis:
        return 1 << (len(step.model.config.body.layers).bit_length() - 1)
    found = 0
    for array in _arrays(step):
        for dim in array.dims:
            if name in dim.axes:
                found = gcd(found, int(evaluate(dim.size, values)))
    return found or 1


def _arrays(step: TrainingStep) -> Iterator[Array]:
    for sharded in (*(share.sharded for share in step.shares), step.ends):
        for name in sharded.program.arrays:
            array = sharded.sharding(name)
            if "b" not in array.labels:
                yield array


def placed_step(
    step: TrainingStep,
    chip: Chip,
    chips: int,
    batch: int,
    mesh: Mapping[str, int] | None,
    length: int | None,
    layout: str | None,
    **options: Any,
) -> StepResult:
    """The step on a mesh of at most ``chips`` chips: the one given, else the best that divides.

    ``options`` are further ones of :meth:`TrainingStep.at`.

    Raises:
        HardwareError: for more chips than one network joins, or a mesh larger than ``chips``.
        ShardingError: when no mesh divides the dims.
    """
    if chips > chip.reach:
        raise HardwareError(f"--chips {chips}: one {chip.name} pod has {chip.reach}")
    if mesh is None:
        mesh = mesh_options(step, chip, chips, batch, length)[0].mesh
    size = prod(mesh.values())
    if size > chips:
        raise HardwareError(f"--mesh has {size} chips, but --chips is {chips}")
    numbers: dict[str, Any] = {"B": batch, **mesh, **({"T": length} if length else {})}
    return step.at(chip, layout=layout, **options, **numbers)
