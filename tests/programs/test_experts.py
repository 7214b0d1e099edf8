"""Experts on a mesh: AllToAlls that fall out of shardings, checked on simulated devices."""

from __future__ import annotations

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from sympy import Expr, Symbol

from symscale.algebra.errors import ProgramError
from symscale.algebra.symbols import B, D, E, F_e, F_s, X, Y, Z, k, symbol
from symscale.programs.phase import Phase
from symscale.programs.program import Keep, Program, program
from symscale.programs.sharded import ShardedProgram
from tests.algebra.equality import assert_same, assert_volumes
from tests.programs.random_programs import meshes, placements, ways
from tests.simulator.check import Run, slope_error

IDS = ("In", "PickIds", "SendIds", "BackIds")
ROUTER = (
    "In[B, D] * Wr[D, E] -> Route[B, E]",
    "softmax(Route[B, E]; E) -> Chances[B, E]",
    "pick(PickIds[B, k], Chances[B, E]) -> Picked[B, k]",
)
EXPERTS = (
    "dispatch(SendIds[E, c], In[B, D]) -> Xe[E, c, D]",
    "Xe[E, c, D] * Ein[E, D, F_e] -> Ue[E, c, F_e]",
    "gelu(Ue[E, c, F_e]) -> Ae[E, c, F_e]",
    "Ae[E, c, F_e] * Eout[E, F_e, D] -> Ye[E, c, D]",
    "combine(BackIds[B, k], Ye[E, c, D]) -> Yk[B, k, D]",
    "mul(Yk[B, k, D], Picked[B, k]) -> Yw[B, k, D]",
)
SHARED = (
    "sum(Yw[B, k, D]; k) -> Routed[B, D]",
    "In[B, D] * Sin[D, F_s] -> Us[B, F_s]",
    "gelu(Us[B, F_s]) -> As[B, F_s]",
    "As[B, F_s] * Sout[F_s, D] -> Shared[B, D]",
    "Routed[B, D] + Shared[B, D] -> Out[B, D]",
)
PLAIN = program(
    *ROUTER, *EXPERTS, "sum(Yw[B, k, D]; k) -> Out[B, D]", inputs=IDS, sizes={"c": B * k / E}
)
FULL = program(*ROUTER, *EXPERTS, *SHARED, inputs=IDS, sizes={"c": B * k / E})

#: A router and its picks under tokens cut so.
TOKENS = "In[B_{0}, D] Route[B_{0}, E] Chances[B_{0}, E] PickIds[B_{0}, k] Picked[B_{0}, k] \
SendIds[E, c_{0}] BackIds[B_{0}, k] Yk[B_{0}, k, D] Yw[B_{0}, k, D] Out[B_{0}, D]"
SHARDINGS = {
    "ep": TOKENS.format("Z")
    + " Xe[E_Z,c,D] Ein[E_Z,D,F_e] Ue[E_Z,c,F_e] Ae[E_Z,c,F_e] Eout[E_Z,F_e,D] Ye[E_Z,c,D]",
    "dp+ep": TOKENS.format("XZ") + " Xe[E_Z,c_X,D] Ein[E_Z,D,F_e] Ue[E_Z,c_X,F_e] Ae[E_Z,c_X,F_e] "
    "Eout[E_Z,F_e,D] Ye[E_Z,c_X,D]",
    "fsdp+ep": TOKENS.format("XZ") + " Wr[D_XZ,E] Xe[E_Z,c_X,D] Ein[E_Z,D_X,F_e] "
    "Ue[E_Z,c_X,F_e] Ae[E_Z,c_X,F_e] Eout[E_Z,F_e,D_X] Ye[E_Z,c_X,D]",
    "fsdp+tp+ep": TOKENS.format("XZ").replace(" D]", " D_Y]") + " Wr[D_XZ,E] Xe[E_Z,c_X,D_Y] "
    "Ein[E_Z,D_X,F_e_Y] Ue[E_Z,c_X,F_e_Y] Ae[E_Z,c_X,F_e_Y] Eout[E_Z,F_e_Y,D_X] Ye[E_Z,c_X,D_Y]",
    "out of tensor ranks": TOKENS.format("XZ").replace(" D]", " D_Y]") + " Xe[E_ZY,c_X,D] "
    "Ein[E_ZY,D_X,F_e] Ue[E_ZY,c_X,F_e] Ae[E_ZY,c_X,F_e] Eout[E_ZY,F_e,D_X] Ye[E_ZY,c_X,D]",
    "tokens whole along Z": TOKENS.format("X") + " Xe[E_Z,c_X,D] Ein[E_Z,D,F_e] Ue[E_Z,c_X,F_e] "
    "Ae[E_Z,c_X,F_e] Eout[E_Z,F_e,D] Ye[E_Z,c_X,D]",
    "no experts apart": TOKENS.format("XYZ") + " Xe[E,c_XYZ,D] Ue[E,c_XYZ,F_e] Ae[E,c_XYZ,F_e] "
    "Ye[E,c_XYZ,D]",
    "all axes": TOKENS.format("YXZ") + " Xe[E_YXZ,c,D] Ein[E_YXZ,D,F_e] Ue[E_YXZ,c,F_e] "
    "Ae[E_YXZ,c,F_e] Eout[E_YXZ,F_e,D] Ye[E_YXZ,c,D]",
}
# Megatron: slots carry Z last, so that it leaves them in one AllToAll; tokens carry Y last.
SHARDINGS["slots in their own order"] = (
    TOKENS.format("XZY").replace("c_XZY", "c_XYZ")
    + " Xe[E_Z,c_XY,D] Ein[E_Z,D_X,F_e_Y] Ue[E_Z,c_X,F_e_Y] Ae[E_Z,c_X,F_e_Y] Eout[E_Z,F_e_Y,D_X] "
    "Ye[E_Z,c_XY,D]"
)
MESHES = ({"X": 2, "Y": 3, "Z": 2}, {"X": 3, "Y": 2, "Z": 2}, {"X": 1, "Y": 2, "Z": 4})


