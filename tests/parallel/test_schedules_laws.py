"""Laws that pipeline schedules obey whatever the sizes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr

from symscale.algebra.errors import StrategyError
from symscale.parallel.schedules.lookup import NAMES, schedule
from symscale.parallel.schedules.schedule import Schedule

DEVICES = st.integers(1, 8).map(lambda half: 2 * half)
DURATION = st.integers(1, 40)
TIMES = st.tuples(DURATION, DURATION, DURATION)


def timed(name: str, p: int, m: int, v: int | None, times: tuple[int, ...]) -> Schedule:
    f, b, w = times
    return schedule(name, p, m, v, forward=f, backward=b, weights=w)


def chunks(name: str, v: int) -> int | None:
    return v if name == "interleaved" else None


@settings(max_examples=60)
@given(st.sampled_from(NAMES), DEVICES, st.integers(2, 6), st.integers(2, 5), TIMES)
def test_the_bubble_falls_with_microbatches(
    name: str, p: int, groups: int, v: int, times: tuple[int, ...]
) -> None:
    few, many = (timed(name, p, p * g, chunks(name, v), times) for g in (groups, groups + 1))
    assert many.bubble_of_total <= few.bubble_of_total
    assert many.bubble_of_ideal <= few.bubble_of_ideal
    assert 0 <= many.bubble_of_total < 1
    assert many.bubble_of_total <= many.bubble_of_ideal


@settings(max_examples=60)
@given(DEVICES, st.integers(1, 6), st.integers(2, 6), TIMES)
def test_interleaving_divides_the_bubble_and_costs_messages_and_memory(
    p: int, groups: int, v: int, times: tuple[int, ...]
) -> None:
    plain, cut = (
        timed("1f1b", p, p * groups, None, times), timed("interleaved", p, p * groups, v, times)
    )  # fmt: skip
    assert cut.bubble * v == plain.bubble
    assert cut.messages["inner"] == v * plain.messages["inner"]
    assert plain.in_flight() <= cut.in_flight() < 2 * p


@settings(max_examples=60)
@given(DEVICES, st.integers(2, 6), TIMES)
def test_zero_bubble_schedules(p: int, groups: int, times: tuple[int, ...]) -> None:
    plain, h1, h2 = (timed(name, p, p * groups, None, times) for name in ("1f1b", "zb-h1", "zb-h2"))
    assert h2.bubble <= h1.bubble <= plain.bubble
    assert h1.in_flight() == plain.in_flight()
    assert h2.in_flight() == 2 * h1.in_flight() - 1


@settings(max_examples=60)
@given(st.sampled_from(NAMES), DEVICES, st.integers(2, 4), TIMES)
def test_gpipe_holds_the_most_and_nothing_beats_its_own_work(
    name: str, p: int, groups: int, times: tuple[int, ...]
) -> None:
    made = timed(name, p, p * groups, chunks(name, 2), times)
    work = p * groups * sum(times)
    assert made.ideal == work
    assert made.step >= work
    if name != "zb-h2":
        assert made.makespan == made.step
    assert made.in_flight() <= max(p * groups, 2 * p)
    assert _falling([made.in_flight(stage) for stage in range(p)])


def _falling(values: list[Expr]) -> bool:
    return all(left >= right for left, right in pairwise(values))


@settings(max_examples=40)
@given(st.sampled_from(NAMES), DEVICES, st.integers(0, 30), st.integers(0, 9), st.integers(0, 9))
def test_uneven_stages_never_help(name: str, p: int, more: int, first: int, last: int) -> None:
    v = chunks(name, 2)
    layers = 2 * p + more
    even = schedule(name, p, 2 * p, v, forward=1, backward=1, weights=1)
    loaded = schedule(name, p, 2 * p, v, forward=1, backward=1, weights=1, layers=layers,
                      first=first, last=last)  # fmt: skip
    assert loaded.step >= even.step
    assert loaded.step >= loaded.ideal
    assert Fraction(str(loaded.ideal)) == Fraction(2 * p * 3) * (1 + Fraction(first + last, layers))


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda made: made.in_flight(99), "stage 99 is none of 0 to 3"),
        (lambda made: made.in_flight("a"), "stage 'a' is no number"),
        (lambda made: made.timeline(forward=-1), "duration -1; above zero is wanted"),
        (lambda made: made.timeline(forward=float("nan")), "above zero is wanted"),
        (lambda made: made.timeline(latency=-1), "latency -1; zero or more is wanted"),
        (lambda made: made.timeline(scale=[1]), "1 scales for 4 stages"),
        (lambda made: made.at(p=[4]), "is not a number"),
        (lambda made: made.at(m=None), "is not a number"),
    ],
)
def test_questions_that_make_no_sense(ask: Callable[[Schedule], object], said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        ask(schedule("1f1b", p=4, m=8))
