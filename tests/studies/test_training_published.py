"""Two published runs put together: what was measured lies inside the bounds, and it fits.

Llama 3 405B on 16,384 H100 (arXiv:2407.21783, table 4 and section 3.3.2) and DeepSeek-V3 on 2,048
H800 (arXiv:2412.19437; arXiv:2505.09343, table 4).
"""

from __future__ import annotations

from functools import cache

import pytest

from symscale import chip, model, strategy, training
from symscale.algebra.symbols import T
from symscale.studies.result import StepResult

# --- Llama 3 405B ------------------------------------------------------------------------------

#: 16 Mi tokens in sequences of 8 Ki on 8 x 16 x 128; a layer less on the first and last stage.
TOKENS, LENGTH = 2**24, 8192
MEASURED_TFLOPS, MEASURED_MFU = 400, 0.41


@cache
def llama(chunks: int) -> StepResult:
    """FSDP as Llama 3 does it: states and gradients split, weights kept whole between passes.

    Nothing is computed again; what sequence parallelism gathers is gathered anew.
    """
    split = strategy("zero2+tp+sp+pp", schedule="interleaved", chunks=chunks, microbatches=16,
                     ends=(1, 1), gradients="f32", optimizer="adam+master")  # fmt: skip
    cluster = chip("h100").override(pod=16384)
    return training("llama-3-405b", split, keep="none").at(
        cluster, B=TOKENS, T=LENGTH, X=128, Y=8, P=16, chips=16384
    )


def test_llama_405b_fits_without_computing_again() -> None:
    result = llama(8)
    assert result.fits
    assert result.memory_bytes < 80e9


def test_llama_405b_is_not_faster_than_its_bound() -> None:
    """400 TFLOP/s a chip of model FLOPs were measured, 41 % of the peak."""
    result = llama(8)
    flops = float(model("llama-3-405b").flops_per_token(T, training=True).subs(
        {**model("llama-3-405b"), T: LENGTH}
    ))  # fmt: skip
    bound = flops * TOKENS / result.time / result.chips / 1e12
    assert bound > MEASURED_TFLOPS
    assert 1 > result.compute_fraction > MEASURED_MFU
    # Half of what the bound leaves is the most that a real run lost.
    assert bound < 2 * MEASURED_TFLOPS
    assert result.times["full"] < flops * TOKENS / (MEASURED_TFLOPS * 1e12 * result.chips)


def test_llama_405b_needs_its_chunks() -> None:
    """Sixteen microbatches on sixteen stages: without chunks nearly half of a step is bubble."""
    assert llama(8).bubble == pytest.approx(15 / (8 * 16 + 15), abs=0.02)
    plain = training(
        "llama-3-405b",
        strategy("zero2+tp+sp+pp", microbatches=16, ends=(1, 1)),
        keep="none",
    ).at(chip("h100").override(pod=16384), B=TOKENS, T=LENGTH, X=128, Y=8, P=16)
    assert plain.bubble == pytest.approx(15 / 31, abs=0.02)


# --- DeepSeek-V3 -------------------------------------------------------------------------------

#: 15,360 sequences of 4,096 tokens; 64 expert ranks within 128 data ranks, sixteen stages.
SEQUENCES, SHORT = 15360, 4096
MEASURED_STEP, MEASURED_CAUSAL = 19.926, 0.3894


@cache
def deepseek(remat: object = "none") -> StepResult:
    split = strategy("zero1+ep+pp", schedule="dualpipe", microbatches=120, remat=remat,
                     gradients="f32", optimizer="adam-bf16+master")  # fmt: skip
    # HBM of an H800 is that of an H100.
    cluster = chip("h800").override(pod=2048, W_hbm=3.35e12)
    return training("deepseek-v3", split, keep="none").at(
        cluster, B=SEQUENCES * SHORT, T=SHORT, X=2, Z=64, P=16, chips=2048
    )


def test_deepseek_v3_is_not_faster_than_its_bound() -> None:
    """The bound counts bf16 and every key; nothing is exchanged a second time."""
    result = deepseek()
    assert result.time < MEASURED_STEP < result.times["none"]
    assert 1 > result.compute_fraction > MEASURED_CAUSAL
    assert result.bottleneck == "dcn"
    assert result.time >= max(result.busy.values())


def test_deepseek_v3_fits_when_blocks_are_computed_again() -> None:
    """In bf16 it needs more recomputation than the run had, which kept activations in fp8."""
    assert not deepseek().fits
    assert deepseek(("In", "Mid", "O")).fits
    again = deepseek("block")
    assert again.fits
    assert again.memory_bytes < deepseek(("In", "Mid", "O")).memory_bytes


def test_deepseek_v3_exchanges_what_its_layers_say() -> None:
    """Eight experts a token there and back, forward and backward, in each of 58 layers."""
    result = deepseek()
    tokens = SEQUENCES * SHORT / 128
    volume = 4 * tokens * 8 * 7168 * 2 * 58 / 16
    # The textbook's fidelity counts all of it as crossing the network; messages of the pipeline and
    # gradients of the dense weights come on top.
    assert result.busy["dcn"] == pytest.approx(volume / 5e10, rel=0.03)
    assert result.busy["dcn"] > volume / 5e10
