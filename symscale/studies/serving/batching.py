"""Continuous batching: a batch that stays full, as finished sequences make room for new ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, Symbol, cancel

from symscale.algebra.derivation import Derivation
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b, to_latex
from symscale.algebra.table import Table
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.serving.contexts import mean_over_answer
from symscale.studies.serving.numbers import Numbers
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.words import DONE, S_IN, S_OUT, T_PREFILL, T_STEP


@dataclass(frozen=True)
class Batching:
    """A server that generates for ``b`` sequences at all times, its prefills in between.

    Attributes:
        step: seconds of a step of generation.
        prefill: seconds of the prefill of one prompt of ``S_in`` tokens, alone on the server.
    """

    step: Expr = T_STEP
    prefill: Expr = T_PREFILL

    @property
    def entering(self) -> Expr:
        """Tokens that a step adds to the cache: new prompts, and one token a sequence."""
        return DONE * S_IN + b

    @property
    def leaving(self) -> Expr:
        """Tokens that a step drops from the cache, with the sequences that finish."""
        return DONE * (S_IN + S_OUT)

    @cached_property
    def balance(self) -> Crossover:
        """The sequences that must finish in a step, lest the cache grow."""
        return crossover(self.leaving, self.entering, DONE)

    @property
    def finishing(self) -> Expr:
        """Sequences that finish in a step, and that begin: where the cache neither grows nor falls.

        >>> Batching().finishing
        b/S_out
        """
        return self.balance.threshold

    @property
    def evicted(self) -> Expr:
        """Tokens that leave the cache in a step; as many enter it.

        >>> Batching().evicted
        b*(S_in + S_out)/S_out
        """
        return cancel(self.leaving.subs(DONE, self.finishing)).factor()

    @property
    def cached(self) -> Expr:
        """Tokens in the cache: each sequence at the mean of its contexts."""
        return mean_over_answer(b * KEYS)

    @property
    def reserved(self) -> Expr:
        """Tokens for which there must be room if every sequence may come to its end."""
        return b * (S_IN + S_OUT)

    @property
    def cycle(self) -> Expr:
        """Seconds from one step to the next, on average, when prefills run between steps."""
        return self.step + self.finishing * self.prefill

    @property
    def requests(self) -> Expr:
        """Requests a second that the server answers."""
        return self.finishing / self.cycle

    @property
    def slowdown(self) -> Expr:
        """The mean seconds between two tokens over those of a server that prefills nothing."""
        return self.cycle / self.step

    @property
    def longest_gap(self) -> Expr:
        """The longest wait between two tokens: a prefill came in between."""
        return self.step + self.prefill

    @property
    def first_token(self) -> Expr:
        """The longest time to a first token with no queue: the running step, then the prefill."""
        return self.step + self.prefill

    @property
    def derivation(self) -> Derivation:
        """The steps: what enters, what leaves, and their balance."""
        steps = Derivation().then("tokens that enter the cache in a step", self.entering, "")
        steps = steps.then("tokens that leave it", self.leaving, "with the sequences that finish")
        steps = steps + self.balance.derivation
        reason = "as many sequences finish as begin"
        steps = steps.then("sequences that finish in a step", self.finishing, reason)
        return steps.then("tokens evicted in a step", self.evicted, "")

    def at(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> BatchingResult:
        """The flows with numbers in them; seconds only where there are numbers for them.

        Raises:
            SymbolError: for a number that is not above zero.

        >>> Batching().at(b=32, S_in=8192, S_out=4096).evicted
        96.0
        """
        return BatchingResult(self, bindings(*sources, **numbers))

    def __repr__(self) -> str:
        return f"continuous batching: {self.evicted} tokens evicted a step"

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.evicted)}$"

    def to_dict(self) -> dict[str, Any]:
        """The formulas as plain text."""
        names = ("finishing", "evicted", "cached", "reserved", "cycle", "requests")
        return {name: str(getattr(self, name)) for name in names} | self.derivation.to_dict()


@dataclass(frozen=True, repr=False)
class BatchingResult(Numbers):
    """The flows of a server in numbers."""

    of: Batching
    values: Mapping[Symbol, Expr]

    @property
    def finishing(self) -> float:
        """Sequences that finish in a step."""
        return self.number(self.of.finishing)

    @property
    def evicted(self) -> float:
        """Tokens that leave the cache in a step."""
        return self.number(self.of.evicted)

    @property
    def cached(self) -> float:
        """Tokens in the cache, on average."""
        return self.number(self.of.cached)

    @property
    def reserved(self) -> float:
        """Tokens for which there must be room if every sequence may come to its end."""
        return self.number(self.of.reserved)

    @property
    def requests(self) -> float:
        """Requests a second."""
        return self.number(self.of.requests)

    @property
    def slowdown(self) -> float:
        """The mean seconds between two tokens over those without prefills."""
        return self.number(self.of.slowdown)

    @property
    def longest_gap(self) -> float:
        """The longest wait between two tokens, in seconds: a prefill came in between."""
        return self.number(self.of.longest_gap)

    def table(self) -> Table:
        """The numbers that can be had."""
        rows: list[tuple[str, str | float]] = [
            ("sequences that finish in a step", self.finishing),
            ("tokens evicted in a step", self.evicted),
            ("tokens cached", self.cached),
            ("tokens reserved", self.reserved),
        ]
        if self.of.cycle.free_symbols <= set(self.values):
            rows += [("requests/s", self.requests), ("tokens wait, times", self.slowdown)]
        return Table(("", "value"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        names = ["finishing", "evicted", "cached", "reserved"]
        if self.of.cycle.free_symbols <= set(self.values):
            names += ["requests", "slowdown"]
        return {name: getattr(self, name) for name in names}


def batching(step: Expr | ServerStep = T_STEP, prefill: Expr = T_PREFILL) -> Batching:
    """Continuous batching on a server.

    Args:
        step: seconds of a step, as an expression in ``b`` and perhaps ``S`` (of which the mean over
            an answer is taken), or a :class:`ServerStep`.
        prefill: seconds of the prefill of one prompt of ``S_in`` tokens.
    """
    seconds = step.seconds() if isinstance(step, ServerStep) else step
    return Batching(mean_over_answer(seconds), prefill)
