"""Regimes in two variables: cells in which one term binds, between walls that are monomials.

On logarithmic axes every comparison of two monomials is a straight line, so each cell is a convex
polygon, known from the exponents; its walls are formulas, and numbers only shift them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from sympy import Add, Eq, Expr, S, Symbol
from sympy.logic.boolalg import Boolean

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import check_known, to_latex
from symscale.solve.arms import MOST_ARMS
from symscale.solve.assume import Given, Sides, with_given
from symscale.solve.cases import conjunction
from symscale.solve.cone import Vector
from symscale.solve.generators import check_cost
from symscale.solve.geometric import arms_of, monomial, monomials
from symscale.solve.halfplanes import HalfPlane, needed, nonempty

if TYPE_CHECKING:
    from symscale.solve.picture import RegimePicture

Sums = Literal["refuse", "largest"]
Arm = tuple[Vector, Expr]  # the exponents of the two variables, and the coefficient


@dataclass(frozen=True)
class Cell:
    """``term`` is the largest inside all ``planes``; the cell exists where ``requires`` holds."""

    term: Expr
    planes: tuple[HalfPlane, ...]
    conditions: tuple[Boolean, ...] = ()

    @cached_property
    def requires(self) -> Boolean:
        """The conditions on other symbols as one."""
        return conjunction(self.conditions)


@dataclass(frozen=True)
class Plane:
    """The cells of a maximum over two variables; iterates over them.

    ``factor`` is how far the sums that were replaced by their largest term can be above it (1 where
    none was).
    """

    time: Expr
    variables: tuple[Symbol, Symbol]
    cells: tuple[Cell, ...]
    factor: int = 1
    derivation: Derivation = field(default_factory=Derivation)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, place: int) -> Cell:
        return self.cells[place]

    @property
    def walls(self) -> tuple[Eq, ...]:
        """Every wall as an equation, each once."""
        made = (plane.equation(*self.variables) for cell in self for plane in cell.planes)
        return tuple(dict.fromkeys(made))

    def conditions(self, cell: Cell) -> tuple[Boolean, ...]:
        """A cell's sides, each solved for one of the variables."""
        return tuple(plane.relation(*self.variables) for plane in cell.planes)

    def binding(self, *sources: Mapping[Symbol, Any], **named: Any) -> Cell:
        """The cell in which these numbers lie; a point on a wall is in the first that touches it.

        Raises:
            SymbolError: for a value that is no positive number.
            SolveError: when the numbers leave it open.
        """
        values = bindings(*sources, **named)
        for cell in self:
            inside = [relation.xreplace(values) for relation in self.conditions(cell)]
            inside += [condition.xreplace(values) for condition in cell.conditions]
            if all(relation == S.true for relation in inside):
                return cell
        raise SolveError("these numbers leave open which term is the largest; give all symbols")

    def picture(
        self,
        x_range: tuple[Any, Any],
        y_range: tuple[Any, Any],
        *sources: Mapping[Symbol, Any],
        names: Mapping[Expr, str] | None = None,
        **named: Any,
    ) -> RegimePicture:
        """The cells inside a frame, with numbers for all other symbols (see :func:`picture`)."""
        from symscale.solve.picture import picture

        return picture(self, x_range, y_range, *sources, names=names, **named)

    def __repr__(self) -> str:
        v, w = self.variables
        rows = [f"regimes of {v} and {w}, by the largest term:"]
        for cell in self:
            sides = " and ".join(map(str, self.conditions(cell))) or "everywhere"
            needs = "" if cell.requires == S.true else f", if {cell.requires}"
            rows.append(f"  {cell.term} where {sides}{needs}")
        if self.factor > 1:
            rows.append(f"  (sums by their largest term: up to {self.factor} times too small)")
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><td>${escape(to_latex(cell.term))}$</td>"
            f"<td>{', '.join(f'${escape(to_latex(c))}$' for c in self.conditions(cell))}</td></tr>"
            for cell in self
        )
        head = "<thead><tr><th>largest term</th><th>where</th></tr></thead>"
        return f"<table>{head}<tbody>{''.join(rows)}</tbody></table>"

    def to_dict(self) -> dict[str, Any]:
        """The cells as plain text, for JSON."""
        return {
            "time": str(self.time),
            "variables": [str(v) for v in self.variables],
            "cells": [
                {
                    "term": str(cell.term),
                    "where": [str(c) for c in self.conditions(cell)],
                    "requires": str(cell.requires),
                }
                for cell in self
            ],
            "walls": [str(wall) for wall in self.walls],
            "factor": self.factor,
            **self.derivation.to_dict(),
        }


