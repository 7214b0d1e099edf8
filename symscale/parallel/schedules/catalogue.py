"""The schedules of one direction: GPipe, 1F1B, interleaved 1F1B, ZB-H1 and ZB-H2."""

from __future__ import annotations

from sympy import Expr, S, floor

from symscale.algebra.maximum import Minimum
from symscale.parallel.schedules import orders
from symscale.parallel.schedules.path import Leg, Walk
from symscale.parallel.schedules.recipe import Recipe, Rule, Sizes

_OUT = "the first microbatch goes through all stages"
_BACK = "the last microbatch's gradient comes back through all stages"
_ECHO = "the first microbatch's gradient comes back through all stages"


def whole(sizes: Sizes) -> tuple[Leg, ...]:
    """Each microbatch forward and backward, on each chunk of the device."""
    _, m, v = sizes
    return (
        Leg("F", m * v, "every forward of one device"),
        Leg("BW", m * v, "every backward of one device"),
    )


def _one(v: Expr) -> Expr:
    return S.One


def _own(v: Expr) -> Expr:
    return v


def _gpipe(sizes: Sizes) -> tuple[Walk, ...]:
    p, m, _ = sizes
    return (
        Walk(
            (
                Leg("F", p, _OUT, through=True),
                Leg("F", m - 1, "the other microbatches follow"),
                Leg("BW", m - 1, "backwards begin once all forwards are done"),
                Leg("BW", p, _BACK, through=True),
            )
        ),
    )


def _one_f_one_b(sizes: Sizes) -> tuple[Walk, ...]:
    p, m, _ = sizes
    return (
        Walk(
            (
                Leg("F", p, _OUT, through=True),
                Leg("BW", m - 1, "the last stage takes backwards"),
                Leg("F", m - 1, "and forwards in turn, without a gap"),
                Leg("BW", p, _BACK, through=True),
            )
        ),
    )


def _interleaved(sizes: Sizes) -> tuple[Walk, ...]:
    p, m, v = sizes
    return (
        Walk(
            (
                Leg("F", p, "the first microbatch reaches the last device's first chunk"),
                Leg("F", m * v - 1, "the last device takes the forwards of all its chunks"),
                Leg("BW", m * v - 1, "and the backwards, without a gap"),
                Leg("BW", p, "the last microbatch's gradient leaves through all devices"),
            )
        ),
    )


def _late_weights(sizes: Sizes, late: Expr) -> Walk:
    """Through the last stage, which has put off ``late`` weight gradients when its last B ends."""
    p, m, _ = sizes
    return Walk(
        (
            Leg("F", p, _OUT, through=True),
            Leg("F", m - 1, "the last stage takes the other forwards"),
            Leg("B", m - 1, "and gradients of inputs in turn with them"),
            Leg("W", m - late - 1, f"and all but {late + 1} gradients of weights"),
            Leg("B", p, _BACK, through=True),
            Leg("W", S.One, "the first stage ends with the weights of the last microbatch"),
        )
    )


def _last_stage(sizes: Sizes) -> Walk:
    p, m, _ = sizes
    return Walk(
        (
            Leg("F", p, _OUT, through=True),
            Leg("F", m - 1, "the last stage takes the other forwards"),
            Leg("B", m, "all gradients of inputs"),
            Leg("W", m, "and of weights, without a gap"),
        ),
        lead=p - 1,
    )


def _first_stage(sizes: Sizes, ahead: Expr) -> Walk:
    """The first stage waits for the first gradient with ``ahead`` forwards done."""
    p, m, _ = sizes
    return Walk(
        (
            Leg("F", p, _OUT, through=True),
            Leg("B", p, _ECHO, through=True),
            Leg("F", m - ahead, f"the first stage, {ahead} forwards ahead, takes the other ones"),
            Leg("B", m - 1, "the other gradients of inputs"),
            Leg("W", m, "and all gradients of weights"),
        )
    )


def _split_walks(sizes: Sizes, late: Expr, ahead: Expr) -> tuple[Walk, ...]:
    return (_late_weights(sizes, late), _last_stage(sizes), _first_stage(sizes, ahead))


def _zigzag(sizes: Sizes) -> Expr:
    """Messages in series: out and back, and between neighbours that wait for one another."""
    p, m, _ = sizes
    return 2 * (p - 1) + 2 * (m - 2 - floor((m - 2) / p))


GPIPE = Recipe(
    "gpipe",
    "all forwards, then all backwards",
    "Huang et al., GPipe, arXiv:1811.06965",
    order=orders.gpipe,
    walks=_gpipe,
    busy=whole,
    in_flight=lambda sizes, stage: sizes[1],
    pieces=_one,
    visits=_one,
    hops=lambda sizes: 2 * (sizes[0] - 1),
    behind=lambda m: m,
    uneven=True,
)

ONE_F_ONE_B = Recipe(
    "1f1b",
    "one forward, one backward in turn, as soon as the first gradient arrives",
    "Narayanan et al., arXiv:2104.04473, section 2.2 (PipeDream-Flush)",
    order=orders.one_f_one_b,
    walks=_one_f_one_b,
    busy=whole,
    in_flight=lambda sizes, stage: Minimum(sizes[1], sizes[0] - stage),
    pieces=_one,
    visits=_one,
    hops=_zigzag,
    uneven=True,
)

INTERLEAVED = Recipe(
    "interleaved",
    "1F1B over v chunks of layers on each device",
    "Narayanan et al., arXiv:2104.04473, section 2.2",
    order=orders.interleaved,
    walks=_interleaved,
    busy=whole,
    in_flight=lambda sizes, stage: Minimum(
        sizes[1] * sizes[2], sizes[0] * sizes[2] + sizes[0] - 2 * stage - 1
    ),
    pieces=_own,
    visits=_own,
    hops=lambda sizes: 2 * (sizes[0] * sizes[2] - 1),
    rules=(
        Rule(lambda p, m, v: v >= 2, "v of 2 or more chunks a device (one chunk is 1f1b)", "v"),
        Rule(lambda p, m, v: m % p == 0, "m a multiple of p"),
    ),
    chunked=True,
)

ZB_H1 = Recipe(
    "zb-h1",
    "1F1B with weight gradients put off into the gaps, in the memory of 1F1B",
    "Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2",
    order=orders.zero_bubble_1,
    walks=lambda sizes: _split_walks(sizes, sizes[0] - 1, sizes[0]),
    busy=whole,
    in_flight=lambda sizes, stage: sizes[0],
    pieces=_one,
    visits=_one,
    rules=(Rule(lambda p, m, v: m >= p, "m of at least p microbatches"),),
)

ZB_H2 = Recipe(
    "zb-h2",
    "more forwards ahead and weight gradients later, no barrier between steps",
    "Qi et al., Zero Bubble Pipeline Parallelism, arXiv:2401.10241, section 2",
    order=orders.zero_bubble_2,
    walks=lambda sizes: _split_walks(sizes, 2 * (sizes[0] - 1), 2 * sizes[0] - 1),
    busy=whole,
    in_flight=lambda sizes, stage: 2 * sizes[0] - 1,
    pieces=_one,
    visits=_one,
    rules=(Rule(lambda p, m, v: m >= 2 * p - 1, "m of at least 2p - 1 microbatches"),),
    barrier=False,
)

ONE_WAY = (GPIPE, ONE_F_ONE_B, INTERLEAVED, ZB_H1, ZB_H2)
