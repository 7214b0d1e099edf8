"""Speculative decoding: the paper's tables, a draft played out, and laws."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.errors import SolveError, SymbolError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, C, T, W_hbm, b
from symscale.studies.serving.speculative import speculative
from symscale.studies.serving.step import ServerStep, server_step
from tests.studies.serving.truth import published

ROWS: list[dict[str, Any]] = published()["speculative"]
IDS = [row["id"] for row in ROWS]

chances = st.fractions(min_value=Fraction(1, 50), max_value=Fraction(49, 50), max_denominator=97)
drafts = st.integers(1, 12)


def computed(row: dict[str, Any]) -> float:
    setting = row["setting"]
    found = speculative().at(
        alpha=setting["alpha"], gamma=setting["gamma"], c_draft=setting.get("c", 1e-9)
    )
    return found.operations if row["id"].endswith("/ops") else found.speedup


@pytest.mark.parametrize("row", ROWS, ids=IDS)
def test_papers_row(row: dict[str, Any]) -> None:
    assert computed(row) == pytest.approx(row["value"], abs=row["tol"])


def test_all_rows_of_the_paper_are_there() -> None:
    assert len(ROWS) == 19
    assert len(set(IDS)) == 19


@pytest.mark.parametrize("row", published()["speculative_errata"], ids=lambda row: row["id"])
def test_misprint(row: dict[str, Any]) -> None:
    assert computed(row) == pytest.approx(row["exact"], abs=row["tol"])
    assert computed(row) != pytest.approx(row["printed"], abs=0.05)


def played(chance: Fraction, count: int) -> Fraction:
    """Expected tokens of a round by all ways in which its drafts may turn out."""
    total = Fraction(0)
    for fates in product((True, False), repeat=count):
        likely = Fraction(1)
        for accepted in fates:
            likely *= chance if accepted else 1 - chance
        kept = fates.index(False) if False in fates else count
        total += likely * (kept + 1)
    return total


@given(chances, st.integers(1, 8))
def test_expected_tokens_are_those_of_all_outcomes(chance: Fraction, count: int) -> None:
    found = speculative().at(alpha=chance, gamma=count, c_draft=1)
    assert found.tokens == pytest.approx(float(played(chance, count)), rel=1e-12)


@given(chances, chances, drafts)
def test_tokens_rise_with_the_chance(one: Fraction, other: Fraction, count: int) -> None:
    low, high = sorted((one, other))
    tokens = [speculative().at(alpha=a, gamma=count, c_draft=1).tokens for a in (low, high)]
    assert 1 <= tokens[0] <= tokens[1] <= count + 1


def test_a_sure_draft_keeps_all() -> None:
    found = speculative().at(alpha=1, gamma=4, c_draft=0.1)
    assert found.tokens == 5
    assert found.speedup == pytest.approx(5 / 1.4)
    assert found.operations == pytest.approx(1)


@given(chances, st.fractions(Fraction(1, 100), Fraction(2), max_denominator=100))
def test_best_gamma_is_the_best_of_many(chance: Fraction, cost: Fraction) -> None:
    best = speculative().best_gamma(alpha=chance, c_draft=cost)

    def gain(count: int) -> float:
        a = float(chance)
        return sum(a**i for i in range(count + 1)) / (count * float(cost) + 1)

    assert best.speedup == pytest.approx(max(map(gain, range(300))), rel=1e-9)
    assert best.speedup == pytest.approx(gain(best.gamma), rel=1e-9)
    assert best.certain_from > best.gamma


def test_no_best_gamma_for_a_free_draft() -> None:
    with pytest.raises(SolveError, match="give the draft a cost"):
        speculative(draft=0).best_gamma(alpha=0.5, t_step=1)


# --- large batches -----------------------------------------------------------------------------

#: Arithmetic of B tokens takes B seconds; reading the weights takes 100.
PLAIN = ServerStep(B / C, 100 / W_hbm)
UNIT = {C: 1, W_hbm: 1}


@pytest.mark.parametrize(("chance", "count"), [(0.8, 3), (0.5, 1), (0.9, 7)])
def test_it_pays_while_checking_takes_less_than_its_tokens(chance: float, count: int) -> None:
    """With a free draft: until (gamma + 1) b tokens of arithmetic outlast the steps saved."""
    tokens = sum(chance**i for i in range(count + 1))
    wall = speculative(PLAIN, draft=0).stops_paying(UNIT, alpha=chance, gamma=count)
    assert wall.kind == "below"
    assert float(wall.threshold) == pytest.approx(tokens * 100 / (count + 1))


@given(chances, drafts, st.integers(1, 400))
def test_stops_paying_agrees_with_the_speedup(chance: Fraction, count: int, batch: int) -> None:
    found = speculative(PLAIN)
    numbers: dict[str, Any] = {"alpha": chance, "gamma": count, "c_draft": Fraction(1, 20)}
    pays = found.stops_paying(UNIT, **numbers).holds({b: batch})
    assert pays == (found.at(UNIT, b=batch, **numbers).speedup >= 1)


def test_wall_in_kept_and_lost_tokens() -> None:
    wall = speculative(PLAIN, draft=0).stops_paying()
    kept = sum(0.8**i for i in range(1, 5))
    known = {"n_kept": kept, "n_lost": 4 - kept, **{s.name: 1 for s in UNIT}}
    numbers = speculative(PLAIN, draft=0).stops_paying(UNIT, alpha=0.8, gamma=4)
    assert float(wall.at(**known).threshold) == pytest.approx(float(numbers.threshold))


def test_long_contexts_pay_at_any_batch() -> None:
    """A round reads the cache once for all its tokens: where that is the whole step, it pays."""
    step = server_step("llama-3-70b", "int8", "int8")
    from symscale.hardware.chips import chip

    found = speculative(step)
    numbers: dict[str, Any] = {"alpha": 0.8, "gamma": 4, "c_draft": 0.05, "n": 8}
    assert found.stops_paying(chip("tpu-v5e"), S=65536, **numbers).kind == "always"
    short = found.stops_paying(chip("tpu-v5e"), S=256, **numbers)
    assert short.kind == "below"
    # Its critical batch is 120: by then checking five tokens a sequence takes too long.
    assert 40 < float(short.threshold) < 120


def test_best_gamma_falls_as_the_batch_grows() -> None:
    found = speculative(PLAIN)
    best = [
        found.best_gamma(UNIT, alpha=0.8, c_draft=0.05, b=batch).gamma for batch in (1, 20, 40, 95)
    ]
    assert best == sorted(best, reverse=True)
    assert best[0] > 3
    assert best[-1] == 0


def test_any_expression_is_a_step() -> None:
    found = speculative(Maximum(b * T, 100), draft=1)
    assert found.at(alpha=0.5, gamma=1, b=10).speedup == pytest.approx(1.5 * 100 / 101)
    assert found.at(alpha=0.5, gamma=1, b=100).speedup == pytest.approx(1.5 * 100 / 201)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"alpha": 1.2, "gamma": 3}, "a chance is at most 1"),
        ({"alpha": 0.5, "gamma": 2.5}, "a whole number"),
        ({"gamma": 3}, "no value for alpha"),
        ({"alpha": -1, "gamma": 3}, "above zero"),
    ],
)
def test_wrong_numbers(numbers: dict[str, float], said: str) -> None:
    with pytest.raises(SymbolError, match=said):
        speculative().at(**numbers)


def test_half_given() -> None:
    with pytest.raises(SymbolError, match="both alpha and gamma"):
        speculative(PLAIN).stops_paying(alpha=0.5)
    with pytest.raises(SymbolError, match="what is sought"):
        speculative().best_gamma(alpha=0.5, gamma=3)


def test_results_show_themselves() -> None:
    found = speculative()
    assert "geometric sum" in str(found.derivation)
    assert found.to_dict()["speedup"]
    assert "speed-up" in repr(found.at(alpha=0.5, gamma=2, c_draft=0.1))
    assert found.at(alpha=0.5, gamma=2, c_draft=0.1).to_dict()["tokens"] == pytest.approx(1.75)
    assert found._repr_latex_().startswith("$")
