"""Servers that only read prompts beside servers that only generate: how many of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, Symbol, cancel

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import b, to_latex
from symscale.algebra.table import Table
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.serving.contexts import mean_over_answer
from symscale.studies.serving.numbers import Numbers
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.words import (
    N_GENERATE,
    N_PREFILL,
    RATE,
    S_OUT,
    T_PREFILL,
    T_STEP,
)


@dataclass(frozen=True)
class Disaggregation:
    """``n_prefill`` servers that read prompts, ``n_generate`` that generate for ``b`` sequences.

    Attributes:
        step: seconds of a step of generation.
        prefill: seconds of the prefill of one prompt.
    """

    step: Expr = T_STEP
    prefill: Expr = T_PREFILL

    @property
    def prompts(self) -> Expr:
        """Requests a second that the servers for prompts read."""
        return N_PREFILL / self.prefill

    @property
    def answers(self) -> Expr:
        """Requests a second that the servers that generate finish.

        A sequence stays for ``S_out`` steps, so that ``b`` places give that share a step.
        """
        return N_GENERATE * b / (S_OUT * self.step)

    @cached_property
    def balance(self) -> Crossover:
        """The servers for prompts from which on no server that generates waits for one."""
        return crossover(self.prompts, self.answers, N_PREFILL)

    @property
    def ratio(self) -> Expr:
        """Servers for prompts for each server that generates, neither waiting for the other.

        >>> Disaggregation().ratio
        b*t_prefill/(S_out*t_step)
        """
        return cancel(self.balance.threshold / N_GENERATE)

    @cached_property
    def for_prompts(self) -> Expr:
        """Servers for prompts that ``lambda_r`` requests a second need.

        >>> Disaggregation().for_prompts
        lambda_r*t_prefill
        """
        return crossover(self.prompts, RATE, N_PREFILL).threshold

    @cached_property
    def for_answers(self) -> Expr:
        """Servers that generate that ``lambda_r`` requests a second need.

        >>> Disaggregation().for_answers
        S_out*lambda_r*t_step/b
        """
        return crossover(self.answers, RATE, N_GENERATE).threshold

    @property
    def derivation(self) -> Derivation:
        """The steps: two rates, and their balance."""
        steps = Derivation().then("requests/s that are read", self.prompts, "")
        reason = "a sequence stays for as many steps as its answer has tokens"
        steps = steps.then("requests/s that are finished", self.answers, reason)
        steps = steps + self.balance.derivation
        return steps.then("servers for prompts, each that generates", self.ratio, "a ratio")

    def at(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> DisaggregationResult:
        """The ratio with numbers in it.

        Args:
            sources: a chip, a model, other mappings.
            numbers: ``b``, ``S_out``, and what else is left: ``t_prefill`` and ``t_step``, unless
                expressions stand for them.

        Raises:
            SymbolError: for a symbol without a number.

        >>> Disaggregation().at(b=32, S_out=512, t_prefill=0.91, t_step=0.019).ratio
        2.99...
        """
        values = bindings(*sources, **numbers)
        evaluate(self.ratio, values)
        return DisaggregationResult(self, values)

    def __repr__(self) -> str:
        return f"disaggregated serving: prefill servers a generate server = {self.ratio}"

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.ratio)}$"

    def to_dict(self) -> dict[str, Any]:
        """The formulas as plain text."""
        names = ("ratio", "for_prompts", "for_answers")
        return {name: str(getattr(self, name)) for name in names} | self.derivation.to_dict()


@dataclass(frozen=True, repr=False)
class DisaggregationResult(Numbers):
    """The ratio in numbers, and what whole servers make of it."""

    of: Disaggregation
    values: Mapping[Symbol, Expr]

    @property
    def ratio(self) -> float:
        """Servers for prompts for each server that generates."""
        return self.number(self.of.ratio)

    def servers(self, requests: Any) -> tuple[float, float]:
        """Servers for prompts and servers that generate, for so many requests a second.

        >>> Disaggregation().at(b=32, S_out=512, t_prefill=0.91, t_step=0.019).servers(10)
        (9.1, 3.04)
        """
        more = {RATE.name: requests}
        return self.number(self.of.for_prompts, **more), self.number(self.of.for_answers, **more)

    def split(self, servers: int) -> tuple[int, int]:
        """Whole servers of both kinds, of so many, that answer the most requests.

        Both rates are proportional to their servers, so that one of the two whole numbers around
        the balance is best.

        Raises:
            SymbolError: for fewer than two servers.

        >>> Disaggregation().at(b=32, S_out=512, t_prefill=0.91, t_step=0.019).split(8)
        (6, 2)
        """
        if servers < 2:
            raise SymbolError(f"{servers} servers: it takes at least one of each kind, 2")
        ideal = servers * self.ratio / (1 + self.ratio)
        around = {min(max(int(ideal) + more, 1), servers - 1) for more in (0, 1)}
        best = max(sorted(around), key=lambda count: self.requests(count, servers - count))
        return best, servers - best

    def requests(self, prefill: int, generate: int) -> float:
        """Requests a second that so many servers of either kind answer."""
        more = {N_PREFILL.name: prefill, N_GENERATE.name: generate}
        return min(self.number(rate, **more) for rate in (self.of.prompts, self.of.answers))

    def table(self) -> Table:
        """The ratio, and servers of either kind for one request a second."""
        prefill, generate = self.servers(1)
        return Table(
            ("", "value"),
            (
                ("prefill servers for a generate server", self.ratio),
                ("prefill servers for 1 request/s", prefill),
                ("generate servers for 1 request/s", generate),
            ),
        )

    def to_dict(self) -> dict[str, float]:
        """The numbers, for JSON."""
        prefill, generate = self.servers(1)
        return {
            "ratio": self.ratio,
            "prefill_servers_per_request_per_s": prefill,
            "generate_servers_per_request_per_s": generate,
        }


def disaggregate(step: Expr | ServerStep = T_STEP, prefill: Expr = T_PREFILL) -> Disaggregation:
    """Servers for prompts beside servers that generate.

    Args:
        step: seconds of a step of generation, as an expression in ``b`` and perhaps ``S`` (of which
            the mean over an answer is taken), or a :class:`ServerStep`.
        prefill: seconds of the prefill of one prompt of ``S_in`` tokens.

    >>> disaggregate().ratio
    b*t_prefill/(S_out*t_step)
    """
    seconds = step.seconds() if isinstance(step, ServerStep) else step
    return Disaggregation(mean_over_answer(seconds), prefill)
