"""Steps by which a result was reached: data made while solving, printed by any report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sympy import Basic

from symscale.algebra.printing import to_plain
from symscale.algebra.symbols import to_latex


@dataclass(frozen=True)
class Step:
    """One step: what is stated, the mathematics of it (if any), and why it holds."""

    statement: str
    expr: Basic | None
    reason: str

    def __str__(self) -> str:
        body = self.statement if self.expr is None else f"{self.statement}: {to_plain(self.expr)}"
        return f"{body}    ({self.reason})" if self.reason else body

    def to_dict(self) -> dict[str, str | None]:
        """The step as plain text, for JSON."""
        return {
            "statement": self.statement,
            "expression": None if self.expr is None else str(self.expr),
            "latex": None if self.expr is None else to_latex(self.expr),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Derivation:
    """An ordered list of steps; adding two joins them.

    >>> print(Derivation((Step("nothing to do", None, "trivial"),)))
    1. nothing to do    (trivial)
    """

    steps: tuple[Step, ...] = ()

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def __add__(self, other: Derivation) -> Derivation:
        return Derivation(self.steps + other.steps)

    def then(self, statement: str, expr: Basic | None = None, reason: str = "") -> Derivation:
        """This derivation with one more step."""
        return Derivation((*self.steps, Step(statement, expr, reason)))

    def __str__(self) -> str:
        return "\n".join(f"{number}. {step}" for number, step in enumerate(self.steps, 1))

    def _repr_latex_(self) -> str:
        rows = [
            rf"\text{{{step.statement}}} && {'' if step.expr is None else to_latex(step.expr)}"
            for step in self.steps
        ]
        return "$$\\begin{aligned}" + r" \\ ".join(rows) + "\\end{aligned}$$"

    def to_dict(self) -> dict[str, list[dict[str, str | None]]]:
        """The steps as plain text, for JSON."""
        return {"steps": [step.to_dict() for step in self.steps]}
