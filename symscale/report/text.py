"""A document as plain text, 80 columns wide, for terminals."""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from itertools import zip_longest

from symscale.report.document import (
    Block,
    Callout,
    DerivationBlock,
    Display,
    Document,
    Listing,
    Paragraph,
    Table,
)
from symscale.report.fitting import column_widths, fit
from symscale.report.numbers import number
from symscale.report.outline import headings, shown_steps
from symscale.report.plots import LinePlot
from symscale.report.rich import Parts, plain
from symscale.report.schedule_chart import ScheduleChart
from symscale.report.wrapping import code_lines, prose

WIDTH = 80
_LABEL = 22
_GAP = "  "
_SAMPLES = 7
_CHART_KEY = (
    "F forward, B backward, b gradient of the inputs, w of the weights, & a forward and a "
    "backward overlapped; each with its microbatch"
)
_VERDICT = {"good": "+", "bad": "!", "note": "*"}


def render(document: Document) -> str:
    """The whole document as text.

    >>> from symscale.report.document import Document, section, text
    >>> print(render(Document("A report", sections=(section("One", text("Words.")),))))
    A report
    ========
    <BLANKLINE>
    1  One
    ------
    <BLANKLINE>
    Words.
    <BLANKLINE>
    """
    return "\n".join(line.rstrip() for line in _lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    title = prose(document.title, WIDTH)
    yield from title
    yield "=" * max(map(len, title))
    if document.subtitle:
        yield from prose(document.subtitle, WIDTH)
    if document.abstract:
        yield ""
        yield from prose(plain(document.abstract), WIDTH)
    for heading in headings(document):
        head = f"{heading.number}  {heading.section.title}"
        yield from ("", head, ("-" if heading.section.level == 1 else "~") * min(len(head), WIDTH))
        for block in heading.section.blocks:
            yield ""
            yield from _block(block)


@singledispatch
def _block(block: Block) -> Iterator[str]:
    raise TypeError(f"no text for a block of type {type(block).__name__}")


@_block.register
def _(block: Paragraph) -> Iterator[str]:
    yield from prose(plain(block.parts), WIDTH)


@_block.register
def _(block: Display) -> Iterator[str]:
    for line in block.lines:
        formula = line.formula.text
        if not line.label:
            yield from (f"    {part}" for part in prose(formula, WIDTH - 4, "    "))
            continue
        label = prose(plain(line.label), _LABEL)
        body = prose(formula, WIDTH - _LABEL - 2, "    ")
        for left, right in zip_longest(label, body, fillvalue=""):
            yield f"{left:<{_LABEL}}  {right}"


@_block.register
def _(block: DerivationBlock) -> Iterator[str]:
    if block.title:
        yield block.title
    for index, step in enumerate(shown_steps(block), 1):
        mark = f"{index:>3}. "
        reason = f"  ({step.reason})" if step.reason else ""
        yield from prose(f"{mark}{step.statement}{reason}", WIDTH, " " * len(mark))
        if step.formula:
            yield from (f"         {part}" for part in prose(step.formula.text, WIDTH - 9, "    "))


@_block.register
def _(block: Table) -> Iterator[str]:
    def measure(parts: Parts) -> float:
        return len(plain(parts))

    natural = column_widths(block, measure)
    room = WIDTH - len(_GAP) * (len(natural) - 1)
    soft = [column.align != "right" for column in block.columns]  # a number is not broken
    widths = [int(w) for w in fit(natural, room, soft)]
    if block.caption:
        yield from prose(plain(block.caption), WIDTH)
    yield from _row(block, [column.title for column in block.columns], widths)
    yield _GAP.join("-" * width for width in widths)
    for row in block.rows:
        yield from _row(block, row, widths)
    for note in block.notes:
        yield from prose(plain(note), WIDTH)


def _row(table: Table, row: list[Parts] | tuple[Parts, ...], widths: list[int]) -> Iterator[str]:
    cells = [prose(plain(cell), width) for cell, width in zip(row, widths, strict=True)]
    for lines in zip_longest(*cells, fillvalue=""):
        shown = [
            _aligned(text, width, column.align)
            for text, width, column in zip(lines, widths, table.columns, strict=True)
        ]
        yield _GAP.join(shown)


def _aligned(text: str, width: int, align: str) -> str:
    if align == "right":
        return text.rjust(width)
    return text.center(width) if align == "center" else text.ljust(width)


@_block.register
def _(block: Listing) -> Iterator[str]:
    if block.caption:
        yield from prose(plain(block.caption), WIDTH)
    yield from (f"    {line}" for line in code_lines(block.lines, WIDTH - 4))


@_block.register
def _(block: Callout) -> Iterator[str]:
    mark = f"[{_VERDICT[block.kind]}] "
    title = f"{block.title}: " if block.title else ""
    yield from prose(f"{mark}{title}{plain(block.parts)}", WIDTH, "    ")


@_block.register
def _(block: LinePlot) -> Iterator[str]:
    """A few points of each curve: the numbers that the other pages draw."""
    yield from prose(f"{block.title}: {block.ylabel} against {block.xlabel}", WIDTH, "    ")
    for series in block.series:
        last = len(series.points) - 1
        picks = sorted({round(i * last / (_SAMPLES - 1)) for i in range(_SAMPLES)})
        pairs = [series.points[pick] for pick in picks]
        shown = ", ".join(f"({number(x, digits=3)}, {number(y, digits=3)})" for x, y in pairs)
        yield from prose(f"  {series.label}: {shown}", WIDTH, "    ")
    for marker in block.markers:
        name = "x" if marker.direction == "vertical" else "y"
        yield f"  {name} = {number(marker.value)}: {marker.label}"
    for spot in block.spots:
        yield f"  at ({number(spot.x)}, {number(spot.y)}): {spot.label}"
    if block.caption:
        yield from prose(f"  {block.caption}", WIDTH, "  ")


@_block.register
def _(block: ScheduleChart) -> Iterator[str]:
    """Each device as a line of letters."""
    yield from prose(f"{block.title}: devices against {block.xlabel}, 0 to {number(block.total)}",
                     WIDTH, "    ")  # fmt: skip
    for row, letters in enumerate(block.letters(WIDTH - 6)):
        yield f"{row:>4}  {letters}"
    yield from prose(f"  {_CHART_KEY}", WIDTH, "  ")
    if block.caption:
        yield from prose(f"  {block.caption}", WIDTH, "  ")
