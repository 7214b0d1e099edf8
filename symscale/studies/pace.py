"""How long the passes of a training step take, and what a pipeline's schedule adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from sympy import Add, Expr, S, ceiling, floor

from symscale.algebra import symbols as s
from symscale.algebra.cost import Cost, Descriptor
from symscale.algebra.links import Network
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, L, W_pcie
from symscale.algebra.time import Overlap, Time, TimeTerm
from symscale.algebra.units import Span
from symscale.models.model import Model
from symscale.parallel.pipeline import Pipeline
from symscale.parallel.schedules.load import Factors
from symscale.parallel.strategy import Strategy
from symscale.programs.phase import Phase
from symscale.programs.sharded import ShardedProgram
from symscale.studies.efficiency import Efficiency
from symscale.studies.memory import ends_memory, layer_memory, shared_ends
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

    @property
    def _message(self) -> Expr:
        """Bytes that a microbatch makes a device send on, once for each visit."""
        assert self.pipeline is not None
        schedule = self.pipeline.schedule
        out = self.shares[-1].sharded.sharding("Out")
        return schedule.recipe.visits(schedule.v) * out.bytes.xreplace({B: B / self.microbatches})

    def _messages(self, position: int) -> tuple[TimeTerm, ...]:
        if self.pipeline is None or position == UPDATE:
            return ()
        axes = (self.pipeline.axis,)
        seconds = self.network.time("CollectivePermute", self._message, axes)
        if seconds == 0:
            return ()
        return (TimeTerm(self.network.resource(axes, "CollectivePermute"), seconds, axes),)

    def _fetched(self, position: int) -> tuple[TimeTerm, ...]:
        """Bytes over PCIe, one way at a time: what a pass stores or reads back."""
        offloaded = self.strategy.techniques.offload
        total = Add(
            *(held.get(kind, S.Zero) for held in self._held(position) for kind in offloaded)
        )
        small = total.xreplace({B: B / self.microbatches})
        return (TimeTerm(PCIE, small / W_pcie),) if small != 0 else ()

    def _held(self, position: int) -> Iterator[Mapping[str, Expr]]:
        """What a pass takes from the host, or gives back, if it lies there: by kind.

        An optimizer on the host takes gradients and gives weights, once a step.
        """
        used = self.strategy.techniques
        parts = [(self._count(share), layer_memory(share, used)) for share in self.shares]
        first, last = ends_memory(self.ends, used)
        parts.append((1 / self.devices, first + last + shared_ends(self.ends, used).scale(-1)))
        for count, memory in parts:
            if position == UPDATE:
                yield {"optimizer": count * (memory["gradients"] + memory["parameters"])}
            else:
                yield {kind: count * memory[kind] for kind in ("parameters", "activations")}

    def _stretched(self, time: Time) -> Time:
        return self.efficiency.stretch(time.merged())

    def of_ends(self, position: int) -> Time:
        """One microbatch through embedding and head, an even share of them a device."""
        phase = self.ends.phases[position]
        time = together((phase,), self.network).scale(1 / self.devices)
        return self._stretched(self._small(time))

    def whole(self, position: int) -> Time:
        """One pass of all microbatches, ends included, as one stage."""
        both = self.micro(position).beside(self.of_ends(position)).merged()
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

        The schedule takes an even share of the layers a device; how much slower than that the
        slowest stage is, and how much the ends add on average, comes in as two factors.
        """
        slow = s.quantity("r_slow", r"r_{\mathrm{slow}}", "the slowest stage over an even one")
        even = s.quantity("r_even", r"r_{\mathrm{even}}", "layers and ends over the layers alone")
        made = replace(pipeline.schedule.at(pair=s.t_FB), load=Factors(slow, even))
        durations = self._durations(pipeline, overlap)
        factors = {slow: self._slowest(pipeline, overlap), even: self._mean(overlap)}
        return made.step.xreplace({**durations, **factors})

    def durations(self, pipeline: Pipeline, overlap: Overlap) -> dict[Expr, Expr]:
        """A schedule's durations: seconds of one microbatch on an even share of layers and ends."""
        mean = self._mean(overlap)
        return {t: e * mean for t, e in self._durations(pipeline, overlap).items()}

    def _both(self, overlap: Overlap) -> Expr:
        """Seconds of a microbatch on an even share of the layers, forward and backward."""
        return self.micro(FORWARD).total(overlap) + self.micro(BACKWARD).total(overlap)

    def _ends_over_layers(self, overlap: Overlap) -> Expr:
        """Embedding and head, forward and backward, over all layers."""
        ends = (self.of_ends(position).total(overlap) for position in (FORWARD, BACKWARD))
        return Add(*ends) / self._both(overlap)

    def _mean(self, overlap: Overlap) -> Expr:
        return 1 + self._ends_over_layers(overlap)

    def _slowest(self, pipeline: Pipeline, overlap: Overlap) -> Expr:
        """The device with most work over an even share of the layers.

        Places are dealt out as evenly as they go, the last stages first. The last stage has the
        head's work beside its layers (the embedding's little is counted with it); of its places the
        head takes some, and may even take more than there are. Where stages are unequal, a schedule
        with chunks or split backward passes may do a few percent better than at this pace
        throughout.
        """
        first, last = pipeline.slots(self.head_in_layers)
        devices, pieces = pipeline.devices, pipeline.schedule.pieces
        together = last + first if pipeline.schedule.recipe.turns else last
        stages = devices * pieces
        each = floor((L + first + last) / stages)
        more = L + first + last - stages * each
        most = pieces * each + ceiling(more / devices)
        behind = Maximum(0, most - together) + self._ends_over_layers(overlap) * L
        inner = pieces * each + ceiling((more - 1) / devices)
        if pipeline.schedule.recipe.weights > 1:
            # Each device works for half of the microbatches on either of its two stages; more than
            # half as many places too many as devices, and both of them have one.
            behind = (behind + Maximum(0, each - first)) / 2
            inner = each + ceiling(2 * (more - 1) / devices) / 2
        several = 1 - floor(1 / devices)
        return Maximum(several * inner, behind) * devices / L

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
        layers = Add(*(share.kind.count * share.forward[0].flops for share in self.shares))
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
        return total + Cost(self._sent(), span=span)

    def _sent(self) -> Iterator[tuple[Descriptor, Expr]]:
        """Messages between stages, all microbatches' forward and backward."""
        if self.pipeline is not None:
            for name, volume in zip(("forward", "backward"), (self._message,) * 2, strict=True):
                key = Descriptor("CollectivePermute", "comm bytes", name, (self.pipeline.axis,))
                yield key, volume * self.microbatches
