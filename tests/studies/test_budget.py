"""Days, money, energy and carbon of a run: against counts by hand and published tables."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational, cancel

from symscale import chip, model, training
from symscale.algebra.errors import HardwareError, ModelError, SolveError, SymbolError
from symscale.algebra.symbols import B, C, D, T, n
from symscale.cli import main
from symscale.models.flops import flops_per_token, rule_of_thumb
from symscale.studies.budget import budget, per_parameter
from symscale.studies.run import training_run
from symscale.studies.spending import (
    C_GOT,
    CARBON,
    F_TOK,
    MFU,
    N_TOK,
    POWER,
    PRICE,
    PUE,
    R_TOK,
    T_STEP,
    UNITS,
)

LLAMA = 6 * (70_553_706_496 - 128256 * 8192 - 1_318_912) + 12 * 80 * 64 * 128 * 8192


def test_each_amount_by_hand() -> None:
    run = budget(
        "llama-3-70b",
        15 * 10**12,
        chips=1000,
        chip="h100",
        mfu=0.4,
        price=2,
        power=700,
        pue=1.25,
        carbon=0.3,
    )
    seconds = LLAMA * 15e12 / (1000 * float(chip("h100")[C]) * 0.4)
    hours = seconds / 3600 * 1000
    by_hand = {
        "flops": LLAMA * 15e12,
        "pf_days": LLAMA * 15e12 / 1e15 / 86400,
        "seconds": seconds,
        "days": seconds / 86400,
        "chip_hours": hours,
        "cost_usd": 2 * hours,
        "energy_kwh": hours * 0.7 * 1.25,
        "carbon_kg": hours * 0.7 * 1.25 * 0.3,
        "achieved": 0.4 * float(chip("h100")[C]),
        "mfu": 0.4,
    }
    assert set(by_hand) == set(UNITS)
    for name, wanted in by_hand.items():
        assert run.value(name) == pytest.approx(wanted, rel=1e-9), name
        assert getattr(run, name) == pytest.approx(wanted, rel=1e-9)


def same(left: Any, right: Any) -> bool:
    return bool(cancel(left - right) == 0)


def test_each_pace_as_a_formula() -> None:
    work = F_TOK * N_TOK
    wanted = {
        "mfu": work / (n * C * MFU),
        "achieved": work / (n * C_GOT),
        "throughput": N_TOK / (n * R_TOK),
        "step_time": N_TOK * T_STEP / B,
    }
    for pace, seconds in wanted.items():
        run = budget(1, **{pace: Rational(1, 2)})
        hours = seconds * n / 3600
        assert same(run.formulas["seconds"], seconds)
        assert same(run.formulas["days"], seconds / 86400)
        assert same(run.formulas["cost_usd"], hours * PRICE)
        assert same(run.formulas["carbon_kg"], hours * POWER / 1000 * PUE * CARBON)
        assert same(run.formulas["mfu"], work / (seconds * n * C))


def test_the_four_paces_agree() -> None:
    whole: dict[str, Any] = {
        "chips": 1024, "chip": "h100", "batch": 2**22, "price": 3, "carbon": 0.2
    }  # fmt: skip
    first = budget("llama-3-8b", 10**12, mfu=0.42, **whole)
    each = flops_per_token("llama-3-8b", 8192, training=True).value
    paces: dict[str, Any] = {
        "achieved": first.achieved,
        "throughput": first.achieved / each,
        "step_time": each * 2**22 / (first.achieved * 1024),
    }
    for name, value in paces.items():
        other = budget("llama-3-8b", 10**12, **{name: value}, **whole)
        for amount in UNITS:
            wanted = first.value(amount)
            assert other.value(amount) == pytest.approx(wanted, rel=1e-9), (name, amount)


def test_work_in_every_form_that_it_comes_in() -> None:
    counted = flops_per_token("llama-2-7b", 4096, training=True)
    rule = rule_of_thumb("llama-2-7b", length=4096)
    assert budget("llama-2-7b", 10).flops == pytest.approx(10 * counted.value)
    assert budget(counted, 10).flops == pytest.approx(10 * counted.value)
    assert budget(counted.value, 10).flops == pytest.approx(10 * counted.value)
    assert budget(rule, 10).flops == pytest.approx(10 * float(rule.value))
    assert budget(6 * D, 10).at(D=7).flops == 420
    half = budget("llama-2-7b", 10, causal=True, length=4096)
    assert half.flops < budget("llama-2-7b", 10).flops
    assert half.conventions["attention scores"] == "half of them (causal)"
    assert T in budget("llama-2-7b").formulas["flops"].free_symbols


def test_flops_of_a_parameter() -> None:
    """Two for the forward pass, and four for the two products of the backward pass."""
    assert per_parameter() == 6
    assert per_parameter(training=False) == 2


@given(
    st.integers(1, 10**5),
    st.integers(1, 10**14),
    st.fractions(Rational(1, 100), 1),
    st.floats(1, 9),
)
def test_laws(chips: int, tokens: int, mfu: Any, pue: float) -> None:
    whole: dict[str, Any] = {"chip": "h100", "mfu": mfu, "pue": pue}
    run = budget(6e9, tokens, chips=chips, **whole)
    more = budget(6e9, tokens, chips=2 * chips, **whole)
    assert more.days == pytest.approx(run.days / 2)
    assert more.chip_hours == pytest.approx(run.chip_hours), "hours are work over rate"
    assert more.cost_usd == pytest.approx(run.cost_usd)
    assert budget(6e9, 3 * tokens, chips=chips, **whole).cost_usd == pytest.approx(3 * run.cost_usd)
    assert run.mfu == pytest.approx(float(mfu))
    assert run.chip_hours * 3600 * float(chip("h100")[C]) >= run.flops * (1 - 1e-9)


def test_the_fewest_chips_for_a_deadline() -> None:
    run = budget("llama-3-70b", 15 * 10**12, chip="h100", mfu=0.4)
    wall = run.wall(n, days=30)
    fewest = wall.threshold
    assert fewest is not None
    assert run.at(n=int(fewest)).days > 30 > run.at(n=int(fewest) + 1).days


def test_the_most_tokens_for_a_sum() -> None:
    run = budget("llama-3-8b", chip="h100", mfu=0.5, price=2)
    most = run.wall(N_TOK, cost_usd=10**6).threshold
    assert run.at({N_TOK: most}).cost_usd == pytest.approx(10**6)
    with pytest.raises(SolveError, match="n is in neither side"):
        run.wall(n, cost_usd=10**6)
    with pytest.raises(SymbolError, match="one limit"):
        run.wall(n)
    with pytest.raises(SymbolError, match="no 'hours'"):
        run.wall(n, hours=3)


def test_what_is_missing_is_named() -> None:
    run = budget("llama-3-8b", 10**12, chips=64, chip="h800", mfu=0.4)
    assert run.get("cost_usd") is None
    assert run.to_dict()["energy_kwh"] is None
    assert run.days > 0
    with pytest.raises(SymbolError, match=r"no value for c_chip \(price of one chip\)"):
        _ = run.cost_usd
    with pytest.raises(SymbolError, match="no value for N_tok"):
        _ = budget("llama-3-8b", chips=64, chip="h100", mfu=0.4).days


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mfu": 1.2}, "mfu = 1.2: a share above 0 and at most 1"),
        ({"mfu": 0}, "mfu = 0: a size or rate must be above zero"),
        ({"mfu": 0.4, "achieved": 1e14}, "one pace is wanted, not mfu and achieved"),
        ({"achieved": 4e15}, r"4.04 times its peak of 9.89e\+14"),
        ({"step_time": 0.1, "batch": 2**22}, "times its peak"),
        ({"pue": 0.9}, "pue = 0.9: a building draws no less"),
        ({"price": -1}, "c_chip = -1: a size or rate must be above zero"),
        ({"chips": 1.5}, "must be a whole number"),
        ({"tokens": 0}, "N_tok = 0"),
    ],
)
def test_what_cannot_be(wrong: dict[str, Any], said: str) -> None:
    whole: dict[str, Any] = {"tokens": 10**12, "chips": 8, "chip": "h100"}
    with pytest.raises(SymbolError, match=said):
        budget("llama-3-8b", **{**whole, **wrong})


def test_errors_of_what_it_asks() -> None:
    with pytest.raises(HardwareError, match="C_fp8"):
        budget("llama-3-8b", 10**12, chip="a100", dtype="fp8")
    with pytest.raises(ModelError, match="no convention 'causl'"):
        budget("llama-3-8b", 10**12, causl=True)
    with pytest.raises(SymbolError, match="conventions are for a model's count"):
        budget(6e9, 10**12, causal=True)


def test_a_peak_of_its_own_for_each_dtype() -> None:
    whole: dict[str, Any] = {"tokens": 10**12, "chips": 8, "chip": "h100", "achieved": 6e14}
    assert budget("llama-3-8b", dtype="fp8", **whole).mfu == pytest.approx(
        6e14 / float(chip("h100").rate("fp8"))
    )


def test_a_run_by_any_pace() -> None:
    step = training("llama-3-70b", "fsdp+tp").at("tpu-v5p", B=2**22, X=2048, Y=4)
    slow = training_run(step, 10**12, step_time=2 * step.time, power=300, carbon=0.1)
    assert slow.mfu == pytest.approx(step.compute_fraction / 2)
    assert slow.energy_kwh == pytest.approx(slow.chip_hours * 0.3)
    assert slow.carbon_kg == pytest.approx(slow.chip_hours * 0.03)
    same_pace = training_run(step, 10**12, throughput=2**22 / (2 * step.time) / step.chips)
    assert same_pace.days == pytest.approx(slow.days)
    assert same_pace.energy_kwh is None, "no power of this chip is on file"
    assert training_run(step, 10**12, price=1).cost_usd == pytest.approx(
        training_run(step, 10**12).chip_hours
    )
    assert model("llama-3-70b").name in repr(step)


TRAIN = (
    "train", "llama-3-70b", "--chip", "h100", "--chips", "1024", "--batch", "4Mi", "--strategy",
    "fsdp+tp", "--mesh", "X=128,Y=8",
)  # fmt: skip


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*TRAIN, "--tokens", "1T", "--tflops", "400", "--price", "2", "--pue", "1.2"]
    assert main([*arguments, "--carbon", "0.4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mfu"] == pytest.approx(400e12 / float(chip("h100")[C]))
    assert found["cost_usd"] == pytest.approx(2 * found["chip_hours"])
    assert found["energy_kwh"] == pytest.approx(0.7 * 1.2 * found["chip_hours"])
    assert found["carbon_kg"] == pytest.approx(0.4 * found["energy_kwh"])
    assert main(arguments) == 0
    assert "the chip's TDP, 700 W" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tflops", "400"], "--tflops: of a run; give its --tokens too"),
        (["--tokens", "1T", "--tflops", "4000"], "times its peak"),
        (["--tokens", "1T", "--tflops", "400", "--mfu", "0.4"], "one pace is wanted"),
        (["--tokens", "1T", "--pue", "0.5"], "pue = 0.5"),
        (["--tokens", "1T", "--mfu", "2"], "mfu = 2"),
    ],
)
def test_what_the_command_refuses(
    more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, *more]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
