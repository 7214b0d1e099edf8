"""A document as one self-contained HTML file: MathML, inline SVG, no script, no network."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from typing import TYPE_CHECKING, Any

from markupsafe import Markup, escape

from symscale.report.breaking import rows
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
from symscale.report.latex import TEMPLATES
from symscale.report.mathml import mathml
from symscale.report.numbers import Figure, Power
from symscale.report.outline import ROOMS, headings, shown_steps
from symscale.report.plots import PALETTE, LinePlot
from symscale.report.rich import Code, Equation, Formula, Math, Part, Parts, Strong, plain
from symscale.report.schedule_chart import ScheduleChart, chart_svg
from symscale.report.svg import svg

if TYPE_CHECKING:
    from jinja2 import Environment


def render(document: Document) -> str:
    """The whole document as one HTML page.

    >>> from symscale.report.document import Document, section, text
    >>> page = render(Document("<b>", sections=(section("One", text("x < y")),)))
    >>> "&lt;b&gt;" in page, "x &lt; y" in page, "<script" in page
    (True, True, False)
    """
    return _page("report.html.j2", document)


def fragment(document: Document) -> str:
    """The document as an element for a notebook, its style confined to itself."""
    return _page("fragment.html.j2", document)


def _page(template: str, document: Document) -> str:
    page = _environment().get_template(template)
    return page.render(doc=document, headings=headings(document), palette=PALETTE)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        autoescape=True,
    )
    made.globals["rooms"] = ROOMS
    made.filters.update(math=math, rich=rich, cell=cell, block=_block, plain=plain)
    return made


def math(formula: Formula, room: float) -> Markup:
    """A displayed formula, broken over lines where it is wider than ``room`` em."""
    return Markup(mathml(rows(formula, room), display=True))


def rich(parts: Parts) -> Markup:
    """Running text."""
    return Markup("").join(map(part_html, parts))


def cell(parts: Parts) -> Markup:
    """A table cell: long mathematics goes over lines."""
    if len(parts) == 1 and isinstance(parts[0], Math | Equation):
        return Markup(mathml(rows(parts[0], ROOMS.cell, inline=True), display=False))
    return rich(parts)


def part_html(part: Part) -> Markup:
    """One part of running text."""
    if isinstance(part, Math | Equation):
        return Markup(mathml(rows(part, float("inf"), inline=True), display=False))
    if isinstance(part, Code):
        return Markup("<code>{}</code>").format(part.text)
    if isinstance(part, Strong):
        return Markup("<strong>{}</strong>").format(part.text)
    return figure_html(part) if isinstance(part, Figure) else escape(part)


def figure_html(figure: Figure) -> Markup:
    """A number in running text, its power raised."""
    shown = Markup("")
    for index, piece in enumerate(figure.pieces):
        if isinstance(piece, Power):
            times = "\N{NO-BREAK SPACE}\N{MULTIPLICATION SIGN}\N{NO-BREAK SPACE}" if index else ""
            shown += Markup("{}10<sup>{}</sup>").format(times, piece.shown)
        else:
            shown += escape(piece)
    return shown


def _macros() -> Any:
    return _environment().get_template("blocks.html.j2").module


@singledispatch
def _block(block: Block) -> Markup:
    raise TypeError(f"no HTML for a block of type {type(block).__name__}")


@_block.register
def _(block: Paragraph) -> Markup:
    return Markup(_macros().paragraph(block.parts))


@_block.register
def _(block: Display) -> Markup:
    return Markup(_macros().display(block.lines))


@_block.register
def _(block: DerivationBlock) -> Markup:
    return Markup(_macros().derivation(block.title, list(shown_steps(block))))


@_block.register
def _(block: Table) -> Markup:
    return Markup(_macros().table(block))


@_block.register
def _(block: Listing) -> Markup:
    return Markup(_macros().listing(block.caption, block.lines))


@_block.register
def _(block: Callout) -> Markup:
    return Markup(_macros().callout(block))


@_block.register
def _(block: LinePlot) -> Markup:
    return Markup(_macros().plot(Markup(svg(block)), block.caption))


@_block.register
def _(block: ScheduleChart) -> Markup:
    return Markup(_macros().plot(Markup(chart_svg(block)), block.caption))
