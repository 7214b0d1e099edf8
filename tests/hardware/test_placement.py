"""Where mesh axes lie, on which levels collectives wait, and what does not fit."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Integer, Rational

from symscale import chip, training
from symscale.algebra.errors import HardwareError
from symscale.algebra.symbols import B, W_dcn, W_ici, W_nvlink, X, Y, axis, t_hop
from symscale.hardware.chips import chips
from symscale.hardware.figure import MissingFigure
from symscale.hardware.layouts import layout_choice
from symscale.hardware.levels import pack
from symscale.hardware.networks import FullMesh, Hierarchy, Switch, Torus
from symscale.hardware.placement import Placement
from tests.book.truth import same


def where(placed: Placement) -> dict[str, tuple[Any, ...]]:
    return {one.name: (one.stride, one.crosses, one.binding) for one in placed.axes}


# Order and stride.


def test_tensor_inside_data_outside() -> None:
    placed = chip("h100").placement(["X", "Y"], {"X": 128, "Y": 8})
    assert where(placed) == {
        "X": (8, ("leaf", "spine"), "leaf"),
        "Y": (1, ("node",), "node"),
    }
    net = placed.network("ring")
    assert same(net.time("AllGather", B, ["Y"]), B * (Y - 1) / (Y * W_nvlink))
    # The cables of a node carry all but a GPU's own; those of a leaf have eight times as many bytes
    # to share out, for a quarter of what is wanted.
    busy = net.by_level("AllGather", B, ["X"])
    assert same(busy["leaf"], B * (X - 1) / (X * W_dcn))
    assert same(busy["spine"].subs(X, 128), B * Rational(3, 4) / (32 * W_dcn))
    assert (net.resource(["X"]), net.resource(["Y"])) == ("dcn", "nvlink")


def test_the_other_order_is_slower_for_the_inner_axis() -> None:
    h100, sizes = chip("h100"), {"X": 128, "Y": 8}
    good, bad = (h100.placement(["X", "Y"], sizes, layout=text) for text in (None, "Y,X"))
    assert bad.order == ("Y", "X")
    rates = {name: [p.axes[p.order.index(name)].rate for p in (good, bad)] for name in "XY"}
    assert rates["Y"] == [450 * 10**9, 50 * 10**9]
    assert rates["X"] == [50 * 10**9, 400 * 10**9]
    # The bytes of a group of eight over the whole fabric, against eight in a node.
    times = [
        p.network("ring").time("AllGather", B, ["Y"]).subs({**h100, Y: 8, B: 1})
        for p in (good, bad)
    ]
    assert times[1] / times[0] == 9


def test_an_axis_over_two_levels() -> None:
    placed = chip("h100").placement(["X", "Y"], {"X": 4, "Y": 16})
    assert where(placed)["Y"] == (1, ("node", "leaf"), "leaf")
    assert placed.lays["Y"].inside[0] == 8
    assert placed.axes[1].rate == 400 * 10**9
    # A group inside an axis's share: members of one group in one node share its cables.
    assert placed.lays["X"].inside[0] == 1


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 4, 8, 16, 32]), min_size=1, max_size=3),
    st.sampled_from([(8, 32, 4), (4, 4, 64), (64, 8, None), (16, None)]),
)
def test_packing_by_counting_ranks(sizes: list[int], rooms: tuple[int | None, ...]) -> None:
    names = "XYZ"[: len(sizes)]
    mesh = dict(zip(names, sizes, strict=True))
    total = 1
    for size in sizes:
        total *= size
    blocks, span = [], 1
    for room in rooms:
        span = total if room is None else span * room
        blocks.append(span)
    fits = total <= blocks[-1]
    if not fits:
        with pytest.raises(HardwareError, match="finds no room"):
            pack(mesh, rooms)
        return
    lays = pack(mesh, rooms)
    ranks = list(product(*(range(size) for size in sizes)))
    number = {rank: place for place, rank in enumerate(ranks)}
    for at, name in enumerate(names):
        group = [
            number[tuple(i if k == at else 0 for k in range(len(sizes)))] for i in range(sizes[at])
        ]
        for level, block in enumerate(blocks):
            together = sum(rank // block == 0 for rank in group)
            assert lays[name].inside[level] == together


def test_chips_that_stay_idle_are_told() -> None:
    placed = chip("b200").placement(["X", "Y"], {"X": 10, "Y": 6})
    assert placed.notes == ("2 of the 8 chips of a node stay idle",)
    assert placed.lays["X"].inside[0] == 1
    assert "stay idle" in str(placed)
    assert chip("h100").placement(["X", "Y"], {"X": 4, "Y": 8}).notes == ()
    uneven = chip("h100").placement(["X", "Y"], {"X": 125, "Y": 8})
    assert uneven.lays["X"].inside == (1, 31, 125)


# Every kind of chip.


@pytest.mark.parametrize("name", [one.name for one in chips()])
def test_every_chip_has_a_network(name: str) -> None:
    one = chip(name)
    bare = one.network(["X"])
    assert bare.time("AllGather", B, ["X"]).has(B)
    if "domain" not in one.figures or (
        one.fabric.kind == "host" and name in ("l4", "l40s", "rtx-4090")
    ):
        with pytest.raises(MissingFigure, match=f"{name} has no (domain|chips_per_host) "):
            one.placement(["X"], {"X": 2})
        return
    placed = one.placement(["X"], {"X": 2})
    assert placed.axes[0].rate > 0
    assert json.loads(json.dumps(placed.to_dict()))["axes"][0]["binding"] == placed.axes[0].binding
    assert "<table>" in placed._repr_html_()


def test_a_pair_in_a_full_mesh_has_one_link() -> None:
    mi300x = chip("mi300x")
    pair, all_of_them = (mi300x.placement(["X"], {"X": size}).axes[0].rate for size in (2, 8))
    assert (pair, all_of_them) == (64 * 10**9, 448 * 10**9)
    assert mi300x.network(["X"]) == Switch()
    net = mi300x.network(["X"], "ring", {"X": 8})
    assert isinstance(net, FullMesh)
    assert same(net.point_to_point(B), 7 * B / W_nvlink)


def test_hosts_over_pcie() -> None:
    cards = chip("l40s").override(chips_per_host=8, W_dcn=25e9)
    placed = cards.placement(["X", "Y"], {"X": 2, "Y": 8})
    assert [one.binding for one in placed.axes] == ["network", "host"]
    assert [float(one.rate) for one in placed.axes] == [25e9, 31e9]


def test_pods_over_the_data_centre_network() -> None:
    v5p = chip("tpu-v5p")
    sizes = {"Z": 4, "X": 512, "Y": 16}
    placed = v5p.placement(["Z", "X", "Y"], sizes, layout="Z=dcn")
    assert where(placed)["Z"] == (8192, ("dcn",), "dcn")
    assert {one.name: float(one.rate) for one in placed.axes} == {
        "Z": 6.25e9, "X": 3.6e11, "Y": 1.8e11,
    }  # fmt: skip
    net = placed.network("ring")
    assert isinstance(net, Hierarchy)
    Z = axis("Z")
    assert same(net.time("AllReduce", B, ["Z"]), B * (Z - 1) / (Z * W_dcn))
    assert net.resource(["Z"]) == "dcn"
    assert net.resource(["X"]) == "X"
    # Both at once: a pod's chips share the bytes that leave it.
    both = net.by_level("AllGather", B, ["Z", "X"])
    assert same(both["dcn"].subs({X: 512, Z: 4}), B * Rational(3, 4) / (512 * W_dcn))


def test_physical_axes_of_a_torus() -> None:
    v5e = chip("tpu-v5e")
    placed = v5e.placement(["X"], {"X": 128})
    assert [edge.to_dict() for edge in placed.edges["X"]] == [
        {"chips": "8", "wraps": False},
        {"chips": "16", "wraps": True},
    ]
    # One axis wraps, one does not: three halves of an axis's bandwidth.
    net = placed.network("ring")
    assert isinstance(net, Torus)
    values = {**placed.layout.bindings, X: 128}
    assert net.bandwidth(["X"]).subs(values) == Rational(3, 2) * W_ici
    assert "1 wrap" in str(placed)
    # An AllToAll over 16x16 goes as long as one over 16, not over 256.
    whole = v5e.network(["X"], "ring", {"X": 256})
    assert whole.time("AllToAll", B, ["X"]) == 4 * B / W_ici
    assert v5e.network(["X"], "latency", {"X": 256}).hops("AllGather", ["X"]) == 16


def test_tapered_levels_of_a_file(tmp_path: Path) -> None:
    data = {
        "name": "mine", "title": "Mine", "vendor": "me",
        "figures": {
            "W_nvlink": {"value": 4e11, "unit": "byte/s", "source": "s"},
            "W_dcn": {"value": 5e10, "unit": "byte/s", "source": "s"},
            "domain": {"value": 8, "unit": "chip", "source": "s"},
        },
        "network": {
            "kind": "switch", "rate": "W_nvlink",
            "levels": [
                {"name": "leaf", "size": 4, "rate": "W_dcn"},
                {"name": "spine", "size": 16, "rate": "W_dcn", "taper": 64},
            ],
        },
        "sources": {"s": {"text": "sheet", "as_of": "2026"}},
    }  # fmt: skip
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    mine = chip(path)
    assert mine.reach == 8 * 4 * 16
    placed = mine.placement(["X", "Y"], {"X": 64, "Y": 8})
    assert placed.axes[0].binding == "spine"
    # A leaf of four nodes: its chips share 4 times a 64th.
    assert placed.axes[0].rate == 5 * 10**10 / Integer(16)


def test_sums_in_switches() -> None:
    h100, sizes = chip("h100"), {"X": 4, "Y": 8}
    plain, sharp = (
        h100.network(["X", "Y"], "ideal", sizes, reduces=names) for names in ((), ("node", "leaf"))
    )
    for axes in (["X"], ["Y"], ["X", "Y"]):
        assert same(
            plain.time("AllReduce", 2 * B, axes).subs({**h100, X: 4, Y: 8, B: 1}),
            2 * sharp.time("AllReduce", 2 * B, axes).subs({**h100, X: 4, Y: 8, B: 1}),
        )
        assert plain.time("AllGather", B, axes) == sharp.time("AllGather", B, axes)
    with pytest.raises(HardwareError, match="no level 'nod' on h100; levels are leaf, node, spine"):
        h100.network(["X", "Y"], "ideal", sizes, reduces=["nod"])


def test_latency_over_levels() -> None:
    h100 = chip("h100")
    net = h100.network(["X", "Y"], "latency", {"X": 128, "Y": 8})
    nothing = net.time("AllReduce", Integer(0), ["X", "Y"]).subs({X: 128, Y: 8, **h100})
    hop, message = h100["t_hop"], h100["t_net"]
    assert nothing == 2 * hop + 2 * 2 * message
    assert h100.network(["Y"], "latency", {"Y": 8}).time("AllGather", Integer(0), ["Y"]) == t_hop
    with pytest.raises(MissingFigure, match=r"^b200 has no t_hop .*override\(t_hop="):
        chip("b200").network(["X"], "latency", {"X": 8})


# Studies.


def test_a_training_step_beyond_one_node() -> None:
    step = training("llama-3-70b", "fsdp+tp")
    numbers = {"B": 2**22, "X": 128, "Y": 8}
    small = step.at(chip="h100", **numbers)
    assert set(small.busy) == {"math", "hbm", "dcn", "nvlink"}
    exact, slow = (step.at(chip="h100", fidelity=f, **numbers) for f in ("ring", "latency"))
    for name in ("dcn", "nvlink"):
        assert exact.busy[name] < small.busy[name]
        assert exact.busy[name] < slow.busy[name]
    # The weights of a layer, an eighth on each GPU, gathered at 50 GB/s.
    assert small.busy["dcn"] == pytest.approx(1.053, rel=1e-3)


# What does not fit.


@pytest.mark.parametrize(
    ("name", "axes", "sizes", "layout", "said"),
    [
        ("h100", "XY", (256, 8), None, "mesh X=256, Y=8 has 2048 chips; one h100 pod has 1024"),
        (
            "tpu-v5e",
            "XY",
            (64, 4),
            None,
            "mesh axis X = 64 does not fit 1 of the axes of a torus of",
        ),
        (
            "tpu-v5e",
            "X",
            (17,),
            None,
            "mesh axis X = 17 does not fit 2 of the axes of a torus of 16x16",
        ),
        ("tpu-v5p", "X", (8961,), None, "one tpu-v5p pod has 8960; X=dcn in the layout"),
        (
            "tpu-v5e",
            "XYZ",
            (2, 2, 2),
            None,
            "3 mesh axes (X, Y, Z) on a torus with 2 physical axes",
        ),
        ("h20", "X", (16,), None, "h20 has no W_dcn (data-centre network bandwidth of one chip)"),
        ("tpu-v2", "X", (4,), None, "tpu-v2 has no domain (chips joined by scale-up links)"),
        ("l4", "X", (4,), None, "l4 has no chips_per_host (chips of one host)"),
        (
            "h100",
            "XY",
            (170, 6),
            None,
            "does not fit one h100 pod: axes that do not divide a node of 8",
        ),
        ("h100", "XY", (8, 8), "Z,X", "layout names Z, which is no axis of the mesh (X, Y)"),
        (
            "h100",
            "XY",
            (8, 8),
            "X=two",
            "layout 'X=two': write an order (X,Y), a number of physical",
        ),
        ("h100", "XY", (8, 8), "X,X", "mesh axis X is given twice"),
    ],
)
def test_one_clear_line(
    name: str, axes: str, sizes: tuple[int, ...], layout: str | None, said: str
) -> None:
    with pytest.raises(HardwareError) as caught:
        chip(name).placement(list(axes), dict(zip(axes, sizes, strict=True)), layout=layout)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_larger_fabric_by_override() -> None:
    large = chip("h100").override(pod=4096)
    assert large.placement(["X", "Y"], {"X": 512, "Y": 8}).levels[-1].size == 16
    assert layout_choice(None).to_dict() == {"order": [], "links": {}, "outside": []}
    assert isinstance(chip("h100").network(["X"], sizes={"X": 8}), Switch)


@pytest.mark.parametrize("unit", ["Gbit/s", "bit/s", "Gbps", "gbps"])
def test_a_rate_in_bits(tmp_path: Path, unit: str) -> None:
    source = Path(__file__).parents[2] / "symscale/hardware/data/h20.json"
    data = json.loads(source.read_text("utf-8"))
    data["figures"]["W_dcn"] = {"value": 400, "unit": unit, "source": "h20"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(data))
    with pytest.raises(
        HardwareError, match=r"byte/s is wanted \(a network rate in bits: divide by 8"
    ):
        chip(path)


@pytest.mark.parametrize("sizes", [{"X": 4, "Y": 4}, {"X": 8, "Y": 4}])
def test_a_slice_one_chip_thick_does_not_wrap(sizes: dict[str, int]) -> None:
    """4x4x1 is no full cube: its links do not reach the optical switches."""
    found = chip("tpu-v5p").placement(["X", "Y"], sizes, layout="X=1,Y=1")
    assert all("no wraparound" in one.where for one in found.axes)


@pytest.mark.parametrize("sizes", [{"X": 29, "Y": 16, "Z": 16}, {"X": 8959}])
def test_an_edge_that_fits_no_cube_is_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(HardwareError, match="does not fit the torus"):
        chip("tpu-v5p").placement(list(sizes), sizes)


@pytest.mark.parametrize(
    ("chip_name", "links", "words"),
    [
        ("tpu-v5e", {"Y": 50}, "tpu-v5e has 2, so that one of 1 mesh axes can lie over at most 2"),
        ("tpu-v5p", {"X": 2, "Y": 2}, "tpu-v5p has 3"),
        ("tpu-v5p", {"Y": 0}, "at least 1"),
        ("h100", {"Y": 2}, "no torus"),
    ],
)
def test_no_more_physical_axes_than_the_torus_has(
    chip_name: str, links: dict[str, int], words: str
) -> None:
    sizes = dict.fromkeys(links, 4)
    with pytest.raises(HardwareError, match=words):
        chip(chip_name).placement(tuple(sizes), sizes, links)
    text = ",".join(f"{name}={count}" for name, count in links.items())
    with pytest.raises(HardwareError, match=words):
        chip(chip_name).placement(tuple(sizes), sizes, layout=text)
