"""Chapter 3 of the book: arrays on meshes, products of sharded arrays, what crosses a link."""

from __future__ import annotations

from sympy import Expr, Integer

from symscale import array, chip, crossover, einsum
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.symbols import M_X, M_Y, W_hbm, W_ici, X, Y, symbol
from symscale.hardware.networks import Torus
from symscale.models.decoder import two_matmul_layer
from tests.book.truth import check, exact, given, number, same

I, J, K = symbol("I"), symbol("J"), symbol("K")
SLICE = {"X": 4, "Y": 4}


def v5e_line() -> Network:
    """A 4x4 slice of v5e, none of whose axes wraps around."""
    return chip("v5e").network(["X", "Y"], "ring", SLICE)


def on_v5e(expr: Expr) -> Expr:
    values = {X: 4, Y: 4, M_X: 1, M_Y: 1}
    return expr.subs(chip("v5e", edition="book")).subs(values)


def test_bytes_on_a_device() -> None:
    # 3.pq0
    a = array("A: f32[I_XY, J]")
    values = given("3.pq0", "I", "J", "X", "Y")
    check(a.bytes, values, "3.pq0", "bytes")
    check(a.bytes / W_hbm, values | {W_hbm: number("3.pq0", "W")}, "3.pq0", "t")


def test_sum_over_a_sharded_dim() -> None:
    # 3.6.a
    product = einsum("A[I_X, J_Y] * Bm[J_Y, K] -> Cm[I_X, K]")
    assert [move.name for move in product.comms] == ["AllReduce_Y"]
    for network, name in ((IDEAL, "ring"), (v5e_line(), "line_RS_AG")):
        time = product.forward.time_on(network)
        wall = crossover(time.math, time.comms, J).threshold
        check(on_v5e(wall), {}, "3.6.a", f"compute_bound_J_{name}")


def test_gather_of_one_operand() -> None:
    # 3.6.b
    product = einsum("A[I_X, J] * Bm[J_X, K_Y] -> Cm[I_X, K_Y]")
    assert [move.name for move in product.comms] == ["AllGather_X"]
    for network, name in ((IDEAL, "ring"), (v5e_line(), "line")):
        time = product.forward.time_on(network)
        wall = crossover(time.math, time.comms, I).threshold
        check(on_v5e(wall), {}, "3.6.b", f"I_min_{name}")
        if name == "ring":
            check(on_v5e(wall / X), {}, "3.6.b", "I_per_shard_ring")


def test_no_communication() -> None:
    # 3.6.c
    product = einsum("A[I_X, J] * Bm[J, K_Y] -> Cm[I_X, K_Y]")
    assert product.comms == ()
    assert product.time.comms == exact("3.6.c")


def test_a_block_on_four_chips() -> None:
    # 3.7: weights cut over all chips, activations gathered and scattered.
    block = two_matmul_layer().shard(
        "In[B, D_XY]", "Win[D, F_XY]", "Tmp[B, F_XY]", "Wout[F_XY, D]", "Out[B, D_XY]"
    )
    values = given("3.7", "B", "D", "F", "X", "Y", "C", "W_hbm", "W_ici") | {M_X: 1, M_Y: 1}
    win, wout = block.sharding("Win"), block.sharding("Wout")
    check(win.global_bytes, values, "3.7", "weight_bytes_each")
    check(win.bytes + wout.bytes, values, "3.7", "weights_per_chip")
    check(block.sharding("Tmp").bytes, values, "3.7", "hidden_per_chip")
    check(block.forward.time.math, values, "3.7", "T_math")
    check(block.forward.time.comms, values, "3.7", "comms_formula")
    mesh = block.forward.time_on(chip("v5e").network(["X", "Y"], "ring", {"X": 2, "Y": 2}))
    check(mesh.comms, values, "3.7", "comms_mesh")
    # The book's T_hbm leaves out the activations, which the pass counts.
    weights = (win.bytes + wout.bytes) / W_hbm
    check(weights, values, "3.7", "T_hbm")
    check(weights, values | {W_hbm: number("3.7", "W_hbm_old")}, "3.7", "T_hbm_8p1")
    assert block.forward.time.hbm.subs(values) > weights.subs(values)


def test_gather_first_or_scatter_after() -> None:
    # 3.9: A[N, M] cut along X on the summed dim.
    after = einsum("A[N, M_X] * W[M_X, K] -> Out[N, K_X]")
    before = einsum("A[N, M_X] * W[M, K_X] -> Out[N, K_X]")
    assert [move.kind for move in after.comms] == ["ReduceScatter"]
    assert [move.kind for move in before.comms] == ["AllGather"]
    assert exact("3.9") == "M/K"
    assert same(before.time.comms / after.time.comms, symbol("M") / K)


def test_gather_over_one_link() -> None:
    # 3.10.4: a link carries half of W_ici, one way; two bytes a number.
    size, ways = 1024, 8
    gathered = array("A[I_X, J]").global_bytes
    seconds = Torus("ring", links={"X": 1}).time("AllGather", gathered, ["X"])
    over_link = seconds * (W_ici / 2) / 2
    found = over_link.subs({I: size, J: size, X: ways})
    assert found == Integer(size) ** 2 * (ways - 1) / (2 * ways)
