"""What a step is asked for is kept, counted once, and refused where it cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import cancel

from symscale import chip, model, schedule, strategy, training
from symscale.algebra.errors import ModelError, StrategyError, SymbolError, SymscaleError
from symscale.algebra.symbols import B, T, axis, imbalance
from symscale.studies.scaling import scaling_of
from symscale.studies.training import TrainingStep

LLAMA = model("llama-3-8b")
LENGTH = 8192


def useful_flops(made: TrainingStep, **numbers: Any) -> float:
    """Matrix FLOPs of a step that have to be done once."""
    result = made.at("h100", **numbers)
    return result.useful_math * result.chips * float(chip("h100")["C"])


# --- windows and masks -----------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, "half", "exact"])
@pytest.mark.parametrize("name", ["gpt-oss-20b", "gemma-2-9b", "llama-3-8b", "deepseek-v3"])
def test_a_step_does_the_models_flops(name: str, causal: Any) -> None:
    """The study's arithmetic, from sharded programs, against the model's own count of a token."""
    found, tokens, length = model(name), 2**20, 4096
    each = found.flops_per_token(T, training=True, causal=causal)
    wanted = float(each.subs({**found, T: length})) * tokens
    made = training(found, "fsdp", causal=causal)
    assert useful_flops(made, B=tokens, X=16, T=length) == pytest.approx(wanted, rel=1e-9)


def test_a_window_bounds_the_keys_of_long_sequences() -> None:
    found = training("gpt-oss-20b", "fsdp")
    short, long = (useful_flops(found, B=2**23, X=64, T=t) / 2**23 for t in (8192, 131072))
    # Only the layers without a window see more keys: twelve of them, 12 FLOPs a head and number.
    assert long - short == pytest.approx(12 * 12 * 64 * 64 * (131072 - 8192), rel=1e-9)


# --- ends of a pipeline ----------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_pipeline_does_better_than_its_arithmetic(data: st.DataObject) -> None:
    """Whatever is said of the ends, their work is done: MFU at most 1, no bubble below nothing."""
    name = data.draw(st.sampled_from(["gemma-2-2b", "llama-3-8b", "mixtral-8x7b"]))
    split = "fsdp+ep+pp" if name == "mixtral-8x7b" else data.draw(
        st.sampled_from(["dp+pp", "fsdp+pp", "fsdp+tp+pp"])
    )  # fmt: skip
    kind = data.draw(st.sampled_from(["gpipe", "1f1b", "interleaved", "zb-h1", "dualpipe"]))
    ends = data.draw(st.sampled_from([None, (0, 0), (1, 1), (0, 2)]))
    options = {"chunks": 2} if kind == "interleaved" else {}
    made = training(name, strategy(split, schedule=kind, microbatches=48, ends=ends, **options))
    layers = len(made.model.config.body.layers)
    stages = [size for size in (2, 4, 6, 8) if size * (2 if options else 1) <= layers]
    mesh = {
        one: data.draw(st.sampled_from(stages if one == "P" else [2, 4]))
        for one in made.strategy.mesh_axes
    }
    result = made.at("h100", B=3 * 2**18, T=1024, **mesh)
    assert result.compute_fraction <= 1
    assert result.bubble >= 0
    assert result.time >= max(result.busy.values()) * (1 - 1e-9)


def test_messages_between_stages_are_in_the_cost() -> None:
    made = training(LLAMA, "dp+pp", microbatches=8)
    moved = sum(
        value
        for key, value in made.formulas.cost.items()
        if key.kind == "comm bytes" and axis("P") in map(axis, key.axes)
    )
    # Forward and backward: all tokens of a data rank, bf16, four thousand wide.
    assert cancel(moved.subs(LLAMA) - 2 * 2 * 4096 * B / axis("X")) == 0


# --- what was asked for ------------------------------------------------------------------------


def test_a_remedy_is_timed_as_the_step_was() -> None:
    asked = {"B": 2**20, "X": 64, "T": LENGTH, "fidelity": "latency", "W_ici": 10**9}
    result = training(LLAMA, "dp").at("tpu-v5p", **asked)
    found = result.remedy
    assert found is not None
    same = found.result.step.strategy
    again = training(LLAMA, same).at("tpu-v5p", **{**asked, **found.result.mesh})
    assert found.result.time == again.time


def test_a_remedy_leaves_sequences_whole() -> None:
    """One sequence a rank: no smaller microbatch, though it would be the fastest that fits."""
    result = training(LLAMA, "fsdp").at(
        chip("h100").override(hbm_bytes=40 * 10**9), B=64 * LENGTH, X=64, T=LENGTH
    )
    assert not result.fits
    found = result.remedy
    assert found is not None
    assert found.result.step.strategy.techniques.microbatches == 1
    split = training(LLAMA, strategy("fsdp", microbatches=4)).at("h100", **result.asked)
    assert split.memory_bytes < result.memory_bytes


def test_aliases_have_remedies_too() -> None:
    asked = {"B": 2**20, "X": 64, "T": LENGTH}
    for alias, name in (("ddp", "dp"), ("zero-1", "zero1")):
        one, other = (training(LLAMA, n).at("tpu-v5e", **asked).remedy for n in (alias, name))
        assert str(one) == str(other)


def test_a_curve_keeps_levels_and_rates() -> None:
    result = training(LLAMA, "fsdp+tp").at(
        "tpu-v5p", B=2**20, X=64, Y=2, T=LENGTH, layout="X=dcn", W_dcn=10**9
    )
    curve = scaling_of(result)
    here = next(one for one in curve.results if one.chips == result.chips)
    assert here.time == result.time


def test_the_step_again_with_changes() -> None:
    result = training(LLAMA, "fsdp").at("h100", B=2**20, X=64, T=LENGTH, efficiency={"math": 0.5})
    assert result.again().time == result.time
    assert result.again(X=32).chips == 32
    other = result.again(strategy("dp"))
    assert other.time == training(LLAMA, "dp").at("h100", **result.asked).time


# --- experts -----------------------------------------------------------------------------------


def test_imbalance_as_a_symbol_stretches_the_step() -> None:
    made = training("mixtral-8x7b", "fsdp+ep", capacity=imbalance)
    even, hot = (
        made.at("h100", B=2**20, X=8, Z=8, T=4096, imbalance=factor) for factor in (1, 1.5)
    )
    assert hot.busy["math"] > even.busy["math"]
    assert hot.useful_math == even.useful_math
    assert "1.5 times their even share" in " ".join(hot.notes)


@pytest.mark.parametrize(
    ("name", "capacity", "said"),
    [("mixtral-8x7b", 0.5, "at least the mean; 1 or more"), ("llama-3-8b", 2, "has no experts")],
)
def test_a_capacity_that_cannot_be(name: str, capacity: float, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        training(name, "fsdp", capacity=capacity)


# --- memory ------------------------------------------------------------------------------------


def test_what_lies_on_the_host_needs_room_when_it_comes() -> None:
    """Two layers' worth: the one at work and the next."""
    asked = {"B": 2**17, "X": 8, "T": LENGTH}
    plain = training(LLAMA, "dp").at("h100", **asked)
    for kind in ("activations", "parameters"):
        away = training(LLAMA, "dp", offload=kind).at("h100", **asked)
        _, layer = plain.step.stage_memory.kinds[0]
        assert away.memory[kind] == 0
        assert away.memory["buffers"] == round(2 * plain.seconds(layer[kind]))


