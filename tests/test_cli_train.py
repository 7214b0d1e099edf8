"""``symscale train`` with stages, experts and techniques: what it prints, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from symscale.cli import main

BASE = ["train", "llama-3-8b", "--chip", "h100", "--chips", "64", "--batch", "1Mi"]


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*BASE, *arguments, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_pipeline(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("--strategy", "fsdp+tp+pp", "--mesh", "P=4,X=2,Y=8", "--microbatches", "16",
                "--schedule", "zb-h1", "--remat", "selective", "--optimizer", "adam+master",
                "--gradients", "f32", "--tokens", "1T", capsys=capsys)  # fmt: skip
    assert found["mesh"] == {"P": 4, "X": 2, "Y": 8}
    assert 0 < found["bubble"] < 0.2
    assert found["techniques"]["remat"] == "selective"
    assert found["step_times_s"]["full"] == found["step_time_s"]
    assert found["step_time_s"] < found["step_times_s"]["none"]
    assert found["days"] == pytest.approx(10**12 / 2**20 * found["step_time_s"] / 86400)
    assert found["fits"]
    assert found["missing_bytes"] == 0


def test_what_does_not_fit_names_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    found = run("--strategy", "dp", "--mesh", "X=64", capsys=capsys)
    assert not found["fits"]
    assert found["missing_bytes"] == found["memory_bytes"] - 80 * 10**9
    assert found["remedy"]["memory_bytes"] <= 80 * 10**9
    assert main([*BASE, "--strategy", "dp", "--mesh", "X=64"]) == 0
    assert "\nto fit: " in capsys.readouterr().out


def test_efficiency_overlap_and_other_figures(capsys: pytest.CaptureFixture[str]) -> None:
    plain = run("--strategy", "fsdp", "--mesh", "X=64", capsys=capsys)
    slow = run("--strategy", "fsdp", "--mesh", "X=64", "--efficiency", "math=0.5", capsys=capsys)
    assert slow["busy_s"]["math"] == pytest.approx(2 * plain["busy_s"]["math"])
    fast = run("--strategy", "fsdp", "--mesh", "X=64", "--set", "C=9.9e15", capsys=capsys)
    assert fast["busy_s"]["math"] < plain["busy_s"]["math"] / 9
    apart = run("--strategy", "fsdp", "--mesh", "X=64", "--overlap", "none", capsys=capsys)
    assert apart["step_time_s"] == plain["step_times_s"]["none"]


def test_guidance_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--strategy", "fsdp+tp", "--mesh", "X=8,Y=8", "--microbatches", "4"]
    found = run(*arguments, "--scaling", capsys=capsys)
    assert found["wall"].startswith("Throughput")
    assert found["innermost"]["orders"][0]["order"] == ["X", "Y"]
    assert found["scaling"]["chips"][0] == 8
    assert main([*BASE, *arguments, "--scaling"]) == 0
    text = capsys.readouterr().out
    assert "Y        8       1  8 in a node" in text
    assert "With Y innermost its links give" in text
    assert main([*BASE, "--strategy", "dp", "--mesh", "X=64"]) == 0
    assert "\nSize: a chip would have to hold" in capsys.readouterr().out


def test_experts_with_a_hot_rank(capsys: pytest.CaptureFixture[str]) -> None:
    moe = ["train", "mixtral-8x7b", "--chip", "h100", "--chips", "64", "--batch", "1Mi", "--seq",
           "4096", "--strategy", "fsdp+ep", "--mesh", "X=8,Z=8", "--json"]  # fmt: skip
    found = []
    for more in ([], ["--imbalance", "1.5"], ["--imbalance", "1.5", "--capacity", "2"]):
        assert main([*moe, *more]) == 0
        found.append(json.loads(capsys.readouterr().out))
    even, hot, padded = (one["busy_s"]["math"] for one in found)
    # Both stretch the experts alone: the second factor of two adds to what 1.5 made of them.
    assert even < hot < padded
    assert padded - even == pytest.approx((3 - 1) / (1.5 - 1) * (hot - even), rel=1e-9)
    assert found[1]["compute_fraction"] < found[0]["compute_fraction"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--strategy", "dp+pp"], "has stages: give --microbatches"),
        (["--strategy", "dp", "--schedule", "1f1b"], "has no stages for schedule='1f1b'; add +pp"),
        (["--strategy", "dp", "--microbatches", "0"], "argument --microbatches"),
        (["--strategy", "dp", "--ends", "1,1"], "has no stages for ends=(1, 1); add +pp"),
        (["--strategy", "dp+pp", "--microbatches", "4", "--ends", "a,b"], "--ends a,b"),
        (["--strategy", "dp", "--offload", "weights"], "offload 'weights' is none of optimizer"),
        (["--strategy", "dp", "--remat", "In,Gat"], "checkpoint 'Gat'"),
        (["--strategy", "dp", "--imbalance", "0"], "imbalance = 0"),
        (["--strategy", "dp", "--efficiency", "math=2"], "efficiency of math = 2"),
        (["--strategy", "dp", "--set", "C"], "write FIGURE=NUMBER"),
        (["--strategy", "dp+pp", "--microbatches", "4", "--mesh", "P=64,X=1"], "at most 34 stages"),
        (["--strategy", "dp", "--overlap", "some"], "argument --overlap"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    mesh = [] if "--mesh" in arguments or "pp" in arguments[1] else ["--mesh", "X=64"]
    try:
        status = main([*BASE, *arguments, *mesh])
    except SystemExit as exit_:
        status = exit_.code  # type: ignore[assignment]
    shown = capsys.readouterr()
    assert status == 2
    assert said in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""
