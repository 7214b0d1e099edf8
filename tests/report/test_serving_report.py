"""The serving report: its plot shows the sweep's own numbers, its formulas the studies' own."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from symscale.report.chapters.frontier import frontier_chapter, frontier_plot
from symscale.report.serving import serving_report
from symscale.studies.inference import inference
from symscale.studies.serving.pareto import pareto
from symscale.studies.serving.served import sweep
from symscale.studies.serving.system import serving_system

CONTEXT = 4096
FOUND = sweep(
    "llama-3-70b", "tpu-v5e", chips=(8, 16), batch=range(1, 129), context=(1024, CONTEXT),
    weights=("int8", "int4"), kv=("int8",),
)  # fmt: skip
FRONT = pareto(FOUND, CONTEXT)
SERVER = inference("llama-3-70b", weights="int8", kv="int8").at(
    "tpu-v5e", chips=8, batch=32, context=CONTEXT
)


def test_plot_shows_the_frontier_and_its_options() -> None:
    plot = frontier_plot(FOUND, FRONT)
    *curves, front = plot.series
    assert front.label == "frontier"
    assert front.points == tuple((one.step_time, one.per_chip) for one in FRONT.points)
    assert [curve.label for curve in curves] == list(FRONT.options)[:6]
    measured = {
        (one.step_time, one.per_chip)
        for one in FOUND.points()
        if one.fits and one.context == CONTEXT
    }
    for curve in curves:
        assert set(curve.points) <= measured
        assert len(curve.points) <= 60
        assert all(x <= y for (x, _), (y, _) in pairwise(curve.points))
    colours = [plot.colour_of(index) for index in range(len(plot.series))]
    assert len(set(colours)) == len(colours)


def test_no_point_of_a_curve_lies_beyond_the_frontier() -> None:
    plot = frontier_plot(FOUND, FRONT)
    front = plot.series[-1].points
    for curve in plot.series[:-1]:
        for x, y in curve.points:
            assert any(a <= x and b >= y * (1 - 1e-9) for a, b in front)


def test_spots_are_the_ends() -> None:
    first, last = frontier_plot(FOUND, FRONT).spots
    assert first.label == f"batch {FRONT.points[0].batch}"
    assert (last.x, last.y) == (FRONT.points[-1].step_time, FRONT.points[-1].per_chip)


def test_a_frontier_of_one_point() -> None:
    one = sweep("llama-3-8b", "h100", chips=(1,), batch=(4,), context=(1024,))
    plot = frontier_plot(one, pareto(one))
    assert len(plot.spots) == 1
    assert "<svg" in plot._repr_html_()


def test_chapter_lists_every_stretch() -> None:
    (chapter,) = frontier_chapter(FOUND, FRONT)
    said = json.dumps(chapter.to_dict())
    assert all(first.option.name in said for first, _ in FRONT.stretches())
    assert f"{len(FOUND):,} points swept" in said


@pytest.fixture(scope="module")
def page() -> Any:
    system = serving_system(SERVER, prompt=CONTEXT, answer=512, alpha=0.8)
    return serving_report(SERVER, FOUND, FRONT, system)


def test_report_says_what_the_studies_say(page: Any) -> None:
    said = page.text()
    assert "Serving llama-3-70b on" in said
    assert f"{SERVER.tokens_per_second:,.0f} tokens a second" in said
    assert "288" in said
    assert "geometric sum" in said
    assert "a sequence stays for as many steps" in said


def test_report_is_written_in_every_format(page: Any, tmp_path: Path) -> None:
    made = page.save(tmp_path, ("tex", "html", "txt"))
    assert [path.suffix for path in made] == [".tex", ".html", ".txt"]
    assert "<svg" in made[1].read_text("utf-8")
    assert "\\addplot" in made[0].read_text("utf-8")


def test_a_server_alone() -> None:
    assert len(serving_report(SERVER).document.sections) == 1
