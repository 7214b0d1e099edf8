"""How a mesh axis is cut over the physical axes of a torus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from sympy import Expr, divisors, sympify


@dataclass(frozen=True)
class Edge:
    """One physical axis under a mesh axis: its chips, and whether its ends are joined."""

    size: Expr
    wraps: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sympify(self.size, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Chips and wraparound, for JSON."""
        return {"chips": str(self.size), "wraps": self.wraps}


def _factors(size: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a size as an ascending product of so many factors."""
    if parts == 1:
        yield (size,)
        return
    for first in divisors(size):
        for rest in _factors(size // first, parts - 1):
            if first <= rest[0]:
                yield (first, *rest)


@cache
def balanced(size: int, limits: tuple[int, ...] | None, parts: int, step: int) -> tuple[int, ...]:
    """A size as a product of so many factors, as equal as can be; empty when none fits.

    ``limits`` are the longest factors, ascending, and multiples of ``step`` are preferred.

    >>> balanced(256, (16, 16), 2, 16), balanced(2048, None, 2, 4), balanced(64, (16,), 1, 16)
    ((16, 16), (32, 64), ())
    >>> balanced(8960, None, 3, 4)
    (16, 20, 28)
    """
    fitting = [
        found
        for found in _factors(size, parts)
        if limits is None or all(a <= b for a, b in zip(found, limits, strict=True))
    ]
    if not fitting:
        return ()
    odd = {found: sum(factor % step != 0 for factor in found) for found in fitting}
    return min(fitting, key=lambda found: (odd[found], max(found), found))
