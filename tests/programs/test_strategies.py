"""What a layer of two products costs under each strategy: DESIGN.md's table, term by term.

The expected values are the book's, by hand: bf16, bytes that enter each device's collectives, an
AllReduce counted twice.
"""

from __future__ import annotations

import pytest
from sympy import Expr

from symscale.algebra.symbols import B, D, F, X, Y, Z
from symscale.programs.phase import Phase
from symscale.programs.program import Program, program
from tests.algebra.equality import assert_same, assert_volumes
from tests.simulator.check import Run

MLP = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")

SHARDINGS = {
    "dp": "In[B_X,D] Win[D,F] Tmp[B_X,F] Wout[F,D] Out[B_X,D]",
    "dp XY": "In[B_XY,D] Win[D,F] Tmp[B_XY,F] Wout[F,D] Out[B_XY,D]",
    "zero1": "In[B_X,D] Tmp[B_X,F] Out[B_X,D] dWin[D,F]{U_X} dWout[F,D]{U_X} "
    "mWin[D_X,F] mWout[F,D_X]",
    "zero2": "In[B_X,D] Tmp[B_X,F] Out[B_X,D] dWin[D_X,F] dWout[F,D_X] mWin[D_X,F] mWout[F,D_X]",
    "fsdp": "In[B_X,D] Win[D_X,F] Tmp[B_X,F] Wout[F,D_X] Out[B_X,D]",
    "fsdp XYZ": "In[B_XYZ,D] Win[D_XYZ,F] Tmp[B_XYZ,F] Wout[F,D_XYZ] Out[B_XYZ,D]",
    "tp": "In[B,D_Y] Win[D,F_Y] Tmp[B,F_Y] Wout[F_Y,D] Out[B,D_Y]",
    "tp+sp": "In[B_Y,D] Win[D,F_Y] Tmp[B,F_Y] Wout[F_Y,D] Out[B_Y,D]",
    "tp replicated": "In[B,D] Win[D,F_Y] Tmp[B,F_Y] Wout[F_Y,D] Out[B,D]",
    "tp XYZ": "In[B,D_XYZ] Win[D,F_XYZ] Tmp[B,F_XYZ] Wout[F_XYZ,D] Out[B,D_XYZ]",
    "mixed": "In[B_X,D_Y] Win[D_X,F_Y] Tmp[B_X,F_Y] Wout[F_Y,D_X] Out[B_X,D_Y]",
    "mixed XZ": "In[B_XZ,D_Y] Win[D_XZ,F_Y] Tmp[B_XZ,F_Y] Wout[F_Y,D_XZ] Out[B_XZ,D_Y]",
    "mixed YZ": "In[B_X,D_YZ] Win[D_X,F_YZ] Tmp[B_X,F_YZ] Wout[F_YZ,D_X] Out[B_X,D_YZ]",
    "2d": "In[B,D_XY] Win[D_X,F_Y] Tmp[B,F_Y] Wout[F_Y,D_X] Out[B,D_XY]",
    "2d YZ": "In[B,D_XYZ] Win[D_X,F_YZ] Tmp[B,F_YZ] Wout[F_YZ,D_X] Out[B,D_XYZ]",
}

TABLE: dict[str, tuple[dict, dict, Expr]] = {
    "dp": ({}, {X: 8 * D * F}, X),
    "dp XY": ({}, {(X, Y): 8 * D * F}, X * Y),
    "zero1": ({}, {}, X),
    "zero2": ({}, {X: 4 * D * F}, X),
    "fsdp": ({X: 4 * D * F}, {X: 8 * D * F}, X),
    "fsdp XYZ": ({(X, Y, Z): 4 * D * F}, {(X, Y, Z): 8 * D * F}, X * Y * Z),
    "tp": ({Y: 4 * B * D}, {Y: 4 * B * D}, Y),
    "tp+sp": ({Y: 4 * B * D}, {Y: 4 * B * D}, Y),
    "tp replicated": ({Y: 4 * B * D}, {Y: 4 * B * D}, Y),
    "tp XYZ": ({(X, Y, Z): 4 * B * D}, {(X, Y, Z): 4 * B * D}, X * Y * Z),
    "mixed": (
        {Y: 4 * B * D / X, X: 4 * D * F / Y},
        {Y: 4 * B * D / X, X: 8 * D * F / Y},
        X * Y,
    ),
    "mixed XZ": (
        {Y: 4 * B * D / (X * Z), (X, Z): 4 * D * F / Y},
        {Y: 4 * B * D / (X * Z), (X, Z): 8 * D * F / Y},
        X * Y * Z,
    ),
    "mixed YZ": (
        {(Y, Z): 4 * B * D / X, X: 4 * D * F / (Y * Z)},
        {(Y, Z): 4 * B * D / X, X: 8 * D * F / (Y * Z)},
        X * Y * Z,
    ),
    "2d": (
        {Y: 4 * B * D / X, X: 4 * B * F / Y},
        {Y: 4 * B * D / X, X: 4 * B * F / Y},
        X * Y,
    ),
    "2d YZ": (
        {(Y, Z): 4 * B * D / X, X: 4 * B * F / (Y * Z)},
        {(Y, Z): 4 * B * D / X, X: 4 * B * F / (Y * Z)},
        X * Y * Z,
    ),
}

