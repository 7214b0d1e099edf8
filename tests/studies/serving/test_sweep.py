"""Sweeps and frontiers: each point on its own, every pair of points, and what is refused."""

from __future__ import annotations

import io
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b, n
from symscale.hardware.chips import chip
from symscale.studies.serving.bar import Bar
from symscale.studies.serving.options import Option, options
from symscale.studies.serving.pareto import pareto, undominated
from symscale.studies.serving.step import ServerStep, server_step
from symscale.studies.serving.sweep import Sweep, sweep_options

V5E = chip("tpu-v5e")


def made() -> Sweep:
    steps = {kind: server_step("llama-3-8b", kind, kind) for kind in ("bf16", "int8")}
    return sweep_options(
        options(steps, (1, 2, 4, 8), V5E.hbm_bytes, V5E), range(1, 65), (512, 4096)
    )


def test_every_point_is_its_expression() -> None:
    found = made()
    for place in range(0, len(found), 37):
        point = found.point(place)
        known = {**point.option.values, b: point.batch, KEYS: point.context}
        assert point.step_time == pytest.approx(float(evaluate(point.option.seconds, known)))
        held = float(evaluate(point.option.bytes, known))
        assert point.fits == (held <= point.option.room)
        assert point.per_chip == pytest.approx(point.batch / point.step_time / point.option.chips)
    assert len(list(found.points())) == len(found) == 8 * 64 * 2


def test_fits_is_known_by_hand() -> None:
    """LLaMA 3 8B in bf16 is 16.06e9 bytes: not on one v5e of 16 GiB with 64 caches of 4096."""
    found = made()
    held = {point.option.name: point for point in found.points() if point.context == 4096}
    assert not held["bf16, 1 chip"].fits
    assert held["int8, 8 chips"].fits


@given(st.integers(1, 8), st.integers(1, 60), st.integers(1, 9000))
def test_throughput_rises_with_batch_and_latency_does_not_fall(
    chips: int, batch: int, context: int
) -> None:
    step = server_step("llama-3-8b", "int8", "int8")
    one = options({"int8": step}, (chips,), V5E.hbm_bytes, V5E)
    found = sweep_options(one, (batch, batch + 1), (context,))
    assert found.step_time[0, 0, 0] <= found.step_time[0, 1, 0]
    assert found.tokens_per_second[0, 0, 0] < found.tokens_per_second[0, 1, 0]


def test_best_is_the_best_of_all() -> None:
    found = made()
    for within, context in product((1e-3, 4e-3, 1.0), (None, 512, 4096)):
        allowed = [
            point
            for point in found.points()
            if point.fits and point.step_time <= within and context in (None, point.context)
        ]
        best = found.best(within, context)
        if not allowed:
            assert best is None
        else:
            assert best is not None
            assert best.per_chip == max(point.per_chip for point in allowed)
            assert best in allowed


# --- frontiers ---------------------------------------------------------------------------------

numbers = st.integers(1, 12).map(float)
pairs = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=60)


def beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """One takes no longer and gives no less, and is not the same."""
    return one[0] <= other[0] and one[1] >= other[1] and one != other


@given(pairs)
def test_frontier_is_that_of_every_pair(points: list[tuple[float, float]]) -> None:
    kept = [points[i] for i in undominated(*zip(*points, strict=True))]
    brute = {p for p in points if not any(beats(q, p) for q in points)}
    assert set(kept) == brute
    assert len(kept) == len(brute)
    assert kept == sorted(kept)


def test_frontier_of_a_sweep() -> None:
    found = made()
    front = pareto(found, context=4096)
    inside = [p for p in found.points() if p.fits and p.context == 4096]
    measured = [(p.step_time, p.per_chip) for p in inside]
    brute = {p for p in measured if not any(beats(q, p) for q in measured)}
    assert {(p.step_time, p.per_chip) for p in front.points} == brute
    assert all(p.fits and p.context == 4096 for p in front.points)
    middle = front.points[len(front) // 2]
    assert front.within(middle.step_time) == middle
    assert front.within(0.0) is None
    assert front.options == tuple(dict.fromkeys(p.option.name for p in front.points))


def test_exchanges_let_several_options_onto_the_frontier() -> None:
    """Many chips answer soon, few give most for each chip, once sharing has a price."""
    plain = server_step("llama-3-8b", "int8", "int8")
    slow = ServerStep(
        plain.math,
        plain.weights,
        plain.cache,
        2e-4 * (n - 1),
        plain.weight_bytes,
        plain.cache_bytes,
    )
    found = sweep_options(
        options({"int8": slow}, (1, 2, 4, 8), V5E.hbm_bytes, V5E), range(1, 33), (512,)
    )
    front = pareto(found)
    assert len(front.options) > 1
    chips = [point.option.chips for point in front.points]
    assert chips[0] > chips[-1]
    assert len(front.stretches()) >= len(front.options)


def test_progress_counts_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    one = [Option(str(i), 1, b + KEYS, b * KEYS, 1e9) for i in range(3)]
    sweep_options(
        one, range(1, 5), (10, 20), progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(8, 24), (16, 24), (24, 24)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shows"), [(Terminal(), True), (io.StringIO(), False)])
def test_bar_on_a_terminal_alone(stream: io.StringIO, shows: bool) -> None:
    with Bar("sweep", stream, patience=0) as bar:
        bar(250, 1000)
    written = stream.getvalue()
    assert ("25% of 1,000" in written) == shows
    assert written.endswith("\r") == shows


# --- what is refused ---------------------------------------------------------------------------

PLAIN = (Option("a", 1, b + KEYS, b * KEYS, 100.0),)


@pytest.mark.parametrize(
    ("batch", "context", "said"),
    [
        ([0], [1], "batch = 0: a whole number above zero"),
        ([1], [1.5], "context = 1.5: a whole number"),
        ([], [1], "batch: a list of whole numbers"),
        ([float("nan")], [1], "batch = nan"),
    ],
)
def test_wrong_axes(batch: Any, context: Any, said: str) -> None:
    with pytest.raises(SymbolError, match=said):
        sweep_options(PLAIN, batch, context)


def test_wrong_questions() -> None:
    found = sweep_options(PLAIN, (1, 2), (10, 90))
    with pytest.raises(SymbolError, match="say which"):
        pareto(found)
    with pytest.raises(SymbolError, match="contexts are 10, 90"):
        pareto(found, context=11)
    with pytest.raises(SymbolError, match="no option fits a context of 90"):
        pareto(sweep_options(PLAIN, (2, 3), (90,)))
    with pytest.raises(SymbolError, match="no option"):
        sweep_options((), (1,), (1,))
    with pytest.raises(SymbolError, match=r"still has n \(number of chips\)"):
        Option("a", 1, b / n, b, 1.0)


def test_results_show_themselves() -> None:
    found = sweep_options((*PLAIN, Option("none", 1, b + KEYS, 1000 * b, 100.0)), (1, 2), (10,))
    assert "none fits" in repr(found)
    assert found.to_dict()["points"] == 4
    front = pareto(found)
    assert "no other beats" in repr(front)
    assert front.to_dict()["points"][0]["option"] == "a"
    assert "<table>" in front._repr_html_()
