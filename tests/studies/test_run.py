"""A whole run: days, chip-hours and cost, against counts by hand and published times."""

from __future__ import annotations

import json

import pytest

from symscale import training
from symscale.algebra.errors import SymbolError
from symscale.cli import main
from symscale.studies.run import training_run

STEP = training("llama-3-70b", "fsdp+tp").at("tpu-v5p", B=2**22, X=2048, Y=4)
#: 6 FLOPs for each parameter of a matmul, and 12 L N H T for the scores, for one token.
FLOPS_A_TOKEN = 6 * (70_553_706_496 - 128256 * 8192 - 1_318_912) + 12 * 80 * 64 * 128 * 8192


def test_days_at_a_utilisation() -> None:
    run = training_run(STEP, 15 * 10**12, mfu=0.4)
    wanted = FLOPS_A_TOKEN * 15e12 / (8192 * 4.59e14 * 0.4) / 86400
    assert run.days == pytest.approx(wanted, rel=1e-9)
    assert run.flops == pytest.approx(FLOPS_A_TOKEN * 15e12, rel=1e-9)
    assert run.chip_hours == pytest.approx(wanted * 24 * 8192)
    assert run.cost_usd == pytest.approx(wanted * 24 * 8192 * 4.2)


def test_the_book_s_44_days() -> None:
    """6.3e24 FLOPs on 8960 chips at 40 %: the run's days scaled to those FLOPs and chips."""
    run = training_run(STEP, 15 * 10**12, mfu=0.4)
    days = run.days * (6.3e24 / run.flops) * (8192 / 8960)
    assert days == pytest.approx(44.3247322076979, rel=1e-9)


def test_at_the_bound_utilisation_is_the_compute_fraction() -> None:
    run = training_run(STEP, 10**12)
    assert run.mfu == pytest.approx(STEP.compute_fraction)
    assert run.step_seconds == pytest.approx(STEP.time)
    assert run.mfu <= 1


def test_a_chip_without_a_price_has_no_cost() -> None:
    step = training("llama-2-7b", "fsdp").at("tpu-v4p", B=2**20, X=64)
    assert training_run(step, 10**9).cost_usd is None


@pytest.mark.parametrize(("tokens", "mfu"), [(0, None), (10**9, 0.0), (10**9, 1.5), (1.5, None)])
def test_what_cannot_be(tokens: float, mfu: float | None) -> None:
    with pytest.raises(SymbolError):
        training_run(STEP, tokens, mfu)  # type: ignore[arg-type]


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "llama-3-70b", "--chip", "tpu-v5p", "--chips", "8960", "--batch", "4Mi"]
    assert main([*arguments, "--strategy", "fsdp+tp", "--tokens", "15T", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mesh"] == {"X": 2048, "Y": 4}
    assert found["bottleneck"] == "math"
    assert found["fits"] is True
    assert found["memory_bytes"] == STEP.memory_bytes
    assert found["step_time_s"] == pytest.approx(STEP.time)
    assert found["days"] > 0
    assert found["cost_usd"] > 0


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "llama-3-70b", "--chip", "tpu-v5p", "--chips", "8", "--batch", "4Mi"]
    assert main([*arguments, "--strategy", "fsdp", "--mesh", "X=3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
