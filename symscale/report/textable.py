"""Tables in LaTeX: the size of type and the widths of columns that make them fit the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symscale.report.breaking import Row, rows
from symscale.report.document import Column, Table
from symscale.report.fitting import column_widths, fit, parts_width, wrap_head
from symscale.report.outline import ROOMS
from symscale.report.rich import Equation, Math, Part, Parts

_GAP = 1.0
#: LaTeX sizes and how much wider a line is in their em.
_SIZES = (("", 1.0), (r"\small", 1.08), (r"\footnotesize", 1.17))
_MARGIN = 1.04


@dataclass(frozen=True)
class TexTable:
    """A table ready for its template."""

    size: str
    spec: str
    head: str
    rows: tuple[tuple[str, ...], ...]
    caption: Parts
    notes: tuple[Parts, ...]
    airy: bool


Setter = Callable[[Part], str]
Aligner = Callable[[tuple[Row, ...], str], str]


def table_view(table: Table, setter: Setter, aligner: Aligner) -> TexTable:
    """Choose size and widths, then set every cell."""
    natural = [width * _MARGIN for width in column_widths(table, parts_width)]
    gaps = _GAP * (len(table.columns) - 1)
    flexible = [column.align == "left" for column in table.columns]
    size, room = _size(sum(natural), gaps, flexible)
    widths = fit(natural, room - gaps, flexible)
    cut = [w < n - 0.01 for w, n in zip(widths, natural, strict=True)]
    body = tuple(
        tuple(_cell(c, w if k else 0.0, setter, aligner)
              for c, w, k in zip(row, widths, cut, strict=True))
        for row in table.rows
    )  # fmt: skip
    heads = [_head(c, w, k, setter) for c, w, k in zip(table.columns, widths, cut, strict=True)]
    spec = "".join(_spec(c, w, k) for c, w, k in zip(table.columns, widths, cut, strict=True))
    return TexTable(size, spec, " & ".join(heads), body, table.caption, table.notes, any(cut))


def _size(natural: float, gaps: float, flexible: list[bool]) -> tuple[str, float]:
    """The largest type in which all fits on one line each; else a small one, to be wrapped."""
    for size, factor in _SIZES:
        if natural + gaps <= ROOMS.table * factor:
            return size, ROOMS.table * factor
    size, factor = _SIZES[1] if any(flexible) and len(flexible) < 6 else _SIZES[2]
    return size, ROOMS.table * factor


def _spec(column: Column, width: float, cut: bool) -> str:
    if cut:
        return rf">{{\raggedright\arraybackslash}}p{{{width:.2f}em}}"
    return column.align[0]


def _head(column: Column, width: float, cut: bool, setter: Setter) -> str:
    lines = wrap_head(column.title, width, parts_width)
    if cut or lines is None:
        return "".join(map(setter, column.title))
    if len(lines) < 2:
        return "".join(map(setter, lines))
    body = r"\\ ".join(setter(line) for line in lines)
    return rf"\begin{{tabular}}[b]{{@{{}}{column.align[0]}@{{}}}}{body}\end{{tabular}}"


def _cell(parts: Parts, room: float, setter: Setter, aligner: Aligner) -> str:
    if room and len(parts) == 1 and isinstance(parts[0], Math | Equation):
        return f"${aligner(rows(parts[0], room, inline=True), '[t]')}$"
    return "".join(map(setter, parts))
