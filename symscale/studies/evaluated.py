"""A named crossover with what numbers are at hand put in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.errors import SolveError, near
from symscale.algebra.links import IDEAL
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import B, W_ici, n
from symscale.hardware.chips import chip as find_chip
from symscale.models.model import model as find_model
from symscale.parallel.strategy import strategy as find_strategy
from symscale.studies.catalogue_common import NamedCrossover
from symscale.studies.crossovers import named_crossover


@dataclass(frozen=True)
class EvaluatedCrossover:
    """A crossover and the numbers it was given; ``value`` is None while symbols are left.

    ``verdict`` is ``"always"`` or ``"never"`` where the numbers leave no wall.
    """

    crossover: NamedCrossover
    numbers: Mapping[Symbol, Expr]

    @property
    def verdict(self) -> str | None:
        """The answer, where it does not depend on the quantity at these numbers."""
        return self.crossover.verdict(self.numbers)

    @property
    def reduced(self) -> Expr:
        """The expression with the given numbers in it."""
        return self.crossover.expr.subs(self.numbers)

    @property
    def value(self) -> float | None:
        """The number, if nothing is left open and there is a wall."""
        if self.verdict is not None or not self.reduced.is_number:
            return None
        return float(self.reduced)

    def __str__(self) -> str:
        found = self.crossover
        rows = [found.question, f"  {found.quantity} = {found.expr}   [{found.unit}]"]
        if self.verdict is not None:
            rows.append(f"  {self.verdict} at these numbers")
        elif self.value is not None:
            rows.append(f"  {found.quantity} = {self.value:,.6g} {found.unit}")
        elif self.reduced != found.expr:
            rows.append(f"  {found.quantity} = {self.reduced}")
        if found.answer.requires not in (True,):
            rows.append(f"  if {found.answer.requires}")
        return "\n".join([*rows, "", str(found.derivation)])

    def to_dict(self) -> dict[str, Any]:
        """Formula, LaTeX, value and unit."""
        return {**self.crossover.to_dict(), "value": self.value, "verdict": self.verdict}


def evaluated_crossover(
    name: str,
    *,
    strategy: str = "fsdp+tp",
    model: str | None = None,
    chip: str | None = None,
    chips: int | None = None,
    batch: int | None = None,
    numbers: Mapping[str, Any] | None = None,
) -> EvaluatedCrossover:
    """A crossover of the catalogue with a chip's rates, a model's sizes, chips and batch put in.

    On a torus the mesh axes of the question are laid over the physical axes (``M_X`` and so on),
    unless the question says how; on another network collectives run on the chip's own.
    ``numbers`` are further values by the names of their symbols, and win over all others.

    Raises:
        SolveError: for an unknown name, or a number that the crossover has no symbol for.
        SymbolError: for a value that is no positive number.

    >>> evaluated_crossover("critical-batch", chip="tpu-v5p").value
    166.0...
    """
    rates = None if chip is None else find_chip(chip)
    axes = find_strategy(strategy).mesh_axes
    network = IDEAL if rates is None or W_ici in rates else rates.network(axes)
    found = named_crossover(name, model or "llama-3-70b", strategy, network)
    known: dict[Symbol, Any] = {}
    if rates is not None:
        known.update(rates)
        if found.axes:
            known.update(rates.layout(found.axes).bindings)
    if model is not None:
        known.update(find_model(model))
    known.update(found.numbers)
    if chips is not None:
        known[n] = chips
    if batch is not None:
        known[B] = batch
    known.update(_named(found, numbers or {}))
    return EvaluatedCrossover(found, known)


def _named(found: NamedCrossover, numbers: Mapping[str, Any]) -> dict[Symbol, Expr]:
    """Values by the symbols of the crossover."""
    symbols = found.expr.free_symbols | found.answer.requires.free_symbols
    by_name = {symbol.name: symbol for symbol in symbols}
    for name in numbers:
        if name not in by_name:
            raise SolveError(
                f"{found.name} has no symbol {name!r}; it has {', '.join(sorted(by_name))}"
                f"{near(name, by_name)}"
            )
    return bindings({by_name[name]: value for name, value in numbers.items()})
