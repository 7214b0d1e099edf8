"""DualPipe and DualPipeV: forwards and backwards of two directions overlapped in pairs."""

from __future__ import annotations

from sympy import Expr, Integer, S

from symscale.parallel.schedules import bidirectional
from symscale.parallel.schedules.path import Leg, Walk
from symscale.parallel.schedules.recipe import Recipe, Rule, Sizes

_TWO = Integer(2)
_PAIRED = "forward and backward overlapped"


def _walks(stages: Expr, count: Expr) -> tuple[Walk, ...]:
    """By the number of stages and of the forwards that one device does."""
    half = stages / 2
    middle = (
        Leg("FB", count - half - 2, _PAIRED),
        Leg("BW", S.One, "the last microbatch turns at its end"),
    )
    home = (
        Leg("B", stages - 1, "its gradient goes to the other end"),
        Leg("W", S.One, "and its weight gradient ends the step"),
    )
    stay = (
        Leg("B", half, "its gradient goes to the middle"),
        Leg("W", half, "where weight gradients are left to do"),
    )
    meet = (
        Leg("F", half, "the first microbatch reaches the middle"),
        Leg("F", stages, "devices in the middle take forwards of both directions in turn"),
        Leg("BW", S.One, "the first backward of the middle, not overlapped"),
    )
    through = (
        Leg("F", stages, "the first microbatch goes through all stages"),
        Leg("B", half - 1, "its gradient comes back to the middle"),
        Leg("BW", S.One, "and through it"),
    )
    return tuple(Walk((*start, *middle, *end)) for start in (meet, through) for end in (home, stay))


def _busy(stages: Expr, count: Expr) -> tuple[Leg, ...]:
    alone = stages + 1
    return (
        Leg("F", alone, "forwards of a middle device that are not overlapped"),
        Leg("BW", alone, "and backwards"),
        Leg("FB", count - alone, _PAIRED),
    )


def _both_ends(sizes: Sizes) -> tuple[Expr, Expr]:
    return sizes[0], sizes[1]


def _there_and_back(sizes: Sizes) -> tuple[Expr, Expr]:
    return 2 * sizes[0], 2 * sizes[1]


_SOURCE = "DeepSeek-V3, arXiv:2412.19437, section 3.2.1; order of github.com/deepseek-ai/DualPipe"
_EXACT = "t_FB of at least t_F and t_B + t_W"

DUALPIPE = Recipe(
    "dualpipe",
    "microbatches from both ends, the forward of one over the backward of another",
    _SOURCE,
    order=bidirectional.dualpipe,
    walks=lambda sizes: _walks(*_both_ends(sizes)),
    busy=lambda sizes: _busy(*_both_ends(sizes)),
    in_flight=lambda sizes, stage: sizes[0] + 1,
    pieces=lambda v: S.One,
    visits=lambda v: S.One,
    rules=(
        Rule(lambda p, m, v: p % 2 == 0, "p even", "p"),
        Rule(lambda p, m, v: m % 2 == 0, "m even", "m"),
        Rule(lambda p, m, v: m >= 2 * p, "m of at least 2p microbatches"),
    ),
    weights=2,
    exact=_EXACT,
)

DUALPIPE_V = Recipe(
    "dualpipev",
    "DualPipe folded: microbatches through all devices and back, on two chunks each",
    f"{_SOURCE} (cut in half)",
    order=bidirectional.dualpipe_v,
    walks=lambda sizes: _walks(*_there_and_back(sizes)),
    busy=lambda sizes: _busy(*_there_and_back(sizes)),
    in_flight=lambda sizes, stage: 2 * sizes[0] + 1,
    pieces=lambda v: _TWO,
    visits=lambda v: _TWO,
    rules=(Rule(lambda p, m, v: m >= 2 * p, "m of at least 2p microbatches"),),
    turns=1,
    exact=_EXACT,
)

PAIRED = (DUALPIPE, DUALPIPE_V)
