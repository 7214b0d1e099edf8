"""Continuous batching and chunked prefill: the book's flow, a batch played out, and laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.symbols import B, C, W_hbm, b
from symscale.algebra.symbols import S as KEYS
from symscale.hardware.chips import chip
from symscale.studies.serving.batching import batching
from symscale.studies.serving.chunked import chunked
from symscale.studies.serving.step import ServerStep, server_step
from symscale.studies.serving.words import CHUNK, S_OUT, T_STEP
from tests.studies.serving.truth import published


def test_books_evictions() -> None:
    """Entry 8.evict."""
    entry = published()["book"]["8.evict"]
    found = batching().at(**entry["inputs"])
    assert found.finishing == entry["exact"]["seq"]
    assert found.evicted == entry["exact"]["tok"]


def played(batch: int, prompt: int, answer: int) -> dict[str, float]:
    """A full batch, its sequences begun at even distances, over one answer's steps."""
    ages = [answer * place // batch for place in range(batch)]
    finished = evicted = entered = cached = 0
    for _ in range(answer):
        for place in range(batch):
            cached += prompt + ages[place]
            ages[place] += 1
            entered += 1
            if ages[place] == answer:
                finished += 1
                evicted += prompt + answer
                entered += prompt
                ages[place] = 0
    return {
        "finishing": finished / answer,
        "evicted": evicted / answer,
        "entered": entered / answer,
        "cached": cached / answer,
    }


@given(st.integers(1, 12), st.integers(1, 60), st.integers(1, 40))
def test_flows_of_a_batch_played_out(batch: int, prompt: int, answer: int) -> None:
    found = batching().at(b=batch, S_in=prompt, S_out=answer)
    counted = played(batch, prompt, answer)
    assert counted["evicted"] == counted["entered"]
    for name in ("finishing", "evicted", "cached"):
        assert getattr(found, name) == pytest.approx(counted[name])
    assert found.cached <= found.reserved


@given(st.integers(1, 400), st.integers(1, 4096), st.fractions("1/50", 2), st.fractions("1/50", 3))
def test_prefills_between_steps(batch: int, answer: int, step: Any, prefill: Any) -> None:
    """Over one answer all sequences finish once: so many steps, and a prefill for each."""
    found = batching().at(b=batch, S_in=100, S_out=answer, t_step=step, t_prefill=prefill)
    whole = answer * step + batch * prefill
    assert found.requests == pytest.approx(float(batch / whole))
    assert found.slowdown == pytest.approx(float(whole / (answer * step)))
    assert found.slowdown > 1


# --- chunks ------------------------------------------------------------------------------------

#: Arithmetic of B tokens takes B seconds, the weights 100, a cached token 1/10.
PLAIN = ServerStep(B / C, 100 / W_hbm, b * KEYS / (10 * W_hbm))
UNIT = {C: 1, W_hbm: 1}


def test_chunk_that_rides_for_nothing() -> None:
    wall = chunked(PLAIN).compute_bound.at(UNIT, b=30)
    assert wall.threshold == 70
    assert chunked(PLAIN).compute_bound.at(UNIT, b=100).kind == "always"


@given(st.integers(1, 80), st.integers(1, 200), st.integers(0, 50))
def test_step_is_no_longer_below_the_wall(batch: int, chunk: int, context: int) -> None:
    known = {**UNIT, b: batch, KEYS: context + 1}
    with_chunk = float(PLAIN.seconds(beside=chunk).subs(known))
    plain = float(PLAIN.seconds().subs(known))
    bound = chunked(PLAIN).compute_bound.holds(UNIT, b=batch, S_chunk=chunk)
    assert bound == (batch + chunk >= 100)
    assert (with_chunk > plain) == (batch + chunk > 100)


@given(st.integers(1, 99), st.integers(1, 500), st.integers(1, 500))
def test_all_prompts_ride_free_up_to_a_batch(batch: int, prompt: int, answer: int) -> None:
    """So long as the tokens that enter the cache in a step are below the critical batch."""
    found = chunked(PLAIN)
    free = found.rides_free.holds(UNIT, b=batch, S_in=prompt, S_out=answer)
    entering = batching().at(b=batch, S_in=prompt, S_out=answer).evicted
    assert free == (entering <= 100 + 1e-9)


def test_rides_free_in_symbols() -> None:
    step = server_step("llama-3-70b", "int8")
    v5e = chip("tpu-v5e")
    wall = chunked(step).rides_free.at(v5e, S_in=8192, S_out=4096)
    # The critical batch with int8 weights and bf16 arithmetic is about 120, of which a third.
    assert float(wall.threshold) == pytest.approx(120.3 / 3, rel=0.03)


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 40))
def test_first_token_counted_step_by_step(chunks: int, chunk: int, batch: int) -> None:
    """Each step carries one chunk, and reads the cache that the prompt's earlier chunks left."""
    prompt, context = chunks * chunk, 50
    total = 0.0
    for index in range(chunks):
        total += max(batch + chunk, 100) + batch * context / 10 + index * chunk / 10
    known = {"b": batch, "S": context, "S_in": prompt, "S_chunk": chunk}
    found = chunked(PLAIN).at(UNIT, **known)
    assert found.first_token == pytest.approx(total)
    assert found.token_time == pytest.approx(total / chunks)
    assert found.slowdown >= 1
    assert found.free == (batch + chunk < 100)


