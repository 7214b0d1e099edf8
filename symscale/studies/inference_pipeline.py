"""Layers dealt out to stages of chips: generation in a ring of groups, prefill in a row of chunks.

A sequence's next token needs its last one, so that a group of sequences passes all stages once a
token, and a stage works for every group once a token. The ring turns as fast as the longer of the
two lets it; with fewer groups than stages, stages wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Expr, Integer, ceiling

from symscale.algebra.errors import ShardingError, SymbolError
from symscale.algebra.substitution import bindings, evaluate, exact
from symscale.algebra.symbols import B, L
from symscale.algebra.table import Table
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.layouts import LayoutChoice, layout_choice
from symscale.studies.inference import Inference
from symscale.studies.inference_at import badness, that_work
from symscale.studies.inference_memory import ServingMemory
from symscale.studies.inference_notes import notes_of_lying
from symscale.studies.inference_numbers import whole
from symscale.studies.inference_prefill import checked_prompt
from symscale.studies.inference_result import InferenceResult, bottleneck_of, cost_per_million
from symscale.studies.inference_row import chunks_through, row_time
from symscale.studies.inference_stages import (
    STAGES,
    Stage,
    Staged,
    bubble_of_ring,
    dealt,
    turn_of,
)


@dataclass(frozen=True)
class Pipelined:
    """Generation over ``stages`` stages, ``groups`` groups of sequences on their way at once.

    ``group`` is the step of one group on the chips of one stage, as if they held all layers;
    ``rivals`` are the other meshes and cuts of the cache that answer the same question.
    """

    group: InferenceResult
    stages: int
    groups: int
    rivals: tuple[Pipelined, ...] = field(default=(), repr=False, compare=False)

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

    @cached_property
    def staged(self) -> Staged:
        """The model in parts that stages have."""
        return Staged(self.study)

    @cached_property
    def dealt(self) -> tuple[Stage, ...]:
        """What each stage has; the head takes the place of as many layers as it reads bytes."""
        head, layers = (self.group.number(one) for one in self.staged.head_in_layers)
        return dealt(
            self.study, self.stages, int(ceiling(head * int(self.study.model[L]) / layers))
        )

    @cached_property
    def seconds(self) -> Mapping[Stage, Expr]:
        """Seconds of one group in each unlike stage."""
        one = self.group
        return MappingProxyType(
            {
                stage: self.staged.step(stage).seconds(
                    self.study.network, one.method, one.overlap, one.on_chip
                )
                for stage in self.dealt
            }
        )

    @property
    def handing_on(self) -> Expr:
        """Seconds to hand a group's activations to the next stage: each chip its part."""
        ways = prod(self.group.mesh.values())
        rows = self.study.layers[0].program.arrays["Out"].global_bytes / ways
        return self.study.network.time("CollectivePermute", rows, [STAGES])

    @cached_property
    def busy(self) -> tuple[Expr, ...]:
        """Seconds of one group in each stage, in numbers, with what it takes to hand it on.

        Behind the last stage only the tokens go back, which take no time.
        """
        known = {stage: self.group.number(one) for stage, one in self.seconds.items()}
        on = self.group.number(self.handing_on)
        last = len(self.dealt) - 1
        return tuple(
            exact(known[stage] + on * (place < last), "seconds")
            for place, stage in enumerate(self.dealt)
        )

    @cached_property
    def step_time(self) -> float:
        """Seconds from one token of a sequence to the next: the ring's turn."""
        return float(turn_of(self.busy, Integer(self.groups)))

    @property
    def bubble(self) -> float:
        """The share of the time that stages wait for groups, or for a slower stage."""
        return float(bubble_of_ring(self.busy, Integer(self.groups)))

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second, all groups together."""
        return self.batch / self.step_time

    @property
    def cost_per_million_tokens(self) -> float | None:
        """US dollars for a million generated tokens at the price on file; None without one."""
        return cost_per_million(self.group.chip, self.tokens_per_second / self.chips)

    @property
    def bottleneck(self) -> str:
        """What sets the pace of the slowest stage; ``P`` where it is handing on."""
        one = self.group
        slowest = max(self.seconds, key=lambda stage: one.number(self.seconds[stage]))
        if one.number(self.handing_on) > one.number(self.seconds[slowest]):
            return STAGES
        step = self.staged.step(slowest)
        return bottleneck_of(step, self.study.network, one.method, one.on_chip, one.number)

    @cached_property
    def held(self) -> Mapping[Stage, ServingMemory]:
        """Bytes on a chip of each unlike stage, with all groups' caches."""
        block = self.group.block
        return MappingProxyType(
            {stage: self.staged.memory(stage, self.groups).paged(block) for stage in self.dealt}
        )

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """Bytes on a chip of the fullest stage, by kind."""
        values = self.group.values
        found: list[dict[str, int]] = [
            {kind: round(float(evaluate(e, values))) for kind, e in held.items()}
            for held in self.held.values()
        ]
        fullest: dict[str, int] = max(found, key=_total)
        return MappingProxyType(fullest)

    @property
    def memory_bytes(self) -> int:
        """Bytes on that chip, all kinds together."""
        return sum(self.memory.values())

    @property
    def fits(self) -> bool:
        """Whether it fits the chip's HBM."""
        return self.memory_bytes <= self.group.usable_bytes

    @property
    def largest_batch(self) -> int:
        """The largest batch of all groups that fits every stage; 0 if none does."""
        return max(one.largest_on_mesh for one in (self, *self.rivals))

    @cached_property
    def largest_on_mesh(self) -> int:
        """The same on this very mesh, with the cache as it lies."""
        one = self.group
        fixed = {key: value for key, value in one.values.items() if key != B}
        room = exact(one.usable_bytes, "bytes")
        return self.groups * min(
            held.largest(room, one.batch_step, fixed) for held in self.held.values()
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers leave out, and what does not fit."""
        said = notes_of_lying(self.group)
        if self.fits:
            return said
        missing = self.memory_bytes - self.group.usable_bytes
        return (
            *said,
            f"does not fit: {missing:,} bytes too many on a chip of the fullest stage; the largest "
            f"batch at this context is {self.largest_batch}",
        )

    def prefill_time(self, prompt: int, chunks: int = 1, mfu: float | None = None) -> float:
        """Seconds until the first token of a prompt that passes the stages in chunks.

        Every chunk reads each stage's weights anew, and what is cached of the tokens before it; the
        stages wait at either end. ``mfu`` is the share of the peak that arithmetic reaches (see
        :func:`~symscale.studies.inference_prefill.prefill`).

        Raises:
            ModelError: for a prompt longer than the model's context.
            SymbolError: for more chunks than tokens, or numbers that are not whole.
        """
        length, count = checked_prompt(self.group, prompt, mfu), whole(chunks, "chunks")
        if count > length:
            raise SymbolError(f"{count} chunks of a prompt of {length} tokens: at most {length}")
        return row_time(chunks_through(self, length, count, 1.0 if mfu is None else float(mfu)))

    def table(self) -> Table:
        """The headline numbers."""
        cost = self.cost_per_million_tokens
        rows: list[tuple[str, str | float | int]] = [
            ("chips", self.chips),
            ("stages", self.stages),
            ("groups of sequences", self.groups),
            ("seconds a token", self.step_time),
            ("tokens/s", self.tokens_per_second),
            ("tokens/s a chip", self.tokens_per_second / self.chips),
            ("bottleneck", self.bottleneck),
            ("bubble", self.bubble),
            *((f"{kind}, bytes a chip", value) for kind, value in self.memory.items()),
            ("fits", "yes" if self.fits else "no"),
            ("largest batch", self.largest_batch),
            ("USD a million tokens", "no price on file" if cost is None else cost),
        ]
        return Table(("pipeline", "value"), tuple(rows))

    def __repr__(self) -> str:
        one = self.group
        mesh = ", ".join(f"{name}={size}" for name, size in one.mesh.items())
        head = (
            f"{self.study.model.name}, {self.study.layout.name}, {one.chip.name}, "
            f"{STAGES}={self.stages}, {mesh}; a batch of {self.batch}, {one.context} tokens "
            "cached of each"
        )
        return "\n".join([head, str(self.table()), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        one = self.group
        return {
            "model": self.study.model.name,
            "strategy": self.study.layout.name,
            "cache": self.study.layout.cache,
            "chip": one.chip.name,
            "mesh": {STAGES: self.stages, **one.mesh},
            "stages": self.stages,
            "groups": self.groups,
            "chips": self.chips,
            "batch": self.batch,
            "context": one.context,
            "step_time_s": self.step_time,
            "tokens_per_s": self.tokens_per_second,
            "tokens_per_s_per_chip": self.tokens_per_second / self.chips,
            "usd_per_million_tokens": self.cost_per_million_tokens,
            "bottleneck": self.bottleneck,
            "bubble": self.bubble,
            "kv_bytes_per_token": one.kv_bytes_per_token,
            "memory": dict(self.memory),
            "memory_bytes": self.memory_bytes,
            "usable_bytes": one.usable_bytes,
            "fits": self.fits,
            "max_batch": self.largest_batch,
            "notes": list(self.notes),
        }


def _total(kinds: dict[str, int]) -> int:
    return sum(kinds.values())


def pipelined(
    study: Inference,
    chip: str | PathLike[str] | Chip,
    *,
    stages: int,
    chips: int,
    batch: int,
    groups: int | None = None,
    layout: str | LayoutChoice | None = None,
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
        layout: how mesh axes lie on the network; the stages are axis ``P``.
        numbers: ``context``, ``overlap`` and the like (see :meth:`Inference.at`).

    Raises:
        SymbolError: for a number that is not whole, or more stages than layers.
        ShardingError: for chips or a batch that stages or groups do not divide.

    >>> from symscale.studies.inference import inference
    >>> llama = inference("llama-3-8b", weights="int8")
    >>> found = pipelined(llama, "h100", stages=2, chips=4, batch=16, context=1024)
    >>> found.chips, found.bottleneck, found.fits
    (4, 'hbm', True)
    """
    count, every = whole(stages, "stages"), whole(chips, "chips")
    parts = count if groups is None else whole(groups, "groups")
    if numbers.get("replicas", 1) != 1:
        raise SymbolError("replicas of a pipeline: ask for one, with its own batch")
    _check(study, count, every, whole(batch, "batch"), parts)
    found, choice = find_chip(chip), layout_choice(layout)
    group = study.at(
        found, chips=every // count, batch=int(batch) // parts, layout=_inside(choice), **numbers
    )
    options = that_work(_option(one, count, parts, choice) for one in (group, *group.rivals))
    chosen = min(options, key=badness)
    return replace(chosen, rivals=tuple(one for one in options if one is not chosen))


def _check(study: Inference, stages: int, chips: int, batch: int, groups: int) -> None:
    if stages > int(study.model[L]):
        raise SymbolError(f"{stages} stages: {study.model.name} has {study.model[L]} layers")
    if chips % stages:
        fewer = next(n for n in range(min(stages, chips), 0, -1) if chips % n == 0)
        raise ShardingError(
            f"{chips} chips are not dealt out evenly to {stages} stages; the largest number of "
            f"stages below that works is {fewer}"
        )
    if batch % groups:
        below = batch // groups * groups
        hint = f"the largest below that is {below}" if below else f"{groups} is the smallest"
        raise ShardingError(f"a batch of {batch} is not cut evenly into {groups} groups; {hint}")


def _inside(choice: LayoutChoice) -> LayoutChoice:
    """What a layout says of the axes of one stage."""
    return LayoutChoice(
        tuple(name for name in choice.order if name != STAGES),
        {name: count for name, count in choice.links.items() if name != STAGES},
        choice.outside - {STAGES},
    )


def _option(
    one: InferenceResult, stages: int, groups: int, choice: LayoutChoice
) -> Callable[[], Pipelined]:
    """A group's mesh with the stages on the network, outside the axes of one stage."""

    def made() -> Pipelined:
        live = tuple(name for name, size in one.mesh.items() if size > 1)
        sizes = {STAGES: stages, **{name: one.mesh[name] for name in live}}
        links = {name: f"M_{name}" for name in live if f"M_{name}" in one.asked}
        own = {name: whole(one.asked[link], link) for name, link in links.items()}
        place = one.chip.placement((STAGES, *live), sizes, own, choice)
        network = place.network(one.asked["fidelity"])
        values = {**one.values, **place.layout.bindings, **bindings(**{STAGES: stages})}
        study = replace(one.study, network=network)
        group = replace(
            one, study=study, values=MappingProxyType(values), placement=place, rivals=()
        )
        return Pipelined(group, stages, groups)

    return made
