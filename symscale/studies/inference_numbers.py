"""Numbers that are asked for, checked: whole ones, and the bytes of a chip that may be filled."""

from __future__ import annotations

from typing import Any

from sympy import floor

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import exact
from symscale.hardware.chip import Chip


def padded(batch: int, ways: int) -> int:
    """The batch filled up to what ways divide: the most rows that one of them has, on all.

    >>> padded(103, 2), padded(104, 2)
    (104, 104)
    """
    return -(-batch // ways) * ways


def usable_bytes(chip: Chip, share: Any = 1.0, buffers: Any = 0) -> int:
    """Bytes of a chip's HBM that may be filled: a share of it, buffers set aside.

    Raises:
        SymbolError: for a share not in (0, 1], or buffers that leave nothing.
    """
    part = exact(share, "share")
    if part > 1:
        raise SymbolError(f"share = {share}: above 0 and at most 1 is wanted")
    room = int(floor(part * chip.hbm_bytes))
    aside = 0 if not isinstance(buffers, bool | str) and buffers == 0 else whole(buffers, "buffers")
    if aside >= room:
        raise SymbolError(
            f"buffers of {aside} bytes: {room} bytes of a chip may be filled, so that "
            f"{max(0, room - 1)} is the most"
        )
    return room - aside


def whole(value: Any, name: str) -> int:
    """A whole number above zero.

    Raises:
        SymbolError: for anything else.

    >>> whole(8.0, "chips")
    8
    """
    found = exact(value, name)
    if not found.is_integer:
        raise SymbolError(f"{name} = {value}: a whole number is wanted")
    return int(found)
