"""Measured products and collectives as bounds: a computed time is a floor, and not far below."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, Integer, Rational

from symscale import chip, einsum
from symscale.algebra.symbols import C, C_fp8, W_hbm, W_nvlink, X
from symscale.hardware.chip import Chip
from symscale.hardware.messages import bus_factor, per_rank, volume
from symscale.hardware.networks import Switch
from symscale.hardware.rates import bandwidth
from symscale.hardware.roofline import roofline

ROWS = json.loads((Path(__file__).parents[1] / "truth" / "papers_hardware.json").read_text("utf-8"))
GIGA, TERA = 10**9, 10**12
SHAPE = ("chip", "m", "n", "k", "source")


def rows(kind: str) -> Any:
    return pytest.mark.parametrize("row", ROWS[kind], ids=lambda row: row["id"])


def product_of(row: dict[str, Any], dtype: str = "bf16") -> Any:
    lines = f"A: {dtype}[a, c] * W: {dtype}[c, d] -> Out[a, d]"
    return einsum(lines, sizes={"a": row["m"], "c": row["k"], "d": row["n"]})


def within(row: dict[str, Any], computed: Expr | float, measured: float) -> None:
    low, high = row["ratio"]
    assert low <= float(computed) / measured <= high


@rows("products")
def test_a_product_takes_no_less_than_its_roofline(row: dict[str, Any]) -> None:
    mm, one = product_of(row), chip(row["chip"])
    if "ms" in row:
        within(row, mm.time.lower.subs(one), row["ms"] / 1000)
        intensity = mm.intensity
        rate = roofline(one).attainable(hbm=intensity)
        assert float(mm.flops / rate) == pytest.approx(float(mm.time.lower.subs(one)))
        return
    assert row["tflops"] * TERA <= one[C]
    timed = [r for r in ROWS["products"] if "ms" in r and all(r[k] == row[k] for k in SHAPE)]
    for other in timed:
        printed = float(mm.flops) / (other["ms"] / 1000)
        assert printed == pytest.approx(row["tflops"] * TERA, rel=row["rel"])


@rows("fp8_products")
def test_share_of_the_fp8_rate(row: dict[str, Any]) -> None:
    mm, one = product_of(row, "fp8"), chip(row["chip"])
    share = mm.flops / one[C_fp8] / Rational(str(row["us"])) * 10**6
    assert float(share) == pytest.approx(row["mfu"], rel=row["rel"])
    assert share <= 1


@rows("decode_attention")
def test_decoding_with_latent_attention(row: dict[str, Any]) -> None:
    # 128 heads over keys of 576 and values of 512, cached once in 576 numbers of two bytes.
    one = chip(row["chip"]).override(W_hbm=3.35e12)
    tokens = Integer(row["batch"] * row["context"])
    flops, moved = 2 * tokens * 128 * (576 + 512), tokens * 576 * 2
    if "ratio" in row:
        seconds = flops / roofline(one).attainable(hbm=flops / moved)
        within(row, seconds, row["us"] / 10**6)
    else:
        share = flops / one[C] / Rational(str(row["us"])) * 10**6
        assert float(share) == pytest.approx(row["mfu"], rel=row["rel"])


@rows("fastest_products")
def test_fastest_product_on_file(row: dict[str, Any]) -> None:
    assert 100 * row["tflops"] / row["peak_tflops"] == pytest.approx(row["percent"], abs=row["abs"])
    try:
        one: Chip = chip(row["chip"])
    except Exception:
        assert row["chip"] in ("gh200", "b300")
        return
    rate = one.rate(row["dtype"])
    assert float(rate) == pytest.approx(row["peak_tflops"] * TERA, rel=0.006)
    assert row["tflops"] * TERA <= rate
    if row["dtype"] == "bf16":
        measured = one.figure("C").alternatives["measured"]
        assert measured.value == Rational(str(row["tflops"])) * TERA


@rows("peak")
def test_peak(row: dict[str, Any]) -> None:
    assert float(chip(row["chip"])[C]) == pytest.approx(row["tflops"] * TERA, rel=row["rel"])


@rows("hbm")
def test_hbm(row: dict[str, Any]) -> None:
    share = Rational(str(row["GBps"])) * GIGA / chip(row["chip"])[W_hbm]
    assert Rational(4, 5) < share < 1


def floor_of(row: dict[str, Any], reduction: str) -> float:
    """Seconds at the rate of the links, the bytes being those of a ring or of the switch."""
    net = Switch("ring", reduction=reduction)  # type: ignore[arg-type]
    moved = volume("AllReduce", per_rank(Integer(row["bytes"])), row["ranks"])
    numbers = {X: row["ranks"], W_nvlink: chip(row["chip"])[W_nvlink]}
    return float(net.time("AllReduce", moved, ["X"]).subs(numbers))


@rows("collectives")
def test_an_all_reduce_takes_no_less_than_its_links(row: dict[str, Any]) -> None:
    if "ratio" in row:
        within(row, floor_of(row, "devices"), row["ms"] / 1000)
        return
    factor = bus_factor("AllReduce", row["ranks"])
    printed = Rational(str(row["GBps"])) * GIGA
    algbw = printed if row["what"] == "algbw" else printed / factor
    if "us" in row:
        measured = float(row["us"]) / 10**6
        assert float(bandwidth(row["bytes"], measured)) == pytest.approx(
            float(algbw), rel=row["rel"]
        )
    seconds = float(row["bytes"] / algbw)
    # Hopper's switches add (NVLS from 2 MiB on), so its floor is (n+1)/n over the links.
    reduction = "nvls" if row["chip"] == "h200" else "devices"
    assert floor_of(row, reduction) <= seconds


def test_bus_bandwidth_passes_the_links_only_where_the_switch_adds() -> None:
    best = dict.fromkeys(("a100", "h200"), 0.0)
    for row in ROWS["collectives"]:
        if row.get("what") == "busbw":
            best[row["chip"]] = max(best[row["chip"]], row["GBps"])
    assert best["a100"] * GIGA < chip("a100")[W_nvlink]
    assert best["h200"] * GIGA > chip("h200")[W_nvlink]
