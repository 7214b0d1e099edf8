"""The serving report: its plot shows the sweep's own numbers, its formulas the studies' own."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sympy import Basic

from symscale.algebra.symbols import B, b
from symscale.report.chapters.frontier import frontier_chapter, frontier_plot
from symscale.report.document import Display
from symscale.report.rich import Math
from symscale.report.serving import serving_report
from symscale.studies.inference import inference
from symscale.studies.serving.advice import advise_on
from symscale.studies.serving.explore import explore_around
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
EXPLORED = explore_around(SERVER)


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
    (chapter,) = frontier_chapter(EXPLORED)
    said = json.dumps(chapter.to_dict())
    assert all(first.option.name in said for first, _ in EXPLORED.frontier.stretches())
    assert f"{len(EXPLORED.sweep):,} points swept" in said
    assert "per-op model, overlap full" in said


def test_the_server_is_in_its_own_plot() -> None:
    """Its option as a curve though no point of it is on the frontier, itself as a point."""
    server = EXPLORED.server
    assert server.option.name not in EXPLORED.frontier.options
    plot = frontier_plot(EXPLORED.sweep, EXPLORED.frontier, server)
    assert plot.series[0].label == server.option.name
    assert (server.step_time, server.per_chip) == (plot.spots[-1].x, plot.spots[-1].y)
    assert plot.spots[-1].label == "this server"
    assert server.step_time == SERVER.step_time


@pytest.fixture(scope="module")
def page() -> Any:
    system = serving_system(SERVER, prompt=CONTEXT, answer=512, alpha=0.8, prefix=2048)
    advice = advise_on(SERVER, latency=SERVER.step_time * 0.9)
    return serving_report(SERVER, EXPLORED, system, advice, system.prefill)


def test_report_says_what_the_studies_say(page: Any) -> None:
    said = page.text()
    assert "Serving llama-3-70b on" in said
    assert f"{SERVER.tokens_per_second:,.0f} tokens a second" in said
    assert "288" in said
    assert "geometric sum" in said
    assert "a sequence stays for as many steps" in said


def test_report_has_a_formula_for_every_part(page: Any) -> None:
    """First tokens, chunks, the link, advice and the prefix, each with its expression."""
    said = page.text()
    titles = ("A prompt's prefill", "What to do", "Chunked prefill", "Sending a prompt's cache",
              "A shared prefix")  # fmt: skip
    assert all(title in said for title in titles)
    formulas = SERVER.study.formulas.prefill
    shown = [row.formula for part in page.document.sections for block in part.blocks
             if isinstance(block, Display) for row in block.lines]  # fmt: skip
    assert Math(formulas.total("math")) in shown
    assert "W_link >=" in said.replace("≥", ">=")
    assert "wall is latency" in said


def test_the_two_expressions_of_a_step_are_one() -> None:
    """In symbols and in numbers, by the aggregate model, whatever the overlap."""
    for overlap in ("full", "critical", "none"):
        server = SERVER.again(overlap=overlap, method="aggregate")
        shown = next(x for x in serving_report(server).document.sections[0].blocks
                     if isinstance(x, Display))  # fmt: skip
        known = {**server.values, b: server.values[B]}
        for row in shown.lines:
            assert isinstance(row.formula, Math)
            assert isinstance(row.formula.value, Basic)
            value = row.formula.value.xreplace(known).doit()
            assert float(value) == pytest.approx(server.step_time, rel=1e-3)


def test_report_of_a_step_by_the_aggregate_model() -> None:
    """Its pace is the aggregate's own; the per-op time stands apart, with the reasons."""
    server = SERVER.again(method="aggregate")
    said = serving_report(server).text()
    assert "By this model it takes" in said
    assert "Kernel by kernel it takes" not in said
    assert f"{server.tokens_per_second:,.0f} tokens a second" in said


def test_report_is_written_in_every_format(page: Any, tmp_path: Path) -> None:
    made = page.save(tmp_path, ("tex", "html", "txt"))
    assert [path.suffix for path in made] == [".tex", ".html", ".txt"]
    assert "<svg" in made[1].read_text("utf-8")
    assert "\\addplot" in made[0].read_text("utf-8")


def test_windows_in_a_report() -> None:
    """Chunks behind a window have no closed form: the sum itself is written."""
    server = inference("gpt-oss-20b").at("h100", chips=1, batch=4, context=4096)
    said = serving_report(server, system=serving_system(server, prompt=2048, answer=128)).text()
    assert "Chunked prefill" in said


def test_a_server_alone() -> None:
    assert len(serving_report(SERVER).document.sections) == 1
