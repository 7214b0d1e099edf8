"""The cost record: grouping, filtering, summing, scaling, and what it refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.algebra.cost import Cost, CostKind, Descriptor
from symscale.algebra.errors import UnitError
from symscale.algebra.symbols import B, D, F, L, X, Y
from symscale.algebra.units import BYTE, FLOP, Scope, Span
from tests.algebra.equality import assert_same


def key(op: str, kind: CostKind, phase: str = "forward", axes: tuple[str, ...] = ()) -> Descriptor:
    return Descriptor(op, kind, phase, axes)


LAYER = Cost(
    {
        key("einsum", "flops"): 4 * B * D * F,
        key("einsum", "flops", "backward"): 8 * B * D * F,
        key("einsum", "hbm bytes"): 2 * D * F,
        key("AllGather", "comm bytes", axes=("X",)): 4 * D * F / Y,
        key("AllGather", "comm bytes", axes=("Y",)): 2 * B * D / X,
        key("ReduceScatter", "comm bytes", "backward", ("X",)): 4 * D * F / Y,
    }
)


def test_a_cost_is_a_frozen_map() -> None:
    assert len(LAYER) == 6
    assert LAYER[key("einsum", "hbm bytes")] == 2 * D * F
    assert hash(LAYER) == hash(Cost(LAYER))
    assert Cost(LAYER) == LAYER
    with pytest.raises(TypeError):
        LAYER[key("einsum", "flops")] = 1  # type: ignore[index]


def test_terms_of_one_descriptor_merge() -> None:
    made = Cost([(key("einsum", "flops"), B), (key("einsum", "flops"), D)])
    assert len(made) == 1
    assert made.sum().expr == B + D


def test_grouping() -> None:
    groups = LAYER.group_by("op", "axes")
    assert list(groups) == [
        ("einsum", ()), ("AllGather", ("X",)), ("AllGather", ("Y",)), ("ReduceScatter", ("X",)),
    ]  # fmt: skip
    moved = LAYER.filter_by(kind="comm bytes").group_by("axes")
    assert_same(moved[("X",),].sum().expr, 8 * D * F / Y)
    assert_same(moved[("Y",),].sum().expr, 2 * B * D / X)


def test_filtering() -> None:
    assert_same(LAYER.filter_by(kind="flops", phase="backward").sum().expr, 8 * B * D * F)
    gathers = LAYER.filter_by(lambda d: d.op == "AllGather", axes=("X",))
    assert list(gathers.values()) == [4 * D * F / Y]
    assert len(LAYER.filter_by(phase="never")) == 0


def test_sums_have_dimensions() -> None:
    assert_same(LAYER.sum("flops").expr, 12 * B * D * F)
    assert LAYER.sum("flops").dimension == FLOP
    assert LAYER.sum("comm bytes").dimension == BYTE
    assert LAYER.sum("vector flops").expr == 0
    assert Cost().sum("hbm bytes").dimension == BYTE
    with pytest.raises(UnitError, match="cannot add byte to FLOP; name one kind: flops, vector"):
        LAYER.sum()


def test_scaling_by_layers_makes_a_step() -> None:
    step = LAYER.scale(L, Span.STEP)
    assert_same(step.sum("flops").expr, 12 * B * D * F * L)
    assert step.sum("flops").span is Span.STEP
    assert_same((step + step).sum("flops").expr, 24 * B * D * F * L)


def test_unlike_costs_do_not_add() -> None:
    with pytest.raises(UnitError, match="cannot add an amount per step to one per layer"):
        LAYER + LAYER.scale(L, Span.STEP)
    with pytest.raises(UnitError, match="cannot add an amount total to one per device"):
        LAYER + LAYER.total(X * Y)
    with pytest.raises(UnitError, match="this cost is already the total over all devices"):
        LAYER.total(X).total(X)
    assert LAYER.total(X * Y).sum("flops").scope is Scope.TOTAL


def test_relabelling_and_showing() -> None:
    again = LAYER.filter_by(phase="forward").relabel(phase="recompute")
    assert {d.phase for d in again} == {"recompute"}
    assert repr(LAYER).startswith("Cost, per device, per layer:\n  forward   einsum")
    told = LAYER.to_dict()
    assert told["span"] == "per layer"
    assert told["terms"][3]["axes"] == ["X"]


KINDS = st.sampled_from(["flops", "vector flops", "hbm bytes", "comm bytes"])
KEYS = st.builds(
    Descriptor, st.sampled_from("abc"), KINDS, st.sampled_from(["forward", "backward"])
)
COSTS = st.lists(st.tuples(KEYS, st.integers(1, 99))).map(Cost)


@given(COSTS, COSTS, KINDS, st.integers(1, 9))
def test_sums_distribute(left: Cost, right: Cost, kind: CostKind, times: int) -> None:
    both = left + right
    assert both.sum(kind).expr == left.sum(kind).expr + right.sum(kind).expr
    assert both.scale(times, Span.STEP).sum(kind).expr == times * both.sum(kind).expr
    groups = both.filter_by(kind=kind).group_by("op", "phase")
    assert sum(group.sum(kind).expr for group in groups.values()) == both.sum(kind).expr
