"""Measured shares of the roofs: times stretch by them, rates shrink by them, and nothing gains."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sympy import Rational

from symscale import chip, training
from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, C, D, W_hbm, W_ici, W_nvlink, W_pcie
from symscale.algebra.time import Stage, Time, TimeTerm
from symscale.studies.efficiency import Efficiency

TIME = Time(
    (
        Stage((TimeTerm("math", 8 * B / C), TimeTerm("hbm", 4 * D / W_hbm))),
        Stage((
            TimeTerm("X", B / W_ici, ("X",), True),
            TimeTerm("Y", 3 * B / W_ici, ("Y",)),
            TimeTerm("XY", 5 * B / W_ici, ("X", "Y")),
        )),
    )
)  # fmt: skip


def test_each_term_is_divided_by_its_own_share() -> None:
    made = Efficiency.of({"math": 0.5, "hbm": 0.8, "links": 0.25, "Y": 0.1}).stretch(TIME)
    assert [term.value for term in made.terms] == [
        16 * B / C, 5 * D / W_hbm, 4 * B / W_ici, 30 * B / W_ici, 50 * B / W_ici,
    ]  # fmt: skip
    assert [term.critical for term in made.terms] == [term.critical for term in TIME.terms]


def test_a_collective_over_several_axes_may_have_a_share_of_its_own() -> None:
    made = Efficiency.of({"X": 0.5, "XY": 0.2}).stretch(TIME)
    assert [term.value * W_ici / B for term in made.stages[1].terms] == [2, 3, 25]


def test_a_kind_of_link_is_slowed_under_whatever_axes_it_lies() -> None:
    made = Efficiency.of({"ici": 0.5, "X": 0.5}).stretch(TIME)
    assert [term.value * W_ici / B for term in made.stages[1].terms] == [4, 6, 20]
    host = Time.of(TimeTerm("pcie", D / W_pcie), TimeTerm("nvlink", B / W_nvlink, ("X",)))
    slow = Efficiency.of({"pcie": 0.25, "nvlink": 0.1, "links": 0.5}).stretch(host)
    assert [term.value for term in slow.terms] == [4 * D / W_pcie, 20 * B / W_nvlink]
    assert Efficiency.of({"dcn": 0.5}).stretch(host) == host


def test_shares_of_a_step_on_a_hierarchy_slow_its_outer_links() -> None:
    whole: dict[str, Any] = {"B": 2**22, "X": 128, "Y": 8}
    step = training("llama-3-8b", "fsdp+tp")
    times = {
        name: step.at("h100", **whole, efficiency={name: 0.5}).busy
        for name in ("dcn", "nvlink", "links")
    }
    plain = step.at("h100", **whole).busy
    port = {"dcn", "nvlink"} & set(plain)
    assert port == {"dcn", "nvlink"}
    for name in port:
        assert times[name][name] == pytest.approx(2 * plain[name])
        assert times["links"][name] == pytest.approx(2 * plain[name])
    assert times["nvlink"]["dcn"] == pytest.approx(plain["dcn"])
    assert times["nvlink"]["math"] == plain["math"]


def test_no_shares_change_nothing() -> None:
    assert Efficiency.of(None).stretch(TIME) is TIME
    ones = Efficiency.of(dict.fromkeys(("math", "hbm", "links"), 1)).stretch(TIME)
    assert ones == TIME
    assert Efficiency.of(None).slow(chip("h100")) == chip("h100")


def test_a_bare_number_is_the_share_of_arithmetic() -> None:
    assert Efficiency.of(0.4).to_dict() == {"math": 0.4}
    assert Efficiency.of(Efficiency.of(0.4)) == Efficiency.of({"math": 0.4})


SHARE = st.fractions(Rational(1, 100), 1).map(lambda f: Rational(f.numerator, f.denominator))


@given(st.dictionaries(st.sampled_from(["math", "hbm", "links", "X", "Y"]), SHARE))
def test_no_share_makes_anything_faster(shares: dict[str, Any]) -> None:
    numbers = {B: 7, C: 11, D: 13, W_hbm: 17, W_ici: 19}
    made = Efficiency.of(shares).stretch(TIME)
    for overlap in ("full", "critical", "none"):
        before, after = (evaluate(t.total(overlap), numbers) for t in (TIME, made))
        assert before <= after <= before / min([*shares.values(), 1])


def test_a_step_on_a_slowed_chip_is_the_stretched_step() -> None:
    """Two ways to the same seconds: the time stretched, or the chip slowed."""
    shares = Efficiency.of({"math": 0.6, "hbm": 0.8, "links": 0.7})
    step, whole = training("llama-2-7b", "fsdp+tp"), chip("tpu-v5p")
    numbers: dict[str, Any] = {"B": 2**20, "X": 64, "Y": 4}
    fast, slow = step.at(whole, **numbers), step.at(shares.slow(whole), **numbers)
    stretched = shares.stretch(fast.step.time)
    assert fast.seconds(stretched.total("full")) == pytest.approx(slow.time, rel=1e-12)
    assert slow.time > fast.time


def test_a_slowed_chip_keeps_all_but_the_named_rates() -> None:
    whole = chip("h100")
    slow = Efficiency.of({"math": Rational(1, 2)}).slow(whole)
    halved = {
        name for name in whole.figures if slow.figure(name).value == whole.figure(name).value / 2
    }
    assert halved == {"C", "C_f16", "C_tf32", "C_f32", "C_fp8", "C_int8"} & set(whole.figures)
    assert slow.rate("fp8") == whole.rate("fp8") / 2
    others = set(whole.figures) - halved
    assert all(slow.figure(name).value == whole.figure(name).value for name in others)


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan"), "half", True])
def test_a_share_outside_of_its_range(share: Any) -> None:
    with pytest.raises(SymbolError, match="efficiency of hbm"):
        Efficiency.of({"hbm": share})


def test_an_unknown_roof() -> None:
    with pytest.raises(SymbolError, match=r"'Z': no such roof; there are math, hbm, links, .*X, Y"):
        Efficiency.of({"Z": 0.5}, axes=("X", "Y"))
    with pytest.raises(SymbolError, match="'X': no such roof"):
        Efficiency.of({"X": 0.5}).slow(chip("h100"))
