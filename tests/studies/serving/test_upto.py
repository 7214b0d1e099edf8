"""Up to which number one cost stays above another: solved and looked up, both by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Integer, Rational, S

from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import B, D, F, b
from symscale.algebra.symbols import S as KEYS
from symscale.studies.inference import inference
from symscale.studies.serving.advice import advise
from symscale.studies.serving.served import placed_step
from symscale.studies.serving.system import serving_system
from symscale.studies.serving.upto import MOST, up_to

small = st.integers(1, 60)


@given(small, small, small)
def test_solved(start: int, slope: int, more: int) -> None:
    """A line from above meets a steeper one."""
    found = up_to(start + slope * B, (slope + more) * B, B, {})
    assert found == Rational(start, more)


@given(st.integers(2, 64), st.integers(1, 40), st.integers(1, 40))
def test_looked_up(experts: int, whole: int, slope: int) -> None:
    """Experts that a batch meets, read, against arithmetic in proportion to the batch."""
    share = 1 - Rational(1, experts)
    read = 1000 + whole * 100 * (1 - share**B)
    found = up_to(read, slope * B, B, {})
    assert found is not None
    last = int(found)
    held = [float(read.subs(B, n)) >= slope * n for n in (last, last + 1)]
    assert held == [True, False]


def test_the_other_answers() -> None:
    power = Rational(1, 2) ** B
    assert up_to(B + 1, B, B, {}) is S.Infinity
    assert up_to(B, B + 1, B, {}) == 0
    assert up_to(B, Integer(3), B, {}) is None
    assert up_to(2 - power, power, B, {}) is S.Infinity
    assert up_to(power, 2 - power, B, {}) == 0
    assert up_to(2 - power, Rational(7, 4) + 0 * B, B, {}) is None
    assert up_to(D, 2 * B, B, {D: 3 * MOST}) == Rational(3 * MOST, 2)


def test_an_answer_that_depends() -> None:
    with pytest.raises(SolveError, match="depends on"):
        up_to(D * B, F * B + 1, B, {})


MIXTRAL = inference("mixtral-8x7b", kv="bf16").at("h100", chips=2, batch=64, context=2048)


def test_chunks_beside_experts() -> None:
    """The chunk rides free while reading the experts that all tokens meet outlasts arithmetic."""
    found = serving_system(MIXTRAL, prompt=1024, answer=512)
    step = placed_step(MIXTRAL)
    chunk = found.largest_free_chunk
    bound = [
        float((step.math - step.weights).subs(B, 64 + tokens)) >= 0 for tokens in (chunk, chunk + 1)
    ]
    assert chunk > 100
    assert bound == [False, True]


def test_advice_on_experts() -> None:
    found = advise(
        "mixtral-8x7b", "h100", chips=2, batch=64, context=2048, latency=MIXTRAL.step_time / 2
    )
    assert found.wall == "latency"
    assert found.value is not None
    step = placed_step(MIXTRAL)
    held = [
        float(step.seconds().subs({b: batch, KEYS: 2048})) <= MIXTRAL.step_time / 2
        for batch in (int(found.value), int(found.value) + 1)
    ]
    assert held == [True, False]
    assert all(way.step_time <= MIXTRAL.step_time / 2 for way in found.ways.values())
