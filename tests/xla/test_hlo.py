"""HLO text of every form that was seen, written by hand: kinds, axes, volumes, times, remarks."""

from __future__ import annotations

import json

import pytest

from symscale.xla.hlo import HloError, HloReport, read_hlo

MESH = {"X": 4, "Y": 2}
SUM = """%sum (a: bf16[], b: bf16[]) -> bf16[] {
  %a = bf16[] parameter(0)
  %b = bf16[] parameter(1)
  ROOT %s = bf16[] add(%a, %b)
}
"""
X = "replica_groups=[2,4]<=[4,2]T(1,0)"
Y = "replica_groups={{0,1},{2,3},{4,5},{6,7}}"
# Where a device's quarter along X begins, by table.
PART = """  %ids = s32[8]{0} constant({0, 0, 16, 16, 32, 32, 48, 48})
  %me = u32[] partition-id()
  %row = s32[1]{0} dynamic-slice(%ids, %me), dynamic_slice_sizes={1}
  %at = s32[] reshape(%row)
  %zero = s32[] constant(0)
"""


def module(body: str, before: str = "", header: str = ", num_partitions=8") -> str:
    return (
        f"HloModule test{header}\n\n{before}\nENTRY %main (p: bf16[8]) -> bf16[8] {{\n{body}\n}}\n"
    )


def read(body: str, before: str = "", mesh: dict[str, int] | None = None) -> HloReport:
    return read_hlo(module(body, before), mesh or MESH)


def listed(report: HloReport) -> list[tuple[str, tuple[str, ...], int, int]]:
    return [(found.kind, found.axes, found.volume, found.times) for found in report.collectives]


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


# --- an all-reduce and what becomes of it ------------------------------------------------------


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


# --- permute chains ----------------------------------------------------------------------------

RING = "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"


def test_chain_of_permutes_with_dots_is_a_windowed_einsum() -> None:
    body = """  %p = bf16[8,32]{1,0} parameter(0)
  %w = bf16[32,16]{1,0} parameter(1)
  %d0 = f32[8,16]{1,0} dot(%p, %w), DIMS
  %s1 = bf16[8,32]{1,0} collective-permute(%p), RING
  %d1 = f32[8,16]{1,0} dot(%s1, %w), DIMS
  %c1 = bf16[8,32]{1,0} copy(%s1)
  %s2 = bf16[8,32]{1,0} collective-permute(%c1), RING
  %d2 = f32[8,16]{1,0} dot(%s2, %w), DIMS
  %s3 = bf16[8,32]{1,0} collective-permute(%s2), RING
  ROOT %d3 = f32[8,16]{1,0} dot(%s3, %w), DIMS"""
    body = body.replace("DIMS", "lhs_contracting_dims={1}, rhs_contracting_dims={0}")
    report = read_hlo(module(body.replace("RING", RING), header=""), {"Y": 4})
    (chain,) = report.chains
    assert chain.names == ("s1", "s2", "s3")
    assert chain.windowed
    assert chain.gathered == 4 * 8 * 32 * 2
    assert [found.note for found in report.collectives] == [
        f"windowed einsum, step {step} of 3" for step in (1, 2, 3)
    ]
    assert report.dot_flops == 4 * 2 * 8 * 16 * 32


def test_permute_round_a_loop_is_a_chain() -> None:
    report = looped(loop=LOOP.replace("NEXT", "%sent"))
    (chain,) = report.chains
    assert (chain.steps, chain.windowed, chain.gathered) == (3, False, 4 * 16)
    same = looped(loop=LOOP.replace("NEXT", "%x"))
    assert same.chains == ()
    assert listed(same) == [("CollectivePermute", ("Y",), 16, 3)]


# --- loops and calls ---------------------------------------------------------------------------

LOOP = f"""%body (s: (s32[], bf16[8])) -> (s32[], bf16[8]) {{
  %s = (s32[], bf16[8]{{0}}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
  %x = bf16[8]{{0}} get-tuple-element(%s), index=1
  %sent = bf16[8]{{0}} collective-permute(%x), {RING}
  ROOT %t = (s32[], bf16[8]{{0}}) tuple(%j, NEXT)
}}

%test (s.1: (s32[], bf16[8])) -> pred[] {{
  %s.1 = (s32[], bf16[8]{{0}}) parameter(0)
  %i.1 = s32[] get-tuple-element(%s.1), index=0
  %n = s32[] constant(3)
  ROOT %more = pred[] compare(%i.1, %n), direction=LT
}}
"""
LOOP_BODY = """  %p = bf16[8]{0} parameter(0)
  %k = s32[] constant(0)
  %init = (s32[], bf16[8]{0}) tuple(%k, %p)
  %w = (s32[], bf16[8]{0}) while(%init), condition=%test, body=%body
  ROOT %out = bf16[8]{0} get-tuple-element(%w), index=1"""


