"""Pipeline schedules against what their papers print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, Rational, cancel

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import L, m, p, t_B, t_F, t_FB, t_W, v
from symscale.parallel.schedules.lookup import schedule

TRUTH = json.loads(
    (Path(__file__).parents[1] / "truth" / "papers_pipeline.json").read_text("utf-8")
)

#: The papers' formulas, from sizes and durations; F, B, W, whole backward, pair.
FORMULAS: dict[str, Callable[..., Any]] = {
    "(p-1)/(m+p-1)": lambda p, m, v, f, b, w, fb: (p - 1) / (m + p - 1),
    "(p-1)/m": lambda p, m, v, f, b, w, fb: (p - 1) / m,
    "(p-1)/(v*m)": lambda p, m, v, f, b, w, fb: (p - 1) / (v * m),
    "(p-1)*(F+B+W)": lambda p, m, v, f, b, w, fb: (p - 1) * (f + b + w),
    "(p-1)*(F+B-W)": lambda p, m, v, f, b, w, fb: (p - 1) * (f + b - w),
    "(p-1)*(F+B-2*W)": lambda p, m, v, f, b, w, fb: (p - 1) * (f + b - 2 * w),
    "(PP-1)*(F+BW)": lambda p, m, v, f, b, w, fb: (p - 1) * (f + (b + w)),
    "(PP-1)*(F+BW-2*W)": lambda p, m, v, f, b, w, fb: (p - 1) * (f + (b + w) - 2 * w),
    "(PP/2-1)*(FB+BW-3*W)": lambda p, m, v, f, b, w, fb: (p / 2 - 1) * (fb + (b + w) - 3 * w),
    "p": lambda p: p,
    "2*p-1": lambda p: 2 * p - 1,
    "PP+1": lambda p: p + 1,
}  # fmt: skip

#: Durations in which each formula's regime holds: as they come, or forward like inputs' gradient.
AS_THEY_COME = [(3, 4, 2, 9), (5, 5, 5, 15), (4, 7, 1, 12)]
ALIKE = [(3, 3, 2, 8), (5, 5, 5, 15), (4, 4, 1, 9)]


def sized(row: dict[str, Any], devices: int, expr: Expr) -> tuple[Rational, Rational]:
    """Stages as the paper counts them, and how much of a device's layers one stage is."""
    folded = row["schedule"] == "dualpipev"
    return Rational(2 * devices if folded else devices), Rational(1, 2 if folded else 1)


@pytest.mark.parametrize("row", TRUTH["bubbles"], ids=lambda r: f"{r['source']}/{r['schedule']}")
def test_bubbles(row: dict[str, Any]) -> None:
    made = schedule(row["schedule"], pair=t_FB)
    found = {"total": made.bubble_of_total, "ideal": made.bubble_of_ideal, "time": made.bubble}[
        row["of"]
    ]
    for f, b, w, fb in ALIKE if row["source"] == "dualpipe" else AS_THEY_COME:
        for devices, batches in ((2, 8), (4, 16), (8, 64), (16, 32)):
            stages, part = sized(row, devices, found)
            # A DualPipeV stage is half a device's layers: durations of a device are twice as long.
            values = dict(
                zip((t_F, t_B, t_W, t_FB), (x / part for x in (f, b, w, fb)), strict=True)
            )
            got = found.subs({p: devices, m: batches, v: 3, **values}).doit()
            wanted = FORMULAS[row["formula"]](stages, Rational(batches), 3, f, b, w, fb)
            assert got == wanted, (devices, batches, f, b, w)


def test_dualpipe_is_no_longer_than_its_table_says() -> None:
    """Forwards shorter than the gradient of the inputs: below the table, by less than a chunk."""
    made = schedule("dualpipe", pair=t_FB)
    for f, b, w, fb in AS_THEY_COME:
        for devices in (4, 8, 16):
            values = {p: devices, m: 64, t_F: f, t_B: b, t_W: w, t_FB: fb}
            printed = FORMULAS["(PP/2-1)*(FB+BW-3*W)"](Rational(devices), 64, 1, f, b, w, fb)
            least = printed - max(f, (devices // 2 - 1) * (b - f))
            assert least <= made.bubble.subs(values).doit() <= printed


@pytest.mark.parametrize("row", TRUTH["in_flight"], ids=lambda r: f"{r['source']}/{r['schedule']}")
def test_in_flight(row: dict[str, Any]) -> None:
    for devices in (2, 4, 8, 16):
        made = schedule(row["schedule"], p=devices, m=64)
        stages, part = sized(row, devices, made.in_flight())
        assert made.in_flight() / part == FORMULAS[row["formula"]](stages)


def test_layers_of_the_first_stage() -> None:
    """Whatever the number of microbatches, once there are enough to fill the pipeline."""
    plain, cut = schedule("1f1b").peak_layers, schedule("interleaved").peak_layers
    for devices, chunks in ((2, 2), (8, 3), (35, 3), (64, 2)):
        enough = {p: devices, v: chunks, m: 4 * devices}
        assert plain.subs(enough).doit() == L
        wanted = L * (1 + Rational(devices - 1, devices * chunks))
        assert cancel(cut.subs(enough).doit() - wanted) == 0


@pytest.mark.parametrize("row", TRUTH["first_stage_gib"]["rows"], ids=lambda r: r["model"])
def test_memory_of_the_first_stage(row: dict[str, Any]) -> None:
    name = "interleaved" if row["v"] > 1 else "1f1b"
    chunks = row["v"] if row["v"] > 1 else None
    made = schedule(name, row["p"], row["m"], chunks, layers=row["L"])
    layer = Rational(34 * 2048 * row["b"] * row["h"], row["t"])
    assert float(made.peak_layers * layer / 2**30) == pytest.approx(row["value"], rel=row["rel"])


@pytest.mark.parametrize(
    "row",
    TRUTH["zero_bubble_rates"]["rows"],
    ids=lambda r: f"{r['model']}/{r['m']}/{r['schedule']}",
)
def test_zero_bubble_rates(row: dict[str, Any]) -> None:
    rules, s, h = TRUTH["zero_bubble_rates"], 1024, row["h"]
    made = schedule(row["schedule"], row["p"], row["m"],
                    forward=24 * h + 4 * s, backward=24 * h + 8 * s, weights=24 * h)  # fmt: skip
    share = float(made.bubble_of_total) / row["value"]
    assert rules["low"][row["schedule"]] <= share <= rules["high"]


def test_the_regimes_are_where_the_formulas_hold() -> None:
    """Beyond them another path is longer, and the paper's formula falls short."""
    h1 = schedule("zb-h1", p=4, m=8, forward=1, backward=1, weights=5)
    assert h1.bubble == 3
    h2 = schedule("zb-h2", p=4, m=8, forward=1, backward=1, weights=5)
    assert h2.bubble == 0
    assert isinstance(schedule("zb-h2").bubble, Maximum)
