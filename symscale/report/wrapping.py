"""Lines of monospaced text kept to a width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

_HANG = 6


def code_lines(lines: Iterable[str], width: int) -> Iterator[str]:
    """Lines of an algorithm, those too long continued below with a deeper indent.

    >>> list(code_lines(["a b", ""], 80))
    ['a b', '']
    """
    for raw in lines:
        line = raw.expandtabs(4).rstrip()
        indent = len(line) - len(line.lstrip())
        if len(line) <= width:
            yield line
            continue
        hang = " " * min(indent + _HANG, width // 2)
        yield from textwrap.wrap(
            line, width, subsequent_indent=hang, drop_whitespace=True,
            break_long_words=True, replace_whitespace=False,
        )  # fmt: skip


def prose(text: str, width: int, indent: str = "") -> list[str]:
    """Text filled to a width; an empty text is one empty line.

    >>> prose("one two three", 8)
    ['one two', 'three']
    """
    return textwrap.wrap(text, max(width, 1), subsequent_indent=indent) or [""]
