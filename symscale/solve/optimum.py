"""The answer to "where is it least?": a point, a value, and why no point is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from sympy import Eq, Expr, S, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import to_latex
from symscale.solve.vertices import Piece


@dataclass(frozen=True)
class Optimum(Mapping[Symbol, Expr]):
    """A global optimum: a mapping from each unknown to where it lies.

    ``value`` is the cost there, ``certificate`` says why no point is better, ``weights`` are the
    dual's: each term's share of the value (or of the multipliers, for a maximum). Where it depends
    on other symbols which terms decide, ``pieces`` lists the points with their conditions, and
    :meth:`at` chooses.
    """

    expr: Expr
    point: Mapping[Symbol, Expr]
    value: Expr
    certificate: str
    constraint: tuple[Eq, ...] = ()
    weights: tuple[Expr, ...] = ()
    derivation: Derivation = field(default_factory=Derivation)
    pieces: tuple[Piece, ...] = ()
    word: str = "minimum"

    def __getitem__(self, key: Symbol) -> Expr:
        if key not in self.point and any(key in piece.point for piece in self.pieces):
            raise SolveError(
                f"{key} depends on which terms decide: see .pieces, or put numbers in with .at(...)"
            )
        return self.point[key]

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self.point)

    def __len__(self) -> int:
        return len(self.point)

    def __hash__(self) -> int:
        return hash((self.expr, frozenset(self.point.items()), self.value, self.constraint))

    def at(self, *sources: Mapping[Symbol, Any], **named: Any) -> Optimum:
        """The optimum with numbers in, and the piece that then decides.

        Raises:
            SymbolError: for a value that is no positive number.
            SolveError: when the numbers leave the piece open.
        """
        values = bindings(*sources, **named)
        values = {key: number for key, number in values.items() if key not in self.point}
        point = self.point
        if self.pieces:
            chosen = [p for p in self.pieces if p.requires.xreplace(values) == S.true]
            if not chosen:
                raise SolveError("these numbers leave open which terms decide; give the others")
            point = chosen[0].point
        there = MappingProxyType({v: where.xreplace(values) for v, where in point.items()})
        said = ", ".join(f"{key} = {number}" for key, number in values.items())
        steps = self.derivation.then("put in numbers", None, said)
        value = self.value.xreplace(values)
        expr = self.expr.xreplace(values)
        return replace(self, expr=expr, point=there, value=value, derivation=steps, pieces=())

    def __repr__(self) -> str:
        rows = [f"  {key} = {value}" for key, value in self.point.items()]
        for piece in self.pieces:
            where = ", ".join(f"{v} = {piece.point[v]}" for v in piece.point)
            rows.append(f"  {where}, if {piece.requires}")
        return "\n".join([f"{self.word} {self.value} at", *rows, f"  ({self.certificate})"])

    def _repr_latex_(self) -> str:
        rows = [rf"{to_latex(key)} &= {to_latex(value)}" for key, value in self.point.items()]
        for piece in self.pieces:
            rows += [
                rf"{to_latex(key)} &= {to_latex(value)} & {to_latex(piece.requires)}"
                for key, value in piece.point.items()
            ]
        word = r"\min" if self.word == "minimum" else r"\max"
        rows.append(rf"{word} &= {to_latex(self.value)}")
        return r"$\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$"

    def to_dict(self) -> dict[str, Any]:
        """The optimum as plain text, for JSON."""
        return {
            "kind": self.word,
            "expression": str(self.expr),
            "point": _texts(self.point),
            "value": str(self.value),
            "certificate": self.certificate,
            "constraint": [str(relation) for relation in self.constraint],
            "weights": [str(weight) for weight in self.weights],
            "pieces": [
                {"point": _texts(piece.point), "requires": str(piece.requires)}
                for piece in self.pieces
            ],
            **self.derivation.to_dict(),
        }


def _texts(point: Mapping[Symbol, Expr]) -> dict[str, str]:
    return {str(key): str(value) for key, value in point.items()}