def numbers(mesh: dict[str, int], per_token: int = 2) -> dict[Symbol, int]:
    """Tokens and slots that divide by all devices together, and so do the other dims."""
    all_of = ways(mesh)
    return {
        B: all_of * all_of, E: all_of, k: per_token, D: all_of, F_e: all_of, F_s: all_of,
    }  # fmt: skip


def sharded(name: str, whole: Program, keep: Keep = "activations") -> ShardedProgram:
    text = SHARDINGS[name].replace(", ", ",").split()
    if whole is FULL:
        text += [text[0].replace("In", made, 1) for made in ("Routed", "Shared")]
    return whole.shard(*text, keep=keep)


@pytest.mark.parametrize("keep", ["activations", "all", "none"])
@pytest.mark.parametrize("name", SHARDINGS)
def test_on_simulated_devices(name: str, keep: Keep) -> None:
    for whole in (PLAIN, FULL):
        Run.of(sharded(name, whole, keep), MESHES[0], numbers(MESHES[0])).check()


@pytest.mark.parametrize("name", SHARDINGS)
@pytest.mark.parametrize("mesh", MESHES[1:])
def test_on_other_meshes_and_one_expert_a_token(name: str, mesh: dict[str, int]) -> None:
    Run.of(sharded(name, FULL), mesh, numbers(mesh, 1)).check()


def test_the_references_gradient_is_a_slope() -> None:
    assert slope_error(Run.of(FULL.shard(), {"X": 2}, numbers({"X": 2}))) < 1e-6


def algorithm(phase: Phase) -> list[str]:
    return [f"{move.name} {move.before.short}" for move in phase.collectives]


def test_two_all_to_alls_a_way() -> None:
    made = sharded("dp+ep", PLAIN)
    assert algorithm(made.forward) == ["AllToAll_Z Xe[E, c_XZ, D]", "AllToAll_Z Ye[E_Z, c_X, D]"]
    found = [move for move in algorithm(made.backward) if "AllToAll" in move]
    assert found == ["AllToAll_Z dYe[E, c_XZ, D]", "AllToAll_Z dXe[E_Z, c_X, D]"]
    assert {move.split()[0] for move in algorithm(made.backward)} == {
        "AllToAll_Z", "AllReduce_X", "AllReduce_XZ",
    }  # fmt: skip


