"""HLO text of every form that was seen, written by hand: kinds, axes, volumes, dots, remarks."""

from __future__ import annotations

import json

import pytest

from symscale.xla.hlo import HloError
from tests.xla.hlo_lines import SUM, X, Y, listed, read

ONE_EACH = [
    (f"bf16[64,96]{{1,0}} all-gather(%p), {X}, dimensions={{0}}", "AllGather", "X", 4 * 3072),
    (f"bf16[4,96] reduce-scatter(%p), {X}, to_apply=%sum", "ReduceScatter", "X", 3072),
    (f"bf16[16,96]{{1,0}} all-reduce(%p), {Y}, to_apply=%sum", "AllReduce", "Y", 2 * 3072),
    (f"bf16[16,96]{{1,0}} all-to-all(%p), {Y}, dimensions={{1}}", "AllToAll", "Y", 3072),
    (
        "bf16[16,96]{1,0} collective-permute(%p), "
        "source_target_pairs={{0,2},{2,4},{4,6},{6,0},{1,3},{3,5},{5,7},{7,1}}",
        "CollectivePermute",
        "X",
        3072,
    ),
]


@pytest.mark.parametrize(("line", "kind", "axis", "volume"), ONE_EACH)
def test_each_kind_with_its_volume(line: str, kind: str, axis: str, volume: int) -> None:
    report = read(f"  %p = bf16[16,96]{{1,0}} parameter(0)\n  ROOT %c = {line}", SUM)
    assert listed(report) == [(kind, (axis,), volume, 1)]
    assert not report.unread
    assert report.collectives[0].dtype == "bf16"


@pytest.mark.parametrize(("line", "kind", "axis", "volume"), ONE_EACH)
def test_printers_without_percent_signs_and_with_operand_shapes(
    line: str, kind: str, axis: str, volume: int
) -> None:
    old = line.replace("(%p)", "(bf16[16,96]{1,0} %p)").replace("%sum", "sum")
    old = old.replace("%p", "p")
    body = f"  p = bf16[16,96]{{1,0:T(8,128)(2,1)S(1)}} parameter(0)\n  ROOT c = {old}"
    assert listed(read(body, SUM.replace("%", ""))) == [(kind, (axis,), volume, 1)]


def test_start_and_done_count_once() -> None:
    report = read(
        f"""  %p = bf16[16,96]{{1,0}} parameter(0)
  %g = (bf16[16,96]{{1,0}}, bf16[64,96]{{1,0}}) all-gather-start(%p), {X}, dimensions={{0}}
  %h = bf16[64,96]{{1,0}} all-gather-done(%g)
  %c = (bf16[64,96], bf16[64,96], u32[], u32[]) collective-permute-start(%h), \
source_target_pairs={{{{0,1}},{{1,0}}}}
  ROOT %d = bf16[64,96]{{1,0}} collective-permute-done(%c)"""
    )
    assert listed(report) == [
        ("AllGather", ("X",), 64 * 96 * 2, 1),
        ("CollectivePermute", ("Y",), 64 * 96 * 2, 1),
    ]
    assert report.collectives[1].note == "2 of 8 devices send"


def test_generic_asynchronous_wrapper_is_entered_once() -> None:
    wrapped = f"""%wrapped (q: bf16[16,96]) -> bf16[16,96] {{
  %q = bf16[16,96]{{1,0}} parameter(0)
  ROOT %a = bf16[16,96]{{1,0}} all-to-all(%q), {Y}, dimensions={{0}}
}}
"""
    report = read(
        """  %p = bf16[16,96]{1,0} parameter(0)
  %s = ((bf16[16,96]{1,0}), bf16[16,96]{1,0}, u32[]) async-start(%p), calls=%wrapped
  %u = ((bf16[16,96]{1,0}), bf16[16,96]{1,0}, u32[]) async-update(%s), calls=%wrapped
  ROOT %d = bf16[16,96]{1,0} async-done(%u), calls=%wrapped""",
        wrapped,
    )
    assert listed(report) == [("AllToAll", ("Y",), 3072, 1)]


def test_all_to_all_of_one_operand_a_peer_is_their_sum() -> None:
    report = read(
        f"""  %p = f32[4,96]{{1,0}} parameter(0)
  %q = f32[4,96]{{1,0}} parameter(1)
  %t = (f32[4,96]{{1,0}}, /*index=1*/f32[4,96]{{1,0}}) all-to-all(%p, /*index=1*/%q), {Y}
  ROOT %g = f32[4,96]{{1,0}} get-tuple-element(%t), index=1"""
    )
    assert listed(report) == [("AllToAll", ("Y",), 2 * 4 * 96 * 4, 1)]


# --- dots --------------------------------------------------------------------------------------


def test_dot_flops_with_batching_and_several_contracting_dims() -> None:
    report = read(
        """  %p = bf16[2,3,5,7]{3,2,1,0} parameter(0)
  %q = bf16[2,5,7,11]{3,2,1,0} parameter(1)
  ROOT %d = f32[2,3,11]{2,1,0} dot(%p, %q), lhs_batch_dims={0}, rhs_batch_dims={0}, \
lhs_contracting_dims={2,3}, rhs_contracting_dims={1,2}"""
    )
    assert report.dot_flops == 2 * (2 * 3 * 11) * (5 * 7)
    assert [dot.name for dot in report.dots] == ["d"]


