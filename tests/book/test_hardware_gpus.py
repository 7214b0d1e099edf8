"""Chapter 12 of the book: GPUs, their nodes and fabrics, and what they bound."""

from __future__ import annotations

import pytest
from sympy import Expr, Integer, Rational, Symbol, cancel

from symscale import chip, crossover, program
from symscale.algebra.symbols import B, C, D, F, W_dcn, W_nvlink, X, Y, axis
from symscale.arrays.array import array
from symscale.hardware.chip import Chip
from symscale.hardware.networks import Hierarchy, Lay, Level, Switch
from symscale.hardware.roofline import roofline
from symscale.hardware.steps import derive, v
from symscale.programs.sharded import ShardedProgram
from tests.book.truth import check, entries, exact, number, same
from tests.hardware.machines import Piece, run

H100, B200, GB200 = chip("h100", "book"), chip("b200", "book"), chip("gb200", "book")
LEAF = Level("leaf", None, W_dcn)


def fact(one: Chip, name: str) -> Expr:
    return one.figure(name).value


def layer() -> ShardedProgram:
    mlp = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
    return mlp.shard("In[B, D_Y]", "Win[D, F_Y]", "Tmp[B, F_Y]", "Wout[F_Y, D]", "Out[B, D_Y]")


def test_tensor_cores() -> None:
    # 12.text.a, 12.text.b: four tensor cores in a multiprocessor.
    for one, entry in ((H100, "12.text.a"), (B200, "12.text.b")):
        cores = fact(one, "cores") * number(entry, "per_core")
        check(one[C] / (cores * fact(one, "clock")), {}, entry)


def test_vector_lanes() -> None:
    # 12.q1.1, 12.q1.2, 12.q1.6
    v5p = chip("tpu-v5p")
    for place, one in enumerate((H100, B200, v5p)):
        check(fact(one, "cores") * fact(one, "alus"), {}, "12.q1.1", place)
    for place, edition in enumerate(("base", "boost")):
        one = chip("h100", edition)
        check(fact(one, "cores") * fact(one, "alus") * fact(one, "clock"), {}, "12.q1.2", place)
    check(B200["C_f32"] / (fact(B200, "cores") * fact(B200, "alus") * 2), {}, "12.q1.6")


def test_ridge_points() -> None:
    # 12.q1.3
    for name, one in (("h100", H100), ("b200", B200)):
        check(roofline(one).ridge("hbm"), {}, "12.q1.3", name)
        check(roofline(one, "fp8").ridge("hbm"), {}, "12.q1.3", f"{name}_fp8")
    # Links: 2200 in a node of H100, 2500 of B200; a GPU's share of what leaves the node is 8 times
    # less than 2475 and 5625 say, which are for what all GPUs of a node take in together.
    assert roofline(H100).ridge("links") == 2200
    assert roofline(B200).ridge("links") == 2500
    assert roofline(H100).ridge("network") == 8 * 2475
    assert roofline(B200).ridge("network") == 8 * 5625


def test_adding_two_vectors() -> None:
    # 12.q1.7: two reads and a write of four bytes, one FLOP.
    moved = 3 * array("a: f32[N]").bytes
    intensity = 1 / (moved / axis("N"))
    assert intensity == Rational(1, 12)
    line = roofline(H100, "f32")
    assert line.binding(hbm=intensity) == "hbm"
    for key, count in zip(
        ("N1024", "N65536", "N2_30"), entries()["12.q1.7"]["inputs"]["N"], strict=True
    ):
        seconds = count / line.attainable(hbm=intensity)
        check(seconds, {}, "12.q1.7", key)


def test_nvlink_of_a_node() -> None:
    # 12.text.d, 12.q2.1
    link = fact(H100, "link_oneway")
    egress = fact(H100, "links") * link
    switches = fact(H100, "switches") * fact(H100, "switch_ports") * link
    check(egress, {}, "12.text.d", 0)
    check(switches, {}, "12.text.d", 1)
    assert egress == H100[W_nvlink]
    check(min(switches, H100.domain * egress), {}, "12.q2.1")


