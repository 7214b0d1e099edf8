"""A progress bar on a terminal: one line, rewritten, gone at the end; silent elsewhere."""

from __future__ import annotations

from time import monotonic
from typing import TextIO

_WIDTH = 30
_PATIENCE = 0.2
_OFTEN = 0.05


class Bar:
    """Called with the points done and all of them; draws once it has taken a moment.

    >>> import io
    >>> out = io.StringIO()
    >>> with Bar("sweep", out) as bar:
    ...     bar(5, 10)
    >>> out.getvalue()
    ''
    """

    def __init__(self, name: str, stream: TextIO, patience: float = _PATIENCE) -> None:
        self._name = name
        self._stream = stream
        self._shows = stream.isatty()
        self._next = monotonic() + patience
        self._drawn = 0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._stream.write("\r" + " " * self._drawn + "\r")
            self._stream.flush()

    def __call__(self, done: int, total: int) -> None:
        """Draw how far it is."""
        if not self._shows or monotonic() < self._next:
            return
        self._next = monotonic() + _OFTEN
        line = bar_line(self._name, done, total)
        self._stream.write("\r" + line)
        self._stream.flush()
        self._drawn = max(self._drawn, len(line))


def bar_line(name: str, done: int, total: int) -> str:
    """The line of a bar.

    >>> bar_line("sweep", 500_000, 1_000_000)
    'sweep [===============>              ]  50% of 1,000,000'
    """
    full = _WIDTH * done // total
    bar = "=" * full + ">" * (full < _WIDTH)
    return f"{name} [{bar:<{_WIDTH}}] {100 * done // total:3d}% of {total:,}"
