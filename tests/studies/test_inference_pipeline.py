"""Generation over stages: the ring against a simulation of it, memory, and what is refused."""

from __future__ import annotations

import heapq
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Integer

from symscale import inference
from symscale.algebra.errors import (
    HardwareError,
    ModelError,
    ShardingError,
    SymbolError,
    SymscaleError,
)
from symscale.algebra.symbols import B, T
from symscale.parallel.schedules.lookup import schedule
from symscale.studies.inference_pipeline import Pipelined, pipelined
from symscale.studies.inference_prefill import prefill
from symscale.studies.inference_result import as_float
from symscale.studies.inference_row import row_time
from symscale.studies.inference_stages import bubble_of_ring, turn_of
from tests.test_cli import data, refused


def simulated(stages: list[int], groups: int, tokens: int = 16) -> tuple[Fraction, Fraction]:
    """A ring, event by event: ticks between a group's tokens at last, and the share of idleness.

    A stage works for one group at a time, in the order of their coming, each stage for so many
    ticks; a group's next token starts when its last is done. In the end the ring repeats itself
    after some tokens, over which the ticks are averaged.
    """
    free = [0] * len(stages)
    coming = [(0, number, 0, 0) for number in range(groups)]
    done: dict[int, list[int]] = {number: [] for number in range(groups)}
    heapq.heapify(coming)
    while coming:
        time, group, stage, token = heapq.heappop(coming)
        end = max(time, free[stage]) + stages[stage]
        free[stage] = end
        if stage + 1 < len(stages):
            heapq.heappush(coming, (end, group, stage + 1, token))
            continue
        done[group].append(end)
        if token + 1 < tokens:
            heapq.heappush(coming, (end, group, 0, token + 1))
    turn = Fraction(done[0][-1] - done[0][tokens // 2 - 1], tokens - tokens // 2)
    return turn, 1 - groups * Fraction(sum(stages), len(stages)) / turn


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 9))
def test_the_ring_turns_as_simulated(stages: list[int], groups: int) -> None:
    turn, idle = simulated(stages, groups)
    seconds = [Integer(one) for one in stages]
    assert turn_of(seconds, Integer(groups)) == turn
    assert float(bubble_of_ring(seconds, Integer(groups))) == pytest.approx(float(idle))


@given(st.integers(1, 6), st.integers(1, 9), st.integers(1, 5))
def test_equal_stages_in_a_row_wait_as_a_schedule_of_forward_passes(
    stages: int, chunks: int, ticks: int
) -> None:
    waits = float(schedule("gpipe", p=stages, m=chunks).bubble_of_ideal)
    assert row_time([[ticks] * stages] * chunks) == pytest.approx(chunks * ticks * (1 + waits))


