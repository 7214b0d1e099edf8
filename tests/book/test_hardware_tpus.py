"""Chapters 2 and 3 of the book: vector unit, hops, transfers, the memory of hosts."""

from __future__ import annotations

import pytest
from sympy import Integer

from symscale import chip, einsum
from symscale.algebra.symbols import C, W_hbm, W_pcie, X, Y, n, t_hop
from symscale.algebra.time import HBM, MATH, Time, TimeTerm
from symscale.hardware.messages import per_rank, volume
from symscale.hardware.networks import ring
from symscale.hardware.steps import derive, latency_bound_below, v
from tests.book.truth import check, exact, number, same


def test_vector_unit() -> None:
    # 2.vpu
    v5p = chip("tpu-v5p")
    rate = v5p.figure("alus").value * v5p.figure("clock").value
    assert v5p.figure("alus").value == 8 * 128 * 4
    check(rate, {}, "2.vpu")


def test_across_a_slice() -> None:
    # 2.5.1 and 2.5.2: chip (0, 0) to chip (3, 3) of a 4x4 slice, which has no wraparound.
    v5e, corner = chip("tpu-v5e"), {"X": 3, "Y": 3}
    net = v5e.network(["X", "Y"], "latency", {"X": 4, "Y": 4})
    nothing = net.point_to_point(Integer(0), corner)
    assert nothing == 6 * t_hop
    check(nothing, v5e, "2.5.1")
    assert number("2.5.2", "bytes") == 2 * 8 * 128 * 8192
    check(net.point_to_point(number("2.5.2", "bytes"), corner), v5e, "2.5.2")
    # On a 16x16 pod the way round the edge is shorter: two hops.
    pod = v5e.network(["X", "Y"], "latency", {"X": 16, "Y": 16})
    assert pod.point_to_point(Integer(0), {"X": 15, "Y": 15}) == 2 * t_hop


def test_product_from_the_memory_of_hosts() -> None:
    # 2.6.total: an int8 matrix in the memory of the hosts of a 4x4 slice is brought to chip (0, 0)
    # and multiplied there: PCIe, ICI, HBM, arithmetic, overlapped or one after another.
    v5e = chip("tpu-v5e", edition="book-2025")
    whole, edge = number("2.6.total", "bytes"), number("2.6.total", "edge")
    assert whole == edge**2
    mm = einsum(
        "A[r, d] * W: int8[d, f] -> Out[r, f]",
        sizes={"r": int(number("2.6.total", "rows")), "d": int(edge), "f": int(edge)},
    )
    net = v5e.network(["X", "Y"], "ring", {"X": 4, "Y": 4})
    stages = Time.of(
        TimeTerm("pcie", whole / 16 / W_pcie),
        TimeTerm("ici", net.time("Gather", whole, ["X", "Y"]), ("X", "Y")),
        TimeTerm(HBM, whole / W_hbm),
        TimeTerm(MATH, mm.flops / C),
    )
    numbers = {**v5e, X: 4, Y: 4, **v5e.layout(["X", "Y"]).bindings}
    check(stages.lower, numbers, "2.6.total", "max")
    check(stages.upper, numbers, "2.6.total", "sum_old")


def test_gather_bound_by_hops() -> None:
    # 3.3: bf16[128] over a ring of four v4p.
    v4p, net = chip("tpu-v4p"), ring("latency")
    numbers = {**v4p, X: 4}
    check(net.hops("AllGather", ["X"]) * t_hop, numbers, "3.3")
    seconds = net.time("AllGather", Integer(2 * 128), ["X"]).subs(numbers)
    assert float(seconds) == pytest.approx(exact("3.3"), rel=2e-3)
    wall = latency_bound_below(net, "AllGather", ("X",)).subs(numbers)
    assert 256 < wall == pytest.approx(240e3)


def test_exchange_on_a_ring_one_way() -> None:
    # 3.10.3: one way a half of the gather of the same array, both ways a quarter.
    one_way, both_ways = ring(both_ways=False), ring()
    local = per_rank(Integer(1))
    for net, wanted in ((one_way, exact("3.10.3")), (both_ways, exact("3.10.3") / 2)):
        gather, exchange = (
            net.time(kind, volume(kind, local, X), ["X"]) for kind in ("AllGather", "AllToAll")
        )
        ratio = float((exchange / gather).subs(X, 4096))
        assert ratio == pytest.approx(wanted, rel=3e-4)
    for kind in ("AllGather", "AllToAll"):
        assert same(derive(kind, "one-way ring").time, one_way.time(kind, v, ["X"]).subs(X, n))
