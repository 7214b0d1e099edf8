"""Servers of two kinds: the book's ratio, a fleet's published nodes, a simulation, and laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import cancel

from symscale.algebra.errors import SolveError, SymbolError
from symscale.algebra.maximum import Minimum
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b
from symscale.hardware.chips import chip
from symscale.models.model import model
from symscale.studies.serving.batching import batching
from symscale.studies.serving.contexts import mean_over_answer
from symscale.studies.serving.disaggregation import disaggregate
from symscale.studies.serving.prompts import prompt_seconds
from symscale.studies.serving.step import server_step
from symscale.studies.serving.transfer import transfer
from symscale.studies.serving.words import DONE, S_IN, S_OUT, T_PREFILL, T_STEP
from tests.studies.serving.truth import published

FLEET = published()["fleet"]
seconds = st.fractions(min_value="1/100", max_value=5, max_denominator=100)
counts = st.integers(1, 400)


def test_books_ratio() -> None:
    """Entry 8.disagg."""
    entry = published()["book"]["8.disagg"]
    given = {name: entry["inputs"][name] for name in ("t_prefill", "t_step", "S_out")}
    for batch, exact in zip(entry["inputs"]["batches"], entry["exact"], strict=True):
        assert disaggregate().at(b=batch, **given).ratio == pytest.approx(exact, rel=1e-12)


def test_ratio_of_a_model_is_that_of_its_numbers() -> None:
    """The same with times derived from LLaMA 3 70B itself, its own arithmetic at 40% of peak."""
    v5e = chip("tpu-v5e", edition="book-2025")
    share = {**v5e, **{key: v5e[key] * 2 / 5 for key in v5e if key.name == "C"}}
    prefill = prompt_seconds("llama-3-70b", causal=False)
    found = disaggregate(server_step("llama-3-70b", "int8", "int8"), prefill)
    slow = disaggregate(T_STEP, prefill).at(share, n=16, S_in=8192, b=32, S_out=512, t_step=0.019)
    # Attention's scores and the head come on top of the book's 2 x 70e9 FLOPs.
    assert slow.ratio == pytest.approx(2.99, rel=0.2)
    assert slow.ratio > 2.99
    own = found.at(v5e, n=16, S_in=8192, b=32, S_out=512)
    step = own.number(found.step)
    weights, cache = 70_553_706_496, 32 * 163_840 * (8192 + 511 / 2)
    assert step == pytest.approx((weights + cache) / (16 * 8.1e11), rel=0.02)


def test_a_fleets_nodes() -> None:
    """DeepSeek's day: tokens in and out, and what a node does, give the nodes it reports."""
    share = FLEET["output_tokens"] / FLEET["input_tokens"]
    prompt = 1000.0
    answer = prompt * share
    # A node as one server: so many tokens a second of either kind.
    found = disaggregate().at(
        S_in=prompt,
        S_out=answer,
        b=1,
        t_prefill=prompt / FLEET["input_tokens_per_s_per_node"],
        t_step=1 / FLEET["output_tokens_per_s_per_node"],
    )
    requests = FLEET["input_tokens"] / FLEET["seconds"] / prompt
    nodes = found.servers(requests)
    assert sum(nodes) == pytest.approx(FLEET["nodes_mean"], rel=2e-3)
    assert found.ratio == pytest.approx(nodes[0] / nodes[1])


def test_a_fleets_prefill_is_bound_by_arithmetic() -> None:
    """No node reads more tokens than its arithmetic allows, those not cached counted."""
    hardware, deepseek = chip(FLEET["chip"]), model(FLEET["model"])
    flops = (deepseek.flops_per_token() - deepseek.attention_flops_per_token()).subs(deepseek)
    peak = FLEET["gpus_per_node"] * float(hardware["C_fp8"])
    fresh = 1 - FLEET["input_tokens_cached"] / FLEET["input_tokens"]
    most = peak / float(flops) / fresh
    assert 0.1 < FLEET["input_tokens_per_s_per_node"] / most < 1


def test_a_fleets_generation_is_bound_by_its_cache() -> None:
    """Each token generated reads the latent cache of its context; an H800 has an H100's HBM."""
    hardware, deepseek = chip("h100"), model(FLEET["model"])
    read = float(deepseek.kv_bytes_per_token("bf16").subs(deepseek))
    read *= FLEET["context_per_output_token"]
    most = FLEET["gpus_per_node"] * float(hardware["W_hbm"]) / read
    assert 0.1 < FLEET["output_tokens_per_s_per_node"] / most < 1


@given(counts, st.integers(1, 4096), seconds, seconds)
def test_ratio_balances_the_rates(batch: int, answer: int, prefill: Any, step: Any) -> None:
    found = disaggregate().at(b=batch, S_out=answer, t_prefill=prefill, t_step=step)
    read = found.ratio / float(prefill)
    finished = batch / (answer * float(step))
    assert read == pytest.approx(finished, rel=1e-9)


@given(counts, counts, st.integers(1, 4096), seconds, seconds)
def test_ratio_rises_with_batch_and_prefill(
    one: int, other: int, answer: int, prefill: Any, step: Any
) -> None:
    low, high = sorted((one, other))
    known: dict[str, Any] = {"S_out": answer, "t_step": step}
    ratio = [disaggregate().at(b=n, t_prefill=prefill, **known).ratio for n in (low, high)]
    assert ratio[0] <= ratio[1]
    slower = disaggregate().at(b=low, t_prefill=2 * prefill, **known).ratio
    assert slower == pytest.approx(2 * ratio[0])
    longer = disaggregate().at(b=low, t_prefill=prefill, S_out=2 * answer, t_step=step).ratio
    assert longer == pytest.approx(ratio[0] / 2)


