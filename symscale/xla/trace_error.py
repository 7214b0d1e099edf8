"""The one error of reading a trace."""

from __future__ import annotations

from symscale.algebra.errors import SymscaleError


class TraceError(SymscaleError):
    """A file that is not a trace, or one that cannot be read whole."""