@pytest.mark.parametrize(("stages", "groups"), [(2, 2), (4, 4), (4, 1), (2, 6)])
def test_stages_share_layers_and_groups_share_time(stages: int, groups: int) -> None:
    study = inference("llama-3-70b", "int8", "int8")
    found = pipelined(
        study, "h100", stages=stages, chips=4 * stages, batch=48, groups=groups, context=2048
    )
    one = study.at("h100", chips=4, batch=48 // groups, context=2048)
    turns = max(stages, groups) / stages
    # Stages are not quite alike, and there is a hand-over between them.
    assert one.step_time * turns < found.step_time < one.step_time * turns * 1.15
    assert max(0, 1 - groups / stages) <= found.bubble < max(0, 1 - groups / stages) + 0.1
    whole = study.at("h100", chips=4, batch=48, context=2048)
    layer = (study.model.params.count - 2 * 8192 * 128256) / 80
    held = [sum(stage.counts[:-2]) for stage in found.dealt]
    assert sum(held) == 80
    tables = [8192 * 128256 * sum(stage.counts[-2:]) for stage in found.dealt]
    cache = whole.memory["cache"] * 4 / 80
    fullest = max(range(stages), key=lambda i: held[i] * (layer + cache) + tables[i])
    assert found.memory["weights"] == pytest.approx(
        (held[fullest] * layer + tables[fullest]) / 4, rel=1e-3
    )
    assert found.memory["cache"] * 80 == whole.memory["cache"] * held[fullest]


def test_unlike_layers_are_counted_stage_by_stage() -> None:
    """DeepSeek-V3's first three layers are dense; the fullest stage has 16 layers of experts."""
    study = inference("deepseek-v3", "fp8")
    found = pipelined(study, "h200", stages=4, chips=32, batch=64, context=4096)
    assert [stage.counts for stage in found.dealt] == [
        (3, 12, 1, 0), (0, 15, 0, 0), (0, 16, 0, 0), (0, 15, 0, 1)
    ]  # fmt: skip
    experts = 256 * 3 * 7168 * 2048
    assert found.memory["weights"] > 16 * experts / 8
    assert found.memory["weights"] < 16 * experts * 1.04 / 8
    # The ring turns with its slowest stage: no slower one is left out by a mean.
    slowest = max(found.group.number(one) for one in found.seconds.values())
    assert found.step_time >= 4 * slowest
    layers = pipelined(study, "h200", stages=1, chips=8, batch=16, context=4096)
    assert sum(map(float, found.busy)) > layers.step_time


def test_more_groups_than_stages_read_weights_more_often() -> None:
    study = inference("llama-3-70b", "int8", "int8")
    how: dict[str, Any] = {"stages": 2, "chips": 16, "batch": 64, "context": 2048}
    times = [pipelined(study, "h100", groups=g, **how).step_time for g in (2, 4, 8)]
    assert times == sorted(times)
    assert study.at("h100", chips=16, batch=64, context=2048).step_time < times[0]


def test_prefill_in_chunks_fills_the_stages_and_reads_weights_again() -> None:
    """Llama 3 70B, 4 stages of two chips: 17.4 GB a chip are read, whatever the chunks."""
    study = inference("llama-3-70b")
    found = pipelined(study, "h100", stages=4, chips=8, batch=8, context=4096)
    # All stages' weights one after another: the least that a token can take.
    read = (study.model.params.count - 128256 * 8192) * 2 / 2 / 3.35e12
    whole, parts = found.prefill_time(128), found.prefill_time(128, 4)
    assert whole > read
    assert parts > read * (4 + 4 - 1) / 4
    assert whole < 1.15 * read
    # A long prompt is arithmetic, and fills the stages; in tiny chunks it is reading again.
    times = {chunks: found.prefill_time(4096, chunks) for chunks in (1, 4, 16, 512)}
    assert times[16] < times[4] < times[1] < times[512]
    assert times[1] / times[4] == pytest.approx(4 / (7 / 4), rel=0.05)
    assert found.prefill_time(4096, 4, mfu=0.5) > times[4] * 1.5


def test_one_stage_and_one_chunk_is_a_plain_prefill() -> None:
    for name in ("llama-3-8b", "jamba-v0.1", "deepseek-v2-lite"):
        study = inference(name)
        found = pipelined(study, "h200", stages=1, chips=2, batch=2, context=1024)
        plain = prefill(study.at("h200", chips=2, batch=2, context=1024), 1000)
        assert found.prefill_time(1000) == pytest.approx(plain.time, rel=1e-6)
        assert found.prefill_time(1000, mfu=0.3) >= plain.math / 0.3 * (1 - 1e-9)
        assert found.step_time == pytest.approx(found.group.step_time, rel=1e-3)


def test_chunks_do_all_the_arithmetic_of_a_prompt() -> None:
    study = inference("llama-3-70b")
    found = pipelined(study, "h100", stages=4, chips=8, batch=8, context=4096)
    whole = prefill(study.at("h100", chips=2, batch=8, context=4096), 4000).math
    done = 0.0
    for past, tokens in ((0, 1000), (1000, 500), (1500, 2500)):
        for stage in found.dealt:
            made = found.staged.chunk(stage, past, tokens, 1, past == 1500)
            values = {**found.group.values, B: Integer(tokens), T: Integer(tokens)}
            done += as_float(made.total("math"), values)
    assert done == pytest.approx(whole, rel=1e-9)


def test_a_prompt_beyond_the_context_is_refused() -> None:
    found = pipelined(inference("llama-3-8b"), "h100", stages=2, chips=2, batch=2, context=100)
    with pytest.raises(ModelError, match="at most 8192"):
        found.prefill_time(100_000)
    with pytest.raises(SymbolError, match="at most 16"):
        found.prefill_time(16, 17)
    with pytest.raises(SymbolError, match="mfu"):
        found.prefill_time(16, mfu="a")  # type: ignore[arg-type]


def test_the_largest_batch_of_stages_fits_and_the_next_does_not() -> None:
    study = inference("deepseek-v3", "fp8")

    def at(batch: int) -> Pipelined:
        return pipelined(study, "h100", stages=4, chips=64, batch=batch, context=4096)

    most = at(4).largest_batch
    assert at(most).fits
    assert not at(most + 4).fits
    assert "largest batch at this context is" in at(most + 4).notes[-1]


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"stages": 3}, ShardingError, "not dealt out evenly to 3 stages; .* that works is 2"),
        ({"batch": 2, "groups": 4}, ShardingError, "4 is the smallest"),
        ({"batch": "x"}, SymbolError, "a number is wanted"),
        ({"layout": 3}, HardwareError, "layout 3"),
        ({"stages": 4, "groups": 3}, ShardingError, "largest below that is 15"),
        ({"stages": 81, "chips": 81}, SymbolError, "has 80 layers"),
        ({"stages": 0}, SymscaleError, "above zero"),
        ({"stages": 1.5}, SymbolError, "whole number"),
    ],
)
def test_refused(how: dict[str, Any], error: type[Exception], words: str) -> None:
    study = inference("llama-3-70b", "int8")
    asked = {"stages": 4, "chips": 16, "batch": 16, "context": 1024, **how}
    with pytest.raises(error, match=words):
        pipelined(study, "h100", **asked)


