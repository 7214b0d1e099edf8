"""Pipeline schedules: closed forms against an event-by-event simulation."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from sympy import Expr, Integer, Rational, cancel

from symscale.algebra.errors import StrategyError, SymbolError
from symscale.algebra.symbols import B, D, L, b, m, p, t_B, t_F, t_FB, t_W, v
from symscale.arrays.array import array
from symscale.parallel.schedules.lookup import ALIASES, NAMES, RECIPES, schedule, schedules
from symscale.parallel.schedules.schedule import Schedule
from tests.parallel.schedule_simulator import Machine, Outcome, by_kind, complete

Q = Fraction

#: Forward, gradient of inputs, gradient of weights: the whole backward twice the forward, and not.
PLAIN = [(1, 1, 1), (2, 3, 1), (3, 1, 1), (2, 2, 5), (5, 3, 4), (1, 4, 2)]


def valid(name: str, devices: int, batches: int, chunks: int) -> bool:
    """Whether the sizes can be, written down again."""
    return {
        "interleaved": chunks >= 2 and batches % devices == 0,
        "zb-h1": batches >= devices,
        "zb-h2": batches >= 2 * devices - 1,
        "dualpipe": devices % 2 == 0 and batches % 2 == 0 and batches >= 2 * devices,
        "dualpipev": batches >= 2 * devices,
    }.get(name, True) and (chunks == 1 or name == "interleaved")


def sizes(name: str) -> Iterator[tuple[int, int, int]]:
    for devices in range(2, 9):
        for batches in range(1, 25):
            for chunks in range(1, 5):
                if valid(name, devices, batches, chunks):
                    yield devices, batches, chunks


@cache
def symbolic(name: str) -> Schedule:
    return schedule(name, pair=t_FB)


def share(name: str, chunks: int) -> Fraction:
    """What part of a device's layers one chunk is."""
    return {"interleaved": Q(1, chunks), "dualpipev": Q(1, 2)}.get(name, Q(1))


def times(ratio: tuple[int, ...], pair: Fraction | None = None) -> dict[str, Fraction]:
    f, x, w = (Q(part, 3) for part in ratio)
    return {"F": f, "B": x, "W": w, "FB": f + x + w if pair is None else pair}


def number(expr: Expr, size: tuple[int, int, int], given: dict[str, Fraction]) -> Fraction:
    values = dict(zip((p, m, v), map(Integer, size), strict=True))
    for symbol, key in ((t_F, "F"), (t_B, "B"), (t_W, "W"), (t_FB, "FB")):
        values[symbol] = Rational(given[key].numerator, given[key].denominator)
    found = expr.xreplace(values).doit()
    return Q(int(found.p), int(found.q))


def simulated(
    name: str, size: tuple[int, int, int], given: dict[str, Fraction], **options: Any
) -> Outcome:
    part = share(name, size[2])
    duration = by_kind({k: t * part for k, t in given.items()}, options.pop("scale", ()))
    chunked = (*size[:2], size[2] if name == "interleaved" else None)
    return Machine(symbolic(name).order(*chunked), duration, **options).run()


def ratios(name: str, size: tuple[int, int, int]) -> list[tuple[int, ...]]:
    """Two durations for each size, all of them over the grid."""
    first, second = sum(size), 3 * size[1] + size[0]
    return [PLAIN[first % len(PLAIN)], PLAIN[second % len(PLAIN)]]


@pytest.mark.parametrize("name", NAMES)
def test_times_are_those_of_the_simulation(name: str) -> None:
    made = symbolic(name)
    count = 0
    for size in sizes(name):
        for ratio in ratios(name, size):
            given = times(ratio)
            seen = simulated(name, size, given)
            assert number(made.makespan, size, given) == seen.makespan, (size, ratio)
            assert number(made.span, size, given) == seen.span, (size, ratio)
            assert number(made.ideal, size, given) == seen.busy[0], (size, ratio)
            step = seen.makespan if name != "zb-h2" else seen.span
            assert number(made.bubble, size, given) == step - seen.busy[0], (size, ratio)
            count += 1
    assert count >= 20


@pytest.mark.parametrize("name", NAMES)
def test_activations_and_messages_are_those_of_the_simulation(name: str) -> None:
    made = symbolic(name)
    given = times((1, 1, 1))
    for size in sizes(name):
        seen = simulated(name, size, given)
        part = share(name, size[2])
        for stage, peak in enumerate(seen.peaks):
            assert number(made.in_flight(stage), size, given) == peak * part, (size, stage)
        ends = {seen.sent[0], seen.sent[-1]}
        assert ends == {number(made.messages["end"], size, given)}, size
        for inner in seen.sent[1:-1]:
            assert inner == number(made.messages["inner"], size, given), size


@pytest.mark.parametrize("name", NAMES)
def test_every_microbatch_passes_every_stage_once(name: str) -> None:
    for size in sizes(name):
        chunked = size if name == "interleaved" else size[:2]
        stages = size[0] * {"interleaved": size[2], "dualpipev": 2}.get(name, 1)
        complete(symbolic(name).order(*chunked), stages, size[1])


