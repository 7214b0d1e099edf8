"""``symscale flops``: options that contradict each other, and what recomputation covers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from symscale.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["flops", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


def count(capsys: pytest.CaptureFixture[str], *arguments: str) -> float:
    status, out, _ = run(capsys, *arguments, "--json")
    assert status == 0
    found: dict[str, Any] = json.loads(out)
    return float(found["flops_per_token"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["llama-3-8b", "--context", "512", "--decode", "--training"], "without --training"),
        (["llama-3-8b", "--context", "512", "--naive"], "give it with --decode"),
        (["t5-small", "--context", "512", "--decode"], "for decoders without an encoder"),
        (["bert-base", "--context", "512", "--decode"], "for decoders without an encoder"),
    ],
)
def test_what_contradicts_itself(
    capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_recomputation_covers_prediction_modules(capsys: pytest.CaptureFixture[str]) -> None:
    """Full recomputation runs the module's layer forward once more, but for its last product.

    The shared expert's way down ends the layer: nothing in the backward pass reads its result. Head
    and join of the module are kept.
    """
    base = ["deepseek-v3", "--context", "4096", "--training"]
    plain = count(capsys, *base, "--mtp") - count(capsys, *base)
    again = count(capsys, *base, "--mtp", "--recompute", "full") - count(
        capsys, *base, "--recompute", "full"
    )
    head, join, last = 6 * 7168 * 129280, 6 * 2 * 7168**2, 2 * 7168 * 2048
    assert again - plain == pytest.approx((plain - head - join) / 3 - last, rel=1e-9)
