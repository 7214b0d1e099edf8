"""Bytes on a device by kind, as formulas: what the memory of training and of serving share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from sympy import Add, Expr

from symscale.algebra.symbols import to_latex
from symscale.algebra.table import Table


class ByKind(Mapping[str, Expr]):
    """A mapping from kinds of memory to formulas; a subclass says which."""

    @property
    @abstractmethod
    def kinds(self) -> Mapping[str, Expr]:
        """The formula of each kind."""

    def __getitem__(self, kind: str) -> Expr:
        return self.kinds[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    @property
    def total(self) -> Expr:
        """All kinds together."""
        return Add(*self.kinds.values())

    def table(self) -> Table:
        """Kind and formula."""
        return Table(("kind", "bytes on a device"), tuple(self.kinds.items()))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.total)}$"

    def to_dict(self) -> dict[str, Any]:
        """Formulas as text."""
        return {kind: str(value) for kind, value in self.kinds.items()}
