"""Laws of serving, on random models, chips and batches."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from symscale import inference
from symscale.algebra.errors import HardwareError, ShardingError
from symscale.studies.inference import Inference
from symscale.studies.inference_layout import CacheCut
from symscale.studies.inference_result import InferenceResult

NAMES = ("llama-3-8b", "llama-3-70b", "gpt-oss-20b", "mixtral-8x7b", "gemma-2-9b", "mamba-130m",
         "deepseek-v2-lite")  # fmt: skip
CHIPS = ("tpu-v5e", "tpu-v5p", "h100", "mi300x")
FEW = settings(max_examples=25, deadline=None)

STUDIES = {(name, kind): inference(name, kind, kind) for name in NAMES for kind in ("bf16", "int8")}
studies = st.sampled_from(sorted(STUDIES)).map(lambda key: STUDIES[key])
batches = st.integers(1, 512)
contexts = st.integers(1, 1024)
ways = st.sampled_from([1, 2, 4, 8, 16, 32, 64])


def step(study: Inference, chip: str, **how: Any) -> InferenceResult:
    """A step, or no example where the chips do not divide the model."""
    try:
        return study.at(chip, **how)
    except (HardwareError, ShardingError):
        assume(False)
        raise


@FEW
@given(studies, st.sampled_from(CHIPS), ways, batches, contexts, st.integers(1, 512))
def test_a_token_never_waits_less_with_a_larger_batch(
    study: Inference, chip: str, chips: int, batch: int, context: int, more: int
) -> None:
    """Whatever the batches, and whichever mesh and cut of the cache is best for each."""
    small = step(study, chip, chips=chips, batch=batch, context=context)
    large = step(study, chip, chips=chips, batch=batch + more, context=context)
    assert large.step_time >= small.step_time * (1 - 1e-9)
    assert small.fits or not large.fits
    assert large.largest_batch == small.largest_batch
    assert large.fits == (batch + more <= large.largest_batch)


@FEW
@given(
    studies, st.sampled_from(CHIPS), ways, batches, contexts, st.integers(1, 512),
    st.sampled_from(["heads", "batch"]),
)  # fmt: skip
def test_throughput_rises_with_the_batch_and_latency_does_not_fall(
    study: Inference, chip: str, chips: int, batch: int, context: int, more: int, cut: CacheCut
) -> None:
    """On one mesh, one cut of the cache. Rows that stand empty are no tokens."""
    lies = study.with_cache(cut)
    small = step(lies, chip, chips=chips, batch=batch, context=context)
    large = step(lies, chip, chips=chips, batch=batch + more, context=context)
    filled = large.batch / large.padded_batch
    rows = large.batch_step
    assert large.padded_batch - large.batch < rows
    assert large.padded_batch % rows == 0
    for method in ("per-op", "aggregate"):
        for overlap in ("full", "critical", "none"):
            before, after = (made.seconds(method, overlap) for made in (small, large))
            assert after >= before * (1 - 1e-9)
            assert large.batch / after >= filled * small.batch / before * (1 - 1e-9)
            assert large.tokens_per_second == large.batch / large.step_time


@FEW
@given(st.sampled_from([2, 4, 8, 16, 32]), st.integers(1, 400), st.sampled_from(["ep", "wg", "2d"]))
def test_every_batch_is_served_on_meshes_of_two_axes(parts: int, batch: int, name: str) -> None:
    study = inference("llama-3-70b", "int8", "int8", strategy=name)
    small = step(study, "tpu-v5p", chips=2 * parts, batch=batch, context=4096)
    large = small.again(batch=batch + 1)
    assert large.step_time >= small.step_time * (1 - 1e-9)
    assert large.largest_batch == small.largest_batch
    assert small.fits == (batch <= small.largest_batch)


@FEW
@given(studies, st.sampled_from(CHIPS), ways, contexts)
def test_more_chips_never_lower_the_largest_batch(
    study: Inference, chip: str, chips: int, context: int
) -> None:
    few = step(study, chip, chips=chips, batch=1, context=context)
    many = step(study, chip, chips=2 * chips, batch=1, context=context)
    assert many.largest_batch >= few.largest_batch


@FEW
@given(studies, ways, batches, contexts, st.integers(1, 300))
def test_what_is_needed_is_at_most_what_is_reserved(
    study: Inference, chips: int, batch: int, context: int, block: int
) -> None:
    made = step(study, "h100", chips=chips, batch=batch, context=context, block=block)
    assert made.needed_cache <= made.memory.get("cache", 0)
    wasted = made.memory.get("cache", 0) - made.needed_cache
    assert wasted <= batch * block * max(made.kv_bytes_per_token, 1)


@FEW
@given(studies, st.sampled_from(CHIPS), ways, contexts)
def test_the_largest_batch_fits_and_the_next_does_not(
    study: Inference, chip: str, chips: int, context: int
) -> None:
    made = step(study, chip, chips=chips, batch=1, context=context)
    most = made.largest_batch
    if most:
        assert made.again(batch=most).fits
    beyond = step(study, chip, chips=chips, batch=most + 1, context=context)
    assert not beyond.fits


@FEW
@given(studies, ways, batches, st.integers(1, 1000), st.integers(0, 24))
def test_longer_contexts_take_no_less(
    study: Inference, chips: int, batch: int, context: int, more: int
) -> None:
    short = step(study, "h100", chips=chips, batch=batch, context=context)
    long = step(study, "h100", chips=chips, batch=batch, context=context + more)
    assert long.step_time >= short.step_time * (1 - 1e-9)
    assert long.memory_bytes >= short.memory_bytes
    assert long.largest_batch <= short.largest_batch