def test_a_rack() -> None:
    # 12.text.l
    check(GB200.domain * GB200[W_dcn], {}, "12.text.l")
    assert GB200.domain * GB200[W_dcn] == 9 * H100.domain * H100[W_dcn]
    # A node's bound across the fabric is about four times better, 2475 against 694.
    assert float(H100[C] / (H100.domain * H100[W_dcn])) == 2475
    assert float(GB200[C] / (GB200.domain * GB200[W_dcn])) == pytest.approx(694.4, abs=0.1)


def test_fat_tree() -> None:
    # 12.q3.1: what the chips below a level can send into it together.
    placed = H100.placement(["X"], {"X": 1024})
    below, totals = H100.domain, {}
    for level in placed.levels:
        totals[level.name] = (below, below * level.rate.subs(H100))
        below *= level.size
    check(totals["leaf"][1], {}, "12.q3.1", "node")
    check(totals["spine"][1], {}, "12.q3.1", "su_to_spine")
    check(32 * totals["leaf"][1], {}, "12.q3.1", "leaf")
    check(below * W_dcn, H100, "12.q3.1", "spine")
    check(below * W_dcn / (below // H100.domain), H100, "12.q3.1", "per_node")
    assert totals["spine"][0] == 256


def test_ways_of_tensor_parallelism() -> None:
    # 12.text.i
    forward = layer().forward
    values = {F: number("12.text.i", "F"), C: number("12.text.i", "C"), **_rates()}
    node = forward.time_on(Switch())
    wall = crossover(node.comms, node.math, Y).threshold
    assert same(wall, F * W_nvlink / C)
    check(wall, values, "12.text.i", "node")
    # Over two nodes of eight the bytes that enter a node take (Y - 8)/Y of the volume over 8 NICs.
    two = Hierarchy(Switch("ring"), (LEAF,), {"Y": Lay(Y, (8, Y))})
    volume = next(iter(forward.volume().values()))
    across = two.by_level("AllGather", volume, ["Y"])["leaf"]
    assert same(across, 4 * B * D * (Y - 8) / (8 * Y * W_dcn))
    check(crossover(across, node.math, Y).threshold, values, "12.text.i", "two_node")


def _rates() -> dict[Symbol, Expr]:
    return {W_nvlink: H100[W_nvlink], W_dcn: H100[W_dcn]}


def test_transfers_of_a_pipeline() -> None:
    # 12.text.k: N_st stages pass N_mb micro-batches on; the last arrives after N_mb + N_st - 2
    # transfers, which a machine of links in a row counts.
    stages, batches = Symbol("N_st"), Symbol("N_mb")
    one = Switch(rate=W_dcn).point_to_point(2 * (B / batches) * D)
    whole = one * (batches + stages - 2)
    assert cancel(whole - 2 * B * D / (W_dcn * batches) * (batches + stages - 2)) == 0
    for ends, pieces in ((2, 1), (4, 8), (16, 16), (3, 1)):
        way = tuple(range(1, ends))
        done = run((0, Piece(i, way, drops=True)) for i in range(pieces))
        assert done.steps == pieces + ends - 2
    # One micro-batch for each stage: less than two batches in all, about 1.5 for 4 of them.
    assert whole.subs({batches: 4, stages: 4}) == Rational(3, 2) * 2 * B * D / W_dcn


def test_a_shard_of_a_matrix() -> None:
    # 12.text.m
    shard = array("W: bf16[D, F_Y]")
    values = {name: number("12.text.m", str(name)) for name in (D, F, Y)}
    check(shard.bytes, values, "12.text.m")


def test_sums_in_the_switch() -> None:
    # 12.q4.2: N shards of B bytes; a GPU sends (N - 1) of them to be added and one to be spread.
    sharp = Switch("ring", reduction="switch")
    sent = sharp.time("AllReduce", 2 * (B * X), ["X"]) * W_nvlink
    assert exact("12.q4.2") == "symbolic"
    assert same(sent, B * X)
    steps = derive("ReduceScatter", "switch").time.subs(v, B * axis("n")) * W_nvlink
    assert same(steps + B, B * axis("n"))
    # 12.q4.3: in a node cutting along Y helps; across nodes all GPUs of a node share its uplinks,
    # so that it does not: fewer bytes each, but as many groups at work.
    reduced = 2 * array("W: bf16[D, F_Y]").bytes
    assert same(sharp.time("AllReduce", reduced, ["X"]), 2 * D * F / (Y * W_nvlink))
    for inner in (1, 2, 4, 8):
        lay = {"X": Lay(X, (8 // inner, X))}
        net = Hierarchy(sharp, (LEAF,), lay, reduces=frozenset({"leaf"}))
        across = net.by_level("AllReduce", reduced.subs(Y, inner), ["X"])["leaf"]
        assert same(across, 2 * D * F / (8 * W_dcn))
    # 12.q4.4: Y fills a unit of 256, so X runs across the spine alone.
    placed = H100.placement(["X", "Y"], {"X": 4, "Y": 256})
    net = placed.network("ring", frozenset({"spine", "leaf", "node"}))
    across = net.by_level("AllReduce", reduced.subs(Y, number("12.q4.4", "Y")), ["X"])["spine"]
    assert same(across.subs(H100), 2 * D * F / Integer(128 * 10**11))


def test_two_nodes() -> None:
    # 12.q4.5
    net = H100.network(["X"], "ring", {"X": 16})
    times = net.by_level("AllGather", Integer(1), ["X"])
    values = {**H100, X: 16}
    check(times["node"], values, "12.q4.5", "node")
    check(times["leaf"], values, "12.q4.5", "cross")
    assert net.binding(["X"]) == "node"
    assert net.resource(["X"]) == "nvlink"


def test_llama_on_4096() -> None:
    # 12.q5.2.1, 12.q5.2.2, 12.q5.2.3
    one = "12.q5.2.1"
    state = number(one, "P") * number(one, "bytes")
    check(state / fact(H100, "hbm_bytes"), {}, one)
    two = "12.q5.2.2"
    rate = number(two, "n") * H100[C] * number(two, "mfu")
    check(number(two, "flops") / rate / 86400, {}, two)
    three = "12.q5.2.3"
    node = layer().forward.time_on(Switch())
    wall = crossover(node.comms, node.math, Y).threshold.subs(F, number(three, "F"))
    check(wall, H100, three, "tp_exact")
    check(number(three, "F") / number(three, "alpha_printed"), {}, three, "tp_book")
    check(number(three, "P") * number(three, "bytes") / H100.domain, {}, three, "mem")
    check(number(three, "B") / number(three, "n"), {}, three, "per_gpu")
    check(_data_parallel_bound(8), H100, three, "roof")


def _data_parallel_bound(nodes: int) -> Expr:
    """Tokens a GPU from which data parallelism hides, a copy being on so many nodes."""
    ways = 8 * nodes
    math = 8 * B * D * F / (X * ways * C)
    net = Hierarchy(Switch(), (LEAF,), {"X": Lay(X, (1, X))})
    comms = net.time("AllReduce", 2 * (4 * D * F / ways), ["X"])
    return crossover(math, comms, B).threshold / (X * ways)


def test_published_runs() -> None:
    # 12.q5.3 and 12.text.n
    inputs = entries()["12.q5.3"]["inputs"]
    for key, ratio in zip(("b16", "b70", "b314"), inputs["sequences_per_gpu"], strict=True):
        check(Rational(str(ratio)) * inputs["T"], {}, "12.q5.3", key)
    for key, nodes in zip(("crit70", "crit314"), inputs["nodes"], strict=True):
        check(_data_parallel_bound(nodes), H100, "12.q5.3", key)
    layout = entries()["12.text.n"]["inputs"]
    count = 1
    for ways in layout["ways"]:
        count *= ways
    tokens = layout["T"] * layout["sequences"]
    check(count, {}, "12.text.n", "gpus")
    check(tokens, {}, "12.text.n", "tokens")
    check(Rational(tokens, count), {}, "12.text.n", "per_gpu")
