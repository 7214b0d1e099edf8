"""Layers dealt out to stages of chips: generation in a ring of groups, prefill in a row of chunks.

A sequence's next token needs its last one, so that a group of sequences passes all stages once a
token, and a stage works for every group once a token. The ring turns as fast as the longer of the
two lets it; with fewer groups than stages, stages wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, Integer, S, ceiling, floor

from symscale.algebra.errors import ShardingError, SymbolError
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import bindings, evaluate, exact
from symscale.algebra.symbols import L, m, p
from symscale.algebra.table import Table
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.parallel.schedules.lookup import schedule
from symscale.programs.sharded import ShardedProgram
from symscale.studies.inference import Inference
from symscale.studies.inference_kernels import one_pass
from symscale.studies.inference_memory import weights_of
from symscale.studies.inference_program import Served
from symscale.studies.inference_result import InferenceResult, as_float

#: The mesh axis of the stages.
STAGES = "P"


@dataclass(frozen=True)
class Pipelined:
    """Generation over ``stages`` stages, ``groups`` groups of sequences on their way at once.

    ``group`` is the step of one group on the chips of one stage, as if they held all layers.
    """

    group: InferenceResult
    stages: int
    groups: int

    @property
    def study(self) -> Inference:
        """What serves."""
        return self.group.study

    @property
    def batch(self) -> int:
        """Sequences of all groups."""
        return self.group.batch * self.groups

    @property
    def chips(self) -> int:
        """Chips of all stages."""
        return self.group.chips * self.stages

    @property
    def layers(self) -> tuple[int, int]:
        """The most layers of a stage, and those of the last one, where the head is."""
        every = int(self.study.model[L])
        return int(ceiling(Integer(every) / self.stages)), int(floor(Integer(every) / self.stages))

    @cached_property
    def stage(self) -> Expr:
        """Seconds of the slowest stage for one group: most layers, or the head behind fewer."""
        most, last = self.layers
        share = Integer(1) / self.study.model[L]
        return Maximum(most * share * self._layers, last * share * self._layers + self._ends)

    @cached_property
    def _layers(self) -> Expr:
        return self._seconds(self.study.sharded[:-1])

    @cached_property
    def _ends(self) -> Expr:
        return self._seconds(self.study.sharded[-1:])

    def _seconds(self, parts: tuple[tuple[Served, ShardedProgram], ...]) -> Expr:
        one, made = self.group, one_pass(parts, self.study.kv).put(self.study.model)
        return made.seconds(self.study.network, one.method, one.overlap, one.on_chip)

    @property
    def handing_on(self) -> Expr:
        """Seconds to hand a group's activations to the next stage: each chip its part."""
        ways = prod(self.group.mesh.values())
        rows = self.study.layers[0].program.arrays["Out"].global_bytes / ways
        return self.study.network.time("CollectivePermute", rows, [STAGES])

    @property
    def turn(self) -> Expr:
        """Seconds from one token of a sequence to the next: the ring's turn."""
        return turn_of(Integer(self.stages), Integer(self.groups), self.stage + self.handing_on)

    @cached_property
    def step_time(self) -> float:
        """Seconds between two tokens of a sequence."""
        return self.group.number(self.turn)

    @property
    def bubble(self) -> float:
        """The share of the time that a stage waits for groups."""
        return 1 - self.groups / max(self.groups, self.stages)

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second, all groups together."""
        return self.batch / self.step_time

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """Bytes on a chip of the stage with the most layers, and the larger table, by kind."""
        most, _ = self.layers
        held = self.study.memory.paged(self.group.block)
        share = Integer(most) / self.study.model[L]
        ends = weights_of(self.study.layers[-1], self.study.layout)
        inner = held.weights - Add(*ends.values()).xreplace(dict(self.study.model))
        kinds = {
            "weights": share * inner + Maximum(*ends.values()),
            "cache": share * held.cache * self.groups,
            "state": share * held.state * self.groups,
            "working": held.working,
        }
        found = {kind: round(float(evaluate(e, self.group.values))) for kind, e in kinds.items()}
        return MappingProxyType({kind: value for kind, value in found.items() if value})

    @property
    def memory_bytes(self) -> int:
        """Bytes on that chip, all kinds together."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether it fits the chip's HBM."""
        return self.memory_bytes <= self.group.usable_bytes

    def prefill_time(self, prompt: int, chunks: int = 1) -> float:
        """Seconds until the first token of a prompt that passes the stages in equal chunks.

        Each chunk is counted as a prompt of its own that attends to what came before at the mean;
        the stages' waiting at either end is the bubble of a schedule of forward passes.
        """
        whole = self.study.prefill.seconds(self.study.network, "per-op", self.group.overlap, False)
        tokens = {**self.group.values, **bindings(B=prompt, T=prompt)}
        most, _ = self.layers
        each = as_float(whole, tokens) * most / int(self.study.model[L]) / chunks
        waits = schedule("gpipe", p=self.stages, m=chunks).bubble_of_ideal
        return each * chunks * (1 + float(waits))

    def table(self) -> Table:
        """The headline numbers."""
        rows: list[tuple[str, str | float | int]] = [
            ("chips", self.chips),
            ("stages", self.stages),
            ("groups of sequences", self.groups),
            ("seconds a token", self.step_time),
            ("tokens/s", self.tokens_per_second),
            ("bubble", self.bubble),
            *((f"{kind}, bytes a chip", value) for kind, value in self.memory.items()),
            ("fits", "yes" if self.fits else "no"),
        ]
        return Table(("pipeline", "value"), tuple(rows))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "stages": self.stages,
            "groups": self.groups,
            "chips": self.chips,
            "batch": self.batch,
            "step_time_s": self.step_time,
            "tokens_per_s": self.tokens_per_second,
            "bubble": self.bubble,
            "memory": dict(self.memory),
            "memory_bytes": self.memory_bytes,
            "fits": self.fits,
        }