def test_dot_in_a_fusion_is_counted() -> None:
    fused = """%fused (f0: f32[4,8], f1: f32[8,2]) -> f32[4,2] {
  %f0 = f32[4,8]{1,0} parameter(0)
  %f1 = f32[8,2]{1,0} parameter(1)
  ROOT %fd = f32[4,2]{1,0} dot(%f0, %f1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    report = read(
        """  %p = f32[4,8]{1,0} parameter(0)
  %q = f32[8,2]{1,0} parameter(1)
  ROOT %f = f32[4,2]{1,0} fusion(%p, %q), kind=kOutput, calls=%fused""",
        fused,
    )
    assert report.dot_flops == 2 * 4 * 2 * 8


# --- never a silent skip -----------------------------------------------------------------------

UNREAD = {
    "ragged-all-to-all": "bf16[8]{0} ragged-all-to-all(%p, %p), replica_groups={{0,1}}",
    "collective-broadcast": "bf16[8]{0} collective-broadcast(%p), replica_groups={{0,1}}",
    "send": "(bf16[8]{0}, u32[], token[]) send(%p, %p), channel_id=1",
    "all-shuffle": "bf16[8]{0} all-shuffle(%p)",
    "convolution": "bf16[8]{0} convolution(%p, %p), dim_labels=bf_io->bf",
    "gemm": 'bf16[8]{0} custom-call(%p), custom_call_target="__cublas$gemm"',
    "Sharding": 'bf16[8]{0} custom-call(%p), custom_call_target="Sharding", sharding={replicated}',
    "replica_groups": "bf16[16]{0} all-gather(%p), replica_groups=ring(8)",
    "source_target_pairs": "bf16[8]{0} collective-permute(%p), channel_id=1",
    "operand": "bf16[8]{0} all-reduce(%gone), replica_groups={}",
    "lhs_contracting_dims": "bf16[8]{0} dot(%p, %p), lhs_contracting_dims={7}",
}


@pytest.mark.parametrize("word", UNREAD)
def test_unread(word: str) -> None:
    report = read(f"  %p = bf16[8]{{0}} parameter(0)\n  ROOT %c = {UNREAD[word]}")
    assert report.collectives == ()
    assert report.dots == ()
    assert len(report.unread) == 1
    assert word in report.unread[0]
    assert word in repr(report)


def test_computation_that_nothing_calls_is_unread() -> None:
    lost = f"""%lost (v: bf16[8]) -> bf16[8] {{
  %v = bf16[8]{{0}} parameter(0)
  ROOT %g = bf16[8]{{0}} all-reduce(%v), {Y}
}}
"""
    report = read("  ROOT %p = bf16[8]{0} parameter(0)", lost)
    assert report.unread == ("computation lost: holds g, and nothing is seen to call it",)


def test_groups_that_match_no_axes_are_listed_with_a_remark() -> None:
    groups = "replica_groups={{0,3},{1,2},{4,7},{5,6}}"
    report = read(f"  %p = bf16[8]{{0}} parameter(0)\n  ROOT %g = bf16[8] all-reduce(%p), {groups}")
    assert listed(report) == [("AllReduce", (), 32, 1)]
    assert "match no mesh axes" in report.collectives[0].note


def test_collectives_that_move_nothing_are_only_noted() -> None:
    pairs = "source_target_pairs={{0,0},{1,1}}"
    report = read(
        f"""  %p = bf16[8]{{0}} parameter(0)
  %c = bf16[8]{{0}} collective-permute(%p), {pairs}
  ROOT %g = bf16[8]{{0}} all-reduce(%c), replica_groups=[8,1]<=[8]"""
    )
    assert report.collectives == ()
    assert report.unread == ()
    assert len(report.notes) == 2


def test_strings_and_comments_do_not_confuse() -> None:
    report = read(
        f"""  %p = bf16[8]{{0}} parameter(0), metadata={{op_name="a) {{ \\" replica_groups={{}}"}}
  %t = (bf16[8]{{0}}, /*index=1*/bf16[8]{{0}}) tuple(%p, /*index=1*/%p)
  %c = s32[2,2]{{1,0}} constant({{
    {{ 1, 2 }},
    {{ 3, 4 }}
  }})
  %g = bf16[8]{{0}} get-tuple-element(%t), index=1
  ROOT %r = bf16[8]{{0}} all-reduce(%g), metadata={{op_name="replica_groups={{{{0}}}}, x"}}, {Y}"""
    )
    assert listed(report) == [("AllReduce", ("Y",), 32, 1)]
    assert report.unread == ()


def test_report_shows_itself() -> None:
    report = read(
        f"""  %p = bf16[16,96]{{1,0}} parameter(0)
  ROOT %r = bf16[4,96]{{1,0}} reduce-scatter(%p), {X}, to_apply=%sum""",
        SUM,
    )
    assert "ReduceScatter_X" in repr(report)
    assert "<td>ReduceScatter_X</td>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_dict()))["collectives"][0]["volume"] == 3072
    assert report.multiset == {("ReduceScatter", ("X",), 3072): 1}


def test_mesh_of_another_size_is_refused() -> None:
    with pytest.raises(HloError, match=r"over 8 devices, but the mesh X=2 has 2"):
        read("  ROOT %p = bf16[8]{0} parameter(0)", mesh={"X": 2})
    for size in (0, -1, 2.0, True, 2**17):
        with pytest.raises(HloError, match="mesh"):
            read("  ROOT %p = bf16[8]{0} parameter(0)", mesh={"X": size})  # type: ignore[dict-item]
