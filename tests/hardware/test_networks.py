"""Networks: the book's answers, the link simulator, and what holds for any volume."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr, Integer, Rational, cancel

from symscale.algebra.errors import HardwareError
from symscale.algebra.links import IDEAL, CollectiveKind
from symscale.algebra.symbols import (
    M_X,
    M_Y,
    M_Z,
    B,
    C,
    D,
    W_dcn,
    W_ici,
    W_nvlink,
    X,
    Y,
    axis,
    links,
)
from symscale.hardware.chips import chip
from symscale.hardware.networks import Switch, Torus
from tests.hardware.simulator import all_gather_steps, all_to_all_load, reduce_scatter_steps

KINDS = get_args(CollectiveKind)
RING = Torus("ring", links={"X": 1, "Y": 1, "Z": 1})
LINE = Torus("ring", wrap={"X": False, "Y": False}, links={"X": 1, "Y": 1, "Z": 1})


def seconds(time: Expr, name: str, **sizes: int) -> float:
    values = {**chip(name), **{axis(key): size for key, size in sizes.items()}}
    layout = chip(name).layout(sizes)
    return float(time.subs({**values, **layout.bindings}))


# The book, chapter 3 and 12.


def test_pop_quiz_ring_against_line() -> None:
    # 3.pq2.a: AllGather_Y(bf16[2048_Y, 8192]) on an axis of four v5e, with wraparound and without.
    volume = Integer(2 * 2048 * 8192)
    ideal = Torus(links={"Y": 1}).time("AllGather", volume, ["Y"])
    assert float(ideal.subs(chip("v5e"))) == pytest.approx(0.0003728270222222222)
    line = (
        chip("v5e").network(["X", "Y"], "ring", {"X": 1, "Y": 4}).time("AllGather", volume, ["Y"])
    )
    assert float(line.subs({**chip("v5e"), Y: 4, M_Y: 1})) == pytest.approx(0.0005592405333333334)


def test_gathers_on_a_v4p_cube() -> None:
    # 3.2.1 to 3.2.3 on a 4x4x4 slice, bf16[1024_X, 4096_Y].
    sizes = {"X": 4, "Y": 4, "Z": 4}
    net = chip("v4p").network(sizes, "ideal", sizes)
    array = Integer(2 * 1024 * 4096)
    one = net.time("AllGather", array / Y, ["X"])
    assert seconds(one, "v4p", **sizes) == pytest.approx(2.330168888888889e-05)
    both = net.time("AllGather", array, ["X", "Y"])
    assert seconds(both, "v4p", **sizes) == pytest.approx(4.660337777777778e-05)
    added = net.time("AllReduce", 2 * array / (X * Y), ["Z"])
    assert seconds(added, "v4p", **sizes) == pytest.approx(1.1650844444444444e-05)
    # With the idle third axis in use too, the gather over two takes two thirds (31.07 us).
    three = net.time("AllGather", array, ["X", "Y", "Z"])
    assert seconds(three, "v4p", **sizes) == pytest.approx(31.07e-6, rel=1e-3)


def test_compute_bound_on_a_4x4_of_v5e() -> None:
    # 3.6.a and 3.6.b: from which size on the product takes longer than its collective.
    v5e, sizes = chip("v5e"), {"X": 4, "Y": 4}
    ideal = Torus(links={"X": 1, "Y": 1})
    line = v5e.network(sizes, "ring", sizes)
    numbers = {**v5e, X: 4, Y: 4, M_X: 1, M_Y: 1}
    # Per I*J*K: math 2/(XYC); reduce of bf16[I/X, K] per I*K; gather of bf16[J, K/Y] per J*K.
    math = 2 / (X * Y * C)
    for net, reduced, gathered in (
        (ideal, 17511.11111111111, 8755.555555555553),
        (line, 26266.666666666664, 13133.333333333332),
    ):
        least_j = net.time("AllReduce", 2 * (2 / X), ["Y"]) / math
        assert float(least_j.subs(numbers)) == pytest.approx(reduced)
        least_i = net.time("AllGather", 2 / Y, ["X"]) / math
        assert float(least_i.subs(numbers)) == pytest.approx(gathered)


def test_comms_of_a_2x2_without_wraparound() -> None:
    # 3.7: gather and scatter of bf16[128, 8192] over both axes of a 2x2 slice of v5e.
    sizes = {"X": 2, "Y": 2}
    array = Integer(2 * 128 * 8192)
    for fidelity, wanted in (("ideal", 2.330168888888889e-05), ("ring", 3.4952533333333335e-05)):
        net = chip("v5e").network(sizes, fidelity, sizes)
        both = net.time("AllGather", array, ["X", "Y"])
        both += net.time("ReduceScatter", array, ["X", "Y"])
        assert seconds(both, "v5e", **sizes) == pytest.approx(wanted)


def test_gather_in_a_gpu_node() -> None:
    # 12.q2.3: AllGather(bf16[4096_X, 65536]) on 8 H100, and the trap of an extra 1/N.
    volume = Integer(2 * 4096 * 65536)
    for fidelity, wanted in (("ideal", 0.0011930464711111112), ("ring", 0.0010439156622222222)):
        net = chip("h100").network(["X"], fidelity, {"X": 8})
        time = net.time("AllGather", volume, ["X"])
        assert seconds(time, "h100", X=8) == pytest.approx(wanted)
    # 1e9 bytes on 8 GPUs: 1.9444 ms, not 0.2778 (jax-ml/scaling-book PR #128).
    exact = Switch("ring").time("AllGather", Integer(10**9), ["X"])
    assert seconds(exact, "h100", X=8) == pytest.approx(1.9444e-3, rel=1e-4)


def test_wraparound_decides_a_factor_of_two() -> None:
    # Torus wrap depends on the slice shape: AI-Hypercomputer/maxtext PR #790 and others.
    volume = Integer(10**9)
    ring, line = (net.time("AllGather", volume, ["X"]) for net in (RING, LINE))
    numbers = {W_ici: 2 * 45 * 10**9, X: 8}
    assert float(ring.subs(numbers)) == pytest.approx(9.72e-3, rel=1e-3)
    assert float(line.subs(numbers)) == pytest.approx(19.44e-3, rel=1e-3)
    v5p = chip("v5p")
    for shape, wrap in (((2, 2, 1), False), ((2, 2, 2), False), ((4, 4, 4), True)):
        net = v5p.network(["X", "Y", "Z"], "ring", dict(zip("XYZ", shape, strict=True)))
        assert set(net.wrap.values()) == {wrap}


def test_books_all_to_all_over_several_axes() -> None:
    # 3.nd: V*max(A, B)/(4*N*W) with V the total bytes; locally V/N.
    time = Torus(links={"X": 1, "Y": 1}).time("AllToAll", B, ["X", "Y"])
    for a, b in ((4, 8), (16, 16), (8, 2)):
        wanted = B * max(a, b) / (4 * W_ici)
        assert cancel(time.subs({X: a, Y: b}) - wanted) == 0


# The link simulator.


@pytest.mark.parametrize("n", range(2, 17))
@pytest.mark.parametrize("net", [RING, LINE], ids=["ring", "line"])
def test_gather_and_scatter_step_by_step(net: Torus, n: int) -> None:
    ring = net is RING
    for kind, steps in (
        ("AllGather", all_gather_steps(n, ring)),
        ("ReduceScatter", reduce_scatter_steps(n, ring)),
    ):
        # A step moves half a shard, B/(2n), over a link of W_ici/2 one way.
        simulated = steps * (B / (2 * n)) / (W_ici / 2)
        assert cancel(net.time(kind, B, ["X"]).subs(X, n) - simulated) == 0
    reduced = all_gather_steps(n, ring) + reduce_scatter_steps(n, ring)
    formula = net.time("AllReduce", 2 * B, ["X"]).subs(X, n)
    assert cancel(formula - reduced * (B / (2 * n)) / (W_ici / 2)) == 0


@pytest.mark.parametrize("n", range(2, 17))
@pytest.mark.parametrize("net", [RING, LINE], ids=["ring", "line"])
def test_all_to_all_over_the_busiest_link(net: Torus, n: int) -> None:
    load = all_to_all_load((n,), (net is RING,))
    busiest = Rational(load.numerator, load.denominator) * (B / n) / (W_ici / 2)
    formula = net.time("AllToAll", B, ["X"]).subs(X, n)
    assert cancel(formula - busiest) == 0


@pytest.mark.parametrize("shape", [(4, 8), (2, 6), (16, 4), (8, 8)])
@pytest.mark.parametrize("wrap", [(True, True), (True, False), (False, False)])
def test_all_to_all_over_two_axes(shape: tuple[int, int], wrap: tuple[bool, bool]) -> None:
    load = all_to_all_load(shape, wrap)
    chunk = B / (shape[0] * shape[1])
    busiest = Rational(load.numerator, load.denominator) * chunk / (W_ici / 2)
    net = Torus("ring", dict(zip("XY", wrap, strict=True)), {"X": 1, "Y": 1})
    formula = net.time("AllToAll", B, ["X", "Y"]).subs({X: shape[0], Y: shape[1]})
    assert cancel(formula - busiest) == 0


@pytest.mark.parametrize("n", [2, 4, 7])
def test_gather_over_two_equal_rings_in_two_phases(n: int) -> None:
    # Half the array is gathered over X then Y, the other half over Y then X, at the same time.
    half = B / 2
    phases = RING.time("AllGather", half / Y, ["X"]) + RING.time("AllGather", half, ["Y"])
    whole = RING.time("AllGather", B, ["X", "Y"])
    assert cancel((phases - whole).subs({X: n, Y: n})) == 0


# What holds for any collective.

volumes = st.fractions(min_value=1, max_value=10**12)
sizes = st.integers(min_value=2, max_value=4096)
kinds = st.sampled_from(KINDS)


@settings(max_examples=40, deadline=None)
@given(kinds, volumes, sizes)
def test_a_line_is_never_faster(kind: CollectiveKind, volume: object, size: int) -> None:
    amount = Rational(str(volume))
    ring, line, ideal = (
        net.time(kind, amount, ["X"]).subs({X: size, W_ici: 1})
        for net in (RING, LINE, Torus(links={"X": 1}))
    )
    assert ring <= line <= 2 * ring
    assert ideal <= line
    # (n-1)/n at most from the ideal: the difference vanishes for large n.
    if kind not in ("AllToAll", "CollectivePermute"):
        assert ring == ideal * Rational(size - 1, size)


@settings(max_examples=40, deadline=None)
@given(kinds, volumes, st.sampled_from([RING, LINE, Torus(), Switch(), Switch("ring")]))
def test_time_is_linear_in_volume(kind: CollectiveKind, factor: object, net: Torus) -> None:
    scale = Rational(str(factor))
    for axes in (["X"], ["X", "Y"]):
        one, many = net.time(kind, B, axes), net.time(kind, scale * B, axes)
        assert cancel(many / one - scale) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_ideal_torus_is_the_textbooks(kind: CollectiveKind) -> None:
    assert cancel(Torus().time(kind, B, ["X"]) - IDEAL.time(kind, B, ["X"])) == 0
    assert Torus().resource(["X", "Y"]) == IDEAL.resource(["X", "Y"])
    if kind != "AllToAll":
        assert cancel(Torus().time(kind, B, ["X", "Y"]) - IDEAL.time(kind, B, ["X", "Y"])) == 0


def test_switch() -> None:
    net = Switch("ring")
    assert cancel(net.time("AllToAll", B, ["X", "Y"]) - B * (X * Y - 1) / (X * Y * W_nvlink)) == 0
    assert net.time("CollectivePermute", B, ["X"]) == B / W_nvlink
    assert Switch(rate=W_dcn).time("AllReduce", B, ["X"]) == B / W_dcn
    assert net.resource(["X"]) == net.resource(["Y"]) == "nvlink"
    assert Switch(rate=W_dcn).resource(["X"]) == "dcn"
    assert net.bandwidth(["X"]) == W_nvlink


def test_shift_goes_one_way_over_one_link() -> None:
    for net in (RING, LINE):
        assert net.time("CollectivePermute", B, ["X"]) == 2 * B / W_ici


# Layouts and what a chip chooses.


def test_layouts() -> None:
    v5p, v5e = chip("v5p"), chip("v5e")
    assert dict(v5p.layout(["X"])) == {"X": 3}
    assert dict(v5p.layout(["X", "Y"])) == {"X": 2, "Y": 1}
    assert dict(v5p.layout(["X", "Y", "Z"])) == {"X": 1, "Y": 1, "Z": 1}
    assert dict(v5e.layout(["data"])) == {"data": 2}
    assert dict(v5e.layout(["X", "Y"])) == {"X": 1, "Y": 1}
    assert dict(chip("h100").layout(["X", "Y", "Z", "W"])) == dict.fromkeys("XYZW", 1)
    assert dict(v5p.layout(["X", "Y"]).bindings) == {M_X: 2, M_Y: 1}
    assert v5e.layout(["data"]).bindings == {links("data"): 2}
    # An axis of size 1 needs no links, and leaves them to the others.
    assert dict(v5p.layout(["X", "Y"], {"X": 8960, "Y": 1})) == {"X": 3, "Y": 1}
    assert dict(v5p.layout(["X", "Y"], {X: 1, Y: 1})) == {"X": 1, "Y": 1}
    four = {"X": 2, "Y": 1, "Z": 2, "W": 2}
    assert dict(v5p.layout(four, four)) == dict.fromkeys(four, 1)


@pytest.mark.parametrize(
    ("name", "mesh", "wrap"),
    [
        ("v5e", {"X": 8, "Y": 16}, {"X": False, "Y": True}),
        ("v5e", {"X": 256}, {"X": True}),
        ("v5e", {"X": 16, "Y": 1}, {"X": False}),  # sixteen chips come as 4x4
        ("v6e", {"X": 16, "Y": 16}, {"X": True, "Y": True}),
        ("v5p", {"X": 2048, "Y": 4}, {"X": True, "Y": True}),
        ("v5p", {"X": 8960, "Y": 1}, {"X": True}),
        ("v5p", {"X": 2, "Y": 2, "Z": 4}, {"X": False, "Y": False, "Z": False}),
        ("v4p", {"X": 4, "Y": 8, "Z": 12}, {"X": True, "Y": True, "Z": True}),
    ],
)
def test_wraparound(name: str, mesh: dict[str, int], wrap: dict[str, bool]) -> None:
    net = chip(name).network(mesh, "ring", mesh)
    assert isinstance(net, Torus)
    assert dict(net.wrap) == wrap


def test_networks_keep_their_symbols() -> None:
    net = chip("v5p").network(["X", "Y"])
    assert net.time("AllGather", 4 * D, ["X", "Y"]) == 4 * D / (W_ici * (M_X + M_Y))
    assert chip("h100").network(["X"]) == Switch()
    assert hash(Torus()) == hash(Torus())
    assert M_Z not in net.time("AllGather", B, ["X"]).free_symbols


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: chip("v5e").layout(["X", "Y", "Z"]), "3 mesh axes .* with 2 physical axes: merge"),
        (lambda: chip("v5e").layout([]), "no mesh axes given"),
        (lambda: chip("v5e").layout(["X", "X"]), "mesh axis X is given twice"),
        (lambda: chip("v5e").layout("X"), "mesh axes 'X': give a sequence of names"),
        (
            lambda: chip("v5p").network(["X", "Y"], sizes={"X": 4096, "Y": 4}),
            "mesh X=4096, Y=4 has 16384 chips; one tpu-v5p pod has 8960",
        ),
        (
            lambda: chip("h100").network(["X"], sizes={"X": 2048}),
            r"mesh X=2048 has 2048 chips; one h100 pod has 1024; .override\(pod=2048\)",
        ),
        (lambda: chip("v5p").network(["X"], sizes={"Y": 4}), "size given for Y, which is no axis"),
        (lambda: chip("v5p").network(["X", "Y"], sizes={"Y": 4}), "no size given for mesh axis X"),
        (lambda: chip("v5p").network(["X"], sizes={"X": 0}), "mesh axis X = 0: a positive whole"),
        (lambda: chip("v5p").network(["X"], sizes={"X": 2.5}), "mesh axis X = 2.5: a positive"),
        (lambda: chip("v5p").network(["X"], "exact"), "unknown fidelity 'exact': ideal or ring"),
        (lambda: Switch("exact"), "unknown fidelity 'exact'"),
        (lambda: Torus(links={"X": 0}), "mesh axis X over 0 physical axes: at least 1"),
        (lambda: Torus().time("Allgather", B, ["X"]), "unknown collective 'Allgather'; did you"),
        (lambda: Torus().time("AllGather", B, []), "no mesh axes given"),
        (lambda: Switch().time("AllGather", B, ["X", "X"]), "mesh axis X is given twice"),
    ],
)
def test_errors(call: object, message: str) -> None:
    with pytest.raises(HardwareError, match=message):
        call()
