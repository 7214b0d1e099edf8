"""``symscale check``: it passes, it can fail, and it says what is wrong with a question."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import Any

import pytest

import symscale.xla.check as check_module
import symscale.xla.compile as compile_module
from symscale.cli import main
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.strategy import strategy
from symscale.programs.sharded import ShardedProgram
from symscale.xla.check import Question, Subject, check, check_all
from symscale.xla.check_lines import split_lines
from symscale.xla.compare import compare
from symscale.xla.compare_lists import Derived
from symscale.xla.compile import compile_all
from symscale.xla.emit_module import Written
from symscale.xla.emit_setting import Setting, XlaError, default_sizes
from symscale.xla.readings import Dot, Emitted, HloReport

MESH = {"X": 4, "Y": 2}
SIZES = default_sizes(two_matmul_layer(), MESH)


def layer(name: str) -> ShardedProgram:
    return two_matmul_layer().shard(strategy(name))


def report(*found: Emitted, flops: int = 0, unread: tuple[str, ...] = ()) -> HloReport:
    return HloReport(MESH, found, (Dot("dot", flops),), unread)


GATHER = Derived("AllGather", ("X",), 800, "bf16", "W[D_X, F] -> W[D, F]")


# --- comparison, without JAX -------------------------------------------------------------------


def test_equal_lists_are_exact_in_any_order_of_axes() -> None:
    own = Derived("AllGather", ("Y", "X"), 800, "bf16", "W[D_YX] -> W[D]")
    made = compare([own], report(Emitted("AllGather", ("X", "Y"), 800, "bf16"), flops=6), 6)
    assert made.exact
    assert made.verdict == "exact"


def test_a_collective_in_a_loop_counts_as_often_as_it_runs() -> None:
    found = report(Emitted("AllGather", ("X",), 800, "bf16", times=2))
    assert compare([GATHER, GATHER], found, 0).exact
    assert not compare([GATHER], found, 0).exact


@pytest.mark.parametrize(
    "other",
    [
        Emitted("AllGather", ("Y",), 800, "bf16"),
        Emitted("AllGather", ("X",), 1600, "f32"),
        Emitted("AllReduce", ("X",), 800, "bf16"),
        Emitted("AllGather", ("Y",), 4000, "bf16"),
    ],
)
def test_another_collective_is_not_explained_away(other: Emitted) -> None:
    weight = Derived("AllGather", ("Y",), 60, "bf16", "In[B, D_Y] -> In[B, D]")
    paired = Emitted("AllGather", ("Y",), 60, "bf16")
    made = compare([GATHER, weight], report(other, paired), 0)
    assert not made.exact
    assert not made.explained
    assert any("not explained" in line for line in made.lines())


def test_a_gather_along_another_dim_is_another_gather() -> None:
    """As many bytes over the same axes, but the operand is cut along its other dim."""
    own = replace(GATHER, dims=(5, 28))
    for dims, exact in (((5, 28), True), ((28, 5), True), ((140,), True), ((5, 4, 7), True),
                        ((20, 7), False), ((10, 14), False)):  # fmt: skip
        made = compare([own], report(Emitted("AllGather", ("X",), 800, "bf16", dims=dims)), 0)
        assert made.exact == made.explained == exact, dims


def test_a_gather_of_what_was_cut_first() -> None:
    """Known only where the derived plan cuts the array, and for as many times the bytes."""
    whole = Emitted("AllGather", ("X",), 1600, "bf16")
    assert compare([replace(GATHER, sliced=2)], report(whole), 0).explained
    for sliced in (1, 4):
        assert not compare([replace(GATHER, sliced=sliced)], report(whole), 0).explained


def test_other_flops_are_not_explained_by_nothing() -> None:
    made = compare([GATHER], report(Emitted("AllGather", ("X",), 800, "bf16"), flops=8), 4)
    assert not made.explained
    assert made.verdict == "exact, other FLOPs"


def test_what_was_not_read_is_a_failure() -> None:
    made = compare([], report(unread=("ragged-all-to-all",)), 0)
    assert not made.explained
    assert "not read: ragged-all-to-all" in str(made)


def test_lines_fit_a_hundred_columns() -> None:
    long = replace(GATHER, array="VeryLongName(OfAPart)[b_X, T, K_Y, G_Z, H]{U_XYZ} -> A")
    made = compare([long], report(Emitted("AllReduce", ("X", "Y"), 10**12, "bf16")), 0)
    assert max(map(len, str(made).splitlines())) <= 100


# --- questions ---------------------------------------------------------------------------------


def test_sharded_lines_are_a_program_and_its_shardings() -> None:
    plain, shards = split_lines(
        ["softmax(A[I_X, J]; J) -> C[I_X, J]", "C[I_X, J] + B[J] -> D[I, J]"]
    )
    assert plain == ("softmax(A[I, J]; J) -> C[I, J]", "C[I, J] + B[J] -> D[I, J]")
    assert shards == ("A[I_X, J]", "C[I_X, J]", "B[J]", "D[I, J]")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--strategy", "fsdpp"], "unknown strategy 'fsdpp'"),
        ([], "no shardings"),
        (["--strategy", "fsdp", "--mesh", "Y=4"], "the mesh has no axis X; it has Y"),
        (["--strategy", "fsdp", "--mesh", "X=1"], "a mesh of one device"),
        (["--strategy", "fsdp", "--sizes", "B=6"], "does not divide B = 6"),
        (["--strategy", "fsdp", "--sizes", "Q=6"], "no dim has the size Q; sizes: B, D, F"),
        (["--strategy", "fsdp", "--explicit", "--joint"], "no joint one"),
        (["A[I_X] + B[I] -> C[I]", "--model", "llama-3-8b"], "not both"),
        (["A[I_X, J] * B[J -> C[I]"], "expected ',' or ']'"),
        (["A[I_X] + B[I] -> C[I]", "A[I] + C[I] -> D[I]"], "A lies as A[I_X] and as A[I]"),
        (["--shard", "Nope[B_X]"], "no array 'Nope'"),
    ],
)
def test_wrong_questions(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments, "--source"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_source_needs_no_jax(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_module.importlib.util, "find_spec", lambda name: None)
    assert main(["check", "--strategy", "fsdp+tp", "--source"]) == 0
    assert "PROGRAM = jax.jit(" in capsys.readouterr().out


def test_without_jax_one_line_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_module.importlib.util, "find_spec", lambda name: None)
    assert main(["check", "--strategy", "fsdp+tp"]) == 2
    said = capsys.readouterr().err
    assert said == 'symscale: JAX is not installed; get it with: pip install "symscale[xla]"\n'


# --- with JAX ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Other(Subject):
    """Derives from one sharding what it writes out under another."""

    other: ShardedProgram | None = None

    def written(self) -> Written:
        assert self.other is not None
        return replace(
            Subject(self.name, self.other, self.setting, self.which, self.explicit)
        ).written()


WRONG = [
    ("fsdp", ("In[B_X, D]", "Win[D_X, F]", "Wout[F, D]", "Tmp[B_X, F_Y]", "Out[B_X, D]")),
    ("fsdp", ("In[B_X, D]", "Win[D, F]", "Wout[F, D_X]", "Tmp[B_X, F]", "Out[B_X, D]")),
    ("fsdp", ("In[B_X, D]", "Win[D, F_X]", "Wout[F, D_X]", "Tmp[B_X, F]", "Out[B_X, D]")),
    ("fsdp", ("In[B_X, D]", "Win[D_X, F]", "Wout[F_X, D]", "Tmp[B_X, F]", "Out[B_X, D]")),
    ("fsdp", ("In[B_Y, D]", "Win[D_Y, F]", "Wout[F, D_Y]", "Tmp[B_Y, F]", "Out[B_Y, D]")),
    ("tp", ("In[B, D_Y]", "Win[D, F_Y]", "Wout[F_Y, D]", "Tmp[B, F_Y]", "Out[B, D]")),
    ("fsdp+tp", ("In[B_X, D_Y]", "Win[D_X, F_Y]", "Wout[F_X, D_Y]", "Tmp[B_X, F_Y]",
                 "Out[B_X, D_Y]")),
    ("2d", ("In[B, D_XY]", "Win[D_Y, F_X]", "Wout[F_X, D_Y]", "Tmp[B, F_X]", "Out[B, D_XY]")),
]  # fmt: skip


@pytest.mark.xla
def test_a_wrong_sharding_is_caught() -> None:
    subjects = []
    for name, shards in WRONG:
        other = two_matmul_layer().shard(*shards)
        for explicit in (False, True):
            numbers = Setting(MESH, SIZES)
            subjects.append(Other(f"{name} as {shards}", layer(name), numbers, "forward", explicit,
                                  other=other))  # fmt: skip
    found = check_all(subjects)
    caught = [not one.comparison.exact for one in found]
    assert all(caught)
    explained = [one.subject.name for one in found if one.ok]
    assert not explained


@pytest.mark.xla
def test_exit_status_is_one_when_something_is_not_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(sharded: ShardedProgram, *rest: Any) -> Written:
        return right(two_matmul_layer().shard(*WRONG[1][1]), *rest)

    right = check_module.auto
    arguments = ["check", "--strategy", "fsdp", "--mesh", "X=4"]
    assert main(arguments) == 0
    monkeypatch.setattr(check_module, "auto", wrong)
    assert main(arguments) == 1
    assert "not explained: derived AllGather_X" in capsys.readouterr().out


@pytest.mark.xla
@pytest.mark.parametrize("extra", [[], ["--backward"], ["--explicit"], ["--backward", "--explicit"],
                                   ["--backward", "--pinned"], ["--joint"]])  # fmt: skip
def test_check_on_the_command_line(extra: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--strategy", "fsdp", "--mesh", "X=4", "--json", *extra]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["exact"]
    assert said["flops"]["derived"] == said["flops"]["xla"] > 0
    kinds = [row["derived"][0]["kind"] for row in said["rows"]]
    assert "AllGather" in kinds
    assert ("ReduceScatter" in kinds) == ("--backward" in extra or "--joint" in extra)


@pytest.mark.xla
def test_check_of_lines_and_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["A[I, J_X] * B[J_X, K] -> C[I_X, K]"]
    assert main(["check", *lines, "--inputs", "A,B", "--mesh", "X=8", "--sizes", "I=16,J=64"]) == 0
    assert "ReduceScatter_X C[I, K]{U_X}" in capsys.readouterr().out
    assert main(["check", "--model", "llama-3-70b", "--strategy", "tp", "--mesh", "Y=4"]) == 0
    out = capsys.readouterr().out
    assert "AllReduce_Y Xa.stat[B]{U_Y}" in out
    assert max(map(len, out.splitlines()[1:])) <= 100


@pytest.mark.xla
def test_the_callers_environment_is_left_alone() -> None:
    before = dict(os.environ)
    check(Question(strategy="dp", mesh={"X": 2}))
    assert dict(os.environ) == before


@pytest.mark.xla
def test_time_is_limited() -> None:
    written = Subject("slow", layer("fsdp"), Setting(MESH, SIZES)).written()
    with pytest.raises(XlaError, match=r"XLA took longer than 0\.2 s; it was at 'forward'"):
        compile_all([written], limit=0.2)


@pytest.mark.xla
def test_a_program_that_jax_refuses_is_named_and_spares_the_others() -> None:
    good = Subject("good", layer("dp"), Setting(MESH, SIZES)).written()
    bad = Written("bad", "raise ValueError('no such thing')", good.setting)
    first, second = compile_all([bad, good])
    assert isinstance(first, XlaError)
    assert "XLA refuses 'bad': ValueError: no such thing" in str(first)
    assert not isinstance(second, XlaError)
