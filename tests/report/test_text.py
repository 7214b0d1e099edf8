"""The plain text of a document."""

from __future__ import annotations

import pytest

from symscale.algebra.errors import ReportError
from symscale.algebra.symbols import B, D, F
from symscale.report import text as plain_text
from symscale.report.document import (
    Document,
    callout,
    display,
    equation,
    listing,
    section,
    table,
    text,
)
from symscale.report.fitting import fit
from symscale.report.numbers import seconds
from symscale.report.rich import Math
from tests.report.report_demo import demo


def _lines(*blocks: object) -> list[str]:
    page = plain_text.render(Document("t", sections=(section("s", *blocks),)))  # type: ignore[arg-type]
    return page.splitlines()[6:]


def test_no_line_is_wider_than_a_terminal_but_for_numbers() -> None:
    wide = [line for line in plain_text.render(demo()).splitlines() if len(line) > 80]
    assert wide == []


def test_the_text_names_every_section() -> None:
    shown = plain_text.render(demo())
    for heading in ("1  Formulas", "2  A derivation", "3.1  Boxes", "5  Plots"):
        assert heading in shown


def test_a_paragraph_is_filled() -> None:
    assert _lines(text("The volume is ", 4 * B * D, " bytes")) == ["The volume is 4*B*D bytes"]


def test_labels_stand_before_their_formulas() -> None:
    shown = _lines(display(("arithmetic", equation(Math.name("T_math"), B / F, seconds(1e-3)))))
    assert shown == ["arithmetic              T_math = B/F = 1 ms"]


def test_numbers_align_on_the_right() -> None:
    assert _lines(table(["kind", ("count", "right")], [["a", 7], ["bb", 12345]])) == [
        "kind   count", "----  ------", "a          7", "bb    12,345",
    ]  # fmt: skip


def test_a_wide_table_wraps_its_words() -> None:
    shown = _lines(table(["a", "b"], [["word " * 30, "x"]]))
    assert len(shown) == 4
    assert all(len(line) <= 80 for line in shown)


def test_a_long_line_of_code_continues_deeper() -> None:
    first, second = _lines(listing(["  " + "word " * 20]))
    assert first.startswith("      word")
    assert second.startswith(" " * 12 + "word")


def test_callouts_say_their_kind() -> None:
    assert _lines(callout("bad", "too big", title="Memory")) == ["[!] Memory: too big"]


def test_mistakes_of_the_writer_are_named() -> None:
    with pytest.raises(ReportError, match="row 2 of table 'sizes' has 1 cells for 2 columns"):
        table(["a", "b"], [[1, 2], [3]], caption="sizes")
    with pytest.raises(ReportError, match="callout kind 'fine'"):
        callout("fine", "x")  # type: ignore[arg-type]


def test_fitting_leaves_narrow_and_rigid_columns_alone() -> None:
    assert fit([5, 5], 20, [True, True]) == [5, 5]
    widths = fit([5, 40, 60, 10], 50, [True, True, True, False])
    assert widths[0] == 5
    assert widths[3] == 10
    assert widths[1] == widths[2] == pytest.approx(17.5)
