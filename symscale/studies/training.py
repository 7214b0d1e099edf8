"""The training step: a model under a strategy, symbolic first, numbers last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, S, Symbol

from symscale.algebra.cost import Cost
from symscale.algebra.errors import ModelError
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.substitution import bindings
from symscale.algebra.time import Overlap, Time
from symscale.algebra.units import Span
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.networks import Fidelity, Trimmed
from symscale.models.decoder import LayerKind
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.models.scores import Causal, masked
from symscale.parallel.strategy import Strategy
from symscale.parallel.strategy import strategy as find_strategy
from symscale.parallel.techniques import Remat
from symscale.programs.phase import Phase
from symscale.programs.program import Keep, Program
from symscale.programs.sharded import ShardedProgram
from symscale.studies.efficiency import Efficiency
from symscale.studies.memory import Memory
from symscale.studies.pace import Pace
from symscale.studies.plan import check_plan, numbers_of
from symscale.studies.result import StepResult
from symscale.studies.share import Share
from symscale.studies.stage import StageMemory


@dataclass(frozen=True)
class TrainingStep:
    """A training step of a model under a strategy, symbolic in batch, mesh axes and rates.

    ``shares`` (one for each kind of layer) and ``ends`` (embedding and head) are sharded programs
    in symbols; ``cost`` and ``time`` sum them over the layers that a device holds, all passes and
    microbatches, with the model's sizes in; ``seconds`` adds what the pipeline's schedule costs;
    ``memory`` is per device; ``formulas`` is the same step with the sizes as symbols; ``at(...)``
    puts the numbers in.
    """

    model: Model
    strategy: Strategy
    keep: Keep = "activations"
    causal: Causal = False
    network: Network = IDEAL
    sized: bool = True
    efficiency: Efficiency = Efficiency()  # noqa: RUF009 - frozen

    @property
    def formulas(self) -> TrainingStep:
        """The same step with the model's sizes left as symbols."""
        return replace(self, sized=False)

    def using(self, **options: Any) -> TrainingStep:
        """The same step with other techniques (see :meth:`Strategy.using`)."""
        return replace(self, strategy=self.strategy.using(**options))

    def changed(self, strategy: Strategy) -> TrainingStep:
        """The same model under another strategy, on no chip's network yet."""
        return replace(self, strategy=strategy, network=IDEAL, efficiency=Efficiency())

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """Each kind of layer under the strategy."""
        return tuple(
            Share(kind, self._sharded(kind.program), self._remat(kind), self.causal)
            for kind in self._kinds
        )

    def _sharded(self, program: Program) -> ShardedProgram:
        return self.strategy.shard(program, self.keep)

    def _remat(self, kind: LayerKind) -> Remat:
        """The policy for a kind of layer: of the arrays to be saved by name, those it has."""
        remat = self.strategy.techniques.remat
        if isinstance(remat, str):
            return remat
        every = {name for one in self._kinds for name in one.program.arrays}
        unknown = tuple(name for name in remat if name not in every)
        return tuple(name for name in remat if name in kind.program.arrays) + unknown

    @property
    def _kinds(self) -> tuple[LayerKind, ...]:
        programs = self.model.programs
        if programs.encoder:
            raise ModelError(f"{self.model.name} has an encoder; training covers decoders")
        return programs.kinds

    @property
    def layer(self) -> ShardedProgram:
        """The one layer under the strategy.

        Raises:
            ModelError: where layers are of several kinds (``shares`` has them all).
        """
        if len(self.shares) > 1:
            _ = self.model.programs.layer
        return self.shares[0].sharded

    @cached_property
    def ends(self) -> ShardedProgram:
        """Embedding and head under the strategy."""
        return self._sharded(self.model.programs.ends)

    @cached_property
    def pace(self) -> Pace:
        """How long passes take, and how the pipeline's schedule strings them together."""
        return Pace(
            self.model, self.strategy, self.shares, self.ends, self.network, self.efficiency
        )

    @property
    def _sizes(self) -> Mapping[Symbol, int]:
        return self.model if self.sized else MappingProxyType({})

    @cached_property
    def cost(self) -> Cost:
        """Everything the step costs a device: its layers, all passes and microbatches."""
        return self.pace.cost(Span.STEP).put(self._sizes)

    def pass_time(self, position: int) -> Time:
        """One pass over all layers, as a stage: 0 forward, 1 backward, 2 update."""
        return self.pace.whole(position).put(self._sizes)

    @cached_property
    def time(self) -> Time:
        """Seconds of a device's work: forward, then backward, then update; no bubble in it."""
        whole = self.pass_time(0).then(self.pass_time(1))
        update = self.pass_time(2)
        return whole.then(update) if update.terms else whole

    def seconds(self, overlap: Overlap = "full") -> Expr:
        """Seconds of the step: the work, and what the pipeline's schedule adds.

        >>> from symscale.algebra.symbols import axis
        >>> piped = training("llama-3-8b", "dp+pp", microbatches=8)
        >>> work, step = piped.time.total(), piped.seconds()
        >>> axis("P") in step.free_symbols, step == work
        (True, False)
        """
        return self.pace.seconds(overlap).xreplace(dict(self._sizes))

    @cached_property
    def whole_math(self) -> Expr:
        """Seconds of matrix arithmetic of the whole step on one chip: what has to be done once.

        Experts work on their even share of tokens, however far theirs are stretched.
        """
        programs = self.model.stretched(1).programs
        layers = (
            kind.count
            * Add(
                *(
                    masked(phase, kind, self.causal).time.math
                    for phase in kind.program.shard().phases
                )
            )
            for kind in programs.kinds
        )
        ends = sum((p.time.math for p in programs.ends.shard().phases), S.Zero)
        return Add(*layers, ends).xreplace(dict(self.model))

    @cached_property
    def stage_memory(self) -> StageMemory:
        """What layers and ends take on a device, to be put together stage by stage."""
        head = self.pace.head_in_layers
        return StageMemory.of(self.model, self.strategy, self.shares, self.ends, head)

    @cached_property
    def memory(self) -> Memory:
        """Bytes on one device, by kind: of a pipeline, on the first stage."""
        return self.stage_memory.first.put(self._sizes)

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
        chips: int | None = None,
        efficiency: Mapping[str, Any] | float | None = None,
        **numbers: Any,
    ) -> StepResult:
        """The step with numbers in it.

        Args:
            chip: the name of a chip, or a chip.
            overlap: what overlaps with what (see :meth:`Time.total`).
            fidelity: ``"ideal"`` (bytes over bandwidth), ``"ring"`` or ``"latency"``.
            layout: how mesh axes lie on the network, e.g. ``"Y,X"`` for X innermost.
            chips: the number of chips that the mesh has to come to.
            efficiency: measured shares of the peaks by roof (see :class:`Efficiency`).
            numbers: ``B`` (tokens), each mesh axis (``X=2048``), and perhaps ``T`` (the sequence,
                the model's context unless given), ``m`` (microbatches), ``imbalance`` (of experts),
                ``M_X`` or any rate.

        Raises:
            SymbolError: for a leftover symbol, a number that is not above zero, or a name that the
                step does not have.
            ShardingError: for a mesh axis that does not divide its dim, microbatches that do not
                divide the batch, or a mesh that does not come to ``chips``.
            StrategyError: for a schedule that the numbers of stages and microbatches rule out.
            HardwareError: for an unknown chip or a mesh that does not fit it.

        >>> r = training("llama-3-70b", "fsdp+tp").at(chip="tpu-v5p", B=2**22, X=2048, Y=4)
        >>> r.bottleneck, r.fits
        ('math', True)
        """
        found = find_chip(chip)
        given = numbers_of(self, numbers)
        shares = Efficiency.of(efficiency, self.strategy.mesh_axes)
        timed = self.on(found, fidelity, given.mesh, given.links, layout)
        timed = replace(timed, strategy=given.strategy, efficiency=shares)
        placed = found.placement(self.strategy.mesh_axes, given.mesh, given.links, layout)
        laid = placed.layout.bindings
        values = bindings(found, self.model, laid, **given.numbers)
        check_plan(timed, values, given.mesh, chips)
        asked = {"overlap": overlap, "fidelity": fidelity, "layout": layout,
                 "efficiency": efficiency, **numbers}  # fmt: skip
        return StepResult(
            timed, found, MappingProxyType(values), overlap, placed, MappingProxyType(asked)
        )

    def check(self, values: Mapping[Symbol, Expr]) -> None:
        """Refuse numbers under which the step cannot be cut as the strategy says.

        Raises:
            ShardingError: naming axis and dim.
        """
        check_plan(self, values)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """All passes of all kinds of layer."""
        return tuple(p for share in self.shares for passes in share.passes for p in passes)

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
    checkpoints: Any = None,
    capacity: Expr | float = 1,
    causal: Causal = False,
    **options: Any,
) -> TrainingStep:
    """A training step, symbolic in batch, sequence, mesh axes and rates.

    Attention's scores are counted for all keys that a layer's window holds (no causal halving
    unless asked for), nothing is recomputed unless a policy of rematerialisation says so, and work
    of the vector unit takes no time of its own.

    Args:
        model: a name of the zoo, a ``config.json``, a mapping of its keys, or a model.
        strategy: a name (``"fsdp+tp"``) or a strategy.
        keep: gathered forward copies that the backward pass finds (see :meth:`Program.shard`).
        checkpoints: another name of the option ``remat``; ``"all"`` saves what is read.
        capacity: how many times their even share of tokens experts work on: a capacity factor, the
            load ``imbalance`` of the hottest rank (a symbol or a number), or their product.
        causal: how a causal mask is counted (see :func:`mean_keys`); on devices that share a
            sequence as if they had equal parts of the mask.
        options: what :func:`strategy` takes besides axes: ``schedule``, ``microbatches``,
            ``remat``, ``optimizer``, ``gradients``, ``reduce``, ``offload``.

    >>> list(training("llama-3-8b", "dp").time.by_axis)
    [X]
    """
    given = {"remat": checkpoints, **options}
    chosen = {name: value for name, value in given.items() if value is not None}
    found = find_model(model)
    made = find_strategy(strategy, **chosen)
    return TrainingStep(_stretched(found, capacity), made, keep, causal)


def _stretched(found: Model, capacity: Expr | float) -> Model:
    """The model with its experts' slots stretched.

    Raises:
        ModelError: for a model without experts, or less than an even share.
    """
    made = found.stretched(capacity)
    if made.capacity == 1:
        return made
    if not found.params.sparse:
        raise ModelError(f"{found.name} has no experts whose slots a capacity could stretch")
    if made.capacity.is_number and made.capacity < 1:
        raise ModelError(
            f"capacity (times imbalance) = {capacity}: the hottest rank has at least the mean; 1 "
            "or more is wanted"
        )
    return made
