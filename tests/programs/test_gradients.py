"""Gradients that meet: arrays used several times, tied weights, an array times itself, indices."""

from __future__ import annotations

import pytest

from symscale.algebra.symbols import B, D, F, V, X, Y, symbol
from symscale.programs.program import Program, program
from tests.algebra.equality import assert_volumes
from tests.simulator.check import Run, slope_error

NUMBERS = {B: 12, D: 24, F: 12, V: 36}
MESH = {"X": 2, "Y": 3}

SQUARE = program("A[B, D] * A[B, D] -> R[B]", "relu(R[B]) -> Out[B]")
TWICE = program("In[B, D] * W[D, F] -> Tmp[B, F]", "Tmp[B, F] * W[D, F] -> Out[B, D]")
TIED = program(
    "lookup(Ids[B], Wte[V, D]) -> In[B, D]",
    "rmsnorm(In[B, D], g[D]; D) -> Xn[B, D]",
    "In[B, D] + Xn[B, D] -> Res[B, D]",
    "Res[B, D] * Wte[V, D] -> Logits[B, V]",
)
MEETING = program(
    "In[B, D] * W[D, F] -> Tmp[B, F]",
    "relu(Tmp[B, F]) -> Left[B, F]",
    "Tmp[B, F] * Left[B, F] -> Out[B]",
    "In[B, D] * U[D, F] -> Side[B, F]",
    "mul(Left[B, F], Side[B, F]) -> Other[B, F]",
)
REDUCED = program(
    "max(A[B, D]; D) -> M[B]",
    "mean(A[B, D]; B) -> N[D]",
    "mul(A[B, D], M[B]) -> P[B, D]",
    "mul(P[B, D], N[D]) -> Q[B, D]",
    "sum(Q[B, D]; B, D) -> Out[]",
)

PROGRAMS: dict[str, tuple[Program, list[str]]] = {
    "square": (SQUARE, ["A[B_X,D_Y]", "A[B,D] R[B_X]", "A[B_XY,D] R[B_YX]", "A[B_X,D] dA[B,D_X]"]),
    "twice": (
        TWICE,
        [
            "In[B_X,D] W[D,F] Out[B_X,D]",
            "In[B_X,D_Y] W[D_X,F_Y] Tmp[B_X,F_Y] Out[B_X,D_Y]",
            "In[B_X,D] W[D_X,F] Out[B_X,D] dW[D,F_X] mW[D_X,F]",
            "In[B_X,D] W[D,F] Out[B_X,D] dW[D,F]{U_X} mW[D_X,F]",
            "In[B_X,D_Y] Tmp[B_X,F_Y] dTmp[B_X,F] Out[B_X,D] dW[D_Y,F]{U_X} mW[D_X,F_Y]",
            "In[B_X,D_Y] Tmp[B_X,F_Y] dTmp[B_X,F] Out[B_Y,D] dW[D,F_XY]",
        ],
    ),
    "tied": (
        TIED,
        [
            "Ids[B_X] Wte[V,D] In[B_X,D]",
            "Ids[B_X] Wte[V_X,D] In[B_X,D] Logits[B_X,V]",
            "Ids[B_X] Wte[V,D_X] In[B_X,D] Logits[B_X,V]",
            "Ids[B] Wte[V_Y,D] In[B,D_Y] Logits[B,V_Y]",
            "Ids[B_X] Wte[V_Y,D_X] In[B_X,D_Y] Xn[B_X,D_Y] Res[B_X,D_Y] Logits[B_X,V_Y]",
            "Ids[B_XY] Wte[V_YX,D] In[B_XY,D] Logits[B_XY,V]",
            "Ids[B_Y] Wte[V_X,D_Y] In[B,D_XY] dWte[V_XY,D] mWte[V,D_Y]",
            "Ids[B_X] Wte[V,D] In[B_X,D] Logits[B_X,V] dWte[V,D]{U_X} mWte[V_X,D]",
        ],
    ),
    "meeting": (
        MEETING,
        [
            "In[B_X,D] W[D_X,F] Tmp[B_X,F] Left[B,F_X]",
            "In[B,D_Y] W[D,F_Y] U[D_Y,F] Left[B_X,F_Y] Side[B_Y,F] Out[B_X]",
            "In[B_X,D_Y] dTmp[B_Y,F_X] Side[B,F_XY] Other[B_YX,F]",
        ],
    ),
    "reduced": (
        REDUCED,
        [
            "A[B_X,D_Y]",
            "A[B,D_XY] M[B_X] P[B_X,D_Y]",
            "A[B_YX,D] N[D_X] Q[B_Y,D]",
            "A[B_X,D_Y] M[B_Y]",
        ],
    ),
}
CASES = [(name, text) for name, (_, texts) in PROGRAMS.items() for text in texts]