def test_stages_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("serve", "llama-3-70b", "--chip", "h100", "--chips", "16", "--batch", "64",
           "--context", "4096", "--stages", "2")  # fmt: skip
    found = data(capsys, *ask)
    assert found["stages"] == found["groups"] == 2
    assert 0 <= found["bubble"] < 0.05
    assert found["tokens_per_s"] == pytest.approx(64 / found["step_time_s"])
    assert found["bottleneck"] == "hbm"
    assert found["kv_bytes_per_token"] == 327_680
    assert found["max_batch"] >= 64
    assert found["chip"] == "h100"
    assert data(capsys, *ask, "--prefill", "512")["ttft_s"] > 0
    slow = data(capsys, *ask, "--prefill", "4096", "--mfu", "0.2")["ttft_s"]
    assert slow > 2 * data(capsys, *ask, "--prefill", "4096")["ttft_s"]
    assert "give its --stages too" in refused(capsys, *ask[:-2], "--groups", "2")
    assert "at most 8192" in refused(capsys, *ask, "--prefill", "100000")


@pytest.mark.parametrize(
    "option",
    [
        ("--mesh", "Y=8"), ("--explain",), ("--sweep",), ("--pareto",), ("-o", "out"),
        ("--want", "1e6"), ("--within", "0.1"), ("--answer", "100"), ("--link", "1e9"),
        ("--alpha", "0.8"), ("--draft", "0.1"), ("--replicas", "2"),
    ],
)  # fmt: skip
def test_what_stages_do_not_have_is_refused(
    capsys: pytest.CaptureFixture[str], option: tuple[str, ...]
) -> None:
    ask = ("serve", "llama-3-70b", "--chip", "h100", "--chips", "16", "--batch", "64",
           "--context", "4096", "--stages", "2")  # fmt: skip
    name = "--output" if option[0] == "-o" else option[0]
    assert f"{name} goes without --stages" in refused(capsys, *ask, *option)
    assert "layout names foo" in refused(capsys, *ask, "--layout", "foo")
    assert "--mfu says nothing without --prefill" in refused(capsys, *ask, "--mfu", "0.5")