#: Volumes by hand: a token's vector k times out and k times back; weights as for dense layers.
TOKEN_BYTES = 2 * (2 * k * B * D)
MATRICES = 2 * (2 * E * D * F_e)
VOLUMES: dict[str, tuple[dict, dict]] = {
    "slots in their own order": (
        {
            Z: TOKEN_BYTES / (X * Y * Z),
            Y: TOKEN_BYTES / (X * Z),
            X: MATRICES / (Y * Z),
        },
        {
            Z: TOKEN_BYTES / (X * Y * Z),
            Y: TOKEN_BYTES / (X * Z),
            X: 2 * MATRICES / (Y * Z),
            (X, Z, Y): 2 * 2 * D * E,
        },
    ),
    "ep": ({Z: TOKEN_BYTES / Z}, {Z: TOKEN_BYTES / Z + 2 * 2 * D * E}),
    "dp+ep": (
        {Z: TOKEN_BYTES / (X * Z)},
        {Z: TOKEN_BYTES / (X * Z), X: 2 * MATRICES / Z, (X, Z): 2 * 2 * D * E},
    ),
    "fsdp+ep": (
        {Z: TOKEN_BYTES / (X * Z), X: MATRICES / Z, (X, Z): 2 * D * E},
        {Z: TOKEN_BYTES / (X * Z), X: 2 * MATRICES / Z, (X, Z): 2 * 2 * D * E},
    ),
    # Tokens need no way out; back, each device gathers what its tokens' experts made, and the
    # gradient of the tokens is added up over experts.
    "tokens whole along Z": (
        {Z: 2 * k * B * D / X},
        {Z: 2 * 2 * B * D / X, X: 2 * MATRICES / Z + 2 * 2 * D * E},
    ),
    "no experts apart": ({}, {(X, Y, Z): 2 * (MATRICES + 2 * D * E)}),
    # Out: along Z from the slots, along Y from the width; each array lies on all devices once.
    "out of tensor ranks": (
        {
            Z: TOKEN_BYTES / (X * Y * Z),
            Y: TOKEN_BYTES / (X * Y * Z) + 2 * B * D / (X * Z),
            X: MATRICES / (Y * Z),
        },
        {
            Z: TOKEN_BYTES / (X * Y * Z),
            # Each device has a part of the width: of the gate values' gradient a part of the sum,
            # of the router's gradient some rows, which are put together at the end.
            Y: TOKEN_BYTES / (X * Y * Z) + 2 * 2 * k * B / (X * Z) + 2 * D * E,
            X: 2 * MATRICES / (Y * Z),
            (X, Z): 2 * 2 * D * E / Y,
        },
    ),
}


@pytest.mark.parametrize("name", VOLUMES)
def test_volumes(name: str) -> None:
    made = sharded(name, PLAIN)
    assert_volumes(made.forward.volume(), VOLUMES[name][0])
    assert_volumes(made.backward.volume(), VOLUMES[name][1])


@pytest.mark.parametrize("name", ["ep", "dp+ep", "fsdp+ep", "fsdp+tp+ep", "out of tensor ranks"])
def test_experts_arithmetic_is_divided_by_all_devices(name: str) -> None:
    made = sharded(name, PLAIN)
    devices: Expr = {"ep": Z, "dp+ep": X * Z, "fsdp+ep": X * Z}.get(name, X * Y * Z)
    steps = [step for step in made.forward.computes if "c" in step.op.labels]
    assert_same(sum(step.flops for step in steps), 4 * k * B * D * F_e / devices)


def test_capacity_stretches_arithmetic_and_all_to_all() -> None:
    factor = symbol("factor")
    padded = program(
        *EXPERTS[:5], inputs=("In", "SendIds", "BackIds"), sizes={"c": factor * B * k / E}
    )
    lines = ("In[B_Z, D]", "Xe[E_Z, c, D]", "Ein[E_Z, D, F_e]", "Ue[E_Z, c, F_e]",
             "Ae[E_Z, c, F_e]", "Eout[E_Z, F_e, D]", "Ye[E_Z, c, D]", "Yk[B_Z, k, D]")  # fmt: skip
    made = padded.shard(*lines)
    assert_volumes(made.forward.volume(), {Z: factor * TOKEN_BYTES / Z})
    assert_same(made.forward.flops, factor * 4 * k * B * D * F_e / Z)


