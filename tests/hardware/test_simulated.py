"""Closed forms against machines that carry the collective out, link by link, for 2 to 64 devices.

A step of a machine moves one piece over a link. What the busiest link carries is the closed form
exactly; the machine as a whole takes at most as much longer as it needs to fill and to drain.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
from sympy import Expr, Integer, Rational, cancel

from symscale.algebra.symbols import B, W_dcn, W_ici, W_nvlink, X, Y
from symscale.hardware.networks import (
    FullMesh,
    Hierarchy,
    Lay,
    Level,
    Switch,
    Torus,
    line,
    ring,
    worst_level,
)
from tests.hardware import machines
from tests.hardware.machines import Run

RING, ONE_WAY, LINE = ring(), ring(both_ways=False), line()
SIZES = tuple(range(2, 65))


def agree(formula: Expr, done: Run, piece: Expr, rate: Expr, slack: int) -> None:
    """The formula is the busiest link's load; the machine took at most ``slack`` longer."""
    load = Rational(done.load.numerator, done.load.denominator)
    assert cancel(formula - load * piece / rate) == 0
    assert done.load <= done.steps <= done.load + slack


def at(expr: Expr, n: int) -> Expr:
    return expr.subs(X, n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("net", "shape"),
    [(RING, (True, True)), (ONE_WAY, (True, False)), (LINE, (False, True))],
    ids=["ring", "one way", "line"],
)
def test_gather_in_a_row(net: Torus, shape: tuple[bool, bool], n: int) -> None:
    done = machines.row_gather(n, *shape)
    for kind in ("AllGather", "ReduceScatter"):
        formula = at(net.time(kind, B, ["X"]), n)
        agree(formula, done, B / (2 * n), W_ici / 2, 0)
    # An AllReduce scatters sums and gathers them: the same machine there and back.
    whole = at(net.time("AllReduce", 2 * B, ["X"]), n)
    assert cancel(whole - 2 * at(net.time("AllGather", B, ["X"]), n)) == 0


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    ("net", "shape"),
    [(RING, (True, True)), (ONE_WAY, (True, False)), (LINE, (False, True))],
    ids=["ring", "one way", "line"],
)
def test_exchange_in_a_row(net: Torus, shape: tuple[bool, bool], n: int) -> None:
    # n/4 of the local bytes both ways round for even n, (n - 1/n)/4 for odd.
    done = machines.row_exchange(n, *shape)
    agree(at(net.time("AllToAll", B, ["X"]), n), done, B / (2 * n), W_ici / 2, n)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("net", [RING, LINE], ids=["ring", "line"])
def test_from_one_and_to_one(net: Torus, n: int) -> None:
    closed = net is RING
    pieces = 4 * n
    spread = machines.row_broadcast(n, closed, pieces)
    agree(at(net.time("Broadcast", B, ["X"]), n), spread, B / pieces, W_ici / 2, n)
    done = machines.row_collect(n, closed)
    agree(at(net.time("Gather", B, ["X"]), n), done, B / (2 * n), W_ici / 2, 1)
    moved = machines.row_shift(n, closed, pieces)
    agree(at(net.time("CollectivePermute", B, ["X"]), n), moved, B / pieces, W_ici / 2, n)


@pytest.mark.parametrize("n", SIZES)
def test_hops_are_the_way_of_the_last_byte(n: int) -> None:
    for net, shape in ((RING, True), (LINE, False)):
        farthest = max(
            len(machines.shortest(n, i, j, shape)[0]) for i in range(n) for j in range(n) if i != j
        )
        assert at(net.hops("AllToAll", ["X"]), n) == farthest
        assert at(net.hops("AllGather", ["X"]), n) == farthest
        assert at(net.hops("AllReduce", ["X"]), n) == 2 * farthest


@pytest.mark.parametrize("n", [2, 3, 4, 5, 7, 8])
def test_gather_on_a_square_torus(n: int) -> None:
    # Both axes at once: all four links of a chip work, and twice the bandwidth is reached.
    net = Torus("ring", links={"X": 1, "Y": 1})
    formula = net.time("AllGather", B, ["X", "Y"]).subs({X: n, Y: n})
    agree(formula, machines.torus_gather(n), B / (8 * n * n), W_ici / 2, 4 * n)


@pytest.mark.parametrize("n", SIZES)
def test_switch_and_full_mesh(n: int) -> None:
    done = machines.switch_exchange(n)
    for kind in ("AllGather", "ReduceScatter", "AllToAll", "Gather"):
        agree(at(Switch("ring").time(kind, B, ["X"]), n), done, B / n, W_nvlink, 1)
        # In a full mesh every one of those chunks has a link of its own: one step.
        mesh = FullMesh("ring", W_nvlink / (n - 1))
        assert cancel(at(mesh.time(kind, B, ["X"]), n) - (B / n) / (W_nvlink / (n - 1))) == 0


TWO_LEVELS = [
    (m, k, fast) for m in (2, 4, 8) for k in (2, 3, 4, 8) for fast in (1, 4, 9) if m * k <= 64
]


@pytest.mark.parametrize(("m", "k", "fast"), TWO_LEVELS)
def test_two_levels(m: int, k: int, fast: int) -> None:
    pieces = 3
    outer = Level("network", None, W_dcn)
    net = Hierarchy(Switch("ring"), (outer,), {"X": Lay(Integer(m * k), (m, m * k))})
    for kind, machine in (
        ("AllGather", machines.two_level_gather),
        ("ReduceScatter", machines.two_level_scatter),
        ("AllToAll", machines.two_level_exchange),
    ):
        done = machine(m, k, fast, pieces)
        formula = net.time(kind, B, ["X"]).subs(W_nvlink, fast * W_dcn).subs({B: 1, W_dcn: 1})
        load = Rational(done.load.numerator, done.load.denominator)
        assert formula == load / (m * k * pieces), kind
        # Filling: the first or last piece has to cross the slower level before the other can work.
        slack = 3 + Fraction(m, fast)
        assert done.load <= done.steps <= done.load + slack, kind


def test_exact_totals_pass_the_book_only_in_middle_levels() -> None:
    # Cables of a leaf carry what comes from other leaves, too: 1 - 1/128 where the book's level
    # alone has 31/32. With two levels both are the same.
    three = Hierarchy(
        Switch("ring"),
        (Level("leaf", 32, W_dcn), Level("spine", 4, W_dcn)),
        {"X": Lay(Integer(1024), (8, 256, 1024))},
    )
    numbers = {W_nvlink: 450, W_dcn: 50, B: 1}
    exact = three.time("AllGather", B, ["X"]).subs(numbers)
    alone = worst_level(Integer(1), [(8, 450), (32, 50), (4, 50)])
    assert exact == Rational(127, 128) / 400
    assert alone == Rational(31, 32) / 400
    assert alone < exact < Integer(1) / 400
