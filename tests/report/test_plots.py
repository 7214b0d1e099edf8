"""Plots: axes, ticks, labels; and that both drawings come from the same numbers."""

from __future__ import annotations

import re
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.errors import ReportError
from symscale.report.axes import Axis
from symscale.report.document import Document, section
from symscale.report.latex import render as render_latex
from symscale.report.plots import PALETTE, LinePlot, line, spot, vline
from symscale.report.svg import svg
from tests.report.report_demo import roofline, times

SPAN = st.tuples(st.floats(1e-9, 1e9), st.floats(1.5, 1e12))


@given(SPAN, st.booleans())
def test_ticks_lie_on_the_axis_in_order(span: tuple[float, float], log: bool) -> None:
    low, factor = span
    axis = Axis(low, low * factor, log)
    values = [tick.value for tick in axis.ticks]
    assert values == sorted(set(values))
    assert all(axis.holds(value) for value in values)
    assert len(values) <= 12
    assert not set(axis.minor) & set(values)
    if not log:
        assert len(values) >= 3


def test_decades_are_ticks_and_short_ranges_have_more() -> None:
    assert [str(t.label) for t in Axis(1, 1e6, True).ticks] == [
        "e0", "e1", "e2", "e3", "e4", "e5", "e6",
    ]  # fmt: skip
    assert [str(t.label) for t in Axis(90, 1100, True).ticks] == ["100", "200", "500", "1,000"]
    assert [t.value for t in Axis(0, 10).ticks] == [0, 2, 4, 6, 8, 10]


def test_labels_of_ticks_say_their_value() -> None:
    for tick in Axis(1e9, 1e15, True).ticks:
        assert isclose(float("1" + str(tick.label)), tick.value)


def _svg_points(drawing: str, plot: LinePlot) -> list[list[tuple[float, float]]]:
    """The curves of an SVG, taken back from pixels to data by two ticks of each axis."""
    curves = re.findall(r'<polyline points="([^"]*)"', drawing)
    pixels = [[tuple(map(float, p.split(","))) for p in c.split()] for c in curves]
    box = re.search(
        r'<clipPath.*?x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', drawing
    )
    assert box
    left, top, wide, high = map(float, box.groups())

    def back(axis: Axis, share: float) -> float:
        if axis.log:
            return float(axis.low * (axis.high / axis.low) ** share)
        return axis.low + share * (axis.high - axis.low)

    return [
        [(back(plot.x_axis, (x - left) / wide), back(plot.y_axis, 1 - (y - top) / high))
         for x, y in curve]
        for curve in pixels
    ]  # fmt: skip


@pytest.mark.parametrize("plot", [roofline(), times()])
def test_both_drawings_show_the_same_numbers(plot: LinePlot) -> None:
    source = render_latex(Document("t", sections=(section("s", plot),)))
    listed = [
        [(float(x), float(y)) for x, y in re.findall(r"\(([^,()]+),([^,()]+)\)", curve)]
        for curve in re.findall(r"coordinates \{([^}]*)\}", source)
    ]
    drawn = _svg_points(svg(plot), plot)
    wanted = [list(series.points) for series in plot.series]
    for curves, tolerance in ((listed, 1e-9), (drawn, 5e-3)):
        assert len(curves) == len(wanted)
        for curve, points in zip(curves, wanted, strict=True):
            assert curve == [pytest.approx(point, rel=tolerance) for point in points]


def test_the_legend_lies_below_the_frame() -> None:
    drawing = svg(times())
    box = re.search(r'<clipPath.*?y="([\d.]+)" width="[\d.]+" height="([\d.]+)"', drawing)
    assert box
    bottom = float(box[1]) + float(box[2])
    for series in times().series:
        label = re.escape(series.label.replace("&", "&amp;"))
        (at,) = re.findall(rf'<text x="[\d.]+" y="([\d.]+)"[^>]*>{label}</text>', drawing)
        assert float(at) > bottom + 40
    assert "anchor=north" in render_latex(Document("t", sections=(section("s", times()),)))


def test_neighbouring_markers_get_rows_of_their_own() -> None:
    markers = (vline(5, "first label"), vline(5.2, "second label"), vline(9, "far"))
    near = LinePlot("t", "x", "y", (line("a", [(0, 0), (10, 1)]),), markers=markers)
    assert near.label_levels == (0, 1, 0)


def test_a_label_keeps_off_the_curve_and_inside_the_frame() -> None:
    rising = line("a", [(0, 0), (10, 10)])
    plot = LinePlot("t", "x", "y", (rising,), spots=(spot(5, 5, "middle"), spot(10, 10, "end")))
    middle, end = plot.spot_labels
    assert middle.right != middle.above
    assert not end.right


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_curves_stand_out_from_the_paper() -> None:
    """Contrast as the Web Content Accessibility Guidelines define it, 2:1 at the least."""
    assert all(1.05 / (_luminance(colour) + 0.05) > 2.0 for colour in PALETTE)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        ([], {}, "has no points"),
        ([(0, 1), (2, 3)], {"xlog": True}, "x = 0.0 must be finite and above zero"),
        ([(1, float("inf"))], {}, "y = inf must be finite"),
    ],
)
def test_plots_that_cannot_be_drawn(
    points: list[tuple[float, float]], options: dict[str, bool], message: str
) -> None:
    with pytest.raises(ReportError, match=message):
        LinePlot("t", "x", "y", (line("a", points),), **options)


def test_one_point_and_a_flat_line_can_be_drawn() -> None:
    for log in (False, True):
        plot = LinePlot("t", "x", "y", (line("a", [(3, 3)]),), xlog=log, ylog=log)
        assert "<svg" in svg(plot)
