"""Chips: their figures against the copied facts, the Mapping, editions, errors of user files."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from sympy import Integer, Rational, Symbol

from symscale.algebra.errors import HardwareError
from symscale.algebra.symbols import (
    C,
    C_fp8,
    D,
    W_hbm,
    W_ici,
    W_nvlink,
    check_known,
)
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip, chips
from symscale.hardware.figure import MissingFigure, unit

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "chips.json").read_text())
TITLES = {one.name: one.title for one in chips()}
BOOK = ("tpu-v4p", "tpu-v5e", "tpu-v5p", "tpu-v6e", "h100")
FLAT = {
    "C": ("flops", "bf16"), "C_f16": ("flops", "fp16"), "C_f32": ("flops", "fp32"),
    "C_tf32": ("flops", "tf32"), "C_fp8": ("flops", "fp8"), "C_fp4": ("flops", "fp4"),
    "C_int8": ("flops", "int8"), "C_int4": ("int4",), "hbm_bytes": ("hbm_bytes",),
    "W_hbm": ("hbm_bw",), "W_vmem": ("onchip", "bw"), "vmem_bytes": ("onchip", "vmem_bytes"),
    "cmem_bytes": ("onchip", "cmem_bytes"), "l2_bytes": ("onchip", "l2_bytes"),
    "smem_bytes": ("onchip", "smem_per_sm"), "tmem_bytes": ("onchip", "tmem_per_sm"),
    "sbuf_bytes": ("onchip", "sbuf_bytes"), "sram_bytes": ("onchip", "sram_bytes"),
    "infinity_cache_bytes": ("onchip", "infinity_cache_bytes"), "links": ("scaleup", "links"),
    "link_oneway": ("scaleup", "link_oneway"), "domain": ("scaleup", "domain"),
    "W_dcn": ("scaleout_per_chip_oneway",), "W_pcie": ("pcie_oneway",),
    "chips_per_host": ("chips_per_host",), "pod": ("pod",), "price": ("price",), "tdp": ("tdp_w",),
}  # fmt: skip
#: What a file has beyond the facts: links of an H800, by the case on its NVLink; a card's price.
BEYOND = {("h800", "links"), ("h800", "link_oneway"), ("rtx-4090", "price")}


def fact(name: str, *path: str) -> Any:
    found: Any = TRUTH["chips"][TITLES[name]]
    for key in path:
        found = None if found is None else found.get(key)
    return found


@pytest.mark.parametrize("figure", FLAT)
@pytest.mark.parametrize("name", TITLES)
def test_figures_are_the_facts(name: str, figure: str) -> None:
    found = fact(name, *FLAT[figure])
    entry = chip(name).figures.get(figure)
    if (name, figure) in BEYOND:
        return
    if found is None:
        assert entry is None
    else:
        assert entry is not None
        assert entry.value == Rational(str(found["v"]))
        assert entry.source.text
        assert entry.source.as_of


def test_all_facts_are_on_file() -> None:
    assert set(TITLES.values()) == set(TRUTH["chips"])
    assert len(TITLES) == 31
    assert chip("rtx-4090").figure("purchase").value == fact("rtx-4090", "price")["v"]
    multiprocessors = [name for name in TITLES if fact(name, "onchip", "sms")]
    for name in multiprocessors:
        assert chip(name).figure("cores").value == fact(name, "onchip", "sms")["v"]


@pytest.mark.parametrize("name", TITLES)
def test_scale_up_rate_is_made_of_links(name: str) -> None:
    one = chip(name)
    link, count = fact(name, "scaleup", "link_oneway"), fact(name, "scaleup", "links")
    egress = fact(name, "scaleup", "chip_oneway")
    if one.fabric.kind in ("switch", "mesh"):
        assert one[W_nvlink] == Rational(str(egress["v"]))
        if link and count:
            assert one[W_nvlink] == count["v"] * Rational(str(link["v"]))
    elif one.fabric.kind == "host":
        assert one["W_pcie"] == Rational(str(egress["v"]))
    elif link and name != "trainium2":
        assert one[W_ici] == 2 * Rational(str(link["v"]))
        assert count["v"] == 2 * one.torus.axes
    if one.torus is not None and name != "trainium2":
        # The data sheet's number, both ways over all axes, is twice W_ici on each of them.
        both = Rational(str(fact(name, "scaleup", "chip_bidir")["v"]))
        nominal = chip(name, "nominal")[W_ici] if "nominal" in one.editions else one[W_ici]
        assert both in (2 * one.torus.axes * nominal, 2 * one.torus.axes * one[W_ici])


def test_a_third_axis_at_half_the_rate() -> None:
    # Trainium2: 4 links of 1.28e11 inside an instance, 2 of 6.4e10 between the four of a server.
    trn2 = chip("trn2")
    egress = Rational(str(fact("trainium2", "scaleup", "chip_oneway")["v"]))
    assert 2 * trn2[W_ici] + trn2[W_ici] / 2 == egress
    placed = trn2.placement(["X", "Y"], {"X": 4, "Y": 16})
    assert [one.rate for one in placed.axes] == [trn2[W_ici] / 2, 2 * trn2[W_ici]]
    # Y lies over both axes of an instance, which the formula has as a number.
    assert placed.network().time("AllGather", W_ici, ["Y"]) == Rational(1, 2)


@pytest.mark.parametrize("name", BOOK)
def test_editions_keep_link_and_axis_together(name: str) -> None:
    for edition in ("book", "book-2025", "nominal"):
        other = chip(name, edition)
        if name != "h100":
            assert other[W_ici] == 2 * other.figure("link_oneway").value


@pytest.mark.parametrize("edition", ["book", "book-2025"])
@pytest.mark.parametrize("name", BOOK)
def test_editions_of_the_book(name: str, edition: str) -> None:
    printed = TRUTH["book"][edition][name]
    entry = chip(name, edition=edition)
    for figure, value in printed.items():
        assert entry.figure(figure).value == Rational(str(value)), figure


def test_edition_gives_the_textbook_ridge() -> None:
    assert (C / W_hbm).subs(chip("tpu-v5e", edition="book-2025")) == Rational(19700, 81)
    again = chip(chip("tpu-v5e", "book-2025"), "book")
    assert again[W_hbm] == 82 * 10**10
    assert again.figure("W_hbm").alternatives["default"].value == 819 * 10**9
    assert "book" not in again.figure("W_hbm").alternatives


def test_books_worked_numbers() -> None:
    # 1.text.a, 2.1, 2.2.v5p, 12.q1.3 and 12.text.d of the book, exact values.
    assert float(10**12 / chip("h100")[C]) == pytest.approx(0.0010111223458038423, rel=1e-14)
    assert float(10**12 / chip("v6e", "book-text")[C]) == pytest.approx(1.098901098901099e-3)
    load = 2 * 200 * 10**9 / (32 * W_hbm)
    assert float(load.subs(chip("v4p", "book-text"))) == pytest.approx(0.01016260162601626)
    assert float(load.subs(chip("v4p"))) == pytest.approx(0.0104166666666)
    v5p = chip("v5p", "book")
    assert v5p.pod / v5p.chips_per_host == 2240
    assert v5p.pod * v5p.figure("cores").value == 17920
    assert v5p.pod * v5p[C] == 411264 * 10**13
    assert v5p.pod * v5p.hbm_bytes == 86016 * 10**10
    h100 = chip("h100", "book")
    assert float(h100[C] / h100[W_hbm]) == pytest.approx(295.5223880597015)
    assert float(h100[C_fp8] / h100[W_hbm]) == pytest.approx(591.044776119403)
    assert h100[C] / h100[W_nvlink] == 2200
    assert v5p[C] / v5p[W_ici] == 2550
    assert float(chip("v4p")[C] / chip("v4p")[W_ici]) == pytest.approx(3055.6, abs=0.1)


@pytest.mark.parametrize("entry", tuple(chips()), ids=lambda entry: entry.name)
def test_every_chip_is_a_mapping_of_exact_rates(entry: Chip) -> None:
    assert len(entry) == len(list(entry)) == len(dict(entry))
    for key, value in entry.items():
        check_known(key)
        assert isinstance(value, Rational)
        assert unit(key.name) in ("FLOP/s", "byte/s", "s")
    assert hash(entry) == hash(copy.deepcopy(entry))
    assert pickle.loads(pickle.dumps(entry)) == entry
    assert json.loads(json.dumps(entry.to_dict()))["name"] == entry.name
    assert "<table>" in entry._repr_html_()


def test_missing_rate_raises_only_when_asked() -> None:
    v5e = chip("v5e")
    assert C_fp8 not in v5e
    assert v5e.get(C_fp8) is None
    assert W_nvlink not in v5e
    assert (C_fp8 / W_hbm).subs(v5e).free_symbols == {C_fp8}
    wanted = r"^tpu-v5e has no C_fp8 .*symscale/hardware/data/tpu-v5e\.json, or .*override\(C_fp8="
    for kind in (HardwareError, KeyError):
        with pytest.raises(kind, match=wanted):
            v5e[C_fp8]
    with pytest.raises(HardwareError, match="tpu-v4p has no price"):
        _ = chip("v4p").price
    with pytest.raises(MissingFigure, match="D is no rate of a chip; rates are C,"):
        v5e[D]
    with pytest.raises(MissingFigure, match="not symscale's symbol W_hbm"):
        v5e[Symbol("W_hbm")]


def test_rates_by_dtype() -> None:
    h100 = chip("h100")
    assert [h100.rate(d) for d in ("bf16", "f16", "fp8", "int8")] == [
        989 * 10**12, 989 * 10**12, 1979 * 10**12, 1979 * 10**12,
    ]  # fmt: skip
    with pytest.raises(HardwareError, match="h100 has no C_fp4"):
        h100.rate("fp4")
    with pytest.raises(HardwareError, match="unknown dtype 'f64'; known are bf16"):
        h100.rate("f64")


def test_override_leaves_the_original_alone() -> None:
    v5e = chip("v5e")
    faster = v5e.override(W_hbm=8e11, C_fp8=Fraction(3, 2), pod=Integer(64))
    assert (faster[W_hbm], faster[C_fp8], faster.pod) == (8 * 10**11, Rational(3, 2), 64)
    assert v5e[W_hbm] == 819 * 10**9
    assert faster.figure("W_hbm").source.text == "given by the caller"
    assert faster != v5e
    for numbers, text in (
        ({"W_hbmm": 1}, "'W_hbmm' is no figure of a chip; did you mean W_hbm"),
        ({"W_hbm": -1}, "W_hbm = -1: a size or rate must be above zero"),
        ({"W_hbm": "8e11"}, "W_hbm = '8e11': a number is wanted"),
        ({"W_hbm": float("nan")}, "W_hbm = nan"),
        ({"pod": 2.5}, "pod = 2.5: chips in the largest pod must be a whole number"),
    ):
        with pytest.raises(HardwareError, match=text):
            v5e.override(**numbers)


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("v5p", "tpu-v5p"), ("TPU v5p", "tpu-v5p"), ("tpu_v5p", "tpu-v5p"), ("TPU-V5P", "tpu-v5p"),
        ("h100-sxm", "h100"), ("H100 SXM", "h100"), ("H100", "h100"), ("trillium", "tpu-v6e"),
    ],
)  # fmt: skip
def test_spellings(spelling: str, name: str) -> None:
    assert chip(spelling).name == name


def test_unknown_names() -> None:
    with pytest.raises(HardwareError, match=r"^unknown chip 'tpu-v5'; did you mean .*tpu-v5e"):
        chip("tpu-v5")
    with pytest.raises(HardwareError, match=r"^unknown chip 'qqq'; known are a100, a100-40gb"):
        chip("qqq")
    with pytest.raises(HardwareError, match="unknown edition 'bok' of tpu-v5e; did you mean book"):
        chip("v5e", edition="bok")
    with pytest.raises(HardwareError, match=r"no/such\.json: cannot be read: No such file"):
        chip("no/such.json")


def test_tables_fit_a_terminal() -> None:
    table = chips()
    texts = [repr(table), *(repr(entry) for entry in table)]
    address = "https://"
    for text in texts:
        assert all(len(line) <= 80 for line in text.splitlines() if address not in line)
    assert {entry["name"] for entry in table.to_dict()["chips"]} >= set(TITLES)
    assert table._repr_html_().count("<tr>") == len(table) + 1


MINE: dict[str, Any] = {
    "name": "mine",
    "title": "My chip",
    "vendor": "me",
    "figures": {
        "C": {"value": 1.5e14, "unit": "FLOP/s", "source": "sheet"},
        "W_dcn": {"value": 25e9, "unit": "byte/s", "source": "sheet"},
        "pod": {"value": 64, "unit": "chip", "source": "sheet"},
    },
    "network": {"kind": "torus", "shape": [8, 8], "wrap": {"rule": "axis", "size": 8}},
    "sources": {"sheet": {"text": "data sheet", "as_of": "2026-01-01"}},
}


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.json"
    path.write_text(text)
    return path


def test_a_chip_of_ones_own(tmp_path: Path) -> None:
    mine = chip(written(tmp_path, json.dumps(MINE)))
    assert chip(str(tmp_path / "mine.json")) == mine
    assert (mine[C], mine.pod, mine.torus.shape) == (15 * 10**13, 64, (8, 8))
    with pytest.raises(HardwareError, match=r"mine has no W_hbm .* in .*mine\.json"):
        mine[W_hbm]


def changed(*path: str, to: Any = None) -> str:
    data = copy.deepcopy(MINE)
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "the file must hold an object, not a list"),
        ('{"a": 1, "a": 2}', "key 'a' occurs twice"),
        ('{"a": NaN}', "NaN is no number"),
        ('{"a": 1.0e999999999}', "1.0e999999999 is out of range"),
        (changed("name"), "no 'name'; text is wanted there"),
        (changed("figures"), "no 'figures'; an object is wanted there"),
        (changed("figures", "C", to=3), "'figures.C' must be an object, not 3"),
        (changed("figures", "C", "unit"), "no 'figures.C.unit'"),
        (changed("figures", "C", "value"), "no 'figures.C.value'; a number is wanted there"),
        (changed("figures", "C", "value", to="1e14"), "C = '1e14': a number is wanted"),
        (changed("figures", "C", "value", to=-1), "C = -1: a size or rate must be above zero"),
        (changed("figures", "C", "source", to="x"), "'x', which is not among 'sources'"),
        (
            changed("figures", "W_dcn", "unit", to="bit/s"),
            "W_dcn is given in 'bit/s'; byte/s is wanted (a network rate in bits: divide by 8)",
        ),
        (changed("figures", "C", "unit", to="TFLOP/s"), "'TFLOP/s'; FLOP/s is wanted"),
        (
            changed("figures", "W_hbmm", to={}),
            "'W_hbmm' is no figure of a chip; did you mean W_hbm",
        ),
        (
            changed("network", "kind", to="mosh"),
            "'network.kind' is 'mosh'; torus or switch or mesh or host",
        ),
        (changed("network", "shape", to=[]), "must be above zero"),
        (changed("network", "shape", to=[0, 8]), "must be above zero"),
        (changed("network", "shape", to=[8.5]), "'network.shape' must be a whole number"),
        (changed("network", "shape", to=[8, 9]), "pod = 64, but 'network.shape' 8x9 has 72 chips"),
        (changed("network", "wrap", "rule", to="all"), "'all'; axis or cube is wanted"),
        (changed("network", to={"kind": "switch", "rate": "W_x"}), "'network.rate' is 'W_x'"),
        (changed("traps", to=[1]), "'traps[0]' must be text"),
    ],
)
def test_errors_of_a_file(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(HardwareError) as caught:
        chip(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert message in said
    assert "\n" not in said
