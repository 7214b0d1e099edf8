"""A prompt in chunks through a row of stages: each chunk's seconds in each, and until the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from sympy import Expr, Integer, Symbol

from symscale.algebra.symbols import B, T
from symscale.studies.inference_prefill import prompts_at_once
from symscale.studies.inference_result import as_float
from symscale.studies.inference_stages import Stage

if TYPE_CHECKING:
    from symscale.studies.inference_pipeline import Pipelined


def chunks_through(
    found: Pipelined, length: int, count: int, share: float
) -> Iterator[list[float]]:
    """Seconds of each chunk in each stage, the hand-over with it; ``share`` of the peak at most."""
    past = 0
    for number in range(count):
        tokens = length // count + (number < length % count)
        last = number == count - 1
        known = {
            stage: _seconds(found, stage, (past, tokens), last, share) for stage in found.seconds
        }
        on = as_float(found.handing_on, _values(found, tokens))
        yield [known[stage] + on for stage in found.dealt[:-1]] + [known[found.dealt[-1]]]
        past += tokens


def _seconds(
    found: Pipelined, stage: Stage, chunk: tuple[int, int], last: bool, share: float
) -> float:
    """Seconds of a chunk, after so many tokens, in a stage: the bound, or its arithmetic."""
    made = found.staged.chunk(stage, *chunk, prompts_at_once(found.group), last)
    bound = made.seconds(found.study.network, "per-op", found.group.overlap, False)
    values = _values(found, chunk[1])
    return max(as_float(bound, values), as_float(made.total("math"), values) / share)


def _values(found: Pipelined, tokens: int) -> dict[Symbol, Expr]:
    every = prompts_at_once(found.group) * tokens
    return {**found.group.values, B: Integer(every), T: Integer(tokens)}


def row_time(times: Iterable[Sequence[float]]) -> float:
    """Seconds until the last chunk has passed a row of stages, by each chunk's seconds in each.

    A stage takes chunks in order; a chunk goes to a stage when it is done in the one before.

    >>> row_time([(1, 2), (1, 2), (1, 2)])
    7.0
    """
    done: list[float] = []
    for chunk in times:
        ready, done = 0.0, done or [0.0] * len(chunk)
        for stage, seconds in enumerate(chunk):
            ready = done[stage] = max(ready, done[stage]) + seconds
    return done[-1]
