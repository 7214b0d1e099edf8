"""A document as LaTeX."""

from __future__ import annotations

from functools import lru_cache, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from symscale.report.breaking import Row, rows
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
from symscale.report.escaping import tex, tex_mono
from symscale.report.numbers import Figure, Power
from symscale.report.outline import ROOMS, shown_steps
from symscale.report.pgf import plot_view
from symscale.report.plots import PALETTE, LinePlot
from symscale.report.rich import Code, Equation, Formula, Math, Part, Parts, Strong
from symscale.report.schedule_chart import ScheduleChart, chart_tikz
from symscale.report.textable import table_view
from symscale.report.wrapping import code_lines

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
_MONO_COLUMNS = 88


def render(document: Document) -> str:
    r"""The whole document as LaTeX source.

    >>> from symscale.report.document import Document, section, text
    >>> page = render(Document("A_b", sections=(section("One", text("50%")),)))
    >>> r"50\%" in page
    True
    """
    template = _environment().get_template("report.tex.j2")
    return template.render(doc=document, palette=PALETTE)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        autoescape=False,
    )
    made.globals["rooms"] = ROOMS
    made.filters.update(tex=tex, math=math, rich=rich, block=_block, need=lines_needed)
    return made


def math(formula: Formula, room: float) -> str:
    r"""A formula for mathematics mode, broken over lines where it is wider than ``room`` em."""
    return aligned(rows(formula, room))


def aligned(lines: tuple[Row, ...], place: str = "") -> str:
    """Rows under one another, aligned at their relation."""
    if len(lines) == 1:
        return lines[0].latex
    body = r" \\ ".join(f"{row.left} & {row.right}" for row in lines)
    return rf"\begin{{aligned}}{place} {body} \end{{aligned}}"


def rich(parts: Parts) -> str:
    """Running text."""
    return "".join(map(part_tex, parts))


def part_tex(part: Part) -> str:
    """One part of running text."""
    if isinstance(part, Math | Equation):
        return f"${part.latex(inline=True)}$"
    if isinstance(part, Code):
        return rf"\texttt{{{tex_mono(part.text, cell=False)}}}"
    if isinstance(part, Strong):
        return rf"\textbf{{{tex(part.text)}}}"
    return figure_tex(part) if isinstance(part, Figure) else tex(part)


def figure_tex(figure: Figure) -> str:
    """A number in running text, its power raised."""
    shown = []
    for index, piece in enumerate(figure.pieces):
        if isinstance(piece, Power):
            times = r"{}\times " if index else ""
            shown.append(rf"${times}10^{{{piece.exponent}}}$")
        else:
            shown.append(tex(piece))
    return "".join(shown)


def lines_needed(block: Block) -> int:
    """Lines of a page that a block should find below its head, so as not to be parted from it.

    >>> from symscale.report.document import listing
    >>> lines_needed(listing("a"))
    4
    """
    if isinstance(block, Table):
        return min(len(block.rows) + 5, 16)
    if isinstance(block, Listing):
        return min(len(block.lines) + 3, 14)
    if isinstance(block, LinePlot):
        return 22
    if isinstance(block, ScheduleChart):
        return min(2 * block.rows + 8, 40)
    return 6 if isinstance(block, DerivationBlock) else 3


def _macros() -> Any:
    return _environment().get_template("blocks.tex.j2").module


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(f"no LaTeX for a block of type {type(block).__name__}")


@_block.register
def _(block: Paragraph) -> str:
    return str(_macros().paragraph(block.parts))


@_block.register
def _(block: Display) -> str:
    return str(_macros().display(block.lines))


@_block.register
def _(block: DerivationBlock) -> str:
    need = lines_needed(block)
    return str(_macros().derivation(block.title, list(shown_steps(block)), need))


@_block.register
def _(block: Table) -> str:
    return str(_macros().table(table_view(block, part_tex, aligned), lines_needed(block)))


@_block.register
def _(block: Listing) -> str:
    lines = [tex_mono(line) for line in code_lines(block.lines, _MONO_COLUMNS)]
    return str(_macros().listing(block.caption, lines, lines_needed(block)))


@_block.register
def _(block: Callout) -> str:
    return str(_macros().callout(block))


@_block.register
def _(block: LinePlot) -> str:
    return str(_macros().plot(block, plot_view(block), lines_needed(block)))


@_block.register
def _(block: ScheduleChart) -> str:
    return str(_macros().chart(block, chart_tikz(block), lines_needed(block)))
