"""What a pipeline schedule is, before any number: its order, its paths, its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sympy import Expr, S

from symscale.parallel.schedules.path import Leg, Walk
from symscale.parallel.schedules.work import Order

#: Devices, microbatches and chunks a device.
Sizes = tuple[Expr, Expr, Expr]


@dataclass(frozen=True)
class Rule:
    """A condition on sizes: whether it holds for numbers, in words, and of which sizes it is."""

    holds: Callable[[int, int, int], bool]
    text: str
    about: str = "pm"


@dataclass(frozen=True)
class Recipe:
    """A schedule as data.

    Counts are of chunks. ``walks`` are the longest paths of a step and ``busy`` the work of one
    device (the one that gains most, where some of it is overlapped). ``in_flight`` takes sizes and
    a stage's number. ``pieces`` is the number of chunks into which one device's share of the layers
    is cut, ``visits`` how often a microbatch comes to a device, ``turns`` how often it stays there
    from one stage to the next. ``behind`` is how many of m microbatches have left the last stage
    and wait for their backward pass there: what the head keeps. ``weights`` is the number of copies
    of its share that each device holds. Without ``barrier`` a device begins its next step while
    others are in this one.
    """

    name: str
    meaning: str
    source: str
    order: Callable[[int, int, int], Order]
    walks: Callable[[Sizes], tuple[Walk, ...]]
    busy: Callable[[Sizes], tuple[Leg, ...]]
    in_flight: Callable[[Sizes, Expr], Expr]
    pieces: Callable[[Expr], Expr]
    visits: Callable[[Expr], Expr]
    hops: Callable[[Sizes], Expr] | None = None
    behind: Callable[[Expr], Expr] = lambda m: S.One
    rules: tuple[Rule, ...] = ()
    turns: int = 0
    weights: int = 1
    barrier: bool = True
    chunked: bool = False
    exact: str = "any t_F, t_B, t_W"
    uneven: bool = False
