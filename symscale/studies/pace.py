"""How long the passes of a training step take, and what a pipeline's schedule adds to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sympy import Add, Expr, S, ceiling

from symscale.algebra import symbols as s
from symscale.algebra.cost import Cost
from symscale.algebra.links import Network
from symscale.algebra.symbols import B, L, W_pcie
from symscale.algebra.time import Overlap, Time, TimeTerm
from symscale.algebra.units import Span
from symscale.models.model import Model
from symscale.parallel.pipeline import Pipeline
from symscale.parallel.strategy import Strategy
from symscale.programs.phase import Phase
from symscale.programs.sharded import ShardedProgram
from symscale.studies.efficiency import Efficiency
from symscale.studies.memory import layer_memory
from symscale.studies.share import Share, together

FORWARD, BACKWARD, UPDATE = range(3)
#: The resource that offloaded bytes occupy.
PCIE = "pcie"


@dataclass(frozen=True)
class Pace:
    """Times of a step's passes on one device, in symbols.

    A device holds an even share of the layers (all of them without a pipeline), and does as many
    microbatches one after another as the strategy says.
    """

    model: Model
    strategy: Strategy
    shares: tuple[Share, ...]
    ends: ShardedProgram
    network: Network
    efficiency: Efficiency

    @property
    def pipeline(self) -> Pipeline | None:
        """The pipeline, if there is one."""
        return self.strategy.pipeline

    @property
    def devices(self) -> Expr:
        """Devices that the layers are divided over."""
        return S.One if self.pipeline is None else self.pipeline.devices

    @property
    def microbatches(self) -> Expr:
        """Parts of a batch that go through one after another."""
        return self.strategy.techniques.microbatches

    def _count(self, share: Share) -> Expr:
        return share.kind.count / self.devices

    def _layers(self, phases: Iterable[tuple[Share, tuple[Phase, ...]]]) -> Time:
        """Phases of each kind of layer, over the layers of a device, for one microbatch."""
        made = Time()
        for share, chosen in phases:
            made = made.beside(together(chosen, self.network).scale(self._count(share)))
        return self._small(made)

    def _small(self, time: Time) -> Time:
        """A time of all tokens as that of one microbatch."""
        return time.put({B: B / self.microbatches})

    def micro(self, position: int) -> Time:
        """One microbatch's pass over a device's layers, the ends left out, as one stage."""
        layers = self._layers((share, share.passes[position]) for share in self.shares)
        return self._stretched(layers.beside(self._extra(position)))

    def _extra(self, position: int) -> Time:
        """What moves besides: messages between stages, and what is fetched from the host."""
        return Time.of(*self._messages(position), *self._fetched(position))

    def _messages(self, position: int) -> tuple[TimeTerm, ...]:
        if self.pipeline is None or position == UPDATE:
            return ()
        schedule, axes = self.pipeline.schedule, (self.pipeline.axis,)
        visits = schedule.recipe.visits(schedule.v)
        out = self.shares[-1].sharded.sharding("Out")
        volume = visits * out.bytes.xreplace({B: B / self.microbatches})
        seconds = self.network.time("CollectivePermute", volume, axes)
        return (
            (TimeTerm(self.network.resource(axes, "CollectivePermute"), seconds, axes),)
            if seconds != 0
            else ()
        )

    def _fetched(self, position: int) -> tuple[TimeTerm, ...]:
        """Bytes over PCIe, one way at a time: what a pass stores or reads back."""
        used = self.strategy.techniques
        amounts = []
        for share in self.shares:
            held = layer_memory(share, used)
            counted = {
                "parameters": held["parameters"] if position != UPDATE else S.Zero,
                "activations": held["activations"] if position != UPDATE else S.Zero,
                "optimizer": held["gradients"] + held["parameters"]
                if position == UPDATE
                else S.Zero,
            }
            amounts.append(self._count(share) * Add(*(counted[kind] for kind in used.offload)))
        total = Add(*amounts).xreplace({B: B / self.microbatches})
        return (TimeTerm(PCIE, total / W_pcie),) if total != 0 else ()

    def _stretched(self, time: Time) -> Time:
        return self.efficiency.stretch(time.merged())

    def _of_ends(self, position: int) -> Time:
        """One microbatch through embedding and head, an even share of them a device."""
        phase = self.ends.phases[position]
        time = together((phase,), self.network).scale(1 / self.devices)
        return self._stretched(self._small(time))

    def whole(self, position: int) -> Time:
        """One pass of all microbatches, ends included, as one stage."""
        both = self.micro(position).beside(self._of_ends(position)).merged()
        return both if position == UPDATE else both.scale(self.microbatches)

    def seconds(self, overlap: Overlap) -> Expr:
        """Seconds of the step."""
        update = self.whole(UPDATE).total(overlap)
        if self.pipeline is None:
            work = self.whole(FORWARD).then(self.whole(BACKWARD))
            return work.total(overlap) + update
        return self._scheduled(self.pipeline, overlap) + update

    def _scheduled(self, pipeline: Pipeline, overlap: Overlap) -> Expr:
        """The schedule's time of a step with this model's durations in it.

        The ends are work of the first and last stage: the embedding has no products; the head is
        dealt out with the layers, as so many whole ones.
        """
        slots = s.quantity("h_L", "h_L", "layers that are dealt out, the ends among them", "layer")
        made = pipeline.schedule.at(layers=slots, pair=s.t_FB)
        dealt = L + Add(*pipeline.slots(self.head_in_layers))
        return made.step.xreplace({**self.durations(pipeline, overlap), slots: dealt})

    def durations(self, pipeline: Pipeline, overlap: Overlap) -> dict[Expr, Expr]:
        """A schedule's durations: seconds of one microbatch on an even share of all that is dealt
        out, the ends counted as layers.
        """
        dealt = L + Add(*pipeline.slots(self.head_in_layers))
        return {t: e * dealt / L for t, e in self._durations(pipeline, overlap).items()}

    def _durations(self, pipeline: Pipeline, overlap: Overlap) -> dict[Expr, Expr]:
        forward, backward = self.micro(FORWARD), self.micro(BACKWARD)
        whole = backward.total(overlap)
        pair = forward.beside(backward).total(overlap)
        halves = (whole / 2, whole / 2)
        if pipeline.splits_backward:
            inputs, weights = (
                self._layers((share, share.halves()[number]) for share in self.shares)
                for number in range(2)
            )
            inputs = inputs.beside(self._extra(BACKWARD))
            halves = (
                self._stretched(inputs).total(overlap),
                self._stretched(weights).total(overlap),
            )
        return {s.t_F: forward.total(overlap), s.t_B: halves[0], s.t_W: halves[1], s.t_FB: pair}

    @property
    def head_in_layers(self) -> Expr:
        """The head's forward matrix FLOPs over those of a mean layer, rounded up."""
        layers = Add(*(share.kind.count * share.sharded.forward.flops for share in self.shares))
        return ceiling(self.ends.forward.flops * L / layers)

    def cost(self, span: Span) -> Cost:
        """Everything the step costs a device, over its layers, passes and microbatches."""
        total = Cost(span=span)
        swap = {B: B / self.microbatches}
        for position in (FORWARD, BACKWARD, UPDATE):
            times = S.One if position == UPDATE else self.microbatches
            for share in self.shares:
                for phase in share.passes[position]:
                    cost = phase.cost.put(swap)
                    total = total + cost.scale(self._count(share) * times, span)
            ends = self.ends.phases[position].cost.put(swap)
            total = total + ends.scale(times / self.devices, span)
        return total
