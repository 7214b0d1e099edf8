"""Numbers for a training step: what is missing, what does not belong, what cannot be cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from sympy import Expr, Symbol

from symscale.algebra.errors import ShardingError, StrategyError, SymbolError, near
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import B, axis, links
from symscale.hardware.figure import RATES
from symscale.parallel.context import check_heads
from symscale.parallel.sequence import is_flat
from symscale.parallel.strategy import Strategy
from symscale.programs.sharded import ShardedProgram

if TYPE_CHECKING:
    from symscale.studies.training import TrainingStep


@dataclass(frozen=True)
class Numbers:
    """What a step was given: sizes of mesh axes, physical axes under them, and everything else.

    ``strategy`` has the microbatches and chunks in it.
    """

    strategy: Strategy
    mesh: Mapping[str, int]
    links: Mapping[str, int]
    numbers: Mapping[str, Any]


def numbers_of(step: TrainingStep, given: Mapping[str, Any]) -> Numbers:
    """The numbers sorted.

    Raises:
        SymbolError: for a name that the step does not have, or one that it lacks.
        StrategyError: for a schedule that the numbers rule out.
    """
    _refuse_strangers(step, given)
    mesh = _mesh_sizes(step.strategy, given)
    chosen = _scheduled(step.strategy, mesh, given)
    rest = {name: value for name, value in given.items() if name not in ("m", "v")}
    rest["T"] = _length(step, given)
    own = _own_links(step.strategy, given)
    return Numbers(chosen, mesh, own, rest)


def _refuse_strangers(step: TrainingStep, numbers: Mapping[str, Any]) -> None:
    axes = step.strategy.mesh_axes
    sizes = ("B", "T", *(symbol.name for symbol in step.model.capacity.free_symbols))
    known = {*axes, *(links(name).name for name in axes), *sizes, *RATES, "m", "v"}
    for name in sorted(set(numbers) - known):
        raise SymbolError(
            f"{name} = {numbers[name]}: no size, no rate, and no mesh axis of strategy "
            f"{step.strategy.name} ({', '.join(axes)}){near(name, known)}"
        )


def _own_links(strategy: Strategy, numbers: Mapping[str, Any]) -> dict[str, int]:
    """The physical axes under each mesh axis, where the caller says so."""
    named = {name: links(name).name for name in strategy.mesh_axes}
    given = bindings(**{m: numbers[m] for m in named.values() if m in numbers})
    return {name: int(given[links(name)]) for name, m in named.items() if m in numbers}


def _mesh_sizes(strategy: Strategy, numbers: Mapping[str, Any]) -> dict[str, int]:
    missing = [name for name in strategy.mesh_axes if name not in numbers]
    if missing:
        raise SymbolError(
            f"no size for mesh axis {', '.join(missing)} of strategy {strategy.name}; "
            f"give {', '.join(f'{name}=...' for name in missing)}"
        )
    values = bindings(**{name: numbers[name] for name in strategy.mesh_axes})
    return {name: int(values[axis(name)]) for name in strategy.mesh_axes}


def _scheduled(strategy: Strategy, mesh: Mapping[str, int], numbers: Mapping[str, Any]) -> Strategy:
    """The strategy with its microbatches and chunks as numbers."""
    made = strategy
    if "m" in numbers:
        made = made.using(microbatches=numbers["m"])
    if "v" in numbers:
        made = made.chunked(numbers["v"])
    if not made.techniques.microbatches.is_number:
        raise SymbolError(f"strategy {strategy.name}: no number of microbatches; give m=...")
    if made.pipeline is not None:
        if not made.pipeline.schedule.v.is_number:
            raise SymbolError(f"strategy {strategy.name}: no number of chunks; give v=...")
        made.pipeline.schedule.at(p=mesh[made.pipeline.axis])
    return made


def _length(step: TrainingStep, numbers: Mapping[str, Any]) -> Any:
    length = numbers.get("T", step.model.context)
    if length is None:
        raise SymbolError(f"{step.model.name} names no context length; give T=...")
    return length


def check_plan(
    step: TrainingStep,
    values: Mapping[Symbol, Expr],
    mesh: Mapping[str, int] | None = None,
    chips: int | None = None,
) -> None:
    """Refuse numbers under which the step cannot be cut as the strategy says.

    Sequences may be cut: attention inside a cut sequence is computed where its queries lie.

    Raises:
        ShardingError: naming axis and dim, the microbatches that do not divide the batch, or the
            devices that a mesh has and was to have.
        StrategyError: for more stages than layers.
    """
    if mesh is not None and chips is not None and prod(mesh.values()) != chips:
        shown = " · ".join(f"{name}={size}" for name, size in mesh.items())
        raise ShardingError(f"the mesh {shown} has {prod(mesh.values())} devices, not {chips}")
    _check_stages(step, values)
    small = _one_microbatch(step, values)
    for sharded in (*(share.sharded for share in step.shares), step.ends):
        check_program(sharded, small)


def _check_stages(step: TrainingStep, values: Mapping[Symbol, Expr]) -> None:
    pipeline = step.strategy.pipeline
    if (
        pipeline is not None
        and pipeline.schedule.pieces.is_number
        and axis(pipeline.axis) in values
    ):
        layers, count = len(step.model.config.body.layers), values[axis(pipeline.axis)]
        try:
            head = int(evaluate(step.pace.head_in_layers, values))
            pipeline.stage_layers(layers, int(count), head)
        except StrategyError as error:
            raise StrategyError(
                f"{step.strategy.name} with {pipeline.axis}={count}: {error}"
            ) from None


def _one_microbatch(step: TrainingStep, values: Mapping[Symbol, Expr]) -> dict[Symbol, Expr]:
    count = step.strategy.techniques.microbatches
    if not count.is_number or count == 1 or B not in values:
        return dict(values)
    if values[B] % count != 0:
        raise ShardingError(f"{count} microbatches do not divide a batch of {values[B]} tokens")
    return {**values, B: values[B] / count}


def check_program(sharded: ShardedProgram, values: Mapping[Symbol, Expr]) -> None:
    """Refuse a mesh axis that does not divide its dim, but for dims of sequences.

    Where the program tells sequences apart, they are cut as stated or not at all.
    """
    check_heads(sharded, values)
    loose = is_flat(sharded.program)
    for name in sharded.program.arrays:
        array = sharded.sharding(name)
        if not (loose and "b" in array.labels):
            array.check(values, shares=sharded.program.slots)
