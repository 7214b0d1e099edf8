"""A named crossover with what numbers are at hand put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.symbols import B, n
from symscale.hardware.chips import chip as find_chip
from symscale.models.model import model as find_model
from symscale.parallel.strategy import strategy as find_strategy
from symscale.studies.crossovers import NamedCrossover, named_crossover


@dataclass(frozen=True)
class EvaluatedCrossover:
    """A crossover and the numbers it was given; ``value`` is None while symbols are left."""

    crossover: NamedCrossover
    numbers: Mapping[Symbol, Expr]

    @property
    def reduced(self) -> Expr:
        """The expression with the given numbers in it."""
        return self.crossover.expr.subs(self.numbers)

    @property
    def value(self) -> float | None:
        """The number, if nothing is left open."""
        return float(self.reduced) if self.reduced.is_number else None

    def __str__(self) -> str:
        found = self.crossover
        rows = [found.question, f"  {found.quantity} = {found.expr}   [{found.unit}]"]
        if self.value is not None:
            rows.append(f"  {found.quantity} = {self.value:,.6g} {found.unit}")
        elif self.reduced != found.expr:
            rows.append(f"  {found.quantity} = {self.reduced}")
        if found.answer.requires not in (True,):
            rows.append(f"  if {found.answer.requires}")
        return "\n".join([*rows, "", str(found.derivation)])

    def to_dict(self) -> dict[str, Any]:
        """Formula, LaTeX, value and unit."""
        return {**self.crossover.to_dict(), "value": self.value}


def evaluated_crossover(
    name: str,
    *,
    strategy: str = "fsdp+tp",
    model: str | None = None,
    chip: str | None = None,
    chips: int | None = None,
    batch: int | None = None,
) -> EvaluatedCrossover:
    """A crossover of the catalogue with a chip's rates, a model's sizes, chips and batch put in.

    On a torus the strategy's mesh axes are laid over its physical axes (``M_X`` and so on).

    >>> evaluated_crossover("critical-batch", chip="tpu-v5p").value
    166.0...
    """
    found = named_crossover(name, model or "llama-3-70b", strategy)
    numbers: dict[Symbol, Any] = {}
    if chip is not None:
        rates = find_chip(chip)
        numbers.update(rates)
        numbers.update(rates.layout(find_strategy(strategy).mesh_axes).bindings)
    if model is not None:
        numbers.update(find_model(model))
    if chips is not None:
        numbers[n] = chips
    if batch is not None:
        numbers[B] = batch
    return EvaluatedCrossover(found, numbers)