@pytest.mark.parametrize("name", ["dualpipe", "dualpipev"])
def test_pairs_shorter_than_their_parts(name: str) -> None:
    """The bubble is the gap of the devices in the middle, which overlap the most."""
    made, random_ = symbolic(name), random.Random(7)
    for size in sizes(name):
        f, x, w = (Q(random_.choice((1, 2, 5, 9, 20)) + random_.randint(0, 3)) for _ in range(3))
        pair = max(f, x + w) + Q(random_.randint(0, 10), 10) * min(f, x + w)
        given = {"F": f, "B": x, "W": w, "FB": pair}
        seen = simulated(name, size, given)
        assert number(made.makespan, size, given) == seen.makespan, (size, given)
        middle = size[0] - 1 if name == "dualpipev" else size[0] // 2 - 1
        assert number(made.ideal, size, given) == seen.busy[middle], (size, given)


@pytest.mark.parametrize("name", ["gpipe", "1f1b", "interleaved"])
def test_messages_in_series(name: str) -> None:
    """A small latency lengthens the step by it times the messages on the longest path."""
    hops = symbolic(name).hops
    assert hops is not None
    small = Q(1, 1000)
    for size in sizes(name):
        given = times(PLAIN[sum(size) % len(PLAIN)])
        late = simulated(name, size, given, latency=small).makespan
        now = simulated(name, size, given).makespan
        assert (late - now) / small == number(hops, size, given), (size, given)


@pytest.mark.parametrize("name", NAMES)
def test_timeline_is_that_of_the_simulation(name: str) -> None:
    size = {"interleaved": (4, 8, 3), "dualpipe": (6, 14, 1)}.get(name, (4, 9, 1))
    given = times((2, 3, 1))
    seen = simulated(name, size, given, latency=Q(1, 7))
    blocks = symbolic(name).timeline(
        *size, forward=given["F"], backward=given["B"], weights=given["W"], latency=Q(1, 7)
    )
    found = sorted((x.stage, x.kind, x.microbatch, x.start, x.end) for x in blocks)
    wanted = sorted((d, k, i, *when) for (d, k, i, _), when in seen.times.items())
    assert found == wanted


# --- stages of unequal work --------------------------------------------------------------------


def layers_of(total: int, stages: int, most_last: bool) -> list[int]:
    few, more = divmod(total, stages)
    counts = [few + (index < more) for index in range(stages)]
    return counts[::-1] if most_last else counts


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
def test_a_heavy_last_stage(name: str) -> None:
    for devices, batches, layers, first, last in (
        (4, 9, 32, 0, 3), (4, 9, 30, 1, 2), (8, 24, 61, 0, 4), (3, 2, 10, 1, 1), (2, 7, 5, 0, 2),
    ):  # fmt: skip
        work = [Q(count) for count in layers_of(layers, devices, most_last=True)]
        work[0] += first
        work[-1] += last
        scale = tuple(one * devices / layers for one in work)
        made = schedule(name, p=devices, m=batches, layers=layers, first=first, last=last)
        given = times((2, 3, 1))
        seen = simulated(name, (devices, batches, 1), given, scale=scale)
        assert number(made.makespan, (devices, batches, 1), given) == seen.makespan
        mean = sum(seen.busy) / devices
        assert number(made.ideal, (devices, batches, 1), given) == mean


@pytest.mark.parametrize("name", NAMES)
def test_the_slowest_stage_sets_the_pace(name: str) -> None:
    """No spread of the layers, and no heavy end, takes longer than the formula says."""
    size = {"interleaved": (4, 8, 2), "dualpipe": (4, 8, 1)}.get(name, (4, 8, 1))
    stages = size[0] * {"interleaved": size[2], "dualpipev": 2}.get(name, 1)
    given = times((2, 3, 1))
    for layers in (8, 11, 30, 32):
        for first, last in ((0, 0), (1, 0), (0, 3), (2, 2)):
            chunks = size[2] if name == "interleaved" else None
            made = schedule(name, size[0], size[1], chunks, layers=layers, first=first, last=last)
            for most_last in (True, False):
                work = [Q(count) for count in layers_of(layers, stages, most_last)]
                work[0] += first
                work[-1] += last
                scale = tuple(one * stages / layers for one in work)
                seen = simulated(name, size, given, scale=scale)
                assert seen.makespan <= number(made.makespan, size, given), (layers, first, last)


def test_layers_that_do_not_divide() -> None:
    made = schedule("1f1b", p=16, m=64, layers=126)
    assert cancel(made.ideal - 64 * (t_F + t_B + t_W)) == 0
    assert made.notes == ("126 layers do not divide into 16 stages; the slowest holds 8",)
    even = schedule("1f1b", p=16, m=64, layers=128)
    assert even.step == schedule("1f1b", p=16, m=64).step
    loose = schedule("1f1b", layers=L, last=b).step
    fixed = schedule("1f1b", 4, 8, layers=32, last=2).step
    assert cancel(loose.subs({p: 4, m: 8, L: 32, b: 2}) - fixed) == 0


