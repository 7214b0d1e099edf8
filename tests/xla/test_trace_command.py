"""``symscale trace``: measured time beside the derived bounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from symscale.cli import main
from symscale.hardware.chips import chip
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.strategy import strategy
from symscale.xla.bounds import derived_bounds

TRACE = str(Path(__file__).parent / "data" / "mlp.trace.json.gz")
SIZES = {"B": 4096, "D": 512, "F": 2048}


def test_bounds_are_those_of_a_hand_count() -> None:
    """FSDP over four v5e: both weights gathered once forward, and again before their gradients."""
    layer = two_matmul_layer().shard(strategy("fsdp"))
    found = derived_bounds(layer, chip("tpu-v5e"), {"X": 4}, SIZES, training=True)
    flops = 12 * 4096 * 512 * 2048 / 4
    weights = 2 * 2 * 512 * 2048
    links = 2 * 9e10  # one mesh axis over both physical axes of the torus
    assert found["matmul"] == pytest.approx(flops / 1.97e14)
    assert found["AllGather"] == pytest.approx(2 * weights / links)
    assert found["ReduceScatter"] == pytest.approx(weights / links)
    assert found["comms"] == pytest.approx(3 * weights / links)
    assert found["step"] >= max(found["compute"], found["comms"]) * (1 - 1e-12)


def test_a_trace_beside_its_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ",".join(f"{name}={size}" for name, size in SIZES.items())
    status = main(
        ["trace", TRACE, "--steps", "12", "--chip", "tpu-v5e", "--sizes", sizes, "--json"]
    )
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert status == 0
    assert found["steps"] == 12
    rows = json.dumps(found)
    assert "AllGather" in rows
    assert "bound" in rows


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nofile"], "nofile"),
        ([TRACE, "--chip", "tpu-v5e"], "no value for B"),
        ([TRACE, "--chip", "tpu-v5"], "unknown chip"),
        ([TRACE, "--steps", "0"], "above zero"),
    ],
)
def test_wrong_arguments(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    try:
        status = main(["trace", *arguments])
    except SystemExit as stop:
        status = int(stop.code or 0)
    err = capsys.readouterr().err
    assert status == 2
    assert err.count("\n") == 1
    assert said in err
