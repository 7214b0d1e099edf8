"""Latency against throughput: a sweep's options as curves, and the frontier over them."""

from __future__ import annotations

from symscale.report.document import Block, Cell, Section, callout, section, table, text
from symscale.report.numbers import count, number, seconds
from symscale.report.plots import LinePlot, Series, line, spot
from symscale.studies.serving.explore import Explored
from symscale.studies.serving.pareto import Frontier
from symscale.studies.serving.sweep import Point, Sweep

#: Options drawn besides the frontier: as many as colours tell apart.
_CURVES = 6
_POINTS = 48
_DARK = 4


def frontier_chapter(explored: Explored) -> list[Section]:
    """The plot of a sweep at one context, and the stretches of its frontier."""
    found, front = explored.sweep, explored.frontier
    blocks: list[Block] = [
        text(
            f"Of {len(found):,} points swept, {len(front):,} at a context of {front.context:,} "
            "tokens are beaten by no other: every other point that fits takes longer for a token, "
            "or gives fewer tokens a second for each chip. A larger batch moves along a curve to "
            f"the right and up; more chips move to the left. Here are {explored.model_of_time}, as "
            "of the server's own step above."
        ),
        frontier_plot(found, front, explored.server),
        _stretches(front),
        text(f"{explored.verdict[0].upper()}{explored.verdict[1:]}."),
    ]
    blocks += [callout("note", f"Left out: {why}.") for why in explored.left_out]
    return [section("Latency against throughput", *blocks)]


def frontier_plot(found: Sweep, front: Frontier, server: Point | None = None) -> LinePlot:
    """Tokens a second for each chip against seconds a token, both logarithmic.

    Options of the frontier are drawn whole, as far as they fit, and the server's own; the frontier
    lies over them, and the server is a point.
    """
    own = () if server is None or server.option.name in front.options else (server.option.name,)
    names = (*own, *front.options)[:_CURVES]
    colours = [place if place < _DARK else place + 1 for place in range(len(names))]
    points = [(name, _of(found, name, front.context)) for name in names]
    curves = [
        _curve(name, fitting, colour)
        for (name, fitting), colour in zip(points, colours, strict=True)
        if fitting
    ]
    whole = line("frontier", map(_place, front.points), "dashed", _DARK)
    marks = [spot(*_place(one), f"batch {one.batch}") for one in _ends(front)]
    if server is not None:
        fits = "" if server.fits else " (does not fit)"
        marks.append(spot(*_place(server), f"this server{fits}"))
    return LinePlot(
        "Tokens a second for each chip against the time of a token",
        "seconds a token",
        "tokens/s a chip",
        (*curves, whole),
        xlog=True,
        ylog=True,
        spots=tuple(marks),
    )


def _ends(front: Frontier) -> tuple[Point, ...]:
    """The two ends of the frontier; one where it is a point."""
    first, last = front.points[0], front.points[-1]
    return (first,) if first == last else (first, last)


def _place(point: Point) -> tuple[float, float]:
    return point.step_time, point.per_chip


def _of(found: Sweep, name: str, context: int) -> list[Point]:
    """The points of an option that fit, by batch."""
    import numpy as np

    option = next(i for i, one in enumerate(found.options) if one.name == name)
    column = int(np.flatnonzero(found.context == context)[0])
    places = np.arange(len(found)).reshape(found.shape)[option, :, column]
    fitting = places[found.fits[option, :, column]]
    return sorted((found.point(int(place)) for place in fitting), key=lambda one: one.batch)


def _curve(name: str, points: list[Point], colour: int) -> Series:
    """An option's points, thinned evenly in the logarithm of the batch."""
    kept: list[Point] = []
    step = (points[-1].batch / points[0].batch) ** (1 / _POINTS)
    for point in points:
        if not kept or point is points[-1] or point.batch >= kept[-1].batch * step:
            kept.append(point)
    return line(name, map(_place, kept), "solid", colour)


def _stretches(front: Frontier) -> Block:
    rows: list[tuple[Cell, ...]] = []
    for first, last in front.stretches():
        batch = f"{first.batch:,}" if first == last else f"{first.batch:,} to {last.batch:,}"
        rows.append(
            (
                first.option.name,
                count(first.option.chips),
                batch,
                seconds(first.step_time),
                seconds(last.step_time),
                number(first.per_chip, digits=3),
                number(last.per_chip, digits=3),
            )
        )
    return table(
        ["option", ("chips", "right"), ("batch", "right"), ("a token", "right"), ("to", "right"),
         ("tokens/s a chip", "right"), ("to", "right")],
        rows, "The frontier, stretch by stretch.",
    )  # fmt: skip
