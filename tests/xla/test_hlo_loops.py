"""Loops, calls and branches of HLO modules, and permutes that form chains."""

from __future__ import annotations

import pytest

from symscale.xla.hlo import read_hlo
from tests.xla.hlo_lines import LOOP, LOOP_BODY, RING, SUM, Y, listed, looped, module, read


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
