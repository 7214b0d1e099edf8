"""Sweeps of a model on a chip: each point is what inference says there, and its limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symscale.algebra.errors import ModelError, ShardingError, SymbolError
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b, n
from symscale.hardware.chips import chip
from symscale.studies.inference import inference
from symscale.studies.serving.pareto import pareto
from symscale.studies.serving.served import placed_step, served_options, sweep
from symscale.studies.serving.step import server_step

BATCHES = (1, 8, 16, 64, 200)
CONTEXTS = (1024, 8192)
FOUND = sweep(
    "llama-3-70b", "tpu-v5e", chips=(8, 16), batch=BATCHES, context=CONTEXTS,
    weights=("int8", "int4"), kv=("int8",),
)  # fmt: skip


def test_every_point_is_what_inference_says() -> None:
    for weights in ("int8", "int4"):
        study = inference("llama-3-70b", weights=weights, kv="int8")
        for chips, batch, context in ((8, 64, 1024), (16, 16, 8192), (8, 200, 8192)):
            said = study.at(
                "tpu-v5e", chips=chips, batch=batch, context=context, method="aggregate"
            )
            here = [
                point
                for point in FOUND.points()
                if point.option.name.startswith(f"{weights},")
                and (point.option.chips, point.batch, point.context) == (chips, batch, context)
            ]
            best = min((p for p in here if p.fits), key=lambda p: p.step_time, default=None)
            assert (best is not None) == said.fits
            if best is not None:
                assert best.step_time == pytest.approx(said.step_time, rel=1e-9)
                assert best.per_chip == pytest.approx(said.tokens_per_second_per_chip, rel=1e-9)
                assert best.usd_per_million == pytest.approx(said.cost_per_million_tokens)


def test_ways_that_a_batch_does_not_fill_have_empty_rows() -> None:
    found = sweep(
        "llama-3-70b", "tpu-v5e", chips=(16,), batch=(103, 104, 136, 137), context=[8192],
        weights=("int8",), kv=("int8",),
    )  # fmt: skip
    place = next(i for i, o in enumerate(found.options) if "by batch" in o.name)
    odd, even, _, _ = found.step_time[place, :, 0]
    assert odd == even
    assert found.per_chip[place, 0, 0] == pytest.approx(found.per_chip[place, 1, 0] * 103 / 104)
    assert found.fits[place, :, 0].tolist() == [True, True, True, False]


def test_per_op_and_other_layouts() -> None:
    per_op = served_options(
        inference("mixtral-8x7b", kv="fp8", strategy="tp+ep"), "h100", (2, 4), method="per-op"
    )
    assert [option.chips for option in per_op] == [2, 4]
    assert all(option.seconds.free_symbols <= {b, KEYS, *option.values} for option in per_op)


def test_one_of_anything_is_swept_as_it_is() -> None:
    """A word, a number, a mapping of formats: no need of a list."""
    one = sweep("llama-3-8b", "h100", chips=1, batch=4, context=1024, weights="int8", kv="int8",
                strategy="tp")  # fmt: skip
    assert [option.name for option in one.options] == ["int8, int8 cache, tp, Y=1"]
    apart = sweep("mixtral-8x7b", "h100", chips=2, batch=4, context=1024,
                  weights={"experts": "fp8"})  # fmt: skip
    assert apart.options[0].name == "experts fp8, bf16 cache, tp, Y=2"


def test_frontier_joins_chips_and_types() -> None:
    front = pareto(FOUND, context=8192)
    chips = [point.option.chips for point in front.points]
    assert chips[0] == 16
    assert set(chips) == {8, 16}
    assert all(name.startswith("int4") for name in front.options)


@settings(max_examples=20)
@given(st.sampled_from([8, 16]), st.sampled_from([8, 64, 128]), st.integers(1, 8192))
def test_more_chips_never_lower_the_largest_batch(chips: int, batch: int, context: int) -> None:
    study = inference("llama-3-70b", weights="int8", kv="int8")
    few, many = (
        study.at("tpu-v5e", chips=count, batch=batch, context=context).largest_batch
        for count in (chips, 2 * chips)
    )
    assert few <= many


def test_step_of_a_placed_model() -> None:
    """Without exchanges it is the aggregate step of the model itself, its norms' reading apart."""
    found = inference("llama-3-70b", weights="int8", kv="int8").at(
        "tpu-v5e", chips=8, batch=32, context=8192
    )
    step = placed_step(found)
    known = {b: 32, KEYS: 8192}
    whole = server_step("llama-3-70b", "int8", "int8").put({**chip("tpu-v5e"), n: 8})
    plain = whole.seconds().subs(known)
    comms = float(step.comms.subs(dict.fromkeys(step.comms.free_symbols, 32)))
    assert comms > 0
    assert float(step.seconds().subs(known)) - comms == pytest.approx(float(plain), rel=2e-3)
    assert float(step.memory.subs(known)) == pytest.approx(
        float(whole.memory.subs(known)), rel=1e-3
    )


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        ({"context": [9000]}, ModelError, "context 9000: llama-3-70b is made for"),
        ({"chips": (12,)}, ShardingError, "the largest number"),
        ({"batch": [0]}, SymbolError, "batch = 0"),
        ({"batch": ["a"]}, SymbolError, "batch"),
        ({"context": None}, SymbolError, "context"),
        ({"chips": "a"}, SymbolError, "chips"),
        ({"chips": (1.5,)}, SymbolError, "chips"),
        ({"chips": ()}, SymbolError, "nothing to sweep"),
        ({"weights": ("int9",)}, ModelError, "int9"),
    ],
)
def test_wrong_sweeps(wrong: dict[str, Any], error: type[Exception], said: str) -> None:
    asked: dict[str, Any] = {"chips": (8,), "batch": [1], "context": [1024]}
    with pytest.raises(error, match=said):
        sweep("llama-3-70b", "tpu-v5e", **{**asked, **wrong})
