"""Layers dealt out to stages: what each stage computes, moves and holds.

Layers may be unlike, and the embedding and the head are at the ends, so that stages differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from sympy import Add, Expr, Integer, S

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, T
from symscale.algebra.symbols import S as KEYS
from symscale.parallel.pipeline import pipeline
from symscale.programs.sharded import ShardedProgram
from symscale.studies.inference import Inference
from symscale.studies.inference_kernels import Kernel, Pass, one_pass
from symscale.studies.inference_memory import ServingMemory, serving_memory
from symscale.studies.inference_program import Served, ends_apart

#: The mesh axis of the stages.
STAGES = "P"

Parts = tuple[tuple[Served, ShardedProgram], ...]


@dataclass(frozen=True)
class Stage:
    """How many layers of each kind a stage has, then whether it has the embedding and the head."""

    counts: tuple[int, ...]

    def __repr__(self) -> str:
        return f"stage of {sum(self.counts[:-2])} layers"


def dealt(study: Inference, stages: int, head: int = 0) -> tuple[Stage, ...]:
    """A model's layers in their order over stages, the head in the place of so many layers.

    >>> from symscale.studies.inference import inference
    >>> [one.counts for one in dealt(inference("deepseek-v3"), 4)]
    [(3, 12, 1, 0), (0, 15, 0, 0), (0, 15, 0, 0), (0, 16, 0, 1)]
    """
    kinds = [kind.layer for kind in study.model.programs.kinds]
    order = [kinds.index(layer) for layer in study.model.config.body.layers]
    held = pipeline(STAGES, {}).stage_layers(len(order), stages, head)
    return tuple(
        Stage(
            (
                *([order[layer] for layer in layers].count(kind) for kind in range(len(kinds))),
                int(number == 0),
                int(number == stages - 1),
            )
        )
        for number, layers in enumerate(held)
    )


@dataclass(frozen=True)
class Staged:
    """A model in parts that stages have: each kind of layer, the embedding, the head."""

    study: Inference

    @cached_property
    def parts(self) -> Parts:
        """The parts in generation, each once."""
        return self._apart(self.study.sharded)

    @cached_property
    def units(self) -> tuple[Pass, ...]:
        """A step of generation through each part."""
        return self._passes(self.parts)

    @cached_property
    def reading(self) -> tuple[Pass, ...]:
        """The pass of ``B/T`` prompts of ``T`` tokens through each part."""
        return self._passes(self._apart(self.study.prefilled))

    @cached_property
    def cached(self) -> tuple[Expr, ...]:
        """Bytes of what ``B`` sequences have cached that a part reads once, heads cut."""
        heads = Staged(self.study.with_cache("heads"))
        return tuple(
            Add(*(one.cache for one in unit.kernels if one.attention)) for unit in heads.units
        )

    def _apart(self, sharded: Sequence[tuple[Served, ShardedProgram]]) -> Parts:
        *layers, (ends, _) = sharded
        layout = replace(self.study.layout, cache="heads")
        apart = [(one, layout.shard(one)) for one in ends_apart(ends)]
        return tuple((replace(s, count=S.One), p) for s, p in (*layers, *apart))

    def _passes(self, parts: Parts) -> tuple[Pass, ...]:
        made = (one_pass([part], self.study.kv) for part in parts)
        return tuple(one.put(self.study.model) for one in made)

    @property
    def head_in_layers(self) -> tuple[Expr, Expr]:
        """Bytes of weights that the head reads, and those of all layers: to deal it out with."""
        read = [unit.total("weights") for unit in self.units]
        counts = (served.count for served in self.study.layers[:-1])
        return read[-1], Add(*(n * one for n, one in zip(counts, read, strict=False)))

    def step(self, stage: Stage) -> Pass:
        """A step of generation through a stage."""
        return times(self.units, stage.counts)

    def chunk(self, stage: Stage, past: int, tokens: int, prompts: int, last: bool) -> Pass:
        """The pass of a chunk of prompts through a stage: so many tokens behind so many.

        Arithmetic is what the prompt has more of for the chunk, as a mask leaves fewer pairs to its
        beginning; weights are read anew, and so is what is cached of the tokens before. Only the
        last chunk gets logits.
        """
        units = [
            _chunk(unit, held, past, tokens, prompts)
            for unit, held in zip(self.reading[:-1], self.cached[:-1], strict=True)
        ]
        alone = {B: Integer(prompts * tokens), T: Integer(tokens)}
        counts = (*stage.counts[:-1], stage.counts[-1] * last)
        return times((*units, self.reading[-1].put(alone)), counts)

    def memory(self, stage: Stage, groups: int) -> ServingMemory:
        """Bytes on a chip of a stage: its layers' weights, and the caches of all groups."""
        study = self.study
        held = [
            replace(served, count=Integer(count))
            for (served, _), count in zip(self.parts, stage.counts, strict=True)
            if count
        ]
        kinds = study.model.programs.kinds
        counts = {kind.count: Integer(n) for kind, n in zip(kinds, stage.counts, strict=False)}
        state = study.model.state_bytes().xreplace(counts)
        beside = study.tower_bytes if stage.counts[-2] else S.Zero
        made = serving_memory(held, study.layout, self.step(stage), groups * state, beside)
        kept = tuple((groups * count, array) for count, array in made.kept)
        return replace(made, kept=kept).put(study.model)


def times(units: Iterable[Pass], counts: Sequence[int]) -> Pass:
    """Passes one after another, each so often."""
    kernels, exchanges = [], []
    for unit, count in zip(units, counts, strict=True):
        if count:
            kernels += [replace(one, count=Integer(count)) for one in unit.kernels]
            exchanges += [replace(one, count=Integer(count)) for one in unit.exchanges]
    return Pass(tuple(kernels), tuple(exchanges))


def _chunk(unit: Pass, cached: Expr, past: int, tokens: int, prompts: int) -> Pass:
    """A part's pass of a chunk, from those of whole prompts."""

    def of(length: int) -> dict[Expr, Expr]:
        return {B: Integer(prompts * length), T: Integer(length)}

    before = cached.xreplace({B: Integer(prompts), KEYS: Integer(past)}) if past else S.Zero
    kernels: list[Kernel] = []
    for one in unit.kernels:
        math = one.math.xreplace(of(past + tokens))
        if past:
            math -= one.math.xreplace(of(past))
        here = one.put(of(tokens))
        reads = before if one.attention else S.Zero
        # Read once, with the first kernel that meets it.
        before = S.Zero if one.attention else before
        kernels.append(replace(here, math=math, cache=here.cache + reads))
    return Pass(tuple(kernels), unit.exchanges)


def turn_of(stages: Sequence[Expr], groups: Expr) -> Expr:
    """How long a ring of stages takes for a token of every group, by each stage's seconds.

    A group passes all stages, one after another; a stage serves all groups, one after another.

    >>> turn_of((S.One, S(2)), S(3))
    6
    """
    unlike = tuple(dict.fromkeys(stages))
    slowest = unlike[0] if len(unlike) == 1 else Maximum(*unlike)
    found: Expr = Maximum(Add(*stages), groups * slowest).doit()
    return found


def bubble_of_ring(stages: Sequence[Expr], groups: Expr) -> Expr:
    """The share of a turn in which stages have no group, at the mean of all stages.

    >>> bubble_of_ring((S.One, S.One), S.One), bubble_of_ring((S.One, S(2)), S(3))
    (1/2, 1/4)
    """
    return 1 - groups * Add(*stages) / (len(stages) * turn_of(stages, groups))
