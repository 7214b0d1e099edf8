"""A profile of a run, measured times beside derived bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from symscale.algebra.errors import SymscaleError


class TraceError(SymscaleError):
    """A file that is not a trace that can be read."""


@dataclass(frozen=True)
class TraceReport:
    """Measured times of one trace."""


def read_trace(path: str | Path, bounds: Mapping[str, float] | None = None) -> TraceReport:
    """Measured time per op kind and collective."""
    raise TraceError("not yet")
