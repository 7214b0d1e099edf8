"""The catalogue: derived lists against XLA's, as committed and as compiled now."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from symscale.xla.catalogue import Agreement, check_catalogue, page
from symscale.xla.catalogue_cases import Case, catalogue
from symscale.xla.compare_lists import derived
from tests.xla.catalogue import PAGE, TRUTH, truth_text

CASES = catalogue()
COMMITTED: dict[str, Any] = json.loads(TRUTH.read_text("utf-8"))
LIMIT = 180.0


def derived_list(case: Case) -> tuple[list[list[Any]], int]:
    subject = case.subject()
    found = derived(subject.phases, subject.setting)
    flops = sum(subject.setting.number(phase.flops) for phase in subject.phases)
    return sorted([d.kind, sorted(d.axes), d.volume] for d in found), flops


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_derived_list_is_what_xla_emitted(case: Case) -> None:
    known = COMMITTED["cases"][case.name]
    moves, flops = derived_list(case)
    if "derived" in known:
        assert (moves, flops) == (known["derived"], known["derived_flops"])
    else:
        assert (moves, flops) == (known["xla"], known["xla_flops"])


def test_no_case_is_without_a_committed_list() -> None:
    assert [case.name for case in CASES] == list(COMMITTED["cases"])


def test_committed_agreement() -> None:
    exact = sum("derived" not in case for case in COMMITTED["cases"].values())
    assert exact >= 0.9 * len(CASES)


def test_catalogue_spans_what_was_asked_for() -> None:
    assert len(CASES) >= 60
    titles = " ".join(case.name for case in CASES)
    words = ("gated", "dp", "fsdp+tp", "2d", "replicated", "below the degree", "[I_YX, J]")
    for word in (*words, "split along the batch", "experts", "joint", "decoder layer"):
        assert word in titles
    assert {len(case.mesh) for case in CASES} == {1, 2, 3}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_two_weights_have_the_same_bytes_by_chance(case: Case) -> None:
    setting = case.setting
    sizes: dict[tuple[Any, ...], int] = {}
    for name in case.whole.weights:
        array = case.whole.arrays[name]
        dims = tuple(sorted(map(str, array.global_shape)))
        sizes[dims] = setting.number(array.size)
    assert len(set(sizes.values())) == len(sizes)


@pytest.mark.xla
def test_agreement_with_xla(agreement: Agreement) -> None:
    assert agreement.ok, str(agreement)
    assert agreement.exact >= 0.9 * len(agreement.automatic)


@pytest.mark.xla
def test_explicit_programs_are_exact(agreement: Agreement) -> None:
    wrong = [str(found) for found in agreement.explicit if not found.comparison.exact]
    assert not wrong, wrong[0]
    assert len(agreement.explicit) >= 60


@pytest.mark.xla
def test_nothing_unread_and_nothing_dearer_without_a_reason(agreement: Agreement) -> None:
    for found in (*agreement.automatic, *agreement.explicit):
        assert not found.comparison.unread
        if found.comparison.derived_bytes > found.comparison.emitted_bytes:
            assert found.comparison.reasons, str(found)


@pytest.mark.xla
def test_flops_are_equal_where_no_reason_moves_them(agreement: Agreement) -> None:
    for found in agreement.automatic:
        made = found.comparison
        if made.derived_flops != made.emitted_flops:
            assert made.flops_why, str(found)
    other = [f for f in agreement.automatic
             if f.comparison.derived_flops != f.comparison.emitted_flops]  # fmt: skip
    assert len(other) <= 6


@pytest.mark.xla
def test_committed_files_are_those_of_now(agreement: Agreement) -> None:
    again = "write them again: python -m tests.xla.catalogue"
    assert TRUTH.read_text("utf-8") == truth_text(agreement), again
    assert PAGE.read_text("utf-8") == page(agreement), again


@pytest.mark.xla
def test_sixty_programs_take_well_under_three_minutes() -> None:
    start = time.monotonic()
    check_catalogue(CASES[:60])
    assert time.monotonic() - start < LIMIT
