"""Rooflines, random routing, latency, rates, and the command that shows a chip."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Integer, Rational, limit, oo

from symscale import chip, crossover, einsum, program
from symscale.algebra.errors import HardwareError
from symscale.algebra.maximum import Minimum
from symscale.algebra.symbols import B, C, D, F, W_dcn, W_hbm, W_ici, W_nvlink, X, Z, k, n
from symscale.cli import main
from symscale.hardware.figure import MissingFigure
from symscale.hardware.layout import mesh_axes
from symscale.hardware.networks import Hierarchy, Lay, Level, Switch, Torus, ring, worst_level
from symscale.hardware.roofline import roofline
from symscale.hardware.routing import at_most, destinations, ragged
from symscale.hardware.steps import derive, latency_bound_below, v
from tests.book.truth import same

ROOFS = ("on-chip memory", "hbm", "links", "network", "pcie")


# Rooflines.


def test_roofs_of_the_textbook() -> None:
    v5p = roofline("tpu-v5p")
    assert [roof.name for roof in v5p.roofs] == list(ROOFS)
    # Three axes of 1.8e11 each; one of them alone has the book's 2550.
    assert float(v5p.ridge("links")) == 850
    assert float(v5p.ridge("network")) == 73440
    assert same(v5p.ridge_formula("links"), C / (3 * W_ici))
    assert v5p.attainable(hbm=10**6, links=10**6, network=10**6) == v5p.peak
    assert v5p.binding(hbm=200, network=50000) == "network"
    h100 = roofline("h100", "fp8")
    assert h100.peak == chip("h100")["C_fp8"]
    assert h100.attainable(hbm=100) == 100 * chip("h100")[W_hbm]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.fractions(Fraction(1, 10), 10**5), min_size=5, max_size=5))
def test_attainable_is_the_lowest_roof(values: list[Fraction]) -> None:
    line = roofline("h100")
    given_ = dict(zip((r.replace(" ", "_").replace("-", "_") for r in ROOFS), values, strict=True))
    exact = {name: Rational(v.numerator, v.denominator) for name, v in given_.items()}
    wanted = min(
        [line.peak, *(line.roof(r).value * v for r, v in zip(ROOFS, exact.values(), strict=True))]
    )
    assert line.attainable(**exact) == wanted
    formula = line.attainable_formula(**exact)
    assert formula.subs(chip("h100")) == wanted
    reached = line.binding(**exact)
    assert reached == "compute" or exact[reached.replace(" ", "_").replace("-", "_")] <= line.ridge(
        reached
    )


def test_roofs_and_times_agree() -> None:
    mm = einsum("A[B, D] * W[D, F] -> Out[B, F]")
    line, v5e = roofline("tpu-v5e"), chip("tpu-v5e")
    sizes = {B: 64, D: 4096, F: 16384}
    rate = line.attainable(hbm=mm.intensity.subs(sizes))
    assert mm.flops.subs(sizes) / rate == mm.time.lower.subs({**sizes, **v5e})
    assert isinstance(line.attainable_formula(hbm=mm.intensity), Minimum)


def test_roofs_that_are_missing() -> None:
    h20 = roofline("h20")
    assert "network" in h20.missing
    with pytest.raises(MissingFigure, match=r"h20 has no W_dcn .*\.override\(W_dcn="):
        h20.ridge("network")
    with pytest.raises(HardwareError, match="no roof 'hmb'; did you mean hbm"):
        h20.roof("hmb")
    with pytest.raises(HardwareError, match="h100 has no C_fp4"):
        roofline("h100", "fp4")
    data = json.loads(json.dumps(h20.to_dict()))
    assert data["roofs"][0]["ridge"] > 0
    assert all(len(row) <= 80 for row in repr(roofline("h100")).splitlines())


# Strategies on nodes, racks and a torus: the GPU chapter's bounds.


def test_bounds_of_strategies_on_four_machines() -> None:
    layer = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
    lines = ("In[B_X, D]", "Win[D_X, F]", "Tmp[B_X, F]", "Wout[F, D_X]", "Out[B_X, D]")
    backward = layer.shard(*lines).backward
    # Tokens a chip for FSDP over everything: C/W of what leaves one chip's node, all chips sharing.
    leaf = Level("leaf", None, W_dcn)
    for name, inside, wanted in (("h100", 8, 2475), ("b200", 8, 5625), ("gb200", 72, 694.44)):
        one = chip(name, "book")
        net = Hierarchy(Switch(), (leaf,), {"X": Lay(X, (inside, X))})
        across = sum(
            net.by_level(move.kind, move.volume, move.axes)["leaf"] for move in backward.collectives
        )
        wall = crossover(backward.time.math, across, B).threshold
        assert float((wall / X).subs(one)) == pytest.approx(wanted, rel=1e-4)
    torus = backward.time_on(Torus(links={"X": 3}))
    wall = crossover(torus.math, torus.comms, B).threshold
    assert float((wall / X).subs(chip("tpu-v5p"))) == 850
    # DP needs the same tokens: the gradient's AllReduce is as many bytes.
    plain = ("In[B_X, D]", "Win[D, F]", "Tmp[B_X, F]", "Wout[F, D]", "Out[B_X, D]")
    data = layer.shard(*plain).backward.time_on(Switch())
    wall = crossover(data.math, data.comms, B).threshold
    assert same(wall, X * C / W_nvlink)


def test_expert_parallelism_over_nodes() -> None:
    # Two exchanges of 2 B D/Z bytes for each token's devices; k experts of 4 D F FLOPs each.
    local = 2 * (B / Z) * D
    net = Hierarchy(Switch("ring"), (Level("leaf", None, W_dcn),), {"Z": Lay(Z, (8, Z))})
    math = 4 * k * B * D * F / (Z * C)
    # Every token to every node once, where k >= Z/8: F > (C/W_node) (Z - 8)/k.
    dense = 2 * net.by_level("AllToAll", local * Z / 8, ["Z"])["leaf"]
    assert same(dense, 4 * B * D * (Z - 8) / (Z * 8 * W_dcn))
    wall = crossover(math, dense, F).threshold
    assert same(wall, C * (Z - 8) / (8 * W_dcn * k))
    # To k of them, where nodes are many: F > 8 C/W_node.
    few = dense * 8 * k / Z
    assert limit(crossover(math, few, F).threshold, Z, oo) == C / W_dcn
    h100 = chip("h100", "book")
    assert float(C.subs(h100) / (8 * W_dcn.subs(h100))) == 2475


# Random routing.


@pytest.mark.parametrize(("count", "devices"), [(1, 2), (2, 3), (3, 4), (4, 2), (2, 8)])
def test_destinations_by_counting_all_draws(count: int, devices: int) -> None:
    draws = list(product(range(devices), repeat=count))
    mean = Rational(sum(len(set(draw)) for draw in draws), len(draws))
    assert destinations(count, devices) == mean
    # The factor of the book: copies that leave, over devices.
    leaving = Rational(sum(len(set(draw) - {0}) for draw in draws), len(draws))
    book = (1 - (Rational(devices - 1, devices)) ** count) * Rational(devices - 1, devices)
    assert leaving / devices == book
    assert leaving == mean * Rational(devices - 1, devices)
    assert mean <= at_most(count, devices)


@pytest.mark.parametrize(
    ("count", "devices", "experts"), [(2, 2, 4), (2, 4, 8), (3, 2, 6), (4, 4, 8)]
)
def test_destinations_of_distinct_experts(count: int, devices: int, experts: int) -> None:
    each = experts // devices
    draws = list(combinations(range(experts), count))
    mean = Rational(sum(len({e // each for e in draw}) for draw in draws), len(draws))
    assert destinations(count, devices, experts) == mean
    assert destinations(count, devices) <= mean <= at_most(count, devices)
    with pytest.raises(HardwareError, match="a multiple of the devices"):
        destinations(count, devices, experts + 1)


def test_limits_of_routing() -> None:
    assert ragged(B, 1, Z) == B
    assert limit(destinations(3, Z), Z, oo) == 3
    assert destinations(200, 8).evalf() == pytest.approx(8)
    # A ragged exchange takes what a dense one of as many copies does, less the one at home.
    time = Switch("ring").time("AllToAll", ragged(B, 2, 8), ["X"]).subs(X, 8)
    dense = Switch("ring").time("AllToAll", B, ["X"]).subs(X, 8)
    assert same(time, dense * Rational(15, 8))


# Latency, levels, names.


def test_below_which_bytes_hops_decide() -> None:
    v5e = chip("tpu-v5e")
    wall = latency_bound_below(ring("latency"), "AllGather", ("X",)).subs({**v5e, X: 16})
    # 8 hops of a microsecond at 90 GB/s, and a sixteenth is there already.
    assert float(wall) == pytest.approx(8e-6 * 9e10 * 16 / 15)
    with pytest.raises(HardwareError, match="counts no latency"):
        latency_bound_below(ring(), "AllGather", ("X",))


def test_levels_of_the_superpod() -> None:
    # Effective bytes/s of each level alone: 514e9, 413e9 and 17.1e12.
    levels = [(8, 450 * 10**9), (32, 50 * 10**9), (4, 50 * 10**9)]
    for place, wanted in enumerate((514.3e9, 412.9e9, 17.07e12)):
        part = [(count, rate if at == place else 10**30) for at, (count, rate) in enumerate(levels)]
        assert float(1 / worst_level(Integer(1), part)) == pytest.approx(wanted, rel=1e-3)
    assert float(1 / worst_level(Integer(1), levels)) == pytest.approx(412.9e9, rel=1e-3)
    # An axis inside: free up to the node, and no faster outside until it spans nodes.
    for inner, wanted in ((1, 400), (8, 400), (16, 800)):
        outer = worst_level(Integer(1), [(8, 10**9), (32, 50)], inner, exact=False)
        assert 1 / outer == wanted


def test_errors() -> None:
    for call, said in (
        (lambda: derive("CollectivePermute"), "has no sum over steps"),
        (lambda: derive("AllGather", "star"), "unknown shape 'star'; known are ring"),
        (lambda: Switch(reduction="sharpe"), "'sharpe' is none of devices, switch, nvls"),
        (lambda: Torus(wrap={"X": False}, both_ways=False), "X is a line: it cannot send one way"),
        (lambda: mesh_axes([]), "no mesh axes given"),
    ):
        with pytest.raises(HardwareError, match=said):
            call()
    assert derive("AllGather").time.free_symbols == {n, v, W_ici}


# The command.


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["chips", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_shows_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, out, _ = said(capsys, "--json")
    assert (status, len(json.loads(out)["chips"]["chips"])) == (0, 31)
    status, out, _ = said(capsys, "h100", "--mesh", "X=128,Y=8", "--json")
    assert [one["binding"] for one in json.loads(out)["axes"]] == ["leaf", "node"]
    status, out, _ = said(capsys, "h100", "--mesh", "X=128,Y=8", "--layout", "Y,X")
    assert (status, "400 GB/s" in out) == (0, True)
    status, out, _ = said(capsys, "v5e", "--edition", "book", "--set", "W_pcie=2e10", "--json")
    figures = json.loads(out)["figures"]
    assert (figures["W_hbm"]["value"], figures["W_pcie"]["value"]) == (820 * 10**9, 2 * 10**10)
    status, out, _ = said(capsys, "b200", "--roofline", "fp8", "--json")
    assert json.loads(out)["peak_flops_per_s"] == 4.5e15
    mine = tmp_path / "mine.json"
    mine.write_text(
        Path("symscale/hardware/data/h100.json").read_text().replace('"h100"', '"mine"')
    )
    assert "(mine)" in said(capsys, str(mine))[1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["h101"], "unknown chip 'h101'; did you mean"),
        (["h100", "--mesh", "X=4096"], "mesh X=4096 has 4096 chips; one h100 pod has 1024"),
        (["v5e", "--mesh", "X=64,Y=2"], "mesh axis X = 64 does not fit 1 of the axes of a torus"),
        (["v5e", "--set", "W_hbm"], "'W_hbm': write FIGURE=NUMBER"),
        (["v5e", "--set", "W_hbn=1"], "'W_hbn' is no figure of a chip; did you mean W_hbm"),
        (["v5e", "--layout", "X"], "a layout places the axes of a mesh"),
        (["v5e", "--roofline", "f64"], "unknown dtype 'f64'"),
    ],
)
def test_the_command_refuses(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    status, out, err = said(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert line in err
