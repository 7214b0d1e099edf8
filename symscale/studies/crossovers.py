"""The catalogue of named crossovers: each a few lines over the engine, none a typed-in answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError, near
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, C, C_int8, D, F, W_hbm, axis, info, to_latex
from symscale.algebra.table import Table
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.parallel.strategy import Strategy
from symscale.parallel.strategy import strategy as find_strategy
from symscale.programs.einsum import einsum
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.solve.leading import leading
from symscale.studies.attention import attention_passes
from symscale.studies.conditions import compute_bound


@dataclass(frozen=True)
class NamedCrossover:
    """A crossover of the catalogue: ``quantity`` passes ``expr`` (in ``unit``) at the wall.

    ``at(...)`` puts numbers in; ``answer`` is the full condition, ``derivation`` its steps.
    """

    name: str
    question: str
    quantity: str
    unit: str
    expr: Expr
    answer: Crossover
    derivation: Derivation

    def value(self, *sources: Mapping[Symbol, Any]) -> float:
        """The number, from a chip, a model and other mappings.

        Raises:
            SymbolError: naming what has no value.
        """
        known: dict[Symbol, Any] = {}
        for source in sources:
            known.update(source)
        return float(evaluate(self.expr, known))

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
            "needs": {s.name: info(s).meaning for s in sorted(self.expr.free_symbols, key=str)},
            **self.derivation.to_dict(),
        }


@dataclass(frozen=True)
class _Entry:
    question: str
    build: Callable[[str, Model, Strategy], NamedCrossover]


def _matmul(name: str, left: str, right: str, rate: Symbol, exact: bool) -> NamedCrossover:
    product = einsum(f"A: {left}[B, D] * W: {right}[D, F] -> Out: {left}[B, F]")
    answer = crossover(product.time.math, product.time.hbm, B)
    steps, expr = answer.derivation, answer.threshold
    assert expr is not None
    if not exact:
        order = leading(expr, small=[rate / (D * W_hbm), rate / (F * W_hbm)])
        steps, expr = steps + order.derivation, order.term
    return NamedCrossover(name, ENTRIES[name].question, "B", "tokens", expr, answer, steps)


def _bound(name: str, strategy: Strategy, overlapped: bool = False) -> NamedCrossover:
    found = compute_bound(strategy, overlapped)
    batch = found.answer.variable == B
    per = f"B/{'n' if found.split else '·'.join(strategy.mesh_axes)}"
    quantity = per if batch else str(found.answer.variable)
    unit = "tokens a chip" if batch else "chips" if found.split else "ways"
    return NamedCrossover(
        name, ENTRIES[name].question, quantity, unit, found.per_chip, found.answer, found.derivation
    )


def _split(name: str, strategy: Strategy) -> NamedCrossover:
    found = compute_bound(strategy)
    if found.split is None:
        raise SolveError(f"strategy {strategy.name} has one role; nothing to split")
    first = strategy.mesh_axes[0]
    expr = found.split[axis(first)]
    return NamedCrossover(
        name, ENTRIES[name].question, first, "ways", expr, found.answer, found.split.derivation
    )


def _attention(name: str, model: Model, rival: str) -> NamedCrossover:
    found = attention_passes(model, rival)
    expr = found.answer.threshold
    assert expr is not None
    steps = found.answer.derivation
    return NamedCrossover(name, ENTRIES[name].question, "T", "tokens", expr, found.answer, steps)


ENTRIES: Mapping[str, _Entry] = MappingProxyType(
    {
        "critical-batch": _Entry(
            "From which batch is a bf16 matmul compute-bound, to leading order?",
            lambda name, m, s: _matmul(name, "bf16", "bf16", C, False),
        ),
        "critical-batch-exact": _Entry(
            "From which batch is a bf16 matmul compute-bound, exactly?",
            lambda name, m, s: _matmul(name, "bf16", "bf16", C, True),
        ),
        "critical-batch-int8": _Entry(
            "From which batch is an int8 matmul compute-bound, to leading order?",
            lambda name, m, s: _matmul(name, "int8", "int8", C_int8, False),
        ),
        "critical-batch-mixed": _Entry(
            "From which batch is a matmul of bf16 activations and int8 weights compute-bound?",
            lambda name, m, s: _matmul(name, "bf16", "int8", C, False),
        ),
        "compute-bound": _Entry(
            "From where on is a layer under the strategy compute-bound (axes one after another)?",
            lambda name, m, s: _bound(name, s),
        ),
        "compute-bound-overlapped": _Entry(
            "From where on is a layer under the strategy compute-bound (axes at once)?",
            lambda name, m, s: _bound(name, s, True),
        ),
        "best-split": _Entry(
            "Which share of the chips should the strategy's first axis have?",
            lambda name, m, s: _split(name, s),
        ),
        "attention-mlp": _Entry(
            "From which sequence length do attention's scores cost more than the MLP?",
            lambda name, m, s: _attention(name, m, "mlp"),
        ),
        "attention-projections": _Entry(
            "From which sequence length do attention's scores cost more than its projections?",
            lambda name, m, s: _attention(name, m, "projections"),
        ),
        "attention-layer": _Entry(
            "From which sequence length do attention's scores cost more than all else in a layer?",
            lambda name, m, s: _attention(name, m, "layer"),
        ),
    }
)


def named_crossover(
    name: str, model: str | Model = "llama-3-70b", strategy: str | Strategy = "fsdp+tp"
) -> NamedCrossover:
    """A crossover of the catalogue.

    Args:
        name: its name; :func:`crossovers` lists them.
        model: whose layer is compared, where a layer is.
        strategy: whose sharding is compared, where one is.

    Raises:
        SolveError: for an unknown name.

    >>> named_crossover("critical-batch").expr
    C/W_hbm
    >>> named_crossover("compute-bound", strategy="fsdp").expr
    C/(M_X*W_ici)
    """
    if name not in ENTRIES:
        raise SolveError(
            f"unknown crossover {name!r}{near(name, ENTRIES) or '; see: symscale crossover'}"
        )
    return ENTRIES[name].build(name, find_model(model), find_strategy(strategy))


def crossovers() -> Table:
    """The catalogue: names and questions."""
    return Table(("name", "question"), tuple((k, entry.question) for k, entry in ENTRIES.items()))