#: Gathering the input again costs this much more in the backward pass.
GATHERED_AGAIN = {
    "dp": {},
    "fsdp": {},
    "tp": {Y: 2 * B * D},
    "tp+sp": {Y: 2 * B * D},
    "tp replicated": {},
    "mixed": {Y: 2 * B * D / X},
    "2d": {Y: 2 * B * D / X},
}


def shard(name: str, **options: str):
    return MLP.shard(*SHARDINGS[name].split(), **options)


@pytest.mark.parametrize("name", TABLE)
def test_volumes_and_flops(name: str) -> None:
    forward, backward, ways = TABLE[name]
    made = shard(name)
    assert_volumes(made.forward.volume(), forward)
    assert_volumes(made.backward.volume(), backward)
    assert_same(made.forward.flops, 4 * B * D * F / ways)
    assert_same(made.backward.flops, 8 * B * D * F / ways)


@pytest.mark.parametrize("name", GATHERED_AGAIN)
def test_gathering_activations_again(name: str) -> None:
    forward, backward, _ = TABLE[name]
    made = shard(name, keep="none")
    assert_volumes(made.forward.volume(), forward)
    wanted = {
        key: backward.get(key, 0) + GATHERED_AGAIN[name].get(key, 0)
        for key in {*backward, *GATHERED_AGAIN[name]}
    }
    assert_volumes(made.backward.volume(), wanted)


def test_keeping_all_saves_the_gathers_of_weights() -> None:
    assert_volumes(shard("fsdp", keep="all").backward.volume(), {X: 4 * D * F})
    assert_volumes(
        shard("mixed", keep="all").backward.volume(), {Y: 4 * B * D / X, X: 4 * D * F / Y}
    )


def test_zero_moves_in_the_update_what_data_parallelism_moves_before() -> None:
    assert_volumes(shard("zero1").update.volume(), {X: 8 * D * F})
    assert_volumes(shard("zero2").update.volume(), {X: 4 * D * F})
    for name in ("dp", "fsdp", "tp", "mixed", "2d"):
        assert_volumes(shard(name).update.volume(), {})


@pytest.mark.parametrize("name", SHARDINGS)
@pytest.mark.parametrize("keep", ["activations", "all", "none"])
def test_on_simulated_devices(name: str, keep: str) -> None:
    Run.of(shard(name, keep=keep), {"X": 2, "Y": 3, "Z": 2}, {B: 12, D: 24, F: 36}).check()


# (strategy, keep, pass) -> megabytes that XLA's partitioner moves, jax 0.10.2, on X=4, Y=2 with
# B=6144, D=2048, F=10240, each pass compiled as a program of its own
MEASURED = {
    ("dp XY", "none", "backward"): 167.8,
    ("fsdp XY", "none", "forward"): 83.9,
    ("fsdp XY", "none", "backward"): 167.8,
    ("fsdp XY", "all", "backward"): 83.9,
    ("tp XY", "none", "forward"): 50.3,
    ("tp XY", "none", "backward"): 75.5,
    ("tp XY", "activations", "backward"): 50.3,
    ("mixed", "none", "forward"): 54.5,
    ("mixed", "none", "backward"): 102.8,
}


@pytest.mark.parametrize(("name", "keep", "which"), MEASURED)
def test_xla_moves_as_many_bytes(name: str, keep: str, which: str) -> None:
    texts = SHARDINGS | {
        key.replace("Z", ""): v.replace("XYZ", "XY") for key, v in SHARDINGS.items()
    }
    made = MLP.shard(*texts[name].split(), keep=keep)
    phase: Phase = getattr(made, which)
    total = sum(phase.volume().values()).subs({X: 4, Y: 2, B: 6144, D: 2048, F: 10240})
    assert round(float(total) / 1e6, 1) == MEASURED[name, keep, which]


def algorithm(phase: Phase) -> list[str]:
    return [f"{move.name} {move.before.short}" for move in phase.collectives]


