"""Line plots as data: drawn by pgfplots in LaTeX and as SVG in HTML, from the same numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import isfinite
from typing import Any, Literal

from symscale.algebra.errors import ReportError
from symscale.report.axes import Axis

Style = Literal["solid", "dashed", "dotted"]
XY = tuple[float, float]

#: Colours that people with any colour vision tell apart (Okabe and Ito's set, darkest first).
PALETTE = ("0072B2", "D55E00", "009E73", "CC79A7", "222222", "56B4E9", "B8860B")


@dataclass(frozen=True)
class Series:
    """A curve through points; ``colour`` picks from the palette, in order when left out."""

    label: str
    points: tuple[XY, ...]
    style: Style = "solid"
    colour: int | None = None


@dataclass(frozen=True)
class Marker:
    """A straight line across the plot at a value of x (``vertical``) or y (``horizontal``)."""

    direction: Literal["vertical", "horizontal"]
    value: float
    label: str


@dataclass(frozen=True)
class Spot:
    """One labelled point."""

    x: float
    y: float
    label: str


@dataclass(frozen=True)
class Label:
    """Where a spot's label goes: to its right or left, above or below."""

    right: bool
    above: bool


@dataclass(frozen=True)
class LinePlot:
    """Curves over two axes, with marker lines and labelled points.

    Raises:
        ReportError: for no series, a value that is not finite, or one at or below zero on a
            logarithmic axis.

    >>> LinePlot("t", "x", "y", (line("flat", [(1, 2), (10, 2)]),), xlog=True).x_axis.log
    True
    """

    title: str
    xlabel: str
    ylabel: str
    series: tuple[Series, ...]
    xlog: bool = False
    ylog: bool = False
    markers: tuple[Marker, ...] = ()
    spots: tuple[Spot, ...] = ()
    caption: str = ""

    def __post_init__(self) -> None:
        if not any(series.points for series in self.series):
            raise ReportError(f"plot {self.title!r} has no points")
        for name, values, log in (("x", self._xs(), self.xlog), ("y", self._ys(), self.ylog)):
            for value in values:
                if not isfinite(value) or (log and value <= 0):
                    wanted = "finite and above zero" if log else "finite"
                    raise ReportError(f"plot {self.title!r}: {name} = {value} must be {wanted}")

    def _points(self) -> list[XY]:
        drawn = [point for series in self.series for point in series.points]
        return drawn + [(spot.x, spot.y) for spot in self.spots]

    def _xs(self) -> list[float]:
        return [x for x, _ in self._points()] + [m.value for m in self.vertical]

    def _ys(self) -> list[float]:
        return [y for _, y in self._points()] + [m.value for m in self.horizontal]

    @property
    def vertical(self) -> tuple[Marker, ...]:
        """Markers at a value of x, from left to right."""
        return self._markers("vertical")

    @property
    def horizontal(self) -> tuple[Marker, ...]:
        """Markers at a value of y, from bottom to top."""
        return self._markers("horizontal")

    def _markers(self, direction: str) -> tuple[Marker, ...]:
        chosen = (marker for marker in self.markers if marker.direction == direction)
        return tuple(sorted(chosen, key=lambda marker: marker.value))

    @cached_property
    def x_axis(self) -> Axis:
        """The x axis, just as wide as the data."""
        return Axis.around(self._xs(), self.xlog)

    @cached_property
    def y_axis(self) -> Axis:
        """The y axis, with a little air above and below."""
        return Axis.around(self._ys(), self.ylog, pad=0.06)

    def colour_of(self, index: int) -> int:
        """The palette index of a series."""
        own = self.series[index].colour
        return (index if own is None else own) % len(PALETTE)

    @cached_property
    def label_levels(self) -> tuple[int, ...]:
        """For each vertical marker, the row above the frame where its label is free."""
        spans = [(self.x_axis.place(m.value), len(m.label) * 0.0055 + 0.01) for m in self.vertical]
        ends: list[float] = []
        levels = []
        for middle, half in spans:
            level = next((i for i, end in enumerate(ends) if end <= middle - half), len(ends))
            ends[level : level + 1] = [middle + half]
            levels.append(level)
        return tuple(levels)

    @cached_property
    def spot_labels(self) -> tuple[Label, ...]:
        """For each spot, the corner where its label covers the least of curves and other labels."""
        return tuple(self._best_label(index) for index in range(len(self.spots)))

    def _best_label(self, index: int) -> Label:
        taken = list(self._curve_samples())
        for number, other in enumerate(self.spots):
            if number != index:
                taken.append((self.x_axis.place(other.x), self.y_axis.place(other.y)))
        choices = [Label(right, above) for above in (True, False) for right in (True, False)]
        return min(choices, key=lambda choice: self._covered(self.spots[index], choice, taken))

    def _covered(self, spot: Spot, label: Label, taken: list[XY]) -> float:
        x, y = self.x_axis.place(spot.x), self.y_axis.place(spot.y)
        wide, high = len(spot.label) * 0.011 + 0.02, 0.075
        x0, x1 = (x, x + wide) if label.right else (x - wide, x)
        y0, y1 = (y, y + high) if label.above else (y - high, y)
        outside = max(0.0, x1 - 1) + max(0.0, -x0) + max(0.0, y1 - 1) + max(0.0, -y0)
        return 1e4 * outside + sum(x0 <= a <= x1 and y0 <= b <= y1 for a, b in taken)

    def _curve_samples(self) -> Iterable[XY]:
        for series in self.series:
            placed = [(self.x_axis.place(x), self.y_axis.place(y)) for x, y in series.points]
            for (ax, ay), (bx, by) in pairwise(placed):
                pieces = max(1, min(100, int(200 * max(abs(bx - ax), abs(by - ay)))))
                for i in range(pieces + 1):
                    yield ax + (bx - ax) * i / pieces, ay + (by - ay) * i / pieces

    def to_dict(self) -> dict[str, Any]:
        """The plot's numbers, for JSON."""
        return {
            "kind": "plot",
            "title": self.title,
            "xlabel": self.xlabel,
            "ylabel": self.ylabel,
            "series": [{"label": s.label, "points": [list(p) for p in s.points]}
                       for s in self.series],
            "markers": [dict(vars(marker)) for marker in self.markers],
            "spots": [dict(vars(spot)) for spot in self.spots],
        }  # fmt: skip

    def _repr_html_(self) -> str:
        from symscale.report.svg import svg

        return svg(self)


def line(
    label: str, points: Iterable[tuple[Any, Any]], style: Style = "solid", colour: int | None = None
) -> Series:
    """A series from pairs of any numbers.

    >>> line("roofline", [(1, 2), (3, 4)]).points
    ((1.0, 2.0), (3.0, 4.0))
    """
    return Series(label, tuple((float(x), float(y)) for x, y in points), style, colour)


def vline(x: Any, label: str) -> Marker:
    """A vertical marker line."""
    return Marker("vertical", float(x), label)


def hline(y: Any, label: str) -> Marker:
    """A horizontal marker line."""
    return Marker("horizontal", float(y), label)


def spot(x: Any, y: Any, label: str) -> Spot:
    """A labelled point."""
    return Spot(float(x), float(y), label)
