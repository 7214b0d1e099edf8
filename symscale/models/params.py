"""Parameters by component, as formulas and counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Add, Expr, Symbol, factor

from symscale.algebra.symbols import L, to_latex
from symscale.algebra.table import Table
from symscale.models.decoder import COMPONENTS, Decoder


@dataclass(frozen=True)
class Parameters:
    """A model's parameters: ``total`` and ``active`` as formulas, ``count`` and ``table()``.

    The formulas are sums of the sizes of the programs' weights; a tied embedding is one array.
    """

    components: Mapping[str, Expr]
    sizes: Mapping[Symbol, int]

    @property
    def total(self) -> Expr:
        """All parameters, as a formula."""
        return Add(*self.components.values())

    @property
    def active(self) -> Expr:
        """Parameters that a token meets; all of them in a dense model."""
        return self.total

    @property
    def count(self) -> int:
        """The number of parameters, to the unit."""
        return int(self.total.xreplace(dict(self.sizes)))

    def counts(self) -> dict[str, int]:
        """Each component's number."""
        return {name: int(e.xreplace(dict(self.sizes))) for name, e in self.components.items()}

    def table(self) -> Table:
        """Component, formula, count."""
        counts = self.counts()
        rows = [(name, expr, counts[name]) for name, expr in self.components.items()]
        return Table(("component", "formula", "count"), (*rows, ("total", self.total, self.count)))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.total)}$"

    def to_dict(self) -> dict[str, Any]:
        """Formulas and counts."""
        return {
            "total": self.count,
            "active": self.count,
            "components": self.counts(),
            "formulas": {name: str(expr) for name, expr in self.components.items()},
        }


def parameters(programs: Decoder, sizes: Mapping[Symbol, int]) -> Parameters:
    """Count the weights of a decoder's programs, the layer's L times."""
    found: dict[str, Expr] = {}
    for component, names in COMPONENTS.items():
        layer = Add(*(programs.layer.arrays[w].size for w in names if w in programs.layer.weights))
        ends = Add(*(programs.ends.arrays[w].size for w in names if w in programs.ends.weights))
        amount = L * factor(layer) + ends
        if amount != 0:
            found[component] = amount
    return Parameters(found, sizes)
