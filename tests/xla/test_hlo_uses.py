"""AllReduces by what becomes of their results."""

from __future__ import annotations

import pytest

from symscale.xla.hlo import HloReport
from tests.xla.hlo_lines import PART, SUM, X, Y, listed, read


def reduced(uses: str, groups: str = X, before: str = "") -> HloReport:
    return read(
        f"""  %p = bf16[64,160]{{1,0}} parameter(0)
{PART}  %r = bf16[64,160]{{1,0}} all-reduce(%p), {groups}, to_apply=%sum
{uses}""",
        SUM + before,
    )


QUARTER = "dynamic-slice({}, %at, %zero), dynamic_slice_sizes={{16,160}}"


def test_all_reduce_sliced_by_device_is_a_reduce_scatter() -> None:
    report = reduced(f"  ROOT %k = bf16[16,160]{{1,0}} {QUARTER.format('%r')}")
    assert listed(report) == [("ReduceScatter", ("X",), 64 * 160 * 2, 1)]
    assert "each device keeps 1/4" in report.collectives[0].note


def test_followed_through_copies_fusions_calls_and_tuples() -> None:
    fused = """%fused (f0: bf16[64,160], f1: s32[], f2: s32[]) -> bf16[16,160] {
  %f0 = bf16[64,160]{1,0} parameter(0)
  %f1 = s32[] parameter(1)
  %f2 = s32[] parameter(2)
  %wide = f32[64,160]{1,0} convert(%f0)
  %part = f32[16,160]{1,0} dynamic-slice(%wide, %f1, %f2), dynamic_slice_sizes={16,160}
  ROOT %back = bf16[16,160]{1,0} convert(%part)
}

%outer (o0: bf16[64,160]) -> bf16[64,160] {
  %o0 = bf16[64,160]{1,0} parameter(0)
  ROOT %o1 = bf16[64,160]{1,0} copy(%o0)
}
"""
    report = reduced(
        """  %c = bf16[64,160]{1,0} call(%r), to_apply=%outer
  %t = (bf16[64,160]{1,0}, s32[]) tuple(%c, %zero)
  %g = bf16[64,160]{1,0} get-tuple-element(%t), index=0
  ROOT %k = bf16[16,160]{1,0} fusion(%g, %at, %zero), kind=kLoop, calls=%fused""",
        before=fused,
    )
    assert listed(report) == [("ReduceScatter", ("X",), 64 * 160 * 2, 1)]
    assert report.collectives[0].note == "an all-reduce of which each device keeps 1/4"


def test_offset_by_arithmetic_is_worked_out() -> None:
    sliced = """  %two = u32[] constant(2)
  %x = u32[] divide(%me, %two)
  %n = u32[] constant(16)
  %off = u32[] multiply(%x, %n)
  %sig = s32[] convert(%off)
  ROOT %k = bf16[16,160]{1,0} dynamic-slice(%r, %sig, %zero), dynamic_slice_sizes={16,160}"""
    assert listed(reduced(sliced))[0][0] == "ReduceScatter"
    # The remainder is the coordinate along Y: two devices of a group over X keep the same part.
    wrong = reduced(sliced.replace("divide", "remainder"))
    assert listed(wrong)[0][0] == "AllReduce"
    assert "not another part on each device" in wrong.collectives[0].note


STAYS = {
    "its result is returned": "  ROOT %k = bf16[64,160]{1,0} copy(%r)",
    "one use needs it whole": f"""  %k = bf16[16,160]{{1,0}} {QUARTER.format("%r")}
  %w = bf16[64,160]{{1,0}} negate(%r)
  ROOT %t = (bf16[16,160]{{1,0}}, bf16[64,160]{{1,0}}) tuple(%k, %w)""",
    "the slice is smaller": """  ROOT %k = bf16[8,160]{1,0} dynamic-slice(%r, %at, %zero), \
dynamic_slice_sizes={8,160}""",
    "the offset is the same everywhere": """  ROOT %k = bf16[16,160]{1,0} \
dynamic-slice(%r, %zero, %zero), dynamic_slice_sizes={16,160}""",
    "it is the offset, not the array": """  ROOT %k = bf16[1]{0} dynamic-slice(%p, %r), \
dynamic_slice_sizes={1}""",
    "nothing uses it": "  ROOT %k = bf16[64,160]{1,0} copy(%p)",
}


@pytest.mark.parametrize("reason", STAYS)
def test_all_reduce_stays_if(reason: str) -> None:
    report = reduced(STAYS[reason])
    assert listed(report) == [("AllReduce", ("X",), 2 * 64 * 160 * 2, 1)]


def test_slice_of_a_smaller_part_is_called_staged() -> None:
    assert "staged" in reduced(STAYS["the slice is smaller"]).collectives[0].note


def test_combined_all_reduce_is_taken_apart_with_each_ones_uses() -> None:
    report = read(
        f"""  %p = bf16[64,160]{{1,0}} parameter(0)
  %q = f32[24]{{0}} parameter(1)
{PART}  %r = (bf16[64,160]{{1,0}}, f32[24]{{0}}) all-reduce(%p, %q), {X}, to_apply=%sum
  %r0 = bf16[64,160]{{1,0}} get-tuple-element(%r), index=0
  %r1 = f32[24]{{0}} get-tuple-element(%r), index=1
  %k = bf16[16,160]{{1,0}} {QUARTER.format("%r0")}
  ROOT %t = (bf16[16,160]{{1,0}}, f32[24]{{0}}) tuple(%k, %r1)""",
        SUM,
    )
    assert listed(report) == [
        ("ReduceScatter", ("X",), 64 * 160 * 2, 1),
        ("AllReduce", ("X",), 2 * 24 * 4, 1),
    ]
    assert [found.name for found in report.collectives] == ["r[0]", "r[1]"]


def test_all_reduce_of_parts_padded_with_zeros_is_an_all_gather() -> None:
    body = f"""  %p = bf16[16,160]{{1,0}} parameter(0)
{PART}  %nil = bf16[] constant(0)
  %zeros = bf16[64,160]{{1,0}} broadcast(%nil), dimensions={{}}
  %pad = bf16[64,160]{{1,0}} dynamic-update-slice(%zeros, %p, %at, %zero)
  ROOT %r = bf16[64,160]{{1,0}} all-reduce(%pad), {X}, to_apply=%sum"""
    assert listed(read(body, SUM)) == [("AllGather", ("X",), 64 * 160 * 2, 1)]
    ones = body.replace("constant(0)\n  %zeros", "constant(1)\n  %zeros")
    assert listed(read(ones, SUM))[0][0] == "AllReduce"


def test_reduction_that_is_no_sum_is_named() -> None:
    report = read(
        f"""  %p = f32[16]{{0}} parameter(0)
  ROOT %r = f32[16]{{0}} all-reduce(%p), {Y}, to_apply=%sum""",
        SUM.replace(" add(", " maximum("),
    )
    assert report.collectives[0].note == "of maximum"


def test_a_slice_of_two_dims_leaves_an_all_reduce() -> None:
    """A ReduceScatter has one dim; the group's devices share the cut of two."""
    halves = "dynamic-slice(%r, %at, %at), dynamic_slice_sizes={32,80}"
    report = reduced(f"  ROOT %k = bf16[32,80]{{1,0}} {halves}")
    assert listed(report) == [("AllReduce", ("X",), 2 * 64 * 160 * 2, 1)]
    assert "cut along two dims" in report.collectives[0].note
