"""A shared prefix: tokens and pairs counted one by one, a fleet's hits, and both break-evens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import n
from symscale.hardware.chips import chip
from symscale.models.model import model
from symscale.studies.inference import inference
from symscale.studies.inference_prefill import prefill
from symscale.studies.serving.prefix import Prefix, placed_prefix, prefix_cache
from symscale.studies.serving.prompts import prompt_flops, prompt_seconds
from symscale.studies.serving.words import PREFIX, S_IN, W_LINK
from tests.studies.serving.truth import published

V5E = chip("tpu-v5e", edition="book-2025")
FOUND = prefix_cache("llama-3-70b", "int8", "int8")


@given(st.integers(1, 20), st.integers(1, 30), st.integers(1, 30))
def test_hits_counted_prompt_by_prompt(prompts: int, prefix: int, own: int) -> None:
    cached: set[int] = set()
    hits = total = 0
    for prompt in range(prompts):
        tokens = [*range(prefix), *(1000 * (prompt + 1) + i for i in range(own))]
        for token in tokens:
            hits += token in cached
            total += 1
        cached |= set(tokens)
    known = {"S_in": prefix + own, "S_prefix": prefix, "m_reuse": prompts}
    rate = evaluate(FOUND.hit_rate, bindings(**known))
    assert float(rate) == pytest.approx(hits / total)
    assert 0 <= rate < 1


@given(st.integers(2, 40), st.data())
def test_flops_counted_pair_by_pair(prompt: int, data: st.DataObject) -> None:
    """Each query not cached meets itself and all before it; the last one alone gets logits."""
    cached = data.draw(st.integers(1, prompt - 1))
    llama = model("llama-3-8b")
    pairs = sum(query + 1 for query in range(cached, prompt))
    tables = 2 * 128_256 * 4096
    linear = 2 * (8_029_995_008 - tables) * (prompt - cached) + tables
    scores = 4 * pairs * 32 * 128 * 32
    assert prompt_flops(llama, prompt, cached) == linear + scores


@pytest.mark.parametrize("name", ["llama-3-8b", "gemma-2-9b", "mixtral-8x7b"])
def test_a_prompts_flops_are_those_of_the_prefill_itself(name: str) -> None:
    """The program of a prefill on one chip, kernel by kernel, does the same arithmetic."""
    h100 = chip("h100")
    server = inference(name).at(h100, chips=1, batch=1, context=4096)
    rate = float(h100.figure("C").value)
    assert prefill(server, 4096).math * rate == pytest.approx(float(prompt_flops(name, 4096)))


def test_a_fleets_hit_rate() -> None:
    """A prefix of 56 % of the prompt, asked for so often that first readings do not count."""
    fleet = published()["fleet"]
    share = fleet["input_tokens_cached"] / fleet["input_tokens"]
    assert share == pytest.approx(fleet["cached_share"], abs=6e-4)
    known = {"S_in": 1000, "S_prefix": 1000 * share, "m_reuse": 10**6}
    rate = evaluate(FOUND.hit_rate, bindings(**known))
    assert float(rate) == pytest.approx(fleet["cached_share"], abs=1e-3)


def test_books_prefill_and_what_a_prefix_saves_of_it() -> None:
    """Entry 8.prefill: 0.91 s for 8192 tokens; half of them cached save somewhat less than half.

    The book counts logits of all tokens, of which a prefill makes those of the last.
    """
    entry = published()["book"]["8.prefill"]
    share = {**V5E, **{key: V5E[key] * 2 / 5 for key in V5E if key.name == "C"}}
    whole = prompt_seconds("llama-3-70b", "int8", tokens=8192).subs(share).subs(n, 16)
    logits = 8191 * 2 * 128_256 * 8192 / (16 * float(V5E.figure("C").value) * 0.4)
    assert float(whole) + logits == pytest.approx(entry["exact"]["with_causal_attn"], rel=0.01)
    found = FOUND.at(share, n=16, S_in=8192, S_prefix=4096, m_reuse=2)
    assert found.seconds + found.saved_seconds == pytest.approx(float(whole))
    assert 0.45 < found.saved_seconds / float(whole) < 0.5


def test_bytes_saved() -> None:
    found = FOUND.at(V5E, n=16, S_in=8192, S_prefix=4096, m_reuse=10)
    held_apart = 10 * 8192 * 163_840
    held_once = (4096 + 10 * 4096) * 163_840
    assert found.saved_bytes == held_apart - held_once
    assert found.to_dict()["hit_rate"] == pytest.approx(0.45)
    assert "hit rate" in repr(found)


@given(st.integers(100, 4000), st.integers(10**6, 10**12))
def test_fetching_a_prefix_beats_reading_it_from_a_bandwidth_on(prefix: int, link: int) -> None:
    known: dict[str, Any] = {"n": 8, "S_in": 8192, "S_prefix": prefix, "m_reuse": 2}
    found = FOUND.at(V5E, **known)
    fetched = prefix * 163_840 / link
    wall = FOUND.worth_loading.at(V5E, **known)
    assert wall.holds({W_LINK: link}) == (fetched <= found.saved_seconds)
    assert float(wall.threshold) == pytest.approx(found.smallest_link)


def test_a_prefix_of_a_prompt_that_waits_for_weights_saves_nothing() -> None:
    known = {"n": 8, "S_in": 100, "S_prefix": 50, "m_reuse": 2}
    found = FOUND.at(V5E, **known)
    assert found.saved_seconds == 0
    assert found.smallest_link == float("inf")


def test_how_long_to_keep_a_prefix() -> None:
    """Kept for as long as the places it takes are worth less than the seconds a hit saves."""
    made = Prefix(whole=S_IN, rest=S_IN - PREFIX, whole_flops=KEYS, rest_flops=KEYS)
    wall = made.worth_keeping.at(b=10, S_in=300, S_out=100, S_prefix=200)
    saved, share = 200, 200 / (10 * 400)
    assert wall.kind == "below"
    assert float(wall.threshold) == pytest.approx(saved / share)


@pytest.mark.parametrize("mfu", [None, 0.4])
@pytest.mark.parametrize("prefix", [1, 1000, 4095])
@pytest.mark.parametrize(("name", "chips"), [("llama-3-70b", 8), ("gpt-oss-20b", 1)])
def test_a_servers_own_prefill_saves_the_same_arithmetic(
    name: str, chips: int, prefix: int, mfu: float | None
) -> None:
    """Kernels of the prefill on all chips, beside the model's FLOPs counted apart."""
    h100 = chip("h100")
    server = inference(name).at(h100, chips=chips, batch=4, context=8192)
    found = placed_prefix(server, mfu).at(S_in=8000, S_prefix=prefix, m_reuse=2)
    rate = chips * float(h100.figure("C").value) * (mfu or 1)
    assert found.saved_seconds * rate == pytest.approx(found.saved_flops)
    whole = float(prompt_flops(name, 8000))
    assert (found.seconds + found.saved_seconds) * rate == pytest.approx(whole)


def test_a_prefix_as_long_as_the_prompt() -> None:
    with pytest.raises(SymbolError, match="the longest prefix is 8191"):
        FOUND.at(V5E, n=8, S_in=8192, S_prefix=8192, m_reuse=2)
    with pytest.raises(SymbolError, match="no value for"):
        FOUND.at(V5E, S_in=8192, S_prefix=8192, m_reuse=2)


def test_formulas_show_themselves() -> None:
    assert "the prefix is held once" in str(FOUND.derivation)
    assert FOUND.to_dict()["hit_rate"] == "S_prefix*(m_reuse - 1)/(S_in*m_reuse)"
    assert FOUND._repr_latex_().startswith("$")
