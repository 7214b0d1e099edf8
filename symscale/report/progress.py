"""Progress on a terminal: one line, rewritten, gone at the end; silent elsewhere."""

from __future__ import annotations

from time import monotonic
from typing import TextIO

_PATIENCE = 1.0


class Progress:
    """Shows the stage of something that takes over a second.

    >>> import io
    >>> out = io.StringIO()
    >>> with Progress("report", out) as progress:
    ...     progress.step("model")
    >>> out.getvalue()
    ''
    """

    def __init__(self, name: str, stream: TextIO) -> None:
        self._name = name
        self._stream = stream
        self._shows = stream.isatty()
        self._started = monotonic()
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()

    def step(self, stage: str) -> None:
        """Say which stage begins."""
        if not self._shows or monotonic() - self._started < _PATIENCE:
            return
        line = f"{self._name}: {stage}..."
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width = max(self._width, len(line))
