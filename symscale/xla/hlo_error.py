"""The one error of reading HLO text, and how a piece of text is quoted in its message."""

from __future__ import annotations

from symscale.algebra.errors import SymscaleError


class HloError(SymscaleError):
    """HLO text that cannot be read: cut off, of an unknown form, or not HLO at all."""


def excerpt(text: str, length: int = 60) -> str:
    r"""The beginning of a text on one line, quoted.

    >>> excerpt("a\n  b")
    "'a b'"
    """
    line = " ".join(text[: 4 * length].split())
    return repr(line[:length] + ("..." if len(line) > length else ""))
