"""How wide the columns of a table become when they do not all fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from symscale.report.document import Table
from symscale.report.rich import Code, Equation, Math, Part, Parts
from symscale.report.texwidth import tex_width

_MONO = 0.53


def fit(widths: Sequence[float], room: float, flexible: Sequence[bool]) -> list[float]:
    """Widths that add up to at most ``room``: the widest flexible columns are cut to one height.

    Columns that cannot shrink keep their width, whatever is left for the others (at least a
    twelfth of the room each).

    >>> fit([4, 30, 10], room=30, flexible=[False, True, True])
    [4, 16.0, 10]
    """
    if sum(widths) <= room:
        return list(widths)
    free = room - sum(w for w, soft in zip(widths, flexible, strict=True) if not soft)
    soft = sorted(w for w, can in zip(widths, flexible, strict=True) if can)
    cap = _waterline(soft, free, room / 12)
    return [min(w, cap) if can else w for w, can in zip(widths, flexible, strict=True)]


def _waterline(ascending: Sequence[float], room: float, least: float) -> float:
    left, count = room, len(ascending)
    for width in ascending:
        if width * count > left:
            return max(left / count, least)
        left -= width
        count -= 1
    return max([*ascending, least])


def part_width(part: Part) -> float:
    """An estimate of a part's width on paper, in em."""
    if isinstance(part, Math | Equation):
        return tex_width(part.latex(inline=True))
    if isinstance(part, Code):
        return _MONO * len(part.text)
    return sum(map(_char_width, part if isinstance(part, str) else part.text))


def _char_width(char: str) -> float:
    if char.isupper() or char in "%mwMW@":
        return 0.75
    return 0.36 if char in " ,.;:iltfj'|!()[]" else 0.52


def parts_width(parts: Parts) -> float:
    """An estimate of the width on paper of a cell set on one line, in em."""
    return sum(map(part_width, parts))


def column_widths(table: Table, measure: Callable[[Parts], float]) -> list[float]:
    """Each column's natural width: its widest cell, or the longest word of its head."""
    out = []
    for index, column in enumerate(table.columns):
        words = [(word,) for part in column.title if isinstance(part, str) for word in part.split()]
        heads = [measure(word) for word in words] or [measure(column.title)]
        out.append(max([*heads, *(measure(row[index]) for row in table.rows)]))
    return out


def wrap_head(parts: Parts, width: float, measure: Callable[[Parts], float]) -> list[str] | None:
    """A head of plain words over lines no wider than its column; None for one that is not plain."""
    if not all(isinstance(part, str) for part in parts):
        return None
    lines: list[str] = []
    for word in "".join(part for part in parts if isinstance(part, str)).split():
        longer = f"{lines[-1]} {word}" if lines else word
        if lines and measure((longer,)) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines
