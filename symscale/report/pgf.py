"""Line plots for pgfplots: the plot's own numbers, written as its options and coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from symscale.report.axes import Axis
from symscale.report.numbers import Power
from symscale.report.outline import ROOMS
from symscale.report.plots import LinePlot

_LEVEL = 9.0
_TITLE_GAP = 2.0


@dataclass(frozen=True)
class PgfSeries:
    """A curve: its palette index, dash style, label and coordinates."""

    colour: int
    style: str
    label: str
    points: str


@dataclass(frozen=True)
class PgfMarker:
    """A vertical line with its label raised by ``shift`` points, moved by ``nudge`` em."""

    value: float
    label: str
    shift: float
    nudge: float


@dataclass(frozen=True)
class PgfSpot:
    """A labelled point and the corner of the label that touches it."""

    x: float
    y: float
    label: str
    anchor: str


@dataclass(frozen=True)
class PgfPlot:
    """A plot ready for its template."""

    width: float
    xticks: str
    xlabels: str
    yticks: str
    ylabels: str
    xminor: str
    yminor: str
    title_shift: float
    legend_columns: int
    series: tuple[PgfSeries, ...]
    vertical: tuple[PgfMarker, ...]
    spots: tuple[PgfSpot, ...]


def plot_view(plot: LinePlot) -> PgfPlot:
    """The options and coordinates of a plot."""
    beside = max((len(m.label) for m in plot.horizontal), default=0)
    width = ROOMS.table - 7.5 - (0.38 * beside + 1.0 if beside else 0.0)
    levels = max(plot.label_levels, default=-1) + 1
    return PgfPlot(
        width=round(width, 2),
        xticks=_values(plot.x_axis),
        xlabels=_labels(plot.x_axis),
        yticks=_values(plot.y_axis),
        ylabels=_labels(plot.y_axis),
        xminor=_numbers(plot.x_axis.minor),
        yminor=_numbers(plot.y_axis.minor),
        title_shift=levels * _LEVEL + _TITLE_GAP,
        legend_columns=_legend_columns(plot),
        series=_series(plot),
        vertical=_vertical(plot, width),
        spots=_spots(plot),
    )


def _numbers(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:.10g}" for value in values)


def _values(axis: Axis) -> str:
    return _numbers(tuple(tick.value for tick in axis.ticks))


def _labels(axis: Axis) -> str:
    shown = []
    for tick in axis.ticks:
        bare = isinstance(tick.label.pieces[0], Power)
        latex = tick.label.latex.removeprefix(r"\times ") if bare else tick.label.latex
        shown.append(f"{{${latex}$}}")
    return ",".join(shown)


def _legend_columns(plot: LinePlot) -> int:
    widest = max(len(series.label) for series in plot.series)
    fitting = int(ROOMS.table / (0.42 * widest + 4.0))
    return max(1, min(fitting, len(plot.series)))


def _series(plot: LinePlot) -> tuple[PgfSeries, ...]:
    return tuple(
        PgfSeries(
            plot.colour_of(index),
            series.style,
            series.label,
            " ".join(f"({x:.10g},{y:.10g})" for x, y in series.points),
        )
        for index, series in enumerate(plot.series)
    )


def _vertical(plot: LinePlot, width: float) -> tuple[PgfMarker, ...]:
    made = []
    for marker, level in zip(plot.vertical, plot.label_levels, strict=True):
        half = len(marker.label) * 0.19
        at = plot.x_axis.place(marker.value) * width
        nudge = max(0.0, half - 4.0 - at) - max(0.0, at + half - width - 1.0)
        made.append(PgfMarker(marker.value, marker.label, level * _LEVEL, round(nudge, 2)))
    return tuple(made)


def _spots(plot: LinePlot) -> tuple[PgfSpot, ...]:
    made = []
    for spot, label in zip(plot.spots, plot.spot_labels, strict=True):
        anchor = f"{'south' if label.above else 'north'} {'west' if label.right else 'east'}"
        made.append(PgfSpot(spot.x, spot.y, spot.label, anchor))
    return tuple(made)