def looped(body: str = LOOP_BODY, loop: str = LOOP) -> HloReport:
    return read_hlo(module(body, loop.replace("NEXT", "%x"), header=", num_partitions=4"), {"Y": 4})


def test_known_trip_count_multiplies_without_a_remark() -> None:
    known = ', backend_config={"known_trip_count":{"n":"12"},"x":["}"]}'
    report = looped(LOOP_BODY.replace("body=%body", "body=%body" + known))
    assert listed(report) == [("CollectivePermute", ("Y",), 16, 12)]
    assert report.collectives[0].note == ""


@pytest.mark.parametrize(
    ("change", "turns"),
    [
        (("constant(3)", "constant(3)"), 3),
        (("direction=LT", "direction=LE"), 4),
        (("constant(1)", "constant(2)"), 2),
        (("compare(%i.1, %n), direction=LT", "compare(%n, %i.1), direction=GT"), 3),
        (("constant(3)", "constant(-3)"), 0),
    ],
)
def test_guessed_turns_are_marked(change: tuple[str, str], turns: int) -> None:
    report = looped(loop=LOOP.replace(*change))
    assert listed(report)[0][3] == turns
    assert f"in a loop of {turns} turns (guessed" in report.collectives[0].note
    assert not report.unread


def test_first_count_of_a_guess_is_read() -> None:
    assert listed(looped(LOOP_BODY.replace("constant(0)", "constant(1)")))[0][3] == 2


def test_condition_in_a_fusion_is_read() -> None:
    fused = """%less (l0: s32[], l1: s32[]) -> pred[] {
  %l0 = s32[] parameter(0)
  %l1 = s32[] parameter(1)
  ROOT %l2 = pred[] compare(%l0, %l1), direction=LT
}
"""
    line = "fusion(%i.1, %n), kind=kLoop, calls=%less"
    loop = LOOP.replace("compare(%i.1, %n), direction=LT", line)
    assert listed(looped(loop=fused + loop))[0][3] == 3


def test_loop_of_unknown_length_is_unread() -> None:
    report = looped(loop=LOOP.replace("constant(3)", "get-tuple-element(%s.1), index=0"))
    assert listed(report)[0][3] == 1
    assert report.unread == ("while w: unknown number of turns, its body counted once",)


def test_nested_loops_and_repeated_calls_multiply() -> None:
    known = ', backend_config={"known_trip_count":{"n":"5"}}'
    twice = """%twice (q: bf16[8]) -> bf16[8] {
  %q = bf16[8]{0} parameter(0)
  %one.q = bf16[8]{0} call(%q), to_apply=%work
  ROOT %two.q = bf16[8]{0} call(%one.q), to_apply=%work
}
"""
    work = f"""%work (v: bf16[8]) -> bf16[8] {{
  %v = bf16[8]{{0}} parameter(0)
  ROOT %ag = bf16[8]{{0}} collective-permute(%v), {RING}
}}
"""
    loop = LOOP.replace(f"collective-permute(%x), {RING}", "call(%x), to_apply=%twice")
    report = looped(LOOP_BODY.replace("body=%body", "body=%body" + known), work + twice + loop)
    assert listed(report) == [("CollectivePermute", ("Y",), 16, 10)]


def test_branches_of_a_conditional_are_each_counted_and_marked() -> None:
    branch = f"""%NAME (v.NAME: bf16[8]) -> bf16[8] {{
  %v.NAME = bf16[8]{{0}} parameter(0)
  ROOT %g.NAME = bf16[8]{{0}} all-reduce(%v.NAME), {Y}, to_apply=%sum
}}
"""
    report = read(
        """  %p = bf16[8]{0} parameter(0)
  %b = s32[] constant(0)
  ROOT %c = bf16[8]{0} conditional(%b, %p, %p), branch_computations={%one, %two}""",
        SUM + branch.replace("NAME", "one") + branch.replace("NAME", "two"),
    )
    assert listed(report) == [("AllReduce", ("Y",), 32, 1)] * 2
    assert all("branch of a conditional" in found.note for found in report.collectives)


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
    report = reduced(f"  ROOT %k = bf16[16,160]{{1,0}} {QUARTER.format('%r')}")
    assert "ReduceScatter_X" in repr(report)
    assert "<td>ReduceScatter_X</td>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_dict()))["collectives"][0]["volume"] == 20480
    assert report.multiset == {("ReduceScatter", ("X",), 20480): 1}


def test_mesh_of_another_size_is_refused() -> None:
    with pytest.raises(HloError, match=r"over 8 devices, but the mesh X=2 has 2"):
        read("  ROOT %p = bf16[8]{0} parameter(0)", mesh={"X": 2})
    for size in (0, -1, 2.0, True, 2**17):
        with pytest.raises(HloError, match="mesh"):
            read("  ROOT %p = bf16[8]{0} parameter(0)", mesh={"X": size})  # type: ignore[dict-item]