# --- formulas ----------------------------------------------------------------------------------


def test_formulas_in_symbols() -> None:
    work = t_F + t_B + t_W
    assert cancel(schedule("1f1b").step - (m + p - 1) * work) == 0
    assert schedule("gpipe").bubble_of_total == (p - 1) / (m + p - 1)
    assert cancel(schedule("interleaved").bubble - (p - 1) * work / v) == 0
    assert schedule("interleaved").bubble_of_ideal == (p - 1) / (m * v)
    assert schedule("zb-h1", m=12).bubble.args == (
        t_B * (p - 1), t_F * (p - 1), (p - 1) * (t_F + t_B - t_W),
    )  # fmt: skip
    assert schedule(
        "1f1b", p=8, m=32, forward=1, backward=1, weights=1
    ).bubble_of_total == Rational(7, 39)


def test_bytes_sent_follow_the_residual_array() -> None:
    message = array("Res[B, D]").bytes / m
    assert schedule("1f1b").sent(message) == 4 * B * D
    assert schedule("interleaved").sent(message) == 4 * B * D * v
    assert schedule("1f1b", p=2).sent(message) == 2 * B * D
    assert schedule("1f1b", p=1).sent(message) == 0


def test_peak_in_layers_and_derivation() -> None:
    assert schedule("1f1b", m=64, p=8).peak_layers == L
    steps = schedule("zb-h1").derivation
    assert steps.steps[0].expr == p * t_F
    assert steps.steps[-1].expr == p


def test_results_convert_and_typeset() -> None:
    table = schedules(p=8, m=64, v=4)
    assert [row[0] for row in table] == list(NAMES)
    assert "<table>" in table._repr_html_()
    for name in NAMES:
        made = schedule(name)
        told = made.to_dict()
        assert told["name"] == name
        assert told["source"]
        assert made._repr_latex_().startswith("$")
        assert repr(made).startswith(f"schedule({name!r}, p=p, m=m")
    assert made.timeline(2, 4)[0].to_dict()["kind"] == "F"


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str) -> None:
    assert schedule(alias).recipe is RECIPES[ALIASES[alias]]
    assert schedule(schedule(alias)).name == ALIASES[alias]


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("1f1", {}, "unknown schedule '1f1'; one of gpipe, .*; did you mean 1f1b"),
        ("zbh3", {}, "did you mean zbh2 or zbh1"),
        ("1f1b", {"m": 0}, r"schedule '1f1b': m = 0 microbatches; a whole number of 1 or more"),
        ("1f1b", {"p": -2}, r"p = -2 devices"),
        ("1f1b", {"m": 2.5}, r"m = 2.5 microbatches"),
        ("1f1b", {"m": "8"}, r"m = '8' is not a number"),
        ("1f1b", {"v": 2}, r"schedule '1f1b' has no chunks to choose \(v = 2\); interleaved has"),
        ("interleaved", {"v": 1}, r"it needs v of 2 or more chunks a device \(one chunk is 1f1b\)"),
        ("interleaved", {"p": 8, "m": 12, "v": 2}, "p = 8, m = 12, v = 2: it needs m a multiple"),
        ("zb-h1", {"p": 8, "m": 4}, "p = 8, m = 4: it needs m of at least p"),
        ("zb-h2", {"p": 8, "m": 8}, "it needs m of at least 2p - 1 microbatches"),
        ("dualpipe", {"p": 7}, "it needs p even"),
        ("dualpipe", {"p": 8, "m": 14}, "it needs m of at least 2p"),
        ("dualpipe", {"m": 15}, "it needs m even"),
        ("1f1b", {"forward": 0}, r"forward = 0 s; it must be above zero"),
        (
            "dualpipe",
            {"forward": 3, "backward": 3, "weights": 3, "pair": 5},
            "pair = 5 s is shorter than one of its two parts .6 s",
        ),
        ("1f1b", {"p": 8, "layers": 6}, "6 layers leave 2 of 8 stages without a layer; at most 6"),
        ("interleaved", {"p": 8, "v": 4, "layers": 24}, "24 layers leave 8 of 32 stages"),
        ("1f1b", {"last": 2}, "counted in layers; give layers= as well"),
        ("1f1b", {"layers": 8, "first": -1}, "first = -1 layers; it cannot be less than none"),
    ],
)
def test_schedules_that_cannot_be(name: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(StrategyError, match=message) as told:
        schedule(name, **given)
    assert "\n" not in str(told.value)


def test_sizes_wanted_as_numbers() -> None:
    with pytest.raises(StrategyError, match="schedule '1f1b': m is no number; give m="):
        schedule("1f1b").timeline(p=4)
    with pytest.raises(SymbolError, match="'m' is not symscale's symbol m"):
        from sympy import Symbol

        schedule("1f1b", m=Symbol("m"))


def test_few_microbatches_get_a_note() -> None:
    assert schedule("1f1b", p=8, m=2).notes == (
        "2 microbatches on 8 devices: never are all of them busy",
    )
    assert schedule("1f1b", p=8, m=8).notes == ()
