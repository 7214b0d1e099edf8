"""Chunked prefill: a piece of a prompt rides on every step of generation.

A step of generation waits for its weights; until arithmetic takes as long, more tokens cost
nothing but the reading of their own cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, Sum, Symbol, cancel, ceiling, expand

from symscale.algebra.derivation import Derivation
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import B, b
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.table import Table
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.solve.numeric import numeric
from symscale.studies.inference_result import as_float
from symscale.studies.serving.batching import Batching
from symscale.studies.serving.numbers import Numbers
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.words import CHUNK, DONE, S_IN

_INDEX = Symbol("i", integer=True, nonnegative=True)


@dataclass(frozen=True)
class Chunked:
    """Steps of ``b`` sequences that generate, and ``S_chunk`` tokens of prompts beside them."""

    step: ServerStep

    @cached_property
    def compute_bound(self) -> Crossover:
        """The chunk from which on a step waits for arithmetic: until then it rides for nothing.

        >>> from symscale.algebra.symbols import C, W_hbm
        >>> Chunked(ServerStep(2 * B / C, 2 / W_hbm)).compute_bound.threshold
        (C - W_hbm*b)/W_hbm
        """
        tokens = b + CHUNK
        return crossover(self.step.math.subs(B, tokens), self.step.weights.subs(B, tokens), CHUNK)

    @property
    def needed(self) -> Expr:
        """Tokens of prompts that a step must read to keep the batch full.

        >>> from sympy import Integer
        >>> Chunked(ServerStep(B, Integer(1))).needed
        S_in*b/S_out
        """
        flows = Batching()
        prompts = flows.entering - b
        return cancel(prompts.subs(DONE, flows.finishing))

    @cached_property
    def rides_free(self) -> Crossover:
        """The batch up to which all prompts are read beside generation at no cost.

        >>> from symscale.algebra.symbols import C, W_hbm
        >>> Chunked(ServerStep(2 * B / C, 2 / W_hbm)).rides_free
        b <= C*S_out/(W_hbm*(S_in + S_out))
        """
        tokens = b + self.needed
        return crossover(self.step.weights.subs(B, tokens), self.step.math.subs(B, tokens), b)

    @property
    def token_time(self) -> Expr:
        """Seconds between two tokens of a sequence while a chunk rides along."""
        return self.step.seconds(beside=CHUNK) + self.read_again / self.steps

    @property
    def steps(self) -> Expr:
        """Steps that a prompt takes."""
        return ceiling(S_IN / CHUNK)

    @property
    def own_cache(self) -> Expr:
        """Seconds to read what one sequence of ``S`` tokens has cached."""
        return self.step.cache.subs(b, 1)

    @property
    def read_again(self) -> Expr:
        """Seconds in which a prompt's own cache is read again for its later chunks.

        Chunk i meets the i chunks before it. Summed for a prompt that is cut evenly; behind a
        window there is no closed form, and the sum stays.

        >>> from sympy import Integer
        >>> Chunked(ServerStep(B, Integer(1), b * KEYS)).read_again
        -S_in/2 + S_in**2/(2*S_chunk)
        """
        one = self.own_cache
        total = Sum(one.subs(KEYS, _INDEX * CHUNK), (_INDEX, 0, S_IN / CHUNK - 1))
        return expand(total.doit()) if one.is_polynomial(KEYS) else total

    @property
    def first_token(self) -> Expr:
        """Seconds to a first token, once the prompt's turn has come."""
        return self.steps * self.step.seconds(beside=CHUNK) + self.read_again

    @property
    def derivation(self) -> Derivation:
        """The steps of both walls."""
        return self.compute_bound.derivation + self.rides_free.derivation

    def at(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> ChunkedResult:
        """The steps with numbers in them: a chip's rates, ``b``, ``S``, ``S_in``, ``S_chunk``.

        Raises:
            SymbolError: for a symbol without a number.
        """
        values = bindings(*sources, **numbers)
        as_float(self.steps * self.step.seconds(beside=CHUNK), values)
        return ChunkedResult(self, values)

    def __repr__(self) -> str:
        return f"chunked prefill: compute-bound where {self.compute_bound}"

    def to_dict(self) -> dict[str, Any]:
        """The formulas as plain text."""
        return {
            "compute_bound": self.compute_bound.to_dict(),
            "rides_free": self.rides_free.to_dict(),
            "first_token": str(self.first_token),
            "token_time": str(self.token_time),
        }


@dataclass(frozen=True, repr=False)
class ChunkedResult(Numbers):
    """Chunked prefill in numbers, in seconds."""

    of: Chunked
    values: Mapping[Symbol, Expr]

    def number(self, expr: Expr, **more: Any) -> float:
        """An expression in numbers; in floating point, as experts that are met are a high power."""
        return as_float(expr, bindings(self.values, **more))

    @cached_property
    def read_again(self) -> float:
        """Seconds in which a prompt's own cache is read again, chunk by chunk; the last is short.

        Each chunk meets the tokens before it, however the prompt is cut.
        """
        import numpy as np

        chunk, steps = int(self.values[CHUNK]), round(self.number(self.of.steps))
        one = self.of.own_cache.xreplace({k: v for k, v in self.values.items() if k != KEYS})
        before = np.arange(steps, dtype=np.float64) * chunk
        return float(np.broadcast_to(numeric(one, KEYS)(before), before.shape).sum())

    @property
    def step_time(self) -> float:
        """Seconds of a step on which a chunk rides, its own cache not read again."""
        return self.number(self.of.step.seconds(beside=CHUNK))

    @property
    def first_token(self) -> float:
        """Seconds to a first token."""
        return self.number(self.of.steps) * self.step_time + self.read_again

    @property
    def token_time(self) -> float:
        """Seconds between two tokens while a chunk rides along."""
        return self.step_time + self.read_again / self.number(self.of.steps)

    @property
    def plain(self) -> float:
        """Seconds between two tokens of a step without a chunk."""
        return self.number(self.of.step.seconds())

    @property
    def slowdown(self) -> float:
        """Seconds between two tokens over those of a step without a chunk."""
        return self.token_time / self.plain

    @property
    def free(self) -> bool:
        """Whether the step still waits for memory: the other side of the wall ``compute_bound``."""
        step, tokens = self.of.step, b + CHUNK
        math, weights = (one.subs(B, tokens) for one in (step.math, step.weights))
        return self.number(math) < self.number(weights)

    def table(self) -> Table:
        """The numbers."""
        return Table(
            ("", "value"),
            (
                ("seconds to a first token", self.first_token),
                ("seconds between two tokens", self.token_time),
                ("the same without a chunk", self.plain),
                ("the step waits for", "memory" if self.free else "arithmetic"),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "ttft_s": self.first_token,
            "token_time_s": self.token_time,
            "plain_token_time_s": self.plain,
            "compute_bound": not self.free,
        }


def chunked(step: ServerStep) -> Chunked:
    """Chunked prefill on a server."""
    return Chunked(step)
