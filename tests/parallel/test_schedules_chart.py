"""The chart of a schedule: SVG, TikZ and text show the timeline's own blocks."""

from __future__ import annotations

import re

import pytest

from symscale.algebra.errors import ReportError
from symscale.parallel.schedules.lookup import NAMES, schedule
from symscale.report import html, latex, text
from symscale.report.document import Document, section
from symscale.report.schedule_chart import ScheduleChart, chart_svg, chart_tikz, schedule_chart

HOSTILE = r"a_b%$#&\input{x}<script>"


def chart(name: str) -> ScheduleChart:
    return schedule_chart(schedule(name), 4, 8, 2 if name == "interleaved" else None)


def spans(chart: ScheduleChart) -> list[tuple[int, float, float]]:
    return [(b.stage, float(b.start), float(b.end)) for b in chart.blocks]


@pytest.mark.parametrize("name", NAMES)
def test_svg_shows_every_block_where_it_is(name: str) -> None:
    made = chart(name)
    box = r'<rect class="halo" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)"'
    drawn = [tuple(map(float, found)) for found in re.findall(box, chart_svg(made))]
    high = 30 if any(b.overlapped for b in made.blocks) else 22
    back = [(int((y - 34) // high), (x - 52) / 658 * made.total, wide / 658 * made.total)
            for x, y, wide in drawn]  # fmt: skip
    for (row, start, long), (stage, begin, end) in zip(back, spans(made), strict=True):
        assert row == stage
        assert start == pytest.approx(begin, abs=1e-3)
        assert long == pytest.approx(end - begin, abs=2e-3)


@pytest.mark.parametrize("name", NAMES)
def test_tikz_shows_every_block_where_it_is(name: str) -> None:
    made = chart(name)
    box = r"\\draw\[white.*?\] \(([\d.]+),([\d.]+)\) rectangle \(([\d.]+),"
    drawn = [tuple(map(float, found)) for found in re.findall(box, chart_tikz(made))]
    for (left, top, right), (stage, begin, end) in zip(drawn, spans(made), strict=True):
        high = 1.9 if any(b.overlapped for b in made.blocks) else 1.35
        assert int((top + 1e-2) // high) == stage
        assert left / 42 * made.total == pytest.approx(begin, abs=2e-3)
        assert right / 42 * made.total == pytest.approx(end, abs=2e-3)


def test_one_document_in_three_renderings() -> None:
    drawn = schedule_chart(schedule("dualpipe"), 4, 8, title=HOSTILE, caption=HOSTILE)
    document = Document("t", sections=(section("s", drawn, chart("1f1b")),))
    page = html.render(document)
    assert page.count("<svg") == 2
    assert "<script>" not in page
    source = latex.render(document)
    assert source.count(r"\begin{tikzpicture}") == 2
    assert r"\input{x}" not in source
    told = text.render(document)
    assert "\n   0  F0" in told
    assert max(map(len, told.splitlines())) <= 80
    assert document.to_dict()["sections"][0]["blocks"][1]["rows"] == 4


def test_two_digits_of_microbatches_need_room() -> None:
    crowded = schedule_chart(schedule("1f1b"), 8, 40)
    assert ">39</text>" not in chart_svg(crowded).replace("device", "")
    assert ">7</text>" in chart_svg(chart("1f1b"))


def test_pairs_share_a_row() -> None:
    cells = chart("dualpipe").cells
    assert {cell.half for cell in cells} == {None, 0, 1}
    assert "halves of a row" in chart("dualpipe").hint
    assert chart("gpipe").hint == ""


def test_charts_that_cannot_be_drawn() -> None:
    with pytest.raises(ReportError, match="has 2048 blocks; at most 2000 can be told apart"):
        schedule_chart(schedule("1f1b"), 16, 64)
    with pytest.raises(ReportError, match="chart 't' has no blocks"):
        ScheduleChart("t", ())