def test_a_gathered_table_is_a_buffer() -> None:
    """256,000 rows of 2,048 numbers in bf16, whole on each device, and their gradient."""
    result = training("gemma-2b", "fsdp").at("h100", B=2**20, X=64, T=LENGTH)
    assert result.memory["buffers"] >= 2 * 2 * 256_000 * 2048


def test_the_same_technique_twice_counts_once() -> None:
    once = strategy("fsdp", offload=("optimizer",), remat=("In",))
    assert strategy("fsdp", offload=("optimizer", "optimizer"), remat=("In", "In")) == once


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [5, None, b"dp", ["dp"]])
def test_a_strategy_has_a_name(name: Any) -> None:
    with pytest.raises(StrategyError, match="a name is wanted"):
        strategy(name)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"data": 3}, "3 is no name of a mesh axis"),
        ({"data": (1,)}, "1 is no name"),
        ({"data": None}, "None is no name"),
        ({"data": "X Y"}, "' ' is no name"),
        ({"microbatches": [4]}, "is no number"),
        ({"remat": 3}, "a policy is wanted"),
        ({"optimizer": 3}, "optimizer 3 is none of"),
        ({"optimizer": ["adam"]}, "is none of"),
        ({"gradients": 3}, "gradients 3 is none of"),
        ({"gradients": "bool"}, "gradients 'bool' is none of"),
        ({"offload": 3}, "offload = 3"),
        ({"remat": ("In", 3)}, "names of saved arrays"),
    ],
)
def test_options_of_another_type(options: dict[str, Any], said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        strategy("dp", **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stage": "L"}, "is the symbol of number of layers"),
        ({"schedule": schedule("1f1b", p=4, m=8)}, "the name of a schedule is wanted"),
        ({"ends": (True, False)}, "two whole numbers"),
    ],
)
def test_pipelines_that_cannot_be(options: dict[str, Any], said: str) -> None:
    with pytest.raises(StrategyError, match=said):
        strategy("dp+pp", microbatches=4, **options)


@pytest.mark.parametrize("name", ["D", "L", "F", "imbalance"])
def test_a_models_size_is_no_number_of_a_step(name: str) -> None:
    with pytest.raises(SymbolError, match=f"{name} = 16"):
        training(LLAMA, "dp").at("h100", B=2**20, X=8, T=LENGTH, **{name: 16})


def test_a_weight_is_no_checkpoint() -> None:
    with pytest.raises(SymscaleError, match="'Wq' is a weight"):
        _ = training(LLAMA, "dp", remat=("In", "Wq")).memory
