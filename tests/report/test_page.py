"""The report object: saving, showing, converting, and how long it takes."""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

import pytest

from symscale.algebra.errors import ReportError
from symscale.algebra.symbols import B, C, D, F, X, symbol
from symscale.report.document import Document, display, section, table
from symscale.report.mathml import content
from symscale.report.page import Report
from symscale.report.rich import typeset
from symscale.report.writing import find_tex
from tests.report.report_demo import demo, roofline


def test_saving_gives_the_paths_in_order(tmp_path: Path) -> None:
    paths = Report(demo()).save(tmp_path / "new" / "out", ("tex", "html", "txt"), name="llama")
    assert [path.name for path in paths] == ["llama.tex", "llama.html", "llama.txt"]
    assert paths[1].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.skipif(find_tex() is None, reason="no TeX engine")
def test_a_pdf_comes_with_its_source(tmp_path: Path) -> None:
    paths = Report(Document("t")).save(tmp_path, ["pdf"])
    assert [path.name for path in paths] == ["report.tex", "report.pdf"]


def test_without_tex_the_other_files_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ReportError, match="apt-get install"):
        Report(demo()).save(tmp_path, ("tex", "html", "pdf"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.tex"]


@pytest.mark.parametrize("name", ["", "a/b", "..", "/x"])
def test_the_name_is_a_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReportError, match="plain file name"):
        Report(Document("t")).save(tmp_path, name=name)


def test_an_unknown_format_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ReportError, match="format 'htm' is none of tex, html, txt, pdf; did you mean"
    ):
        Report(Document("t")).save(tmp_path, ["htm"])


def test_a_report_shows_and_converts_itself() -> None:
    made = Report(demo())
    assert repr(made) == "<Report 'Training LLaMA 3 70B on a TPU v5p pod', 6 sections>"
    assert str(made).startswith("Training LLaMA 3 70B on a TPU v5p pod\n====")
    assert '<main class="symscale">' in made._repr_html_()
    kinds = {
        b["kind"] for s in json.loads(json.dumps(made.to_dict()))["sections"] for b in s["blocks"]
    }
    assert kinds == {"paragraph", "display", "derivation", "table", "listing", "callout", "plot"}


def test_rendering_is_the_same_every_time() -> None:
    assert Report(demo()).latex() == Report(demo()).latex()
    assert Report(demo()).html() == Report(demo()).html()


def test_a_large_report_is_drawn_in_well_under_three_seconds() -> None:
    """150 formulas, 15 tables, two plots, nothing in any cache."""
    formulas = [(B * D * i + F * symbol(f"dim_{i}")) / (C * X**i) for i in range(1, 151)]
    tables = [table(["n", "formula"], [(i, f) for i, f in enumerate(formulas[k : k + 10])])
              for k in range(0, 150, 10)]  # fmt: skip
    report = Report(
        Document("t", sections=(section("s", *map(display, formulas), *tables, roofline(),
                                        roofline()),))
    )  # fmt: skip
    content.cache_clear()
    typeset.cache_clear()
    start = perf_counter()
    report.latex()
    report.html()
    assert perf_counter() - start < 3