def plane(
    time: Any, v: Symbol, w: Symbol, given: Given | None = None, sums: Sums = "refuse"
) -> Plane:
    """Which arm of a maximum is the largest, in the plane of two variables.

    Each arm must be one monomial in the two variables, with any positive coefficient. With
    ``sums="largest"`` a sum counts as the largest of its terms, and the result says by how much
    that can be too small.

    Raises:
        SolveError: for an arm that is a sum, variables that do not occur, or no maximum.

    >>> from symscale.algebra.maximum import Maximum
    >>> from symscale.algebra.symbols import B, C, F, W_hbm
    >>> print(plane(Maximum(2 * B * F / C, 2 * F / W_hbm, B**2 / C), B, F))
    regimes of B and F, by the largest term:
      B**2/C where F <= B**2*W_hbm/(2*C) and F <= B/2
      2*F/W_hbm where F >= B**2*W_hbm/(2*C) and B <= C/W_hbm
      2*B*F/C where F >= B/2 and B >= C/W_hbm
    """
    made = check_cost(time, "time")
    for item in (v, w):
        if not isinstance(item, Symbol):
            raise SolveError(f"{item!r} is not a symbol")
        if item not in made.free_symbols:
            raise SolveError(f"{item} is not in {made}")
    if v == w:
        raise SolveError(f"two variables are wanted, not {v} twice")
    check_known(made)
    if sums not in ("refuse", "largest"):
        raise SolveError(f"sums={sums!r} is neither 'refuse' nor 'largest'")
    start = Derivation().then("which term is the largest", made, f"in the plane of {v} and {w}")
    sides = with_given(Sides(made, S.Zero, (), start), given, v)
    stages, rest, factor = _stages(sides.a, (v, w), sums)
    cells = tuple(_cells(stages, rest, (v, w)))
    steps = sides.steps + _told(stages, (v, w))
    return Plane(sides.a, (v, w), cells, factor, steps)


def _stages(
    time: Expr, both: tuple[Symbol, Symbol], sums: Sums
) -> tuple[list[list[Arm]], Expr, int]:
    """The stages' arms, what no stage touches, and how far a replaced sum can be off."""
    stages: list[list[Arm]] = []
    rest: list[Expr] = []
    factor = 1
    for part in Add.make_args(time):
        found = arms_of(part, both)
        if len(found) == 1:
            rest.append(part)
            continue
        arms: list[Arm] = []
        for arm in found:
            terms = monomials(arm, both)
            if len(terms) > 1 and sums == "refuse":
                raise SolveError(
                    f"the arm {arm} is a sum in {both[0]} and {both[1]}, whose walls are curved; "
                    "ask with sums='largest', or for regimes in one variable"
                )
            factor = max(factor, len(terms))
            arms += terms.items()
        stages.append(list(dict.fromkeys(arms)))
    if not stages:
        raise SolveError(f"{time} is no maximum over {both[0]} or {both[1]}: it has one regime")
    if prod(len(stage) for stage in stages) > MOST_ARMS:
        raise SolveError(f"more than {MOST_ARMS} combinations of maxima; ask stage by stage")
    return stages, Add(*rest), factor


def _cells(stages: list[list[Arm]], rest: Expr, both: tuple[Symbol, Symbol]) -> Iterator[Cell]:
    """Each choice of one arm a stage whose region is not certainly empty."""
    for chosen in product(*(range(len(stage)) for stage in stages)):
        planes = [
            _above(stage[i], other)
            for stage, i in zip(stages, chosen, strict=True)
            for j, other in enumerate(stage)
            if j != i
        ]
        conditions = nonempty(planes)
        if conditions is None:
            continue
        sides = needed([plane for plane in planes if not plane.is_constant])
        arms = (stage[i] for stage, i in zip(stages, chosen, strict=True))
        term = Add(rest, *(coeff * monomial(both, powers) for powers, coeff in arms))
        yield Cell(term, tuple(sides), tuple(dict.fromkeys(conditions)))


def _above(high: Arm, low: Arm) -> HalfPlane:
    """Where one monomial is at least another."""
    powers = tuple(a - b for a, b in zip(high[0], low[0], strict=True))
    return HalfPlane(high[1] / low[1], powers)


def _told(stages: list[list[Arm]], both: tuple[Symbol, Symbol]) -> Derivation:
    steps = Derivation()
    for stage in stages:
        for i, high in enumerate(stage):
            for low in stage[:i]:
                wall = _above(high, low)
                if not wall.is_constant:
                    steps = steps.then(
                        "two terms are equal along", wall.equation(*both), "a line in logarithms"
                    )
    reason = "a combination of sides in which both variables cancel must not fall below 1"
    return steps.then("a cell is where its term is above each other", None, reason)
