"""The training step: a model under a strategy, symbolic first, numbers last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Expr, S, Symbol

from symscale.algebra.cost import Cost
from symscale.algebra.errors import SymbolError
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import L, axis, links
from symscale.algebra.time import Overlap, Time
from symscale.algebra.units import Span
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.figure import RATES
from symscale.hardware.networks import Fidelity, Trimmed
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.parallel.strategy import Strategy
from symscale.parallel.strategy import strategy as find_strategy
from symscale.programs.phase import Phase
from symscale.programs.program import Keep
from symscale.programs.sharded import ShardedProgram
from symscale.studies.memory import Checkpoints, Memory, Optimizer, training_memory
from symscale.studies.result import StepResult


@dataclass(frozen=True)
class TrainingStep:
    """A training step of a model under a strategy, symbolic in batch, mesh axes and rates.

    ``layer`` and ``ends`` (embedding and head) are sharded programs in symbols; ``cost`` and
    ``time``
    sum them over all layers and passes, with the model's sizes in; ``memory`` is per device;
    ``formulas`` is the same step with the sizes as symbols; ``at(...)`` puts the numbers in.
    """

    model: Model
    strategy: Strategy
    keep: Keep = "activations"
    optimizer: Optimizer = "adam"
    checkpoints: Checkpoints = "all"
    network: Network = IDEAL
    sized: bool = True

    @property
    def formulas(self) -> TrainingStep:
        """The same step with the model's sizes left as symbols."""
        return replace(self, sized=False)

    @cached_property
    def layer(self) -> ShardedProgram:
        """One layer under the strategy."""
        return self.model.programs.layer.shard(self.strategy, keep=self.keep)

    @cached_property
    def ends(self) -> ShardedProgram:
        """Embedding and head under the strategy."""
        return self.model.programs.ends.shard(self.strategy, keep=self.keep)

    @property
    def passes(self) -> tuple[tuple[Phase, Phase], ...]:
        """Forward, backward and update, each of a layer and of the ends."""
        return tuple(zip(self.layer.phases, self.ends.phases, strict=True))

    @cached_property
    def cost(self) -> Cost:
        """Everything the step costs a device, over all layers and passes."""
        total = Cost(span=Span.STEP)
        for layer, ends in self.passes:
            total = total + layer.cost.scale(L, Span.STEP) + ends.cost.scale(1, Span.STEP)
        return total.put(self.model) if self.sized else total

    def pass_time(self, position: int) -> Time:
        """One pass over all layers, as a stage: 0 forward, 1 backward, 2 update."""
        layer, ends = self.passes[position]
        both = layer.time_on(self.network).scale(L).beside(ends.time_on(self.network)).merged()
        return both.put(self.model) if self.sized else both

    @cached_property
    def time(self) -> Time:
        """Seconds of the step: forward, then backward, then update."""
        whole = self.pass_time(0).then(self.pass_time(1))
        update = self.pass_time(2)
        return whole.then(update) if update.terms else whole

    @cached_property
    def whole_math(self) -> Expr:
        """Seconds of matrix arithmetic of the whole step on one chip: what has to be done once."""
        programs = self.model.programs
        layer = sum((p.time.math for p in programs.layer.shard().phases), S.Zero)
        ends = sum((p.time.math for p in programs.ends.shard().phases), S.Zero)
        return (L * layer + ends).xreplace(dict(self.model))

    @cached_property
    def memory(self) -> Memory:
        """Bytes on one device, by kind."""
        made = training_memory(self.layer, self.ends, self.optimizer, self.checkpoints)
        return made.put(self.model) if self.sized else made

    def on(
        self,
        chip: str | PathLike[str] | Chip,
        fidelity: Fidelity = "ideal",
        sizes: Mapping[str, int] | None = None,
        laid: Mapping[str, int] | None = None,
        layout: str | None = None,
    ) -> TrainingStep:
        """The same step timed on a chip's own network; along an axis of size 1 nothing moves.

        ``laid`` says over how many physical axes a mesh axis lies, where not as the chip would;
        ``layout`` orders the axes and puts them on levels (see :meth:`Chip.network`).
        """
        axes = self.strategy.mesh_axes
        network = find_chip(chip).network(axes, fidelity, sizes, laid, layout)
        trivial = frozenset(name for name, size in (sizes or {}).items() if size == 1)
        return replace(self, network=Trimmed(network, trivial) if trivial else network)

    def at(
        self,
        chip: str | PathLike[str] | Chip,
        *,
        overlap: Overlap = "full",
        fidelity: Fidelity = "ideal",
        layout: str | None = None,
        **numbers: Any,
    ) -> StepResult:
        """The step with numbers in it.

        Args:
            chip: the name of a chip, or a chip.
            overlap: what overlaps with what (see :meth:`Time.total`).
            fidelity: ``"ideal"`` (bytes over bandwidth), ``"ring"`` or ``"latency"``.
            layout: how mesh axes lie on the network, e.g. ``"Y,X"`` for X innermost.
            numbers: ``B`` (tokens), each mesh axis (``X=2048``), and perhaps ``T`` (the sequence,
                the model's context unless given), ``M_X`` or any rate.

        Raises:
            SymbolError: for a leftover symbol, a number that is not above zero, or a name that the
                step does not have.
            ShardingError: for a mesh axis that does not divide its dim.
            HardwareError: for an unknown chip or a mesh that does not fit it.

        >>> r = training("llama-3-70b", "fsdp+tp").at(chip="tpu-v5p", B=2**22, X=2048, Y=4)
        >>> r.bottleneck, r.fits
        ('math', True)
        """
        found = find_chip(chip)
        self._refuse_strangers(numbers)
        sizes = self._mesh_sizes(numbers)
        own = self._own_links(numbers)
        timed = self.on(found, fidelity, sizes, own, layout)
        placed = found.placement(self.strategy.mesh_axes, sizes, own, layout)
        laid = placed.layout.bindings
        values = bindings(found, self.model, laid, **{"T": self._length(numbers), **numbers})
        self.check(values)
        return StepResult(timed, found, MappingProxyType(values), overlap, placed)

    def _refuse_strangers(self, numbers: Mapping[str, Any]) -> None:
        axes = self.strategy.mesh_axes
        sizes = ("B", "T", *(symbol.name for symbol in self.model))
        known = {*axes, *(links(name).name for name in axes), *sizes, *RATES}
        for name in sorted(set(numbers) - known):
            raise SymbolError(
                f"{name} = {numbers[name]}: no size, no rate, and no mesh axis of strategy "
                f"{self.strategy.name} ({', '.join(axes)})"
            )

    def _own_links(self, numbers: Mapping[str, Any]) -> dict[str, int]:
        """The physical axes under each mesh axis, where the caller says so."""
        named = {name: links(name).name for name in self.strategy.mesh_axes}
        given = bindings(**{m: numbers[m] for m in named.values() if m in numbers})
        return {name: int(given[links(name)]) for name, m in named.items() if m in numbers}

    def _mesh_sizes(self, numbers: Mapping[str, Any]) -> dict[str, int]:
        missing = [name for name in self.strategy.mesh_axes if name not in numbers]
        if missing:
            raise SymbolError(
                f"no size for mesh axis {', '.join(missing)} of strategy {self.strategy.name}; "
                f"give {', '.join(f'{name}=...' for name in missing)}"
            )
        values = bindings(**{name: numbers[name] for name in self.strategy.mesh_axes})
        return {name: int(values[axis(name)]) for name in self.strategy.mesh_axes}

    def _length(self, numbers: Mapping[str, Any]) -> Any:
        length = numbers.get("T", self.model.context)
        if length is None:
            raise SymbolError(f"{self.model.name} names no context length; give T=...")
        return length

    def check(self, values: Mapping[Symbol, Expr]) -> None:
        """Refuse a mesh axis that does not divide its dim.

        Sequences may be cut: attention inside a cut sequence is computed where its queries lie.

        Raises:
            ShardingError: naming axis and dim.
        """
        for sharded in (self.layer, self.ends):
            for name in sharded.program.arrays:
                array = sharded.sharding(name)
                if "b" not in array.labels:
                    array.check(values)

    def __repr__(self) -> str:
        return f"training step of {self.model.name}, {self.strategy.name}\n{self.time!r}"

    def _repr_html_(self) -> str:
        return self.time._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Model, strategy, time and memory as plain text."""
        return {
            "model": self.model.name,
            "strategy": self.strategy.to_dict(),
            "time": self.time.to_dict(),
            "memory": self.memory.to_dict(),
            "cost": self.cost.to_dict(),
        }


def training(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    strategy: str | Strategy,
    *,
    keep: Keep = "activations",
    optimizer: Optimizer = "adam",
    checkpoints: Checkpoints = "all",
) -> TrainingStep:
    """A training step, symbolic in batch, sequence, mesh axes and rates.

    Attention scores are counted in full (no causal halving), nothing is recomputed, and work of the
    vector unit takes no time of its own.

    Args:
        model: a name of the zoo, a ``config.json``, a mapping of its keys, or a model.
        strategy: a name (``"fsdp+tp"``) or a strategy.
        keep: gathered forward copies that the backward pass finds (see :meth:`Program.shard`).
        optimizer: what state a parameter has (see :func:`training_memory`).
        checkpoints: which activations are saved (see :func:`training_memory`).

    >>> list(training("llama-3-8b", "dp").time.by_axis)
    [X]
    """
    return TrainingStep(find_model(model), find_strategy(strategy), keep, optimizer, checkpoints)