def test_larger_chunks_give_the_first_token_sooner_and_the_next_later() -> None:
    step = server_step("llama-3-70b", "int8", "int8")
    known = {"n": 8, "b": 32, "S": 8192, "S_in": 8192}
    found = [
        chunked(step).at(chip("tpu-v5e"), S_chunk=size, **known) for size in (32, 64, 512, 2048)
    ]
    assert [f.free for f in found] == [True, True, False, False]
    walls = [f.of.compute_bound.at(f.values).holds({CHUNK: f.values[CHUNK]}) for f in found]
    assert walls == [False, False, True, True]
    first = [f.first_token for f in found]
    between = [f.token_time for f in found]
    assert first == sorted(first, reverse=True)
    assert between[2] < between[3]
    # Below the wall a chunk costs only what is read again.
    assert between[0] == pytest.approx(found[0].plain, rel=0.05)


def test_a_prompt_takes_whole_steps() -> None:
    """A token more than a chunk takes a step more; both second chunks meet the first one's 30."""
    known = {"b": 1, "S": 1, "S_chunk": 30}
    found = chunked(PLAIN)
    one, short, two = (found.at(UNIT, S_in=size, **known) for size in (30, 31, 60))
    assert one.read_again == 0
    assert short.read_again == two.read_again == pytest.approx(0.1 * 30)
    assert short.first_token == two.first_token
    assert short.first_token - one.first_token == pytest.approx(one.step_time + 3)


def test_chunks_counted_one_by_one_are_the_closed_form() -> None:
    """Chunk by chunk, and the sum in closed form, where a prompt is cut evenly."""
    found = chunked(PLAIN).at(UNIT, b=7, S=90, S_chunk=16, S_in=96)
    assert found.read_again == pytest.approx(found.number(found.of.read_again))
    assert found.first_token == pytest.approx(found.number(found.of.first_token))
    assert found.token_time == pytest.approx(found.number(found.of.token_time))
    by_hand = sum(0.1 * 16 * i for i in range(6))
    assert found.read_again == pytest.approx(by_hand)


def test_results_show_themselves() -> None:
    found = batching()
    assert "leave it" in str(found.derivation)
    assert found.to_dict()["evicted"] == "b*(S_in + S_out)/S_out"
    few = found.at(b=32, S_in=8192, S_out=4096)
    assert "requests" not in few.to_dict()
    assert "96" in repr(few)
    more = found.at(b=32, S_in=8192, S_out=4096, t_step=0.02, t_prefill=0.9)
    assert more.to_dict()["slowdown"] == pytest.approx(1 + 0.9 * 32 / 4096 / 0.02)
    assert "requests/s" in repr(more)
    piece = chunked(PLAIN)
    assert piece.to_dict()["first_token"]
    shown = piece.at(UNIT, b=1, S=1, S_in=30, S_chunk=10)
    assert "memory" in repr(shown)
    assert shown.to_dict()["compute_bound"] is False
    assert {S_OUT, T_STEP} <= found.cycle.free_symbols
