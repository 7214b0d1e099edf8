"""Stages of unequal work: layers that do not divide, an embedding before and a head behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sympy import Expr, S, ceiling

from symscale.algebra.errors import StrategyError
from symscale.algebra.maximum import Maximum


@dataclass(frozen=True)
class Load:
    """``layers`` over the stages as evenly as they go; extra work at both ends, in layers.

    >>> from symscale.algebra.symbols import L, p
    >>> Load(L).slowest(p)
    p*ceiling(L/p)/L
    """

    layers: Expr | None = None
    first: Expr = S.Zero
    last: Expr = S.Zero

    def slowest(self, stages: Expr) -> Expr:
        """The most that a stage has to do, over an equal share of the layers.

        A stage holds at most ceiling(layers / stages) layers, an end stage its extra work besides.
        """
        if self.layers is None:
            return S.One
        return (ceiling(self.layers / stages) + self._ends()) * stages / self.layers

    def mean(self) -> Expr:
        """All work over that of the layers alone."""
        return S.One if self.layers is None else 1 + (self.first + self.last) / self.layers

    def _ends(self) -> Expr:
        if self.first == self.last:
            return self.first
        return Maximum(self.first, self.last)

    def check(self, name: str, stages: Expr) -> None:
        """Refuse stages that no layer is left for.

        Raises:
            StrategyError: naming both numbers.
        """
        if self.layers is None:
            if self.first != 0 or self.last != 0:
                raise StrategyError(
                    f"schedule {name!r}: work of the first or last stage is counted in layers; "
                    "give layers= as well"
                )
            return
        if self.layers.is_number and stages.is_number and self.layers < stages:
            raise StrategyError(
                f"schedule {name!r}: {self.layers} layers leave {stages - self.layers} of "
                f"{stages} stages without a layer; at most {self.layers} stages are possible"
            )

    def to_dict(self) -> dict[str, Any]:
        """The numbers or formulas as text."""
        return {
            "layers": None if self.layers is None else str(self.layers),
            "first": str(self.first),
            "last": str(self.last),
        }


@dataclass(frozen=True)
class Factors:
    """Stages of unequal work by what they come to, over an equal share of the layers.

    ``slow`` is the slowest stage, ``even`` the mean of all.
    """

    slow: Expr
    even: Expr
    layers: Expr | None = None
    first: Expr = S.Zero
    last: Expr = S.Zero

    def slowest(self, stages: Expr) -> Expr:
        """The most that a stage has to do."""
        return self.slow

    def mean(self) -> Expr:
        """All work over that of the layers alone."""
        return self.even

    def to_dict(self) -> dict[str, Any]:
        """The factors as text."""
        return {"slowest": str(self.slow), "mean": str(self.even)}