@st.composite
def strange_strategies(draw: st.DrawFn) -> tuple[ShardedProgram, dict, dict]:
    """A layer with experts under random shardings of its arrays and gradients."""
    whole = program(
        *EXPERTS[:2],
        "combine(BackIds[B, k], Ue[E, c, F_e]) -> Yk[B, k, F_e]",
        *ROUTER,
        "mul(Yk[B, k, F_e], Picked[B, k]) -> Yw[B, k, F_e]",
        inputs=IDS,
        sizes={"c": B * k / E},
    )
    mesh = draw(meshes())
    lines = []
    for name, array in whole.arrays.items():
        if draw(st.integers(0, 3)):
            partial = name == "In" and draw(st.booleans())
            lines.append(str(draw(placements(array, mesh, partial))))
    keep: Keep = draw(st.sampled_from(["activations", "all", "none"]))
    return whole.shard(*lines, keep=keep), mesh, numbers(mesh, ways(mesh))


def test_results_of_apart_experts_are_added_before_they_are_reduced() -> None:
    """Tokens whole along Z, results stated as partial sums: one AllReduce of what a token's experts
    made together, not a gather of what each made. vLLM's expert parallelism on tensor ranks."""
    text = SHARDINGS["tokens whole along Z"].replace(", ", ",")
    text = text.replace("Yk[B_X,k,D]", "Yk[B_X,k,D]{U_Z}").replace(
        "Yw[B_X,k,D]", "Yw[B_X,k,D]{U_Z}"
    )
    for keep in ("activations", "all", "none"):
        made = PLAIN.shard(*text.split(), keep=keep)
        assert algorithm(made.forward) == ["AllReduce_Z Out[B_X, D]{U_Z}"]
        over = [move for move in algorithm(made.backward) if "_Z " in move]
        assert over == ["AllReduce_Z dPicked[B_X, k]{U_Z}", "AllReduce_Z dIn(Xe)[B_X, D]{U_Z}"]
        Run.of(made, MESHES[0], numbers(MESHES[0])).check()
    assert_volumes(made.forward.volume(), {Z: 2 * 2 * B * D / X})


def test_order_of_slots_by_the_ids() -> None:
    made = sharded("slots in their own order", PLAIN)
    kinds = [move.name for phase in made.phases for move in phase.collectives]
    assert not [name for name in kinds if "Permute" in name]
    text = SHARDINGS["slots in their own order"].replace("c_XYZ", "c_XZY")
    strict = PLAIN.shard(*text.replace(", ", ",").split())
    assert "CollectivePermute_XZY" in [move.name for move in strict.forward.collectives]


@settings(max_examples=150)
@given(strange_strategies())
def test_any_sharding_gives_the_unsharded_result(drawn: tuple) -> None:
    made, mesh, sizes = drawn
    note("\n".join([*map(str, made.shardings.values()), f"{mesh} keep={made.keep}", str(made)]))
    Run.of(made, mesh, sizes).check()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("dispatch(SendIds[E, c]) -> Xe[E, c]", "dispatch takes ids and an array"),
        ("dispatch(Send[E, c], X[B, D]) -> Xe[E, c, D]", "Send is bf16; write Send: int32"),
        ("dispatch(SendIds[E], X[B, D]) -> Xe[E, D]", "it is dispatch(Ids[E, c], X[B, ...])"),
        ("dispatch(SendIds[E, c], X[B, D]) -> Xe[c, E, D]", "makes [E, c, D], not Xe[c, E, D]"),
        ("combine(BackIds[B, k], Y[E]) -> Yk[B, k]", "it is combine(Ids[B, k], Y[E, c, ...])"),
        ("combine(BackIds[B, k], Y[E, c]) -> Yk[B]", "makes [B, k], not Yk[B]"),
        ("pick(PickIds[B, k], P[E, B]) -> Q[B, k]", "it is pick(Ids[B, k], P[B, E])"),
    ],
)
def test_lines_that_do_not_fit(line: str, message: str) -> None:
    with pytest.raises(ProgramError) as caught:
        program(line)
    assert message in str(caught.value)
    assert str(caught.value).startswith("line 1: ")
