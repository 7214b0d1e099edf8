"""Plans that weigh sizes: the walls measured on XLA, and the same numbers as the unsharded run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, note, settings
from sympy import Symbol

from symscale.algebra.errors import SymbolError
from symscale.programs.phase import Phase
from symscale.programs.program import program
from symscale.programs.sharded import ShardedProgram
from tests.programs.random_programs import einsum_lines, sharded_programs, split_sizes
from tests.simulator.check import Run

PRODUCT = program("A[I, J] * B[J, K] -> C[I, K]", inputs=("A", "B"))
MESH = {"X": 4, "Y": 2}

Drawn = tuple[ShardedProgram, dict[str, int], dict[Symbol, int]]


def kinds(lines: tuple[str, ...], sizes: dict[str, int]) -> list[str]:
    sharded = PRODUCT.shard(*lines, sizes={**sizes, **MESH})
    return [move.name for move in sharded.forward.collectives]


@pytest.mark.parametrize(
    ("lines", "last_reduced", "first_gathered"),
    [
        (("A[I, J_X]", "B[J, K_Y]", "C[I, K_Y]"), 2032, 2048),
        (("A[I_Y, J_X]", "B[J, K]", "C[I_Y, K]"), 1016, 1024),
    ],
)
def test_slice_or_gather_turns_where_xla_turns(
    lines: tuple[str, ...], last_reduced: int, first_gathered: int
) -> None:
    """Compiled at many K with I = 512, J = 1024: XLA reduces below and gathers above."""
    sizes = {"I": 512, "J": 1024}
    assert kinds(lines, {**sizes, "K": last_reduced}) == ["AllReduce_X"]
    assert kinds(lines, {**sizes, "K": first_gathered}) == ["AllGather_X"]


def test_the_smaller_operand_moves() -> None:
    lines = ("A[I_X, J]", "B[J_X, K]", "C[I, K_X]")
    small_a = kinds(lines, {"I": 64, "J": 512, "K": 8192})
    small_b = kinds(lines, {"I": 8192, "J": 512, "K": 64})
    assert small_a == ["AllGather_X", "AllToAll_X"] == small_b
    moved = PRODUCT.shard(*lines, sizes={"I": 64, "J": 512, "K": 8192, **MESH}).forward
    assert [move.before.name for move in moved.collectives] == ["A", "B"]
    moved = PRODUCT.shard(*lines, sizes={"I": 8192, "J": 512, "K": 64, **MESH}).forward
    assert [move.before.name for move in moved.collectives] == ["B", "C"]


def test_a_router_under_sharded_weights_is_reduced() -> None:
    """The tokens' own axis is left cut though the weight is cut along the same dim by more axes, as
    XLA does: a token's few scores are smaller than its vector."""
    lines = ("A[I_X, J_Y]", "B[J_XZ, K]", "C[I_X, K]")
    sizes = {"I": 64, "J": 64, "K": 8, **MESH, "Z": 2}
    found = PRODUCT.shard(*lines, sizes=sizes).forward
    assert found.collectives[-1].name == "AllReduce_Y"
    assert {move.before.name for move in found.collectives} == {"B", "C"}


def test_textbook_rules_do_not_turn_with_the_sizes() -> None:
    """FSDP gathers weights at any batch, a product cut along its sum is reduced."""
    layer = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
    fsdp = ("In[B_X, D]", "Win[D_X, F]", "Wout[F, D_X]", "Out[B_X, D]")
    tp = ("In[B, D_X]", "Win[D, F_X]", "Wout[F_X, D]", "Out[B, D_X]")
    for lines in (fsdp, tp):
        usual = layer.shard(*lines).forward.steps
        for batch in (8, 4096, 2**22):
            sizes = {"B": batch, "D": 4096, "F": 16384, "X": 4}
            assert layer.shard(*lines, sizes=sizes).forward.steps == usual


def test_a_size_that_is_missing_is_named() -> None:
    with pytest.raises(SymbolError, match="no value for K"):
        _ = PRODUCT.shard("A[I, J_X]", sizes={"I": 4, "J": 4, **MESH}).forward


def _weighed(drawn: Drawn) -> ShardedProgram:
    sharded, mesh, sizes = drawn
    return replace(sharded, sizes={**mesh, **{s.name: n for s, n in sizes.items()}})


@settings(max_examples=300)
@given(sharded_programs())
def test_a_weighed_program_gives_the_unsharded_result(drawn: Drawn) -> None:
    weighed = _weighed(drawn)
    note(str(weighed))
    Run.of(weighed, *drawn[1:]).check()


@settings(max_examples=200)
@given(sharded_programs(einsum_lines().map(lambda line: program(line, sizes=split_sizes()))))
def test_weighing_a_product_pays(drawn: Drawn) -> None:
    """Never more FLOPs; more bytes only for fewer FLOPs, and less than twice as many."""
    sharded, mesh, sizes = drawn
    run = Run.of(sharded, mesh, sizes)

    def paid(phase: Phase) -> tuple[float, float]:
        return run.number(phase.flops), sum(run.number(m.volume) for m in phase.collectives)

    flops, volume = paid(sharded.forward)
    less, other = paid(_weighed(drawn).forward)
    assert less <= flops
    assert other <= volume or (less < flops and other < 2 * volume)
