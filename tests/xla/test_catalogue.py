"""The catalogue: derived lists against XLA's, as committed and as compiled now."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from symscale.xla.catalogue import Agreement, check_catalogue
from symscale.xla.catalogue_cases import Case, catalogue
from symscale.xla.catalogue_figures import figures, least_flops, other_flops, plan_given
from symscale.xla.catalogue_page import page
from symscale.xla.compare_known import KNOWN
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
    given = [case.name for case in CASES if plan_given(case)]
    exact_given = sum("derived" not in COMMITTED["cases"][name] for name in given)
    assert exact_given >= 0.9 * len(given)
    assert exact >= 0.9 * len(CASES)


def test_catalogue_spans_what_was_asked_for() -> None:
    assert len(CASES) >= 60
    titles = " ".join(case.name for case in CASES)
    words = ("gated", "dp", "fsdp+tp", "2d", "replicated", "below the degree", "[I_YX, J]")
    more = ("split along the batch", "experts", "joint", "decoder layer", "microbatches", "shift")
    for word in (*words, *more):
        assert word in titles
    assert {len(case.mesh) for case in CASES} == {1, 2, 3}


def test_no_pass_of_a_layer_is_left_out_for_its_outcome() -> None:
    """What is compared pinned is compared with the arrays' shardings alone, too."""
    free = {(c.group, c.title, c.which) for c in CASES if not c.pinned}
    pinned = {(c.group, c.title, c.which) for c in CASES if c.pinned or c.complete}
    assert pinned <= free
    passes = {key for key in free if key[0] != "reshard" and key[2] != "joint"}
    assert passes == pinned
    layers = {key for key in passes if key[0] != "product"}
    shown = {(group, title) for group, title, _ in layers}
    one_way = {(g, t) for g, t in shown if (g, t, "backward") not in layers}
    assert all("decode" in title or "context" in title for _, title in one_way)


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
    found = {figure.title.strip("*").partition("*")[0]: figure for figure in figures(agreement)}
    assert found["the plan given"].share >= 0.9
    assert found["layers, forward, pinned"].share >= 0.95
    assert found["layers, backward, pinned"].share >= 0.95
    assert found["all programs"].share >= 0.9


@pytest.mark.xla
def test_where_xla_is_cheaper_sizes_decide(agreement: Agreement) -> None:
    """Every such difference has a reason that says what a plan for any sizes cannot know."""
    said = {known.reason for known in KNOWN if known.symbolic}
    rows = (row for found in (*agreement.automatic, *agreement.sweep)
            for row in found.comparison.rows)  # fmt: skip
    cheaper = [row for row in rows if row.emitted_bytes < row.derived_bytes]
    assert cheaper
    assert {row.why for row in cheaper} <= said


@pytest.mark.xla
def test_every_reshard_is_exact_or_explained(agreement: Agreement) -> None:
    assert len(agreement.sweep) == len({found.subject.name for found in agreement.sweep}) == 110
    assert all(found.ok for found in agreement.sweep)
    assert sum(found.comparison.exact for found in agreement.sweep) >= 80


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
def test_flops_are_equal_but_where_xla_shares_work_otherwise(agreement: Agreement) -> None:
    """All whose plan is given or written out, and all others but these, where XLA repeats work."""
    other = {found.subject.name for found in other_flops(agreement)}
    assert other.isdisjoint(case.name for case in CASES if plan_given(case))
    assert other == {
        "product: A[I, J_XY] · B[J_X, K] -> C[I, K] [X=4,Y=2] forward",
        "mlp: plain, fsdp+tp+sp [X=4,Y=2] forward",
        "mlp: plain, fsdp+tp+sp [X=4,Y=2] backward",
        "mlp: gated, fsdp+tp+sp [X=4,Y=2] forward",
        "mlp: gated, fsdp+tp+sp [X=4,Y=2] backward",
    }
    for found in other_flops(agreement):
        assert found.comparison.derived_flops < found.comparison.emitted_flops
        if found.subject.name.startswith("mlp"):
            assert found.comparison.derived_flops == least_flops(found)


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