@given(st.integers(2, 40), counts, st.integers(1, 900), seconds, seconds)
def test_split_is_the_best_of_all(
    servers: int, batch: int, answer: int, prefill: Any, step: Any
) -> None:
    found = disaggregate().at(b=batch, S_out=answer, t_prefill=prefill, t_step=step)
    read, done = 1 / float(prefill), batch / (answer * float(step))
    most = max(min(k * read, (servers - k) * done) for k in range(1, servers))
    chosen = found.split(servers)
    assert sum(chosen) == servers
    assert found.requests(*chosen) == pytest.approx(most, rel=1e-9)


def test_it_answers_as_many_requests_as_interleaving() -> None:
    """Per server, at the balance: what is gained is the wait, not the throughput."""
    apart, mixed = disaggregate(), batching()
    each = apart.answers / (1 + apart.ratio)
    per_server = each.subs({s: 1 for s in each.free_symbols if s.name == "n_generate"})
    assert cancel(per_server - mixed.requests) == 0


def simulated(prefill: int, step: int, places: int, answer: int, servers: int) -> float:
    """Requests finished a second by one generate server fed by prefill servers, in whole ticks."""
    ready, places_left, finished = 0, [0] * places, 0
    ends = 40 * answer * step
    for tick in range(1, ends + 1):
        if tick % prefill == 0:
            ready += servers
        if tick % step == 0:
            for place, left in enumerate(places_left):
                if left > 1:
                    places_left[place] = left - 1
                else:
                    finished += left
                    places_left[place] = answer if ready else 0
                    ready -= bool(ready)
    return finished / ends


def test_balance_in_a_simulation() -> None:
    """With servers for prompts at the ratio, or above, generation is full; below, it is not."""
    numbers = {"b": 8, "S_out": 20, "t_prefill": 10, "t_step": 2}
    found = disaggregate().at(**numbers)
    assert found.ratio == 2
    full = 8 / (20 * 2)
    got = [simulated(10, 2, 8, 20, servers) for servers in (1, 2, 3)]
    assert got[0] == pytest.approx(full / 2, rel=0.05)
    assert got[1] == pytest.approx(full, rel=0.05)
    assert got[2] == pytest.approx(full, rel=0.05)


# --- the cache on its way ----------------------------------------------------------------------


def test_transfer_hides_behind_a_prefill() -> None:
    """LLaMA 3 70B, 8192 tokens in int8 are 1.34e9 bytes: 27 ms at 400 Gb/s."""
    llama = model("llama-3-70b")
    sent = llama.kv_bytes(8192, "int8").subs(llama)
    found = transfer(sent, T_PREFILL).at(W_link=50e9, t_prefill=0.91)
    assert found.time == pytest.approx(163_840 * 8192 / 50e9)
    assert found.hidden
    assert found.smallest_link == pytest.approx(163_840 * 8192 / 0.91)
    slow = transfer(sent, T_PREFILL).at(W_link=1e9, t_prefill=0.91)
    assert not slow.hidden


@given(st.integers(1, 10**6), st.integers(1, 10**5), seconds, st.integers(1, 10**10))
def test_hidden_says_which_takes_longer(kv: int, prompt: int, prefill: Any, link: int) -> None:
    found = transfer().at(kv_bytes=kv, S_in=prompt, t_prefill=prefill, W_link=link)
    assert found.hidden == (kv * prompt <= prefill * link)


def test_link_keeps_up_with_the_sequences_that_finish() -> None:
    wall = transfer().keeps_up.at(b=32, S_out=512, S_in=8192, kv_bytes=163_840, t_step=0.019)
    arriving = 32 / (512 * 0.019)
    assert float(wall.threshold) == pytest.approx(arriving * 163_840 * 8192)


# --- means, and wrong questions ----------------------------------------------------------------


MEAN = mean_over_answer(3 * KEYS**2 + 5 * KEYS + 7 * b)


@given(st.integers(1, 60), st.integers(1, 60))
def test_mean_over_an_answer(prompt: int, answer: int) -> None:
    contexts = [prompt + i for i in range(answer)]
    counted = sum(3 * s**2 + 5 * s for s in contexts) / answer
    found = MEAN.subs({S_IN: prompt, S_OUT: answer, b: 2})
    assert float(found) == pytest.approx(counted + 14)


def test_mean_over_a_window_is_refused() -> None:
    with pytest.raises(SolveError, match="put a context in for S"):
        mean_over_answer(Minimum(KEYS, 4096))


def test_wrong_numbers() -> None:
    with pytest.raises(SymbolError, match=r"no value for .*t_step"):
        disaggregate().at(b=32, S_out=512, t_prefill=1)
    with pytest.raises(SymbolError, match="at least one of each kind"):
        disaggregate().at(b=1, S_out=1, t_prefill=1, t_step=1).split(1)
    with pytest.raises(SymbolError, match="above zero"):
        transfer().at(kv_bytes=0, S_in=1, t_prefill=1, W_link=1)


def test_results_show_themselves() -> None:
    found = disaggregate()
    assert "requests/s" in str(found.derivation)
    assert found.to_dict()["ratio"] == "b*t_prefill/(S_out*t_step)"
    numbers = found.at(b=32, S_out=512, t_prefill=0.91, t_step=0.019)
    assert "2.99" in repr(numbers)
    assert numbers.to_dict()["ratio"] == pytest.approx(2.993, abs=1e-3)
    sent = transfer()
    assert sent.to_dict()["time"]
    assert "hidden" in repr(sent.at(kv_bytes=1, S_in=1, t_prefill=1, W_link=1))
    assert DONE in batching().entering.free_symbols
    assert T_PREFILL in batching().cycle.free_symbols
