"""What one device of a pipeline holds, stage by stage; without a pipeline there is one stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sympy import Add, Expr, S, Symbol

from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B
from symscale.models.model import Model
from symscale.parallel.strategy import Strategy
from symscale.programs.sharded import ShardedProgram
from symscale.studies.memory import KINDS, Memory, ends_memory, layer_memory, shared_ends
from symscale.studies.share import Share

#: The kinds that grow with the microbatches in flight.
_FLOWING = ("activations",)


@dataclass(frozen=True)
class Held:
    """Bytes on the device that holds most: which one it is, and how much of each kind."""

    device: int
    by_kind: Mapping[str, int]

    @property
    def total(self) -> int:
        """All kinds together."""
        return sum(self.by_kind.values())


@dataclass(frozen=True)
class StageMemory:
    """Bytes that a layer of each kind takes, and the ends, for one microbatch.

    ``kinds`` are pairs of a count and the memory of one layer; ``order`` names, for every layer of
    the model, the kind it is of.
    """

    strategy: Strategy
    kinds: tuple[tuple[Symbol, Memory], ...]
    embedding: Memory
    head: Memory
    common: Memory
    order: tuple[int, ...]
    head_in_layers: Expr = S.Zero

    @classmethod
    def of(
        cls,
        model: Model,
        strategy: Strategy,
        shares: tuple[Share, ...],
        ends: ShardedProgram,
        head_in_layers: Expr = S.Zero,
    ) -> StageMemory:
        """Read off the sharded programs of a model's layers and ends."""
        used, small = strategy.techniques, {B: B / strategy.techniques.microbatches}
        first, last = ends_memory(ends, used)
        kinds = tuple((s.kind.count, layer_memory(s, used).put(small)) for s in shares)
        layers = [share.kind.layer for share in shares]
        return cls(
            strategy,
            kinds,
            first.put(small),
            last.put(small),
            shared_ends(ends, used).put(small),
            tuple(layers.index(layer) for layer in model.config.body.layers),
            head_in_layers,
        )

    @property
    def offloaded(self) -> tuple[str, ...]:
        """The kinds that lie on the host."""
        return self.strategy.techniques.offload

    @property
    def first(self) -> Memory:
        """The first stage in symbols, holding an even mix of the kinds of layer.

        Without a pipeline this is the only stage, with both ends.
        """
        pipeline = self.strategy.pipeline
        made = self._layers(S.One if pipeline is None else pipeline.devices)
        if pipeline is None:
            made = made + self.embedding + self.head + self.common.scale(-1)
        else:
            made = made.scale(pipeline.schedule.in_flight(0), _FLOWING) + self.embedding
            made = made.scale(pipeline.schedule.recipe.weights, ("parameters", "gradients"))
        ends = [self.embedding] if pipeline else [self.embedding, self.head]
        widest = _widest([one["buffers"] for one in (*(m for _, m in self.kinds), *ends)])
        return Memory(MappingProxyType({**made.by_kind, "buffers": widest})).without(self.offloaded)

    def _layers(self, devices: Expr) -> Memory:
        total = Memory(MappingProxyType({}))
        for count, each in self.kinds:
            total = total + each.scale(count / devices)
        return total

    def peak(self, values: Mapping[Symbol, Expr]) -> Held:
        """The device that holds most, with numbers."""
        return max(self.devices(values), key=lambda held: held.total)

    def devices(self, values: Mapping[Symbol, Expr]) -> tuple[Held, ...]:
        """What each device of a pipeline holds, with numbers; without one there is one device."""
        known = {**dict(values)}
        each = [self._numbers(memory, known) for _, memory in self.kinds]
        ends = [self._numbers(m, known) for m in (self.embedding, self.head, self.common)]
        return tuple(
            Held(
                device,
                MappingProxyType(
                    {
                        kind: round(float(size))
                        for kind, size in self._on(device, known, each, ends).items()
                    }
                ),
            )
            for device in range(self._devices(known))
        )

    def formula(self, device: int, values: Mapping[Symbol, Expr]) -> Memory:
        """What one device holds in symbols, its numbers of layers and microbatches put in."""
        each = [dict(memory) for _, memory in self.kinds]
        ends = [dict(memory) for memory in (self.embedding, self.head, self.common)]
        return Memory(MappingProxyType(self._on(device, {**dict(values)}, each, ends)))

    def _devices(self, values: Mapping[Symbol, Expr]) -> int:
        pipeline = self.strategy.pipeline
        return 1 if pipeline is None else int(evaluate(pipeline.devices, values))

    @staticmethod
    def _numbers(memory: Memory, values: Mapping[Symbol, Expr]) -> dict[str, Expr]:
        return {kind: evaluate(expr, values) for kind, expr in memory.items()}

    def _on(
        self,
        device: int,
        values: Mapping[Symbol, Expr],
        each: list[dict[str, Expr]],
        ends: list[dict[str, Expr]],
    ) -> dict[str, Expr]:
        pipeline, layers = self.strategy.pipeline, len(self.order)
        copies = 1 if pipeline is None else pipeline.schedule.recipe.weights
        if pipeline is None:
            held, flight = tuple(range(layers)), S.One
        else:
            count = self._devices(values)
            head = int(evaluate(self.head_in_layers, values))
            held = pipeline.stage_layers(layers, count, head)[device]
            sizes = pipeline.schedule.at(p=count)
            flight = evaluate(sizes.in_flight(device), values)
        out = {}
        for kind in KINDS:
            amounts = [each[self.order[layer]][kind] for layer in held]
            beside = self._of_ends(kind, device, values, ends)
            if kind == "buffers":
                out[kind] = _widest([*amounts, *beside])
                continue
            # Of two copies of a stage each has half of what flows, and of the optimizer's state.
            total = Add(*amounts) / (copies if kind in ("optimizer", *_FLOWING) else 1)
            out[kind] = total * (flight if kind in _FLOWING else 1) + Add(*beside)
        return {kind: S.Zero if kind in self.offloaded else size for kind, size in out.items()}

    def _of_ends(
        self, kind: str, device: int, values: Mapping[Symbol, Expr], ends: list[dict[str, Expr]]
    ) -> tuple[Expr, ...]:
        """What the embedding and the head add on the devices of the first and the last stage."""
        pipeline, count = self.strategy.pipeline, self._devices(values)
        stages = (0,) if pipeline is None else pipeline.stages_of(device, count)
        last = 0 if pipeline is None else count * int(pipeline.schedule.pieces) - 1
        flight = S.One if pipeline is None else pipeline.schedule.recipe.behind(pipeline.schedule.m)
        embedding, head, common = ends
        found = [embedding[kind]] if 0 in stages else []
        if last in stages:
            found.append(head[kind] * (flight if kind in ("activations", "logits") else 1))
        both = 0 in stages and last in stages
        return (*found, -common[kind]) if both and kind != "buffers" else tuple(found)

    @property
    def on_host(self) -> Memory:
        """What the first stage keeps on the host."""
        here = replace(self, strategy=self.strategy.using(offload=()))
        return here.first.without(kind for kind in KINDS if kind not in self.offloaded)


def _widest(amounts: list[Expr]) -> Expr:
    """The largest of several, unevaluated where they are symbols."""
    unlike = tuple(dict.fromkeys(amounts))
    if not unlike:
        return S.Zero
    return unlike[0] if len(unlike) == 1 else Maximum(*unlike)
