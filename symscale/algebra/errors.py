"""Every error symscale raises on bad input, under one root.

Kept free of SymPy, so that the command line can name an error without paying for its import.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SymscaleError(Exception):
    """Root of all errors that say what was wrong with an input, in one line."""


class SymbolError(SymscaleError):
    """A symbol that is unknown, foreign to the symbol table, or left without a number."""


class UnitError(SymscaleError):
    """Amounts that do not add: a FLOP to a byte, a per-device to a total, a layer to a step."""


class NotationError(SymscaleError):
    """A line of named-axis notation that does not parse; the message points at the character."""


class ShardingError(SymscaleError):
    """A sharding that cannot be: an axis used twice, or one that does not divide its dim."""


class ProgramError(SymscaleError):
    """Lines of a program that do not agree with one another."""


class SolveError(SymscaleError):
    """A question that the solver cannot answer, with the reason."""


class HardwareError(SymscaleError):
    """An unknown chip, a missing figure, or a mesh that does not fit a network."""


class ModelError(SymscaleError):
    """An unknown model, or a configuration that cannot be read."""


class StrategyError(SymscaleError):
    """An unknown strategy, or one that does not apply."""


class ReportError(SymscaleError):
    """A report that could not be written."""


def near(name: str, known: Iterable[str]) -> str:
    """A hint naming the known names closest to a mistyped one; empty when none is close.

    >>> near("tpu-v5", ["tpu-v5e", "h100"])
    '; did you mean tpu-v5e?'
    """
    matches = difflib.get_close_matches(name.lower(), list(known), n=3, cutoff=0.5)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
