"""Generation over stages: the ring against a simulation of it, memory, and what is refused."""

from __future__ import annotations

import heapq
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Integer

from symscale import inference
from symscale.algebra.errors import ShardingError, SymbolError, SymscaleError
from symscale.studies.inference_pipeline import bubble_of_ring, pipelined, turn_of
from tests.test_cli import data, refused


def simulated(stages: int, groups: int, tokens: int = 12) -> tuple[float, float]:
    """A ring, event by event: ticks between a group's tokens at last, and the share of idleness.

    A stage works for one group at a time, in the order of their coming; a group's next token starts
    when its last is done.
    """
    free = [0] * stages
    coming = [(0, number, 0, 0) for number in range(groups)]
    done: dict[int, list[int]] = {number: [] for number in range(groups)}
    heapq.heapify(coming)
    while coming:
        time, group, stage, token = heapq.heappop(coming)
        end = max(time, free[stage]) + 1
        free[stage] = end
        if stage + 1 < stages:
            heapq.heappush(coming, (end, group, stage + 1, token))
            continue
        done[group].append(end)
        if token + 1 < tokens:
            heapq.heappush(coming, (end, group, 0, token + 1))
    turn = done[0][-1] - done[0][-2]
    return turn, 1 - groups / turn


@given(st.integers(1, 7), st.integers(1, 9))
def test_the_ring_turns_as_simulated(stages: int, groups: int) -> None:
    turn, idle = simulated(stages, groups)
    sizes = Integer(stages), Integer(groups)
    assert turn_of(*sizes, Integer(1)) == turn
    assert float(bubble_of_ring(*sizes)) == pytest.approx(idle)


@pytest.mark.parametrize(("stages", "groups"), [(2, 2), (4, 4), (4, 1), (2, 6)])
def test_stages_share_layers_and_groups_share_time(stages: int, groups: int) -> None:
    study = inference("llama-3-70b", "int8", "int8")
    found = pipelined(
        study, "h100", stages=stages, chips=4 * stages, batch=48, groups=groups, context=2048
    )
    one = study.at("h100", chips=4, batch=48 // groups, context=2048)
    turns = max(stages, groups) / stages
    # The head is behind the last layers, a hand-over after each stage.
    assert one.step_time * turns < found.step_time < one.step_time * turns * 1.15
    assert found.bubble == max(0, 1 - groups / stages)
    whole = study.at("h100", chips=4, batch=48, context=2048)
    assert found.memory["cache"] * stages == whole.memory["cache"]
    inner = study.model.params.count - 2 * 8192 * 128256
    assert found.memory["weights"] == pytest.approx(
        inner / stages / 4 + 8192 * 128256 / 4, rel=1e-3
    )


def test_more_groups_than_stages_read_weights_more_often() -> None:
    study = inference("llama-3-70b", "int8", "int8")
    how: dict[str, Any] = {"stages": 2, "chips": 16, "batch": 64, "context": 2048}
    times = [pipelined(study, "h100", groups=g, **how).step_time for g in (2, 4, 8)]
    assert times == sorted(times)
    assert study.at("h100", chips=16, batch=64, context=2048).step_time < times[0]


def test_prefill_in_chunks_fills_the_stages() -> None:
    study = inference("llama-3-70b", "int8", "int8")
    found = pipelined(study, "h100", stages=4, chips=16, batch=4, context=2048)
    alone = [found.prefill_time(2048, chunks) for chunks in (1, 2, 8, 64)]
    assert alone == sorted(alone, reverse=True)
    # (chunks + stages - 1)/chunks over the time of a pipeline that never waits.
    assert alone[0] / alone[2] == pytest.approx(4 / (11 / 8))


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"stages": 3}, ShardingError, "not dealt out evenly to 3 stages"),
        ({"stages": 4, "groups": 3}, ShardingError, "largest below that is 15"),
        ({"stages": 81, "chips": 81}, SymbolError, "has 80 layers"),
        ({"stages": 0}, SymscaleError, "above zero"),
        ({"stages": 1.5}, SymbolError, "whole number"),
    ],
)
def test_refused(how: dict[str, Any], error: type[Exception], words: str) -> None:
    study = inference("llama-3-70b", "int8")
    asked = {"chips": 16, "batch": 16, "context": 1024, **how}
    with pytest.raises(error, match=words):
        pipelined(study, "h100", **asked)


def test_stages_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("serve", "llama-3-70b", "--chip", "h100", "--chips", "16", "--batch", "64",
           "--context", "4096", "--stages", "2")  # fmt: skip
    found = data(capsys, *ask)
    assert found["stages"] == found["groups"] == 2
    assert found["bubble"] == 0
    assert found["tokens_per_s"] == pytest.approx(64 / found["step_time_s"])
    assert "give its --stages too" in refused(capsys, *ask[:-2], "--groups", "2")
    assert "--mesh goes without --stages" in refused(capsys, *ask, "--mesh", "Y=8")