def turn_of(stages: Expr, groups: Expr, seconds: Expr) -> Expr:
    """How long a ring of stages takes for a token of every group, each stage so many seconds.

    A group passes all stages, one after another; a stage serves all groups, one after another.

    >>> turn_of(p, m, S.One)
    Maximum(m, p)
    """
    return seconds * Maximum(stages, groups)


def bubble_of_ring(stages: Expr = p, groups: Expr = m) -> Expr:
    """The share of a turn in which a stage has no group.

    >>> bubble_of_ring()
    -m/Maximum(m, p) + 1
    """
    return 1 - groups / turn_of(stages, groups, S.One)


def pipelined(
    study: Inference,
    chip: str | PathLike[str] | Chip,
    *,
    stages: int,
    chips: int,
    batch: int,
    groups: int | None = None,
    **numbers: Any,
) -> Pipelined:
    """Generation over stages of chips, each of which holds a part of the layers.

    Args:
        study: what serves.
        chip: the name of a chip, or a chip.
        stages: of the pipeline; each has its part of the layers.
        chips: of all stages.
        batch: sequences of all groups.
        groups: parts of the batch on their way at once; as many as stages unless given.
        numbers: ``context``, ``overlap`` and the like (see :meth:`Inference.at`).

    Raises:
        SymbolError: for a number that is not whole, or more stages than layers.
        ShardingError: for chips or a batch that stages or groups do not divide.

    >>> from symscale.studies.inference import inference
    >>> llama = inference("llama-3-8b", weights="int8")
    >>> found = pipelined(llama, "h100", stages=2, chips=4, batch=16, context=1024)
    >>> found.chips, found.bubble
    (4, 0.0)
    """
    parts = stages if groups is None else groups
    for name, value in (("stages", stages), ("groups", parts), ("chips", chips)):
        if not exact(value, name).is_integer:
            raise SymbolError(f"{name} = {value}: a whole number is wanted")
    if stages > int(study.model[L]):
        raise SymbolError(f"{stages} stages: {study.model.name} has {study.model[L]} layers")
    if chips % stages:
        raise ShardingError(f"{chips} chips are not dealt out evenly to {stages} stages")
    if batch % parts:
        below = batch // parts * parts
        raise ShardingError(
            f"a batch of {batch} is not cut evenly into {parts} groups; the largest below that is "
            f"{below}"
        )
    found = find_chip(chip)
    group = study.at(found, chips=chips // stages, batch=batch // parts, **numbers)
    return Pipelined(_joined(group, stages, numbers), stages, parts)


def _joined(group: InferenceResult, stages: int, numbers: Mapping[str, Any]) -> InferenceResult:
    """A group's step with the stages on the network, too, outside the axes of one stage."""
    live = tuple(name for name, size in group.mesh.items() if size > 1)
    sizes = {STAGES: stages, **{name: group.mesh[name] for name in live}}
    place = group.chip.placement((STAGES, *live), sizes, layout=numbers.get("layout"))
    network = place.network(numbers.get("fidelity", "ideal"))
    values = {**group.values, **place.layout.bindings, **bindings(**{STAGES: stages})}
    study = replace(group.study, network=network)
    return replace(group, study=study, values=MappingProxyType(values), placement=place)
