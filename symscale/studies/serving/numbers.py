"""What the results of these studies share: formulas of something, with numbers for its symbols."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.table import Table


class Numbers(ABC):
    """Numbers for the symbols of a study, and how its results show themselves: as a table."""

    values: Mapping[Symbol, Expr]

    def number(self, expr: Expr, **more: Any) -> float:
        """An expression of the study in numbers.

        Raises:
            SymbolError: for a symbol without a number.
        """
        return float(evaluate(expr, bindings(self.values, **more)))

    @abstractmethod
    def table(self) -> Table:
        """The numbers."""

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()
