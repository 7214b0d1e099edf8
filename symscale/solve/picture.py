"""A plane of regimes as polygons and wall segments: what a drawing needs, in numbers.

Coordinates are the two variables' own values; in logarithms the polygons have straight sides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log
from typing import Any

from sympy import Eq, Expr, Symbol

from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import to_latex
from symscale.solve.halfplanes import HalfPlane
from symscale.solve.plane import Cell, Plane

XY = tuple[float, float]
Edge = tuple[XY, HalfPlane | None]  # a corner, and the wall along the side that starts there

#: Sides shorter than this share of the frame are not drawn.
_SHORTEST = 1e-6


@dataclass(frozen=True)
class Region:
    """One cell inside the frame: its term, a name for it, and its corners in order."""

    name: str
    term: Expr
    corners: tuple[XY, ...]

    @property
    def centre(self) -> XY:
        """Where a label goes: the centre of mass in logarithms."""
        points = [(log(x), log(y)) for x, y in self.corners]
        area = moment_x = moment_y = 0.0
        x0, y0 = points[0]
        for (x1, y1), (x2, y2) in pairwise([*points, points[0]]):
            cross = (x1 - x0) * (y2 - y0) - (x2 - x0) * (y1 - y0)
            area += cross
            moment_x += cross * (x1 + x2 - 2 * x0)
            moment_y += cross * (y1 + y2 - 2 * y0)
        if area == 0.0:
            return self.corners[0]
        return exp(x0 + moment_x / (3 * area)), exp(y0 + moment_y / (3 * area))


@dataclass(frozen=True)
class WallSegment:
    """A visible piece of a wall, and the formula that it satisfies."""

    start: XY
    end: XY
    formula: Eq


@dataclass(frozen=True)
class RegimePicture:
    """Cells and walls of a plane inside a frame; ``numbers`` were put in for the other symbols."""

    variables: tuple[Symbol, Symbol]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    regions: tuple[Region, ...]
    walls: tuple[WallSegment, ...]
    numbers: Mapping[Symbol, Expr]

    def to_dict(self) -> dict[str, Any]:
        """The picture's numbers, for JSON."""
        return {
            "variables": [str(v) for v in self.variables],
            "x": list(self.x_range),
            "y": list(self.y_range),
            "regions": [
                {"name": r.name, "term": str(r.term), "corners": [list(c) for c in r.corners]}
                for r in self.regions
            ],
            "walls": [
                {
                    "start": list(w.start),
                    "end": list(w.end),
                    "formula": str(w.formula),
                    "latex": to_latex(w.formula),
                }
                for w in self.walls
            ],
        }


def picture(
    found: Plane,
    x_range: tuple[Any, Any],
    y_range: tuple[Any, Any],
    *sources: Mapping[Symbol, Any],
    names: Mapping[Expr, str] | None = None,
    **named: Any,
) -> RegimePicture:
    """The plane's cells inside a frame, with numbers for every symbol but the two variables.

    ``names`` gives cells a name by their term; others are named by a number.

    Raises:
        SymbolError: naming every symbol without a value.
        SolveError: for a frame that is empty or not above zero.

    >>> from symscale.algebra.maximum import Maximum
    >>> from symscale.algebra.symbols import B, D, F
    >>> from symscale.solve.plane import plane
    >>> made = picture(plane(Maximum(B * D, F), B, F), (1, 100), (1, 100), D=10)
    >>> len(made.regions), str(made.walls[0].formula)
    (2, 'Eq(F, B*D)')
    """
    values = bindings(*sources, **named)
    values = {key: number for key, number in values.items() if key not in found.variables}
    frame = (_bounds(x_range, found.variables[0]), _bounds(y_range, found.variables[1]))
    regions: list[Region] = []
    walls: dict[tuple[XY, XY], WallSegment] = {}
    for number, cell in enumerate(found, 1):
        edges = _clipped(cell, values, frame)
        if not edges:
            continue
        name = (names or {}).get(cell.term, str(number))
        corners = tuple((exp(x), exp(y)) for (x, y), _ in edges)
        regions.append(Region(name, cell.term, corners))
        for segment in _segments(edges, frame, found.variables):
            walls.setdefault(_key(segment), segment)
    return RegimePicture(
        found.variables,
        (exp(frame[0][0]), exp(frame[0][1])),
        (exp(frame[1][0]), exp(frame[1][1])),
        tuple(regions),
        tuple(walls.values()),
        values,
    )


def _bounds(given: tuple[Any, Any], v: Symbol) -> XY:
    low, high = (float(end) for end in given)
    if not 0 < low < high:
        raise SolveError(f"the range of {v}, {given}: two numbers above zero, the smaller first")
    return log(low), log(high)


def _clipped(cell: Cell, values: Mapping[Symbol, Expr], frame: tuple[XY, XY]) -> list[Edge]:
    """The frame cut by each of the cell's half-planes; empty when nothing is left."""
    (x0, x1), (y0, y1) = frame
    edges: list[Edge] = [((x0, y0), None), ((x1, y0), None), ((x1, y1), None), ((x0, y1), None)]
    for condition in cell.conditions:
        for symbol in condition.free_symbols:
            evaluate(symbol, values)
        if not condition.xreplace(dict(values)):
            return []
    for side in cell.planes:
        edges = _cut(edges, side, float(log(float(evaluate(side.coefficient, values)))))
    area = _area([corner for corner, _ in edges])
    return edges if area > _SHORTEST * (x1 - x0) * (y1 - y0) else []


def _cut(edges: Sequence[Edge], side: HalfPlane, level: float) -> list[Edge]:
    """A polygon's part inside one half-plane (Sutherland and Hodgman)."""
    p, q = (float(power) for power in side.powers)
    out: list[Edge] = []
    following = [*edges[1:], *edges[:1]]
    for (corner, wall), (after, _) in zip(edges, following, strict=True):
        here = level + p * corner[0] + q * corner[1]
        there = level + p * after[0] + q * after[1]
        if here >= 0:
            out.append((corner, wall))
        if (here >= 0) != (there >= 0):
            share = here / (here - there)
            crossing = tuple(a + share * (b - a) for a, b in zip(corner, after, strict=True))
            out.append(((crossing[0], crossing[1]), side if here >= 0 else wall))
    return out


def _area(corners: Sequence[XY]) -> float:
    pairs = zip(corners, [*corners[1:], *corners[:1]], strict=True)
    return abs(sum(a[0] * b[1] - b[0] * a[1] for a, b in pairs)) / 2


def _segments(
    edges: Sequence[Edge], frame: tuple[XY, XY], variables: tuple[Symbol, Symbol]
) -> list[WallSegment]:
    """The sides of a cell that are walls, not the frame."""
    (x0, x1), (y0, y1) = frame
    out = []
    for (start, wall), (end, _) in zip(edges, [*edges[1:], *edges[:1]], strict=True):
        long = max(abs(start[0] - end[0]) / (x1 - x0), abs(start[1] - end[1]) / (y1 - y0))
        if wall is not None and long > _SHORTEST:
            first, last = sorted((start, end))
            ends = ((exp(first[0]), exp(first[1])), (exp(last[0]), exp(last[1])))
            out.append(WallSegment(*ends, wall.equation(*variables)))
    return out


def _key(segment: WallSegment) -> tuple[XY, XY]:
    """A wall seen from both of its cells is one."""
    start, end = ((round(log(x), 6), round(log(y), 6)) for x, y in (segment.start, segment.end))
    return start, end
