"""Tables: text in a terminal, HTML in a notebook, rows in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill, wrap
from typing import Any, TypeAlias

from sympy import Expr

from symscale.algebra.symbols import to_latex

_TERMINAL = 80
_NARROWEST = 20

Cell: TypeAlias = str | int | float | Expr


@dataclass(frozen=True)
class Table:
    """Rows under named columns.

    >>> print(Table(("part", "count"), (("mlp", 1200), ("head", 7))))
    part  count
    mlp   1,200
    head      7
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        texts = [self.columns, *(tuple(map(cell_text, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        right = [
            all(isinstance(cell, int | float) for cell in column)
            for column in zip(*self.rows, strict=True)
        ]
        room = _TERMINAL - sum(widths[:-1]) - 2 * len(widths[:-1])
        if widths[-1] > room >= _NARROWEST and not right[-1]:
            texts = [line for row in texts for line in _wrapped(row, room)]
            widths[-1] = room
        return "\n".join(_line(row, widths, right) for row in texts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _markup(self.columns, [tuple(map(_html, row)) for row in self.rows])

    def to_dict(self) -> list[dict[str, Any]]:
        """One mapping a row; expressions as text."""
        return [
            {
                name: str(cell) if isinstance(cell, Expr) else cell
                for name, cell in zip(self.columns, row, strict=True)
            }
            for row in self.rows
        ]


def cell_text(cell: Cell) -> str:
    """A cell as a terminal shows it.

    >>> cell_text(1234567), cell_text(0.25)
    ('1,234,567', '0.25')
    """
    if isinstance(cell, float):
        return f"{cell:.4g}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _wrapped(row: Sequence[str], room: int) -> list[tuple[str, ...]]:
    """A row as several, its last cell broken to fit."""
    pieces = wrap(row[-1], room, break_on_hyphens=False) or [""]
    blank = ("",) * (len(row) - 1)
    return [(*(row[:-1] if not index else blank), piece) for index, piece in enumerate(pieces)]


def _line(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    cells = (
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(row, widths, right, strict=True)
    )
    return "  ".join(cells).rstrip()


def _html(cell: Cell) -> str:
    return f"${to_latex(cell)}$" if isinstance(cell, Expr) else escape(cell_text(cell))


def text_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], align: str = "", width: int = _TERMINAL
) -> str:
    """Columns under their heads; ``align`` has a letter a column, the last of them for the rest.

    Longer lines than ``width`` are broken between words. Without ``head`` the rows stand alone.

    >>> print(text_table(["chip", "C"], [["h100", "9.89e14"]], "lr"))
    chip        C
    h100  9.89e14
    """
    lines = [*([head] if head else []), *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    marks = (align or "l").ljust(len(widths), (align or "l")[-1])
    return "\n".join(_fit(_aligned(row, widths, marks), width) for row in lines)


def _aligned(row: Sequence[str], widths: Sequence[int], marks: str) -> str:
    cells = (
        cell.rjust(width) if mark == "r" else cell.ljust(width)
        for cell, width, mark in zip(row, widths, marks, strict=True)
    )
    return "  ".join(cells).rstrip()


def _fit(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    cut = line.rfind(" ", 0, width + 1)
    if cut <= 8:
        return line
    return line[:cut].rstrip() + "\n" + _fit(" " * 8 + line[cut:].strip(), width)


def note(text: str, indent: int = 2, width: int = _TERMINAL) -> str:
    """A paragraph with its later lines indented; addresses are not broken.

    >>> note("a short one")
    'a short one'
    """
    return fill(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as an HTML table, with every cell escaped.

    >>> html_table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    return _markup(head, [tuple(map(escape, row)) for row in rows])


def _markup(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><tr>{top}</tr>{body}</table>"
