"""What holds for every collective on every network, whatever the numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr, Integer, Rational, cancel, limit, oo

from symscale.algebra.symbols import B, W_dcn, W_ici, W_nvlink, X, Y, n, t_hop, t_net
from symscale.hardware.fidelity import KINDS, Fidelity
from symscale.hardware.networks import (
    FullMesh,
    Hierarchy,
    Lay,
    Level,
    Switch,
    Torus,
    line,
    ring,
)
from symscale.hardware.steps import SHAPES, derive, v

RATES = {
    W_ici: Integer(90),
    W_nvlink: Integer(450),
    W_dcn: Integer(50),
    t_hop: Rational(1, 10),
    t_net: Rational(1, 3),
}
FIDELITIES: tuple[Fidelity, ...] = ("ideal", "ring", "latency")


def two_level(fidelity: Fidelity, size: int, inside: int, inner: Any = None) -> Hierarchy:
    lay = {"X": Lay(Integer(size), (inside, size))}
    return Hierarchy(inner or Switch(fidelity), (Level("network", None, W_dcn),), lay)


def networks(fidelity: Fidelity, size: int) -> dict[str, Any]:
    """One of each shape, for a group of this size."""
    inside = next(d for d in (8, 4, 3, 2, 1) if size % d == 0)
    return {
        "ring": ring(fidelity),
        "one way": ring(fidelity, both_ways=False),
        "line": line(fidelity),
        "torus": Torus(fidelity, links={"X": 2}),
        "switch": Switch(fidelity),
        "sharp": Switch(fidelity, reduction="switch"),
        "mesh": FullMesh(fidelity, W_nvlink / 7),
        "nodes": two_level(fidelity, size, inside),
        "pods": two_level(fidelity, size, inside, ring(fidelity)),
    }


NAMES = tuple(networks("ring", 8))
sizes = st.integers(min_value=2, max_value=512)
volumes = st.integers(min_value=1, max_value=10**9)
kinds = st.sampled_from(KINDS)
names = st.sampled_from(NAMES)
fidelities = st.sampled_from(FIDELITIES)


def seconds(net: Any, kind: str, volume: Any, size: int) -> Expr:
    return net.time(kind, Integer(volume), ["X"]).subs({X: size, **RATES})


@settings(max_examples=150, deadline=None)
@given(names, kinds, volumes, sizes, fidelities)
def test_twice_the_bytes_take_at_most_twice_as_long(
    name: str, kind: str, volume: int, size: int, fidelity: Fidelity
) -> None:
    net = networks(fidelity, size)[name]
    once, twice = (seconds(net, kind, amount, size) for amount in (volume, 2 * volume))
    assert 0 < once <= twice <= 2 * once


@settings(max_examples=150, deadline=None)
@given(names, volumes, sizes, fidelities)
def test_an_all_reduce_is_a_scatter_and_a_gather(
    name: str, volume: int, size: int, fidelity: Fidelity
) -> None:
    net = networks(fidelity, size)[name]
    whole = seconds(net, "AllReduce", 2 * volume, size)
    parts = sum(seconds(net, kind, volume, size) for kind in ("ReduceScatter", "AllGather"))
    if name == "sharp":
        assert whole <= parts + Rational(1, 5)
    elif name in ("nodes", "pods"):
        # Levels overlap inside each of the two halves, and may overlap across them.
        assert whole <= parts
        assert whole >= parts * Rational(99, 100) or fidelity == "latency"
    else:
        assert whole == parts


@settings(max_examples=150, deadline=None)
@given(names, kinds, volumes, sizes)
def test_order_of_the_fidelities(name: str, kind: str, volume: int, size: int) -> None:
    ideal, exact, slow = (
        seconds(networks(fidelity, size)[name], kind, volume, size) for fidelity in FIDELITIES
    )
    assert exact <= slow
    assert exact < slow or name == "torus"
    hops = slow - exact
    assert hops == seconds(networks("latency", size)[name], kind, 2 * volume, size) - seconds(
        networks("ring", size)[name], kind, 2 * volume, size
    )
    if name == "line" and kind not in ("CollectivePermute",):
        assert ideal <= exact <= 2 * ideal
    elif kind not in ("CollectivePermute", "Broadcast") and name != "sharp":
        # What a device has already: never more than the ideal, and at least (n-1)/n of it.
        assert exact <= ideal or name == "torus"
        if name == "mesh":
            assert exact == ideal
        elif name not in ("nodes", "pods", "torus") and kind != "AllToAll":
            assert exact == ideal * Rational(size - 1, size)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["ring", "switch", "one way", "sharp"])
def test_the_next_fidelity_tends_to_the_one_before(name: str, kind: str) -> None:
    if kind == "CollectivePermute":
        return
    ideal, exact, slow = (networks(f, 8)[name].time(kind, B, ["X"]) for f in FIDELITIES)
    for count in (10**3 + 1, 10**6):
        ratio = (exact / ideal).subs(X, count)
        assert abs(1 - ratio) <= Rational(2, count), (kind, count)
    ratio = (slow / exact).subs({X: 64, **RATES})
    assert limit(ratio, B, oo) == 1


def test_a_line_tends_to_twice_the_ring() -> None:
    for kind in ("AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Gather"):
        both = [net.time(kind, B, ["X"]).subs(X, 10**6) for net in (line(), ring())]
        assert both[0] / both[1] == 2


@settings(max_examples=100, deadline=None)
@given(kinds, volumes, sizes, st.integers(1, 3), fidelities)
def test_wider_is_never_slower(
    kind: str, volume: int, size: int, count: int, fidelity: Fidelity
) -> None:
    if kind in ("CollectivePermute", "AllToAll"):
        narrow, wide = ring("ideal"), Torus("ideal", links={"X": count})
    else:
        narrow, wide = ring(fidelity), Torus(fidelity, links={"X": count})
    assert seconds(wide, kind, volume, size) <= seconds(narrow, kind, volume, size)
    fast = Switch(fidelity, W_nvlink * count)
    assert seconds(fast, kind, volume, size) <= seconds(Switch(fidelity), kind, volume, size)


@settings(max_examples=60, deadline=None)
@given(kinds, volumes, st.sampled_from([16, 32, 64, 128]), st.sampled_from(["ideal", "ring"]))
def test_more_of_a_group_in_a_node_is_never_slower(
    kind: str, volume: int, size: int, fidelity: Fidelity
) -> None:
    times = [seconds(two_level(fidelity, size, d), kind, volume, size) for d in (1, 2, 4, 8)]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_units(kind: str, name: str, fidelity: Fidelity) -> None:
    # Seconds: bytes over bytes/s. Counting bytes, or seconds, in another unit changes nothing.
    time = networks(fidelity, 8)[name].time(kind, B, ["X"]).subs(X, 8)
    rates = (W_ici, W_nvlink, W_dcn)
    values = {**RATES, B: Integer(7)}
    other_bytes = {**values, **{one: 1000 * values[one] for one in rates}, B: Integer(7000)}
    assert time.subs(values) == time.subs(other_bytes)
    milli = {one: values[one] / 1000 for one in rates}
    milli |= {one: 1000 * values[one] for one in (t_hop, t_net)}
    assert time.subs({**values, **milli}) == 1000 * time.subs(values)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "kind", ["AllGather", "ReduceScatter", "AllReduce", "AllToAll", "Broadcast"]
)
def test_sums_over_steps_are_the_networks(kind: str, shape: str) -> None:
    nets = {
        "ring": ring(), "one-way ring": ring(both_ways=False), "line": line(),
        "switch": Switch("ring"),
    }  # fmt: skip
    derived = derive(kind, shape)
    formula = nets[shape].time(kind, v, ["X"])
    for count in (2, 3, 4, 7, 8, 33, 64):
        assert cancel(derived.time.subs(n, count) - formula.subs(X, count)) == 0
    ratio = (derived.time / derived.limit).subs(n, 10**6)
    assert abs(1 - ratio) < Rational(1, 10**5)
    assert len(derived.derivation) >= 3
    assert Y not in derived.time.free_symbols