def test_the_mixed_layer_is_the_books_algorithm() -> None:
    made = shard("mixed")
    assert algorithm(made.forward) == [
        "AllGather_Y In[B_X, D_Y]",
        "AllGather_X Win[D_X, F_Y]",
        "AllGather_X Wout[F_Y, D_X]",
        "ReduceScatter_Y Out[B_X, D]{U_Y}",
    ]
    assert [move.critical for move in made.forward.collectives] == [True, False, False, True]
    assert sorted(algorithm(made.backward)) == [
        "AllGather_X Win[D_X, F_Y]",
        "AllGather_X Wout[F_Y, D_X]",
        "AllGather_Y dOut[B_X, D_Y]",
        "ReduceScatter_X dWin[D, F_Y]{U_X}",
        "ReduceScatter_X dWout[F_Y, D]{U_X}",
        "ReduceScatter_Y dIn[B_X, D]{U_Y}",
    ]
    hidden = {move.before.name: move.critical for move in made.backward.collectives}
    assert hidden == {
        "Win": False, "Wout": False, "dOut": True, "dWin": False, "dWout": False, "dIn": True,
    }  # fmt: skip


def test_the_2d_layer_is_xlas_algorithm() -> None:
    made = shard("2d", keep="none")
    assert algorithm(made.forward) == [
        "AllGather_Y In[B, D_XY]",
        "AllReduce_X Tmp[B, F_Y]{U_X}",
        "ReduceScatter_Y Out[B, D_X]{U_Y}",
    ]
    assert algorithm(made.backward) == [
        "AllGather_Y dOut[B, D_XY]",
        "AllReduce_X dTmp[B, F_Y]{U_X}",
        "AllGather_Y In[B, D_XY]",
        "ReduceScatter_Y dIn[B, D_X]{U_Y}",
    ]


def test_printing_reads_like_an_algorithm() -> None:
    assert str(shard("mixed").forward).splitlines() == [
        "In[B_X, D]       = AllGather_Y In[B_X, D_Y]          2*B*D/X bytes, waits",
        "Win[D, F_Y]      = AllGather_X Win[D_X, F_Y]         2*D*F/Y bytes, can hide",
        "Tmp[B_X, F_Y]    = In[B_X, D] · Win[D, F_Y]",
        "Wout[F_Y, D]     = AllGather_X Wout[F_Y, D_X]        2*D*F/Y bytes, can hide",
        "Out[B_X, D]{U_Y} = Tmp[B_X, F_Y] · Wout[F_Y, D]",
        "Out[B_X, D_Y]    = ReduceScatter_Y Out[B_X, D]{U_Y}  2*B*D/X bytes, waits",
    ]


GATED: Program = program(
    "In[B, D] * Win[D, F] -> Up[B, F]",
    "In[B, D] * Wgate[D, F] -> Gate[B, F]",
    "swiglu(Gate[B, F], Up[B, F]) -> Act[B, F]",
    "Act[B, F] * Wout[F, D] -> Out[B, D]",
)
GATED_SHARDINGS = {
    "dp": "In[B_X,D] Up[B_X,F] Gate[B_X,F] Act[B_X,F] Out[B_X,D]",
    "fsdp": "In[B_X,D] Win[D_X,F] Wgate[D_X,F] Wout[F,D_X] Out[B_X,D]",
    "tp": "In[B,D_Y] Win[D,F_Y] Wgate[D,F_Y] Wout[F_Y,D] Out[B,D_Y]",
    "mixed": "In[B_X,D_Y] Win[D_X,F_Y] Wgate[D_X,F_Y] Wout[F_Y,D_X] Out[B_X,D_Y]",
}
GATED_TABLE = {
    "dp": ({}, {X: 12 * D * F}),
    "fsdp": ({X: 6 * D * F}, {X: 12 * D * F}),
    "tp": ({Y: 4 * B * D}, {Y: 4 * B * D}),
    "mixed": ({Y: 4 * B * D / X, X: 6 * D * F / Y}, {Y: 4 * B * D / X, X: 12 * D * F / Y}),
}


@pytest.mark.parametrize("name", GATED_TABLE)
def test_the_gated_layer_has_one_more_weight(name: str) -> None:
    """The gradient of its input is one reduction of a sum, though two products feed it."""
    forward, backward = GATED_TABLE[name]
    made = GATED.shard(*GATED_SHARDINGS[name].split())
    assert_volumes(made.forward.volume(), forward)
    assert_volumes(made.backward.volume(), backward)
    Run.of(made, {"X": 2, "Y": 3}, {B: 12, D: 6, F: 18}).check()
    regathered = GATED.shard(*GATED_SHARDINGS[name].split(), keep="none")
    assert_volumes(regathered.forward.volume(), forward)
    extra = {Y: 2 * B * D / X} if name == "mixed" else {Y: 2 * B * D} if name == "tp" else {}
    assert_volumes(
        regathered.backward.volume(), {k: v + extra.get(k, 0) for k, v in backward.items()}
    )
