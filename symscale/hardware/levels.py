"""Levels above a node or a pod, and how a mesh axis is laid over them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

from sympy import Expr, sympify

from symscale.algebra.errors import HardwareError


@dataclass(frozen=True)
class Level:
    """One level of a tree of switches: how many children it joins, and what one chip gets of it.

    ``size`` is the number of children (nodes under a leaf, leaves under a spine); None means as
    many as there are. ``rate`` is bytes/s of one chip, one way, through the cables above its
    child: the child's uplink over its chips. In a fat tree it is the same at every level; a tapered
    one has less at the top.

    >>> from symscale.algebra.symbols import W_dcn
    >>> Level("leaf", 32, W_dcn).to_dict()
    {'name': 'leaf', 'size': 32, 'rate': 'W_dcn'}
    """

    name: str
    size: int | None
    rate: Expr

    def to_dict(self) -> dict[str, Any]:
        """The level for JSON."""
        return {"name": self.name, "size": self.size, "rate": str(self.rate)}


@dataclass(frozen=True)
class Lay:
    """How many members of one group of a mesh axis lie together at each level.

    ``inside[0]`` in one node (or pod), ``inside[1]`` under one leaf, and so on, the fewest where a
    group is spread unevenly; ``size`` is the group.

    >>> Lay(16, (8, 16)).crosses
    (True, False)
    """

    size: Expr
    inside: tuple[Expr, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sympify(self.size, strict=True))
        members = tuple(sympify(count, strict=True) for count in self.inside)
        object.__setattr__(self, "inside", members)

    @property
    def crosses(self) -> tuple[bool, ...]:
        """For each level, whether the group reaches beyond it."""
        return tuple(count != self.size for count in self.inside)


def pack(
    sizes: Mapping[str, int], rooms: tuple[int | None, ...], outside: frozenset[str] = frozenset()
) -> dict[str, Lay]:
    """Lay mesh axes over levels, the last axis innermost: neighbours along it are closest.

    ``rooms`` are the chips of a node, the nodes of a leaf, and so on. An axis fills what the axes
    inside it leave; where it does not divide that, chips stay idle. Axes ``outside`` start above
    the first level; they come first.

    >>> pack({"X": 128, "Y": 8}, (8, 32, 4))["X"].inside
    (1, 32, 128)
    >>> pack({"X": 8, "Y": 128}, (8, 32, 4))["Y"].inside
    (8, 128, 128)

    Raises:
        HardwareError: when a group is left over at the outermost level.
    """
    free = list(rooms)
    out: dict[str, Lay] = {}
    for name in reversed(list(sizes)):
        start = 1 if name in outside else 0
        out[name] = _laid(name, sizes[name], free, start)
    return {name: out[name] for name in sizes}


def _laid(name: str, size: int, free: list[int | None], start: int) -> Lay:
    inside, groups = [1] * start, size
    for level in range(start, len(free)):
        room = free[level]
        if room is None or groups <= room:
            free[level] = None if room is None else room // groups
            return Lay(size, (*inside, *[size] * (len(free) - level)))
        groups = ceil(groups / room)
        free[level] = 1
        inside.append(size // groups)
    raise HardwareError(f"mesh axis {name} = {size} finds no room")


def idle(lays: Iterable[Lay], room: int) -> int:
    """Chips of a node that no group uses.

    >>> idle([Lay(6, (6, 6)), Lay(4, (1, 4))], 8)
    2
    """
    used = 1
    for lay in lays:
        used *= int(lay.inside[0])
    return max(0, room - used)