@pytest.mark.parametrize("keep", ["activations", "all", "none"])
@pytest.mark.parametrize(("name", "text"), CASES)
def test_on_simulated_devices(name: str, text: str, keep: str) -> None:
    made = PROGRAMS[name][0].shard(*text.split(), keep=keep)
    Run.of(made, MESH, NUMBERS).check()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_reference_has_the_right_slope(name: str) -> None:
    assert slope_error(Run.of(PROGRAMS[name][0].shard(), {}, NUMBERS)) < 1e-6


def test_partial_sums_of_a_tied_weight_are_added_before_they_are_reduced() -> None:
    made = TWICE.shard("In[B_X, D]", "W[D, F]", "Out[B_X, D]")
    assert_volumes(made.backward.volume(), {X: 4 * D * F})
    kept = TWICE.shard("In[B_X, D]", "Out[B_X, D]", "dW[D, F]{U_X}", "mW[D_X, F]")
    assert_volumes(kept.backward.volume(), {})
    assert_volumes(kept.update.volume(), {X: 4 * D * F})


def test_parts_of_one_gradient_have_names_of_their_own() -> None:
    made = SQUARE.shard("A[B_X, D]")
    names = [step.output.name for step in made.backward.computes]
    assert names == ["dR", "dA(R:1)", "dA(R:2)", "dA"]


def test_a_reduction_moves_its_result_and_not_its_operand() -> None:
    made = program("sum(A[B, D]; D) -> R[B]").shard("A[B_X, D_Y]", "R[B]")
    assert_volumes(made.forward.volume(), {Y: 4 * B / X, X: 2 * B})


def test_nothing_flows_back_through_indices() -> None:
    made = program(
        "copy(Ids[B]) -> SomeIds[B]",
        "lookup(SomeIds[B], W[V, D]) -> E[B, D]",
        "lookup(Ids[B], W2[V, D]) -> E2[B, D]",
        "copy(Ids[B]) -> LastIds[B]",
    )
    names = [step.output.name for step in made.shard("Ids[B_X]").backward.computes]
    assert names == ["dW2", "dW"]
    Run.of(program("lookup(Ids[B], W[V, D]) -> E[B, D]").shard("Ids[B_X]"), MESH, NUMBERS).check()


def test_a_weight_without_gradient_needs_no_update() -> None:
    made = program("copy(W[B]) -> OutIds[B]", "relu(In[B]) -> Out[B]", inputs=["In"])
    sharded = made.shard("W[B_X]", "mW[B]")
    assert_volumes(sharded.update.volume(), {})
    assert [step.output.name for step in sharded.backward.computes] == ["dIn"]


def test_row_sharded_tables_leave_partial_sums() -> None:
    """The vocabulary over Y: each device yields zeros for rows it lacks, and the sum is reduced."""
    made = program("lookup(Ids[B], W[V, D]) -> E[B, D]").shard("Ids[B_X]", "W[V_Y, D]", "E[B_X, D]")
    assert_volumes(made.forward.volume(), {Y: 4 * B * D / X})
    assert made.forward.steps[0].output.short == "E[B_X, D]{U_Y}"


def test_partial_inputs() -> None:
    made = program("relu(A[B, D]) -> R[B, D]", "A[B, D] * W[D, F] -> Out[B, F]")
    for text in ("A[B,D]{U_X}", "A[B_Y,D]{U_X} R[B_X,D]", "A[B,D]{U_YX} Out[B_XY,F]"):
        Run.of(made.shard(*text.split()), MESH, NUMBERS).check()


def test_a_partial_sum_that_was_reduced_for_one_use_stays_partial_for_another() -> None:
    whole = program(
        "mul(In[I, J], W1[]) -> A1[I, J]",
        "In[I, J] * W2[] -> A2[I, J]",
        "In[I, J] * W3[] -> A3[I, J]",
    )
    sharded = whole.shard("In[I, J]{U_Y}")
    Run.of(sharded, {"Y": 2}, {symbol("I"): 4, symbol("J"): 4}).check()
