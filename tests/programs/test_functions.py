"""Functions on simulated devices; their reverse against finite differences, element by element."""

from __future__ import annotations

import numpy as np
import pytest

from symscale.algebra.errors import ProgramError
from symscale.algebra.symbols import B, D, X, Y, symbol
from symscale.programs.functions import FUNCTIONS
from symscale.programs.program import Program, program
from tests.algebra.equality import assert_same, assert_volumes
from tests.simulator import plain
from tests.simulator.check import Run
from tests.simulator.devices import Devices

J = symbol("J")
OPERANDS = {1: "A[B, D, J]", 2: "A[B, D, J], W[D, J]", 3: "A[B, D, J], W[D, J], U[D, J]"}
NUMBERS = {B: 6, D: 6, J: 6}


def line(name: str) -> Program:
    function = FUNCTIONS[name]
    over = "; D" if function.shifts else "; D, J" if function.along else ""
    result = "R[B]" if function.reduces else "R[B, D, J]"
    return program(f"{name}({OPERANDS[function.arity]}{over}) -> {result}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reverse_against_finite_differences(name: str) -> None:
    run = Run.of(line(name).shard(), {}, {B: 2, D: 2, J: 4})
    outside, seeds = run.outside(), run.seeds()
    values = plain.forward(run.program, outside, run.devices)
    grads = plain.backward(run.program, values, seeds, run.devices)

    def loss(array: str, at: tuple[int, ...], by: float) -> float:
        moved = {key: value.copy() for key, value in outside.items()}
        moved[array][at] += by
        made = plain.forward(run.program, moved, run.devices)
        return float((seeds["R"] * made["R"]).sum())

    for array, value in outside.items():
        for at in np.ndindex(value.shape):
            slope = (loss(array, at, 1e-5) - loss(array, at, -1e-5)) / 2e-5
            assert slope == pytest.approx(grads[array][at], rel=1e-5, abs=1e-7), (array, at)


SHARDINGS = [
    "A[B_X,D,J] R[B_X,D,J]",
    "A[B_X,D_Y,J] W[D_Y,J] R[B_X,D_Y,J]",
    "A[B,D_X,J] W[D_X,J] R[B,D_X,J]",
    "A[B_Y,D_X,J] W[D,J_Y] R[B_X,D,J_Y]",
    "A[B,D_Y,J_X] W[D_XY,J] U[D,J_X] R[B,D_Y,J_X]",
]


@pytest.mark.parametrize("text", SHARDINGS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_on_simulated_devices(name: str, text: str) -> None:
    made = line(name)
    lines = [part for part in text.split() if part[0] in made.arrays]
    if FUNCTIONS[name].reduces:
        lines = [part for part in lines if part[0] != "R"]
    numbers = {B: 6, D: 6, J: 12} if name == "rope" else NUMBERS
    Run.of(made.shard(*lines), {"X": 2, "Y": 3}, numbers).check()


def test_statistics_of_norms_and_softmax() -> None:
    """A row sharded over Y: four bytes for each statistic, summed and shared (twice its array)."""
    soft = program("softmax(A[B, D]; D) -> R[B, D]").shard("A[B_X, D_Y]", "R[B_X, D_Y]")
    assert_volumes(soft.forward.volume(), {Y: 2 * 2 * 4 * B / X})
    assert_volumes(soft.backward.volume(), {Y: 2 * 4 * B / X})
    assert_volumes(soft.forward.volume(statistics=False), {})
    norm = line("rmsnorm").shard("A[B_X, D_Y, J]", "W[D_Y, J]", "R[B_X, D_Y, J]")
    assert_volumes(norm.forward.volume(), {Y: 2 * 4 * B / X})


SHIFT = program("shift(A[P, B, D]; P) -> R[P, B, D]", sizes={"P": 12})


@pytest.mark.parametrize(
    ("shards", "volume"),
    [
        (("A[P, B_X, D_Y]", "R[P, B_X, D_Y]"), {}),
        (("A[P_X, B, D]", "R[P_X, B, D]"), {X: 2 * B * D}),
        (("A[P_X, B_Y, D]", "R[P_X, B_Y, D]"), {X: 2 * B * D / Y}),
        (("A[P_XY, B, D]", "R[P_XY, B, D]"), {(X, Y): 2 * B * D}),
        (("A[P, B_Y, D]", "R[P_X, B_Y, D]"), {}),
    ],
)
def test_a_shift_sends_one_row(shards: tuple[str, ...], volume: dict[object, object]) -> None:
    made = SHIFT.shard(*shards)
    assert_volumes(made.forward.volume(), volume)
    assert {move.kind for move in made.forward.collectives} <= {"CollectivePermute"}
    Run.of(made, {"X": 2, "Y": 3}, {B: 6, D: 6}).check()


def test_a_shift_goes_back_in_reverse() -> None:
    made = SHIFT.shard("A[P_X, B_Y, D]", "R[P_X, B_Y, D]")
    assert str(made.forward).splitlines() == [
        "A.edge[P_X, B_Y, D] = edge(A[P_X, B_Y, D]; P)",
        "R.edge[P_X, B_Y, D] = CollectivePermute_X A.edge[P_X, B_Y, D]        2*B*D/Y bytes, waits",
        "R[P_X, B_Y, D]      = shift(A[P_X, B_Y, D], R.edge[P_X, B_Y, D]; P)",
    ]
    assert "CollectivePermute_X dR.edge[P_X, B_Y, D]" in str(made.backward)
    assert_volumes(made.backward.volume(), {X: 2 * B * D / Y})


STAGES = program(
    "shift(In[P, B, D]; P) -> In2[P, B, D]",
    "In2[P, B, D] * W[P, D, F] -> Mid[P, B, F]",
    "shift(Mid[P, B, F]; P) -> Out[P, B, F]",
)


@pytest.mark.parametrize("stages", ["P_X", "P_XY", "P_YX", "P"])
def test_stages_in_a_row_compute_what_one_device_would(stages: str) -> None:
    lines = [f"{array.name}[{', '.join(stages if d == 'P' else d for d in array.labels)}]"
             for array in STAGES.arrays.values()]  # fmt: skip
    sizes = {symbol("P"): 12, B: 2, D: 3, symbol("F"): 2}
    Run.of(STAGES.shard(*lines), {"X": 2, "Y": 3}, sizes).check()


def test_a_lost_row_is_noticed() -> None:
    made = SHIFT.shard("A[P_X, B, D]", "R[P_X, B, D]")
    object.__setattr__(made.forward.collectives[0], "by", -1)
    with pytest.raises(AssertionError):
        Run.of(made, {"X": 3}, {B: 2, D: 2}).check()


def test_a_shift_works_along_one_dim() -> None:
    with pytest.raises(ProgramError, match=r"^line 1: shift works along one dim"):
        program("shift(A[P, B]; P, B) -> R[P, B]")


def test_vector_work_is_counted_apart() -> None:
    made = program("relu(A[B, D]) -> R[B, D]").shard("A[B_X, D]", "R[B_X, D]")
    assert made.forward.flops == 0
    assert_same(made.forward.vector_flops, B * D / X)
    assert_same(made.forward.hbm_bytes, 4 * B * D / X)


@pytest.mark.parametrize("text", ["A[I_X, J]", "A[I, J_X]", "A[I_XY, J_Z]", "A[I_Z, J_YX]"])
@pytest.mark.parametrize(
    "result", ["R[a, b, J]", "R[a_Y, b, J_X]", "R[a, b_X, J_Z]", "R[a_ZX, b, J]"]
)
def test_regrouping_under_any_sharding(text: str, result: str) -> None:
    """A sharded minor factor is moved, since only the major one lies in blocks of the whole."""
    sizes = {"I": symbol("a") * symbol("b")}
    split = program("A[I, J] -> R[a, b, J]", "R[a, b, J] -> Out[I, J]", sizes=sizes)
    numbers = {symbol("a"): 12, symbol("b"): 12, J: 12}
    Run.of(split.shard(text, result, "Out[I_Y, J_X]"), {"X": 2, "Y": 3, "Z": 2}, numbers).check()


def test_renaming_a_dim() -> None:
    made = program(
        "A[B, T] -> R[B, S]", "A[B, T] * R[B, S] -> P[B, T, S]", sizes={"S": symbol("T")}
    )
    Run.of(made.shard("A[B_X, T_Y]"), {"X": 2, "Y": 3}, {B: 6, symbol("T"): 6}).check()


def test_the_simulator_sees_wrong_data() -> None:
    """A referee that cannot say no is none: a gather of the wrong axis is noticed."""
    made = program("copy(A[B, D]) -> R[B, D]").shard("A[B_XY, D]", "R[B, D]")
    run = Run.of(made, {"X": 2, "Y": 2}, {B: 4, D: 1})
    phase = made.forward
    step = phase.steps[0]
    object.__setattr__(step, "axes", ("Y", "X"))
    with pytest.raises(AssertionError):
        run.check()
    assert Devices({"X": 2}, {}).group((1,), ("X",)) == [(0,), (1,)]
