"""What the catalogue's entries share: a named crossover, and the setting it is built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from sympy import Expr, S, Symbol, factor

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import info, to_latex
from symscale.models.model import Model
from symscale.parallel.strategy import Strategy
from symscale.solve.answer import Crossover


@dataclass(frozen=True)
class Setting:
    """Whose layer is compared, under whose sharding, and on which network."""

    model: Model
    strategy: Strategy
    network: Network = IDEAL


@dataclass(frozen=True)
class NamedCrossover:
    """A crossover of the catalogue: ``quantity`` passes ``expr`` (in ``unit``) at the wall.

    ``answer`` is the full condition, ``derivation`` its steps. ``numbers`` belong to the question
    itself, such as over how many physical axes a mesh axis lies. ``holds`` says in a word on which
    side of the wall the answer to the question is yes.
    """

    name: str
    question: str
    quantity: str
    unit: str
    expr: Expr
    answer: Crossover
    derivation: Derivation
    numbers: Mapping[Symbol, Any] = field(default_factory=dict, hash=False)

    def value(self, *sources: Mapping[Symbol, Any]) -> float:
        """The number, from a chip, a model and other mappings.

        Raises:
            SymbolError: naming what has no value.
            SolveError: when at these numbers there is no wall: the answer is always or never.
        """
        known: dict[Symbol, Any] = {}
        for source in (*sources, self.numbers):
            known.update(source)
        word = self.verdict(known)
        if word is not None:
            raise SolveError(f"{self.name}: {word} at these numbers, so there is no wall")
        return float(evaluate(self.expr, known))

    def verdict(self, known: Mapping[Symbol, Any]) -> str | None:
        """``"always"`` or ``"never"`` where these numbers decide for it, else None."""
        values = {**known, **self.numbers}
        values.pop(self.answer.variable, None)
        answer: Crossover | None = self.answer
        while answer is not None and answer.otherwise is not None:
            holds = answer.requires.subs(values)
            if holds == S.true:
                break
            if holds != S.false:
                return None
            answer = answer.otherwise
        kind = answer.kind if answer is not None else ""
        return kind if kind in ("always", "never") else None

    @property
    def axes(self) -> tuple[str, ...]:
        """The mesh axes whose physical links matter to it."""
        found = (info(s) for s in sorted(self.expr.free_symbols, key=str))
        return tuple(one.name.removeprefix("M_") for one in found if one.kind == "links")

    def __repr__(self) -> str:
        return f"{self.question}\n{self.quantity} = {self.expr} [{self.unit}]\n{self.derivation}"

    def _repr_latex_(self) -> str:
        return f"${self.quantity} = {to_latex(self.expr)}$"

    def to_dict(self) -> dict[str, Any]:
        """The crossover as plain text."""
        return {
            "name": self.name,
            "question": self.question,
            "quantity": self.quantity,
            "symbol": str(self.expr),
            "latex": to_latex(self.expr),
            "unit": self.unit,
            "condition": str(self.answer.condition),
            "requires": str(self.answer.requires),
            "assuming": [str(relation) for relation in self.answer.assuming],
            "needs": {s.name: info(s).meaning for s in sorted(self.expr.free_symbols, key=str)},
            "numbers": {s.name: float(value) for s, value in self.numbers.items()},
            **self.derivation.to_dict(),
        }


@dataclass(frozen=True)
class Found:
    """What an entry's builder returns: the wall and how it was reached."""

    quantity: str
    unit: str
    expr: Expr
    answer: Crossover
    derivation: Derivation
    numbers: Mapping[Symbol, Any] = field(default_factory=dict, hash=False)

    def named(self, name: str, question: str) -> NamedCrossover:
        """The same under its name."""
        return NamedCrossover(
            name, question, self.quantity, self.unit, self.expr, self.answer, self.derivation,
            self.numbers,
        )  # fmt: skip

    def scaled(self, factor: Expr, quantity: str, unit: str) -> Found:
        """The wall in another unit: per chip, say."""
        expr = self.expr * factor
        steps = self.derivation.then("in other words", expr, unit)
        return replace(self, quantity=quantity, unit=unit, expr=expr, derivation=steps)

    def where(self, numbers: Mapping[Symbol, Any]) -> Found:
        """With numbers that belong to the question."""
        return replace(self, numbers=MappingProxyType({**self.numbers, **numbers}))


Builder: TypeAlias = Callable[[Setting], Found]


@dataclass(frozen=True)
class Entry:
    """A question of the catalogue and what answers it."""

    group: str
    question: str
    build: Builder


def found(answer: Crossover, quantity: str, unit: str) -> Found:
    """An answer with one wall, as a catalogue's finding."""
    if answer.threshold is None:
        raise SolveError(f"{quantity}: the answer has {len(answer.thresholds)} walls, not one")
    return Found(quantity, unit, factor(answer.threshold), answer, answer.derivation)
