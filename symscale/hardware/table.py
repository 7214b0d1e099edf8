"""Tables of text and of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from textwrap import fill


def text_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], align: str = "", width: int = 80
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
    return "\n".join(_fit(_line(row, widths, marks), width) for row in lines)


def _line(row: Sequence[str], widths: Sequence[int], marks: str) -> str:
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


def note(text: str, indent: int = 2, width: int = 80) -> str:
    """A paragraph with its later lines indented; addresses are not broken.

    >>> note("a short one")
    'a short one'
    """
    return fill(
        text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same as an HTML table, with every cell escaped.

    >>> html_table(["a"], [["<b>"]])
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table>'
    """
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>"
