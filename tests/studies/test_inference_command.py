"""symscale serve and symscale fit, and what fits: text, JSON, and one line where input is wrong."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from symscale import inference
from symscale.studies.inference_fit import fit
from tests.test_cli import data, refused, run

SERVE = ("serve", "llama-3-70b", "--chip", "tpu-v5e", "--batch", "32", "--weights", "int8",
         "--kv", "int8")  # fmt: skip


def test_serve(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, *SERVE, "--chips", "8", "--context", "8192")
    assert found["kv_bytes_per_token"] == 163_840
    assert found["fits"] is True
    assert found["bottleneck"] == "hbm"
    assert found["tokens_per_s"] == pytest.approx(32 / found["step_time_s"])
    assert found["memory_bytes"] == sum(found["memory"].values())
    assert found["ttft_s"] is None


def test_serve_with_a_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, *SERVE, "--chips", "16", "--prefill", "8Ki", "--mfu", "0.4")
    assert found["ttft_s"] == pytest.approx(0.98, rel=0.02)
    assert found["prompt"] == 8192
    whole = data(capsys, *SERVE, "--chips", "16", "--prefill", "8Ki")
    assert whole["prefill_tokens_per_s"] == pytest.approx(8192 / whole["ttft_s"])


def test_serve_says_why_the_models_differ(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *SERVE, "--chips", "8", "--explain")
    assert status == 0
    assert "tables are looked up, not read whole" in out
    assert "per-op against aggregate: within 1 %" in out


def test_serve_says_how_much_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *SERVE[:5], "64", *SERVE[6:], "--chips", "8")
    assert status == 0
    assert "too many on each chip; the largest batch at this context is 42" in out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--chips", "3"), "do not divide 64 query heads over 8 key/value heads"),
        (("--chips", "8", "--context", "10000"), "at most 8192 tokens"),
        (("--chips", "8", "--prefill", "10000"), "at most 8192 tokens"),
        (("--chips", "8", "--strategy", "dp"), "unknown serving strategy 'dp'"),
        (("--chips", "8", "--experts", "int8"), "no component 'experts'"),
        (("--chips", "8", "--mesh", "Q=2"), "Q = 2"),
        (("--chips", "8", "--share", "1.2"), "share = 1.2"),
        (("--chips", "0"), "above zero"),
        (("--chips", "8", "--compute", "fp4"), "tpu-v5e has no C_fp4"),
        (("--chips", "1024"), "largest number below that does is 64"),
    ],
)
def test_serve_refuses(
    capsys: pytest.CaptureFixture[str], more: tuple[str, ...], words: str
) -> None:
    assert words in refused(capsys, *SERVE, *more)


@pytest.mark.parametrize(
    ("batch", "total", "milliseconds"),
    [(1, 32.7, 4.98), (8, 79.6, 12.13), (16, 133.2, 20.30), (32, 240.4, 36.65), (64, 454.8, 69.33),
     (240, 1634, 249.09)],
)  # fmt: skip
def test_steps_of_llama_2_13b(
    capsys: pytest.CaptureFixture[str], batch: int, total: float, milliseconds: float
) -> None:
    """The book's table for 4x2 v5e and 8192 tokens, twice what the model is made for.

    How To Scale Your Model, chapter 7: weights of 26 GB and 6.7 GB of cache a sequence.
    """
    how = ("serve", "llama-2-13b", "--chip", "tpu-v5e", "--chips", "8", "--weights", "bf16",
           "--kv", "bf16", "--batch", str(batch), "--context", "8192")  # fmt: skip
    assert "at most 4096 tokens" in refused(capsys, *how)
    for method in ("per-op", "aggregate"):
        found = data(capsys, *how, "--beyond", "--method", method)
        held = found["memory"]["weights"] + found["memory"]["cache"]
        assert 8 * held / 1e9 == pytest.approx(total, rel=4e-3)
        assert found["step_time_s"] * 1e3 == pytest.approx(milliseconds, rel=7e-3)
        assert found["tokens_per_s"] == pytest.approx(batch / milliseconds * 1e3, rel=7e-3)
        assert found["bottleneck"] == "hbm"
        assert found["fits"] is (total < 8 * 16)


def test_fit_command(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "fit", "llama-3-70b", "--chip", "h100")
    assert found["weight_bytes"] == 141_107_412_992
    assert found["chips_for_weights"] == 2
    assert found["chips"] == 2
    assert found["max_batch"] >= 1
    assert "chip" in refused(capsys, "fit", "llama-3-70b", "--chip", "h900")
    assert "no number of" in refused(capsys, "fit", "llama-3.1-405b", "--chip", "rtx-4090")


# --- what fits -----------------------------------------------------------------------------------


def test_two_devices_hold_the_weights_and_the_true_count_is_more() -> None:
    """70B in half precision: 140 GB, two of 80 GB; cache, buffers and concurrency come on top."""
    study = inference("llama-3-70b", "bf16", "bf16")
    alone = fit(study, "h100", batch=1, context=128)
    assert alone.weight_bytes == pytest.approx(140e9, rel=0.01)
    assert alone.chips_for_weights == alone.chips == 2
    served = fit(study, "h100", batch=64, context=8192, buffers=8 * 10**9)
    needed = alone.weight_bytes + 64 * 8192 * 327_680
    assert served.chips_for_weights == 2
    assert served.chips_evenly == ceil(needed / 72e9) == 5
    assert served.chips == 8
    assert served.result.fits
    assert not served.result.again(chips=4).fits


@pytest.mark.parametrize("batch", [1, 16, 64])
def test_doubling_devices_gives_less_than_double(batch: int) -> None:
    found = fit(inference("llama-3-70b", "bf16", "bf16"), "h100", batch=batch, context=4096)
    assert found.speedup_of_doubling is not None
    assert 1 < found.speedup_of_doubling < 2
    doubled = found.doubled
    assert doubled is not None
    assert doubled.chips == 2 * found.chips
    # Room for the cache more than doubles: the weights are there already.
    assert doubled.largest_batch > 2 * found.max_batch


@pytest.mark.parametrize(
    ("name", "chip", "how", "expected"),
    [
        ("llama-3-70b", "tpu-v5e", {"weights": "int8"}, 8),
        ("llama-3-70b", "tpu-v5p", {"weights": "int8"}, 4),
        ("llama-3-8b", "tpu-v5e", {"weights": "int8"}, 1),
        ("llama-3.1-405b", "h100", {"weights": "bf16"}, 16),
        ("deepseek-v3", "h200", {}, 8),
    ],
)
def test_sizes_that_can_be_had(name: str, chip: str, how: dict[str, Any], expected: int) -> None:
    found = fit(inference(name, **how), chip, batch=1, context=1024)
    assert found.chips == expected
    assert found.chips_for_weights <= found.chips_evenly <= found.chips
    assert found.to_dict()["chips"] == expected
    assert str(expected) in repr(found)
