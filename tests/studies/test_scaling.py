"""Strong scaling: the bend against a search, against the book's critical batch, and laws."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from symscale import chip, training
from symscale.algebra.errors import HardwareError, ShardingError, StrategyError, SymbolError
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import M_X, B, C, T, W_ici, X
from symscale.algebra.time import MATH
from symscale.cli import main
from symscale.studies.result import StepResult
from symscale.studies.scaling import Scaling, scaling_of, strong_scaling
from symscale.studies.walls import least_wall, wall_text, walls

FSDP = training("llama-3-70b", "fsdp")
MIXED = training("llama-3-70b", "fsdp+tp")


def hides(result: StepResult, size: int) -> bool:
    """Whether arithmetic is the longest of both passes with this many along X, placed as there."""
    values = {**result.values, X: size}
    for stage in result.step.time.stages[:2]:
        busy = {name: float(evaluate(e, values)) for name, e in stage.by_resource().items()}
        if max(busy.values()) > busy[MATH] * (1 + 1e-12):
            return False
    return True


def searched(result: StepResult) -> int:
    """The longest X at which arithmetic hides everything, by halving whole numbers."""
    low, high = 1, 2**24
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if hides(result, middle) else (low, middle)
    return low


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("tpu-v5p", {"B": 2**21, "Y": 4}),
        ("tpu-v5p", {"B": 2**21, "Y": 4, "fidelity": "latency"}),
        ("tpu-v5e", {"B": 2**19, "Y": 4, "X": 16}),
        ("h100", {"B": 2**20, "Y": 8}),
        ("h100", {"B": 2**20, "Y": 8, "fidelity": "latency"}),
        ("h100", {"B": 2**20, "Y": 8, "efficiency": {"math": 0.6, "dcn": 0.8}}),
    ],
)
def test_the_wall_is_where_a_search_finds_it(name: str, numbers: dict[str, Any]) -> None:
    result = MIXED.at(name, **{"X": 32, **numbers})
    wall, chips = least_wall(result, "X")
    assert wall is not None
    assert searched(result) == int(chips / numbers["Y"] + 1e-9)


def test_the_bend_is_near_the_book_s_critical_batch() -> None:
    """2^21 tokens over C/(M W) = 850 a chip, or more chips: scores add arithmetic."""
    curve = strong_scaling(FSDP, "tpu-v5p", B=2**21, sizes=(1024, 2048, 4096))
    bend = curve.bend
    assert bend is not None
    critical = (C / (M_X * W_ici)).subs(chip("tpu-v5p")).subs(M_X, 3)
    assert float(critical) == 850
    assert 1 < bend.chips / (2**21 / 850) < 1.2
    # Without scores, the products with weights remain, and their critical batch.
    at_zero = bend.symbols
    assert at_zero is not None
    layers = at_zero.subs({T: 0}).subs(FSDP.model).subs({C: 850, W_ici: 1, M_X: 1, B: 2**21})
    assert float(layers) == pytest.approx(2**21 / 850, rel=0.03)


def test_the_formula_in_symbols_comes_to_the_number() -> None:
    bend = strong_scaling(MIXED, "tpu-v5p", B=2**21, Y=4).bend
    assert bend is not None
    assert bend.formula is not None
    assert bend.symbols is not None
    values = {**bend.result.values, **bend.result.step.model}
    assert float(evaluate(bend.symbols, values)) == pytest.approx(bend.chips)
    assert float(evaluate(bend.formula, values)) == pytest.approx(bend.chips)


def test_before_the_bend_the_curve_is_a_line_and_after_it_is_not() -> None:
    curve = strong_scaling(FSDP, "tpu-v5p", B=2**21)
    assert curve.bend is not None
    for growth in curve.growths:
        if growth.after.chips <= curve.bend.chips:
            assert growth.speedup == pytest.approx(2)
            assert growth.cost == pytest.approx(1)
            assert "a token costs the same" in growth.words
        else:
            assert growth.speedup < 1.99
            assert growth.cost > 1.005
            assert "waits for the links of mesh axis X" in growth.words


def test_a_bend_at_slower_links() -> None:
    """8 GPUs of a node still hide the gathers of so small a batch; 16 reach the network."""
    curve = strong_scaling(FSDP, "h100", B=18432, T=1024, sizes=(4, 8, 16, 32))
    bend = curve.bend
    assert bend is not None
    assert bend.jump
    assert (bend.chips, bend.formula, bend.symbols) == (8, None, None)
    assert "reaches slower links" in bend.words
    at_16 = curve.growth(8)
    assert at_16.speedup < 1
    assert "becomes slower" in at_16.words
    assert "becomes no faster" in curve.growth(16).words


def test_a_bend_beyond_the_curve() -> None:
    curve = strong_scaling(MIXED, "tpu-v5p", B=2**24, Y=4, sizes=(256, 512))
    assert curve.bend is not None
    assert curve.bend.chips > curve.chips[-1]


def test_every_resource_of_both_passes_has_a_wall() -> None:
    inside = training("llama-3-8b", "fsdp").at("h100", B=2**22, X=8)
    found = [(wall.part, wall.resource) for wall in walls(inside.step, "X")]
    parts = ("forward pass", "backward pass")
    assert found == [(part, name) for part in parts for name in ("hbm", "nvlink")]
    assert all(wall.to_dict()["chips"] for wall in walls(inside.step, "X"))


def test_hidden_at_no_number_of_chips() -> None:
    """Tensor parallelism over the network between nodes, data parallelism inside them."""
    curve = strong_scaling(MIXED, "h100", B=2**20, Y=8, sizes=(8, 16), layout="Y,X")
    assert curve.bend is not None
    assert curve.bend.chips < 1
    assert curve.bend.words.startswith("At no number of chips does arithmetic hide")


@settings(max_examples=8, deadline=None)
@given(
    st.integers(12, 24), st.sampled_from(["tpu-v5p", "tpu-v5e", "h100"]),
    st.sampled_from(["ideal", "ring", "latency"]),
)  # fmt: skip
def test_laws(power: int, name: str, fidelity: Any) -> None:
    """No chip does more than its peak, and no growth is better than in proportion."""
    curve = strong_scaling(
        training("llama-3-8b", "fsdp"), name, B=2**power, T=1024, fidelity=fidelity,
        sizes=(4, 8, 16, 64),
    )  # fmt: skip
    assert all(
        r <= i * (1 + 1e-9) for r, i in zip(curve.tokens_per_second, curve.ideal, strict=True)
    )
    if fidelity == "ideal":
        assert all(growth.efficiency <= 1 + 1e-9 for growth in curve.growths)
    assert all(r.math >= r.useful_math * (1 - 1e-9) for r in curve.results)


def test_what_the_curve_tells() -> None:
    curve = strong_scaling(MIXED, "h100", B=2**20, Y=8, sizes=(32, 64, 128))
    assert curve.chips == (256, 512, 1024)
    told = curve.to_dict()
    assert told["tokens_per_s"] == [r.tokens_per_second for r in curve.results]
    assert told["bend"]["formula"]
    assert told["words"] == list(curve.words)
    assert len(curve.table()) == 3
    last = curve.results[-1]
    value = float(evaluate(curve.formula, last.values))
    assert value == pytest.approx(last.tokens_per_second)
    assert isinstance(curve, Scaling)
    assert curve.words[0] in repr(curve)


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "llama-3-70b", "--chip", "h100", "--chips", "256", "--batch", "1Mi"]
    arguments += ["--strategy", "fsdp+tp", "--mesh", "X=32,Y=8", "--scaling"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scaling"]["chips"] == [32, 64, 128, 256, 512, 1024]
    assert told["scaling"]["tokens_per_s"][3] == pytest.approx(told["tokens_per_s"])
    assert main(arguments) == 0
    assert "Up to 482 chips arithmetic hides everything" in capsys.readouterr().out


def test_the_curve_around_a_step_with_stages() -> None:
    step = training("llama-3-8b", "fsdp+pp", microbatches=8)
    result = step.at("h100", B=2**20, X=16, P=4, efficiency={"math": 0.5})
    curve = scaling_of(result)
    assert curve.axis == "X"
    assert result.chips in curve.chips
    at_home = curve.results[curve.chips.index(result.chips)]
    assert at_home.time == pytest.approx(result.time)


def test_which_wall() -> None:
    assert wall_text(FSDP.at("h100", B=2**20, X=8)).startswith("Size: a chip would have to hold")
    roomy = MIXED.at("tpu-v5p", B=2**21, X=512, Y=4)
    assert wall_text(roomy).startswith("Throughput of arithmetic: 100%")
    tight = MIXED.at("tpu-v5p", B=2**18, X=2048, Y=4)
    assert wall_text(tight).startswith("Throughput of the links of mesh axis X")


def test_what_cannot_be() -> None:
    with pytest.raises(StrategyError, match="fsdp has no mesh axis Y; it has X"):
        strong_scaling(FSDP, "h100", grow="Y", B=2**20)
    with pytest.raises(SymbolError, match="no size for mesh axis Y"):
        strong_scaling(MIXED, "h100", B=2**20)
    with pytest.raises(ShardingError, match="X"):
        strong_scaling(FSDP, "h100", B=2**20, sizes=(3,))
    with pytest.raises(HardwareError):
        strong_scaling(FSDP, "h100", B=2**20, sizes=(2**15,))
    with pytest.raises(SymbolError, match="the curve grows from 8, 16"):
        strong_scaling(FSDP, "h100", B=2**20, sizes=(8, 16, 32)).growth(32)
    piped = training("llama-3-8b", "fsdp+pp", microbatches=8)
    with pytest.raises(StrategyError, match="is the pipeline's"):
        strong_scaling(piped, "h100", grow="P", B=2**20, X=4)
