"""Faults that users reported on the cost of collectives and on topology, each recomputed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sympy import Integer, Rational

from symscale import chip, program
from symscale.algebra.errors import UnitError
from symscale.algebra.symbols import B, D, W_dcn, W_ici, W_nvlink, X, Y, axis
from symscale.algebra.units import Scope
from symscale.hardware.messages import bus_factor, bytes_received, per_rank, total, volume
from symscale.hardware.networks import Hierarchy, Lay, Level, Switch, line, ring
from symscale.hardware.rates import bandwidth, bits
from tests.book.truth import same

CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "truth" / "cases_hardware.json").read_text("utf-8")
    )["cases"]
}
GIGA = 10**9


def given(case: str) -> dict[str, Any]:
    return CASES[case]["input"]


def exactly(value: Any) -> Any:
    return Rational(str(value)) if isinstance(value, float) else value


def right(case: str, name: str) -> Any:
    return exactly(CASES[case]["right"][name])


def wrong(case: str, name: str) -> Any:
    return exactly(CASES[case]["wrong"][name])


def sized(case: str, size: Any) -> Any:
    """A size of the sort that the case names."""
    return {"total": total, "per rank": per_rank}[given(case)["size"]](size)


def test_every_case_is_here() -> None:
    source = Path(__file__).read_text("utf-8")
    for case in CASES:
        assert f'"{case}"' in source or f"# {case}" in source, case


def test_exchange_over_two_nodes() -> None:
    case, found = "CO-02", given("CO-02")
    count, inside = found["ranks"], found["ranks_per_node"]
    lay = {"X": Lay(Integer(count), (inside, count))}
    net = Hierarchy(Switch("ring"), (Level("network", None, W_dcn),), lay)
    size = sized(case, Integer(1))
    seconds = net.by_level("AllToAll", volume("AllToAll", size, count), ["X"])["network"]
    algbw = size.expr / seconds.subs(W_dcn, Rational(str(found["nic_GBps"])))
    assert algbw == right(case, "algbw_GBps")
    assert algbw * bus_factor("AllToAll", count) == right(case, "busbw_GBps")
    # Times n/(n-1) for the share that stays, bus bandwidth is again above the NIC.
    assert right(case, "busbw_GBps") > wrong(case, "busbw_GBps")


def test_sums_in_the_switch_send_less() -> None:
    case, found = "CO-03", given("CO-03")
    count = found["ranks"]
    algbw = found["busbw_GBps"] / bus_factor("AllReduce", count)
    assert float(algbw) == pytest.approx(float(right(case, "algbw_GBps")), rel=1e-4)
    net = Switch("ring", reduction="nvls")
    array = sized(case, Integer(1))
    sent = net.time("AllReduce", volume("AllReduce", array, count), ["X"]).subs(X, count) * W_nvlink
    assert sent == Rational(count + 1, count)
    assert float(algbw * sent) == pytest.approx(float(right(case, "wire_GBps")), rel=1e-5)
    assert algbw * sent < found["line_GBps"] < wrong(case, "wire_GBps")


def test_total_is_not_per_rank() -> None:
    case, found = "CO-04", given("CO-04")
    size = sized(case, found["bytes"])
    assert bytes_received("AllGather", size, found["ranks"]).expr == right(case, "bytes_received")
    mistaken = per_rank(found["bytes"])
    assert bytes_received("AllGather", mistaken, found["ranks"]).expr == wrong(
        case, "bytes_received"
    )
    with pytest.raises(UnitError, match="cannot add an amount per device to one total"):
        size + mistaken
    with pytest.raises(UnitError, match=r"say total\(7\) or per_rank\(7\)"):
        volume("AllGather", 7, 8)


def test_sequence_parallelism() -> None:
    # CO-07: units of 2BD (t-1)/t a layer, which has two such blocks.
    block = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
    whole = ("In[B, D]", "Win[D, F_Y]", "Tmp[B, F_Y]", "Wout[F_Y, D]", "Out[B, D]")
    cut = ("In[B_Y, D]", *whole[1:4], "Out[B_Y, D]")

    def units(lines: tuple[str, ...], keep: str) -> Any:
        made = block.shard(*lines, keep=keep)
        moved = [phase.volume() for phase in (made.forward, made.backward)]
        return 2 * sum(amount for part in moved for amount in part.values()) / (2 * B * D)

    assert units(whole, "activations") == right("CO-07", "tp")
    assert units(cut, "activations") == right("CO-07", "sp_keeping") == wrong("CO-07", "units")
    assert units(cut, "none") == right("CO-07", "sp_gathering_again")


def test_three_ways_to_cut_a_sequence() -> None:
    # In units of tokens times width: gathers of all, four exchanges of a part, keys and values.
    case, ways = "CO-08", given("CO-08")["ways"]
    whole = sized(case, Integer(1))
    part = per_rank(Rational(1, ways))
    gathers = [bytes_received(kind, whole, ways) for kind in ("AllGather", "ReduceScatter")]
    assert 2 * sum(one.expr for one in gathers) == right(case, "megatron_sp")
    assert 4 * bytes_received("AllToAll", part, ways).expr == right(case, "ulysses")
    assert 2 * bytes_received("AllGather", whole, ways).expr == right(case, "ring")


def test_heads_repeated_before_a_ring() -> None:
    case, found = "CO-10", given("CO-10")
    for heads, wanted in (("kv_heads", right), ("heads", wrong)):
        keys_and_values = 2 * found[heads] * found["head_dim"] * found["length"] * found["bytes"]
        moved = bytes_received("AllGather", sized(case, keys_and_values), found["ranks"])
        assert moved.expr == wanted(case, "bytes_received")
        assert moved.scope is Scope.PER_DEVICE


def test_stages_of_zero() -> None:
    case, found = "CO-11", given("CO-11")
    state = sized(case, Integer(int(found["params"] * found["bytes"])))
    ranks = found["ranks"]
    add, scatter, gather = (
        bytes_received(kind, state, ranks).expr / GIGA
        for kind in ("AllReduce", "ReduceScatter", "AllGather")
    )
    assert add == right(case, "dp_GB")
    assert scatter + gather == right(case, "stage_2_GB")
    assert scatter + 2 * gather == right(case, "stage_3_GB")
    assert add + scatter == wrong(case, "stage_2_GB")


def test_gathers_of_every_micro_batch() -> None:
    case, found = "CO-12", given("CO-12")
    once = ring().time("AllGather", B, ["X"])
    slower = found["micro_steps"] * once / once
    mfu = found["mfu"] * found["tokens_factor"] / float(slower)
    assert mfu == pytest.approx(float(right(case, "mfu")), abs=0.005)
    assert mfu == pytest.approx(float(right(case, "measured")), rel=0.025)
    assert mfu < wrong(case, "mfu")


def test_another_layout_of_the_result() -> None:
    case, found = "CO-14", given("CO-14")
    product = program("A[I, K] * W[K, J] -> Out[I, J]")
    made = product.shard("A[I_X, K]", "W[K, J_Y]", "Out[I_Y, J_X]")
    sizes = {axis(name): found["edge"] for name in "IJK"} | {X: found["X"], Y: found["Y"]}
    assert made.forward.flops.subs(sizes) == right(case, "flops")
    assert made.forward.flops.subs(sizes) * 8 == wrong(case, "flops")


def test_a_factor_too_many() -> None:
    case, found = "CO-17", given("CO-17")
    moved = volume("AllGather", sized(case, Integer(int(found["bytes"]))), found["ranks"])
    for fidelity in ("ring", "ideal"):
        seconds = Switch(fidelity).time("AllGather", moved, ["X"])
        value = seconds.subs({X: found["ranks"], W_nvlink: found["GBps"] * GIGA}) * 1000
        assert float(value) == pytest.approx(float(right(case, f"ms_{fidelity}")), rel=1e-4)
        assert value > 6 * wrong(case, "ms")


def test_one_way_is_half() -> None:
    case, found = "TO-01", given("TO-01")
    h100, h800 = chip("h100"), chip("h800")
    assert h100.figure("links").value == found["links"]
    assert h100[W_nvlink] == right(case, "GBps") * GIGA == wrong(case, "GBps") * GIGA / 2
    assert h100[W_nvlink] / h100.figure("links").value == found["GBps_per_link"] * GIGA
    ratio = h100[W_nvlink] / (found["pcie_GBps"] * GIGA)
    assert float(ratio) == pytest.approx(float(right(case, "over_pcie")), abs=0.005)
    assert h800[W_nvlink] == right(case, "h800_GBps") * GIGA
    assert h800.figure("links").value == found["h800_links"]
    assert any("both ways" in trap for trap in h100.traps)


def test_half_the_lanes() -> None:
    case, found = "TO-02", given("TO-02")
    for name in ("a100", "h100"):
        one = chip(name)
        assert one.figure("links").value == found[f"{name}_links"]
        assert one.figure("link_oneway").value == right(case, "GBps_per_link") * GIGA
        assert one[W_nvlink] == right(case, f"{name}_GBps") * GIGA


def test_slices_without_wraparound() -> None:
    case, found = "TO-03", given("TO-03")
    numbers = {X: found["chips"], W_ici: 2 * found["link_GBps"] * GIGA}
    moved = Integer(int(found["bytes"]))
    for net, name in ((ring(), "ms_wrap"), (line(), "ms_line")):
        value = float(net.time("AllGather", moved, ["X"]).subs(numbers)) * 1000
        assert value == pytest.approx(float(right(case, name)), rel=1e-3)
    v5p = chip("tpu-v5p")
    for shape, wraps in zip(found["shapes"], right(case, "wrap"), strict=True):
        sizes = dict(zip("XYZ", shape, strict=True))
        net = v5p.network(["X", "Y", "Z"], "ring", sizes)
        assert {net.wrap[name] for name, size in sizes.items() if size > 1} == {wraps}


def test_powers_of_ten_and_bits() -> None:
    case, found = "TO-10", given("TO-10")
    rate = bandwidth(found["bytes"], found["seconds"])
    assert rate == right(case, "GBps") * GIGA == bits(right(case, "Gbps") * GIGA)
    assert float(rate / 2**30) == pytest.approx(float(wrong(case, "GBps")), abs=0.005)
    assert same(bits(400 * GIGA) * 8, Integer(400 * GIGA))
