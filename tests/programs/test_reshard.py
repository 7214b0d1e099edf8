"""The way from one sharding to another: kinds, order of axes, bytes."""

from __future__ import annotations

import pytest
from sympy import Expr

from symscale.algebra.errors import ShardingError
from symscale.algebra.symbols import K, X, Y, Z, symbol
from symscale.arrays.array import array
from symscale.programs.reshard import reshard
from tests.algebra.equality import assert_same
from tests.simulator.check import check_reshard

I = symbol("I")

WAYS: dict[tuple[str, str], list[tuple[str, Expr | int]]] = {
    ("A[I_X, K]", "A[I_X, K]"): [],
    ("A[I, K]", "A[I_X, K]"): [("Slice_X", 0)],
    ("A[I_X, K]", "A[I_XY, K]"): [("Slice_Y", 0)],
    ("A[I_X, K]", "A[I, K]"): [("AllGather_X", 2 * I * K)],
    ("A[I_XY, K]", "A[I, K]"): [("AllGather_XY", 2 * I * K)],
    # the minor axis comes off in one gather, the major one leaves blocks out of order
    ("A[I_XY, K]", "A[I_X, K]"): [("AllGather_Y", 2 * I * K / X)],
    ("A[I_XY, K]", "A[I_Y, K]"): [
        ("CollectivePermute_XY", 2 * I * K / (X * Y)),
        ("AllGather_X", 2 * I * K / Y),
    ],
    ("A[I_YX, K]", "A[I_Y, K]"): [("AllGather_X", 2 * I * K / Y)],
    ("A[I_XYZ, K]", "A[I_X, K]"): [("AllGather_YZ", 2 * I * K / X)],
    ("A[I_XYZ, K]", "A[I_XZ, K]"): [
        ("CollectivePermute_XYZ", 2 * I * K / (X * Y * Z)),
        ("AllGather_Y", 2 * I * K / (X * Z)),
    ],
    ("A[I_XY, K]", "A[I_YX, K]"): [("CollectivePermute_XY", 2 * I * K / (X * Y))],
    ("A[I_X, K]", "A[I, K_X]"): [("AllToAll_X", 2 * I * K / X)],
    ("A[I_XY, K]", "A[I_X, K_Y]"): [("AllToAll_Y", 2 * I * K / (X * Y))],
    ("A[I_XY, K]", "A[I_Y, K_X]"): [
        ("CollectivePermute_XY", 2 * I * K / (X * Y)),
        ("AllToAll_X", 2 * I * K / (X * Y)),
    ],
    # an axis moves in where another goes: the one that goes is brought to the minor end
    ("A[I_X, K_Y]", "A[I_Y, K]"): [
        ("AllToAll_Y", 2 * I * K / (X * Y)),
        ("CollectivePermute_XY", 2 * I * K / (X * Y)),
        ("AllGather_X", 2 * I * K / Y),
    ],
    ("A[I_X, K_Y]", "A[I_Y, K_X]"): [
        ("AllToAll_X", 2 * I * K / (X * Y)),
        ("CollectivePermute_YX", 2 * I * K / (X * Y)),
        ("AllToAll_Y", 2 * I * K / (X * Y)),
    ],
    ("A[I, K]{U_X}", "A[I, K]"): [("AllReduce_X", 4 * I * K)],
    ("A[I, K]{U_X}", "A[I_X, K]"): [("ReduceScatter_X", 2 * I * K)],
    ("A[I, K]{U_XY}", "A[I_XY, K]"): [("ReduceScatter_XY", 2 * I * K)],
    ("A[I, K]{U_XY}", "A[I_X, K_Y]"): [
        ("ReduceScatter_X", 2 * I * K),
        ("ReduceScatter_Y", 2 * I * K / X),
    ],
    ("A[I, K]{U_XY}", "A[I_X, K]"): [
        ("ReduceScatter_X", 2 * I * K),
        ("AllReduce_Y", 4 * I * K / X),
    ],
    ("A[I, K]{U_XY}", "A[I, K]{U_Y}"): [("AllReduce_X", 4 * I * K)],
    ("A[I_Y, K]{U_X}", "A[I_YX, K]"): [("ReduceScatter_X", 2 * I * K / Y)],
    ("A[I_Y, K]{U_X}", "A[I_XY, K]"): [
        ("ReduceScatter_X", 2 * I * K / Y),
        ("CollectivePermute_YX", 2 * I * K / (X * Y)),
    ],
}


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_ways(source: str, target: str) -> None:
    moves = reshard(array(source), array(target))
    wanted = WAYS[source, target]
    assert [move.name for move in moves] == [name for name, _ in wanted]
    for move, (_, volume) in zip(moves, wanted, strict=True):
        assert_same(move.volume, volume)


@pytest.mark.parametrize(("source", "target"), WAYS)
def test_ways_on_simulated_devices(source: str, target: str) -> None:
    check_reshard(array(source), array(target), {"X": 2, "Y": 3, "Z": 2}, {I: 12, K: 24})


def test_partial_sums_cannot_be_asked_for() -> None:
    with pytest.raises(
        ShardingError, match=r"A\[I\]\{U_X\} holds partial sums along X, but A\[I\] d"
    ):
        reshard(array("A[I]"), array("A[I]{U_X}"))
