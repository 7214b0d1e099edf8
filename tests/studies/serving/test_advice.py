"""Walls of a server: a serving text's arithmetic, the book's full memory, advice that holds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Rational

from symscale.algebra.errors import ModelError, SymbolError
from symscale.algebra.symbols import B, C, W_hbm, W_ici, b, n
from symscale.algebra.symbols import S as KEYS
from symscale.studies.inference import inference
from symscale.studies.serving.advice import Advice, advise, advise_on
from symscale.studies.serving.capacity import Capacity, Doubling, doubling
from symscale.studies.serving.served import placed_step
from symscale.studies.serving.step import ServerStep, server_step
from tests.studies.serving.truth import published

# --- size --------------------------------------------------------------------------------------


def test_seventy_billion_in_half_precision() -> None:
    """140 GB; at 80 GB a device two hold the weights alone."""
    step = ServerStep(B, B, weight_bytes=Rational(70 * 10**9 * 2), cache_bytes=b * KEYS * 327_680)
    walls = Capacity(step)
    alone = walls.for_weights.at(M_hbm=80 * 10**9, M_buffer=1)
    assert step.weight_bytes == 140 * 10**9
    assert math.ceil(alone.threshold) == 2
    # Cache, buffers and concurrency: 64 sequences of 4096 tokens, 8 GB a device held back.
    known = {"M_hbm": 80 * 10**9, "M_buffer": 8 * 10**9, "b": 64, "S": 4096}
    full = walls.for_all.at(**known)
    counted = (140e9 + 64 * 4096 * 327_680) / 72e9
    assert float(full.threshold) == pytest.approx(counted)
    assert math.ceil(full.threshold) == 4


def test_books_requests_at_full_memory() -> None:
    """Entry 8.qps, and its erratum: twice the chips more than double what each chip answers.

    All memory is read in a step, whatever is in it; more chips leave more of it for the cache.
    """
    entry = published()["book"]["8.qps"]
    given = entry["inputs"]
    for place, (chips, bits) in enumerate(zip(given["chips"], given["bits"], strict=True)):
        weights = Rational(int(given["params"]) * bits, 8)
        cached = Rational(327_680 * bits, 16) * b * KEYS
        walls = Capacity(ServerStep(B, B, weight_bytes=weights, cache_bytes=cached))
        step = given["hbm"] / given["W_hbm"]
        for times, exact in ((1, entry["exact"][place]), (2, entry["doubled"][place])):
            known = {"M_hbm": 16 * 10**9 + 1, "M_buffer": 1, "S": given["S"], "n": chips * times}
            most = math.floor(walls.batch.at(**known).threshold)
            each = most / (step * given["S_out"] * chips * times)
            assert each == pytest.approx(exact, rel=1e-9 if times == 1 else 0.01)


@settings(max_examples=40)
@given(st.integers(1, 200), st.integers(1, 8192), st.integers(1, 40))
def test_size_wall_is_where_it_fits(batch: int, context: int, chips: int) -> None:
    walls = Capacity(server_step("llama-3-70b", "int8", "int8"))
    known: dict[str, Any] = {"M_hbm": 16 * 10**9, "M_buffer": 10**8, "S": context}
    needed = 70_553_706_496 + batch * context * 163_840
    fits = needed <= chips * (16 * 10**9 - 10**8)
    assert walls.for_all.at(b=batch, **known).holds(n=chips) == fits
    assert walls.batch.at(n=chips, **known).holds(b=batch) == fits


# --- twice the chips ---------------------------------------------------------------------------

SHARED = ServerStep(B / (n * C), 8 / (n * W_hbm), b * KEYS / (n * W_hbm), comms=B / W_ici)
UNIT: dict[str, Any] = {"C": 100, "W_hbm": 1, "W_ici": 100}


def test_doubling_gives_less_than_double() -> None:
    """Always, once there is an exchange; exactly double without one."""
    assert doubling(SHARED).less_than_double.kind == "always"
    known = {C: 100, W_hbm: 1, W_ici: 100, n: 4, b: 20, KEYS: 3}
    assert 1 < float(doubling(SHARED).gain.subs(known)) < 2
    alone = ServerStep(B / (n * C), 8 / (n * W_hbm), b * KEYS / (n * W_hbm))
    assert float(doubling(alone).gain.subs(known)) == 2


@given(st.integers(1, 16), st.integers(1, 400), st.integers(1, 5))
def test_sharding_beats_two_replicas_up_to_a_batch(chips: int, batch: int, context: int) -> None:
    wall = doubling(SHARED).sharding_wins.at(n=chips, S=context, **UNIT)

    def seconds(count: int, sequences: float) -> float:
        busy = max(sequences / (count * 100), 8 / count)
        return busy + sequences * context / count + sequences / 100

    apart, together = seconds(chips, batch / 2), seconds(2 * chips, batch)
    if abs(apart - together) > 1e-12:
        assert wall.holds(b=batch) == (together <= apart)


def test_doubling_of_a_placed_model() -> None:
    study = inference("llama-3-70b", weights="int8", kv="int8")
    one, two = (
        study.at("tpu-v5e", chips=chips, batch=32, context=8192, method="aggregate")
        for chips in (8, 16)
    )
    pair = Doubling(placed_step(one).seconds(), placed_step(two).seconds())
    assert pair.less_than_double.at(S=8192).kind == "always"
    assert 1.5 < float(pair.gain.subs({b: 32, KEYS: 8192})) < 2


# --- advice ------------------------------------------------------------------------------------


def llama(**asked: Any) -> Advice:
    known: dict[str, Any] = {"chips": 8, "batch": 32, "context": 8192}
    return advise("llama-3-70b", "tpu-v5e", weights="int8", kv="int8", **{**known, **asked})


def test_nothing_to_do() -> None:
    found = llama(tokens_per_second=1000, latency=0.03)
    assert found.wall == "none"
    assert found.inequality is None
    assert "it holds" in str(found)


def test_size_is_the_wall() -> None:
    found = llama(batch=100)
    assert found.wall == "size"
    assert found.value is not None
    memory = 70_553_706_496 + 100 * 8192 * 163_840
    assert found.value == pytest.approx(memory / 16e9, rel=0.01)
    assert all(way.fits for way in found.ways.values())
    assert {way.chips for way in found.ways.values()} == {16, 24}
    assert "shard over 16 chips" in found.lines[-2]
    assert "3 replicas of 8 chips" in found.lines[-1]


def test_weights_that_do_not_fit_leave_no_replica() -> None:
    found = advise("llama-2-70b", "a100-80gb", chips=1, batch=8, context=4096)
    assert found.wall == "size"
    assert "a replica would not fit either" in str(found)
    assert list(found.ways) == ["shard over 2 chips"]


def test_throughput_is_the_wall() -> None:
    found = llama(tokens_per_second=10_000)
    assert found.wall == "throughput"
    assert found.value == pytest.approx(10_000 / found.found.tokens_per_second)
    assert all(way.tokens_per_second >= 10_000 for way in found.ways.values())
    assert "6 replicas of 8 chips" in str(found)
    assert "as fast, not 2" in str(found)
    assert "up to 42 sequences fit" in str(found)


def test_latency_is_the_wall() -> None:
    found = llama(latency=0.01)
    assert found.wall == "latency"
    assert list(found.ways) == ["shard over 16 chips"]
    assert all(way.step_time <= 0.01 for way in found.ways.values())
    hopeless = llama(latency=1e-4)
    assert hopeless.ways == {}
    assert "no doubling of the chips is soon enough, up to" in str(hopeless)


def test_fewer_sequences_are_soon_enough() -> None:
    found = llama(latency=0.015, batch=40)
    assert found.wall == "latency"
    assert found.value is not None
    most = math.floor(found.value)
    study = inference("llama-3-70b", weights="int8", kv="int8")
    how: dict[str, Any] = {"method": "aggregate", "overlap": "critical"}
    at = [
        study.at("tpu-v5e", chips=8, batch=batch, context=8192, **how).step_time
        for batch in (most, most + 1)
    ]
    assert at[0] <= 0.015 < at[1]


def test_advice_is_on_the_server_that_was_asked_for() -> None:
    """Blocks, types, how latent attention is computed: nothing is dropped on the way."""
    paged = inference("llama-3-70b").at("h100", chips=8, batch=300, context=100, block=8192)
    found = advise_on(paged)
    assert found.wall == "size"
    assert all(way.block == 8192 and way.fits for way in found.ways.values())
    whole = 141_107_412_992 + 300 * 8192 * 327_680
    spare = 80_000_000_000 - paged.memory["working"]
    assert found.value == pytest.approx(whole / spare)
    naive = inference("deepseek-v3", absorbed=False).at("h200", chips=8, batch=64, context=8192)
    slow = advise_on(naive, latency=0.02)
    assert slow.wall == "latency"
    assert slow.found is naive
    assert slow.value is not None
    assert all(not way.study.absorbed for way in slow.ways.values())


@pytest.mark.parametrize("overlap", ["full", "critical", "none"])
def test_advice_keeps_the_servers_own_time(overlap: str) -> None:
    """A limit just above the step of the table is no wall; one just below it is."""
    server = inference("llama-3-70b").at(
        "h100", chips=8, batch=32, context=8192, overlap=overlap, method="per-op"
    )
    assert advise_on(server, latency=server.step_time * 1.001).wall == "none"
    found = advise_on(server, latency=server.step_time * 0.999)
    assert found.wall == "latency"
    assert found.value is not None
    most = math.floor(found.value)
    assert server.again(batch=most).step_time <= server.step_time * 0.999
    assert server.again(batch=most + 1).step_time > server.step_time * 0.999
    assert {(way.method, way.overlap) for way in found.ways.values()} == {("per-op", overlap)}


def test_replicas_whose_share_ways_do_not_divide() -> None:
    """Weights gathered over two ways, 41 sequences on a replica: advice, not an error."""
    study = inference("llama-3-70b", strategy="wg")
    server = study.at("tpu-v5e", chips=16, batch=1024, context=8192)
    found = advise_on(server)
    assert found.wall == "size"
    copies = next(way for name, way in found.ways.items() if "replicas" in name)
    assert copies.fits
    assert 1024 <= copies.batch < 1024 + copies.replicas


def test_advice_counts_all_replicas_of_a_server() -> None:
    server = inference("llama-3-70b").at("h100", chips=16, replicas=2, batch=64, context=8192)
    found = advise_on(server, tokens_per_second=1e4)
    assert "of 10,000 wanted" in str(found)
    assert found.value == pytest.approx(2 * 1e4 / server.tokens_per_second)
    assert found.ways["3 replicas of 8 chips"].batch == 96
    assert "more than there are" in str(advise_on(server, tokens_per_second=1e30))


def test_a_mesh_that_was_given_is_kept_by_replicas_alone() -> None:
    study = inference("llama-3-70b", strategy="2d")
    server = study.at("tpu-v5p", X=4, Y=2, batch=64, context=4096, layout="X,Y")
    found = advise_on(server, tokens_per_second=server.tokens_per_second * 1.5)
    copies, wider = found.ways["2 replicas of 8 chips"], found.ways[next(reversed(found.ways))]
    assert dict(copies.mesh) == {"X": 4, "Y": 2}
    assert copies.asked["layout"] == "X,Y"
    assert wider.chips == 16
    assert "shard over 16 chips, mesh and layout chosen anew" in str(found)


def test_experts_that_are_repeated_are_counted_once_in_the_wall() -> None:
    """Weights that a layout repeats would not be, were everything shared out evenly."""
    server = inference("llama-3-70b", strategy="ep").at(
        "h100", batch=16_000, context=8192, X=16, Y=1
    )
    found = advise_on(server)
    cached, spare = 16_000 * 8192 * 327_680, 80e9 - server.memory["working"]
    assert found.value == pytest.approx((141_107_412_992 + cached) / spare)


def test_advice_shows_itself() -> None:
    found = llama(batch=100)
    data = found.to_dict()
    assert data["wall"] == "size"
    assert data["inequality"].startswith("n >= ")
    assert set(data["ways"]) == set(found.ways)
    assert "size" in found._repr_latex_()
    assert repr(found) == str(found)
    assert Capacity(server_step("llama-3-8b")).to_dict()["for_all"]["kind"] == "above"


def test_wrong_questions() -> None:
    with pytest.raises(SymbolError, match="latency"):
        llama(latency=0)
    with pytest.raises(SymbolError, match="whole number"):
        llama(batch=1.5)
    with pytest.raises(ModelError, match="made for"):
        llama(context=10**6)
