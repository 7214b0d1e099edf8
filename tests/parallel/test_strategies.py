"""Strategies as shardings: the lines they give, and the volumes that follow from them.

Expected volumes are written out here, matrix by matrix and collective by collective, from the
convention alone: a gather counts the array after it, a scatter the array before it, an AllReduce
its array twice; bf16 everywhere, f32 for the sums inside norms.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sympy import Expr, S, cancel

from symscale import model, strategies, strategy
from symscale.algebra.errors import NotationError, StrategyError
from symscale.algebra.symbols import M_X, M_Y, M_Z, B, C, D, F, H, K, N, V, W_ici, X, Y, Z, axis
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.parts import ALIASES, PARTS
from symscale.parallel.table import CONTEXT_NAMES, EXPERT_NAMES, MORE_NAMES, NAMES
from symscale.programs.sharded import ShardedProgram

Volume = Mapping[object, Expr]

LAYER = two_matmul_layer()
LLAMA = model("llama-3-8b").programs

#: Elements of one layer's matrices, and of all that it learns.
MATRICES = 2 * D * N * H + 2 * D * K * H + 3 * D * F
LEARNED = MATRICES + 2 * D

#: In an optimizer step, gradients are added up and whole weights handed back.
NONE: Volume = {}


def agree(found: Volume, wanted: Volume) -> None:
    assert set(found) == set(wanted)
    for key, value in wanted.items():
        assert cancel(found[key] - value) == 0, (key, found[key], value)


def shardings(sharded: ShardedProgram) -> str:
    return " ".join(sharded.sharding(name).short for name in sharded.program.arrays)


# --- two matmuls -------------------------------------------------------------------------------

FLAT = "In[B_X, D] Win[D, F] Tmp[B_X, F] Wout[F, D] Out[B_X, D]"
#: DESIGN's table, and the strategies beside it: sharding, forward, backward, update.
TABLE: dict[str, tuple[str, Volume, Volume, Volume]] = {
    "dp": (FLAT, NONE, {X: 8 * D * F}, NONE),
    "zero1": (FLAT, NONE, NONE, {X: 2 * (2 + 2) * D * F}),
    "zero2": (FLAT, NONE, {X: 4 * D * F}, {X: 4 * D * F}),
    "fsdp": (
        "In[B_X, D] Win[D_X, F] Tmp[B_X, F] Wout[F, D_X] Out[B_X, D]",
        {X: 4 * D * F},
        {X: 8 * D * F},
        NONE,
    ),
    "tp": (
        "In[B, D_Y] Win[D, F_Y] Tmp[B, F_Y] Wout[F_Y, D] Out[B, D_Y]",
        {Y: 4 * B * D},
        {Y: 4 * B * D},
        NONE,
    ),
    "tp+sp": (
        "In[B_Y, D] Win[D, F_Y] Tmp[B, F_Y] Wout[F_Y, D] Out[B_Y, D]",
        {Y: 4 * B * D},
        {Y: 4 * B * D},
        NONE,
    ),
    "fsdp+tp": (
        "In[B_X, D_Y] Win[D_X, F_Y] Tmp[B_X, F_Y] Wout[F_Y, D_X] Out[B_X, D_Y]",
        {Y: 4 * B * D / X, X: 4 * D * F / Y},
        {Y: 4 * B * D / X, X: 8 * D * F / Y},
        NONE,
    ),
    "fsdp+tp+sp": (
        "In[B_XY, D] Win[D_X, F_Y] Tmp[B_X, F_Y] Wout[F_Y, D_X] Out[B_XY, D]",
        {Y: 4 * B * D / X, X: 4 * D * F / Y},
        {Y: 4 * B * D / X, X: 8 * D * F / Y},
        NONE,
    ),
    "2d": (
        "In[B, D_XY] Win[D_X, F_Y] Tmp[B, F_Y] Wout[F_Y, D_X] Out[B, D_XY]",
        {Y: 4 * B * D / X, X: 4 * B * F / Y},
        {Y: 4 * B * D / X, X: 4 * B * F / Y},
        NONE,
    ),
}


def test_the_table_is_whole() -> None:
    assert tuple(TABLE) == tuple(name for name in NAMES if name in TABLE)
    assert set(TABLE) == set(NAMES)


@pytest.mark.parametrize("name", TABLE)
def test_two_matmuls(name: str) -> None:
    lines, *volumes = TABLE[name]
    sharded = LAYER.shard(strategy(name))
    assert shardings(sharded) == lines
    for phase, wanted in zip(sharded.phases, volumes, strict=True):
        agree(phase.volume(), wanted)


@pytest.mark.parametrize("name", TABLE)
def test_arithmetic_is_divided_by_all_devices(name: str) -> None:
    sharded, devices = LAYER.shard(strategy(name)), S.One
    for used in strategy(name).mesh_axes:
        devices *= axis(used)
    assert cancel(sharded.forward.flops - 4 * B * D * F / devices) == 0
    assert cancel(sharded.backward.flops - 8 * B * D * F / devices) == 0


def test_gathering_activations_again_costs_a_gather() -> None:
    # XLA on a backward pass of its own: 6BD where the kept copy gives 4BD.
    for name, again in (("tp", 2 * B * D), ("fsdp+tp", 2 * B * D / X)):
        kept = LAYER.shard(strategy(name)).backward.volume()[Y]
        anew = LAYER.shard(strategy(name), keep="none").backward.volume()[Y]
        assert cancel(anew - kept - again) == 0


def test_kept_weights_are_not_gathered_again() -> None:
    found = LAYER.shard(strategy("fsdp"), keep="all").backward.volume()
    agree(found, {X: 4 * D * F})


def test_weights_and_gradients_may_hide_activations_wait() -> None:
    sharded = LAYER.shard(strategy("fsdp+tp"))
    for move in (*sharded.forward.collectives, *sharded.backward.collectives):
        assert move.critical == (move.axes == ("Y",)), move


# --- the decoder's layer -----------------------------------------------------------------------

#: Two norms, each adding one f32 a row over the devices that share the row.
STATS = 2 * (2 * 4 * B)
#: In and out of attention, in and out of the MLP.
FOUR = 4 * (2 * B * D)

DECODER: dict[str, tuple[Volume, Volume, Volume]] = {
    "dp": (NONE, {X: 2 * 2 * LEARNED}, NONE),
    "zero1": (NONE, NONE, {X: 2 * 2 * LEARNED}),
    "zero2": (NONE, {X: 2 * LEARNED}, {X: 2 * LEARNED}),
    "fsdp": ({X: 2 * LEARNED}, {X: 2 * 2 * LEARNED}, NONE),
    "tp": ({Y: FOUR + STATS}, {Y: FOUR + STATS}, NONE),
    # Norms see whole rows here, so that only their gains' gradients are added up.
    "tp+sp": ({Y: FOUR}, {Y: FOUR + 2 * 2 * 2 * D}, NONE),
    "fsdp+tp": (
        {X: 2 * LEARNED / Y, Y: (FOUR + STATS) / X},
        {X: 2 * 2 * LEARNED / Y, Y: (FOUR + STATS) / X},
        NONE,
    ),
    "2d": (
        {
            Y: FOUR / X,
            X: 2 * 2 * (N * H + 2 * K * H + 2 * F) * B / Y,
            (X, Y): STATS,
        },
        # Gradients of what enters Wo and Wout are partial sums along X.
        {Y: FOUR / X, X: 2 * 2 * (N * H + F) * B / Y, (X, Y): STATS},
        NONE,
    ),
    "fsdp+tp+sp": (
        {X: 2 * MATRICES / Y + 2 * 2 * D, Y: FOUR / X},
        # A gain's gradient is scattered along X, then added along Y.
        {X: 2 * 2 * MATRICES / Y + 2 * 2 * 2 * D, Y: FOUR / X + 2 * 2 * 2 * D / X},
        NONE,
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_decoder_layer(name: str) -> None:
    sharded = LLAMA.layer.shard(strategy(name))
    for phase, wanted in zip(sharded.phases, DECODER[name], strict=True):
        agree(phase.volume(), wanted)


@pytest.mark.parametrize("name", ["tp", "fsdp+tp"])
def test_statistics_apart(name: str) -> None:
    forward = LLAMA.layer.shard(strategy(name)).forward
    share = X if name == "fsdp+tp" else 1
    assert cancel(forward.volume(statistics=False)[Y] - FOUR / share) == 0


def test_gradients_of_shared_inputs_are_added_first() -> None:
    """Q, K and V read one array: one scatter, not three; the MLP's two halves likewise."""
    backward = LLAMA.layer.shard(strategy("tp")).backward
    scatters = [move for move in backward.collectives if move.kind == "ReduceScatter"]
    assert len(scatters) == 2


def test_decoder_lines() -> None:
    lines = dict.fromkeys(strategy("fsdp+tp").lines(LLAMA.layer))
    for line in (
        "In[B_X, D_Y]",
        "Q[B_X, N_Y, H]",
        "Vals[B_X, K_Y, H]",
        "Scores[b_X, K_Y, G, T, S]",
        "Act[B_X, F_Y]",
        "Out[B_X, D_Y]",
        "Wq[D_X, N_Y, H]",
        "Wk[D_X, K_Y, H]",
        "Wo[N_Y, H, D_X]",
        "Wgate[D_X, F_Y]",
        "Wout[F_Y, D_X]",
    ):
        assert line in lines
    first = strategy("zero1").lines(LLAMA.layer)
    assert {"Wq[D, N, H]", "dWq[D, N, H]{U_X}", "mWq[D_X, N, H]"} <= set(first)
    assert {"Wq[D, N, H]", "dWq[D_X, N, H]"} <= set(strategy("zero2").lines(LLAMA.layer))


# --- embedding and head ------------------------------------------------------------------------

ENDS: dict[str, tuple[Volume, Volume]] = {
    # Two tables and a gain.
    "dp": (NONE, {X: 2 * 2 * (2 * D * V + D)}),
    # Both tables gathered; in reverse the head once more, and gradients of all three scattered.
    "fsdp": ({X: 2 * (2 * D * V + D)}, {X: 2 * (D * V + D) + 2 * (2 * D * V + D)}),
    # The lookup in a table cut along V is a partial sum (scattered); the head's input is gathered.
    # In reverse the gradient of the table changes from D cut to V cut.
    "tp": (
        {Y: 2 * B * D + 2 * B * D + STATS / 2},
        {Y: 2 * B * D + STATS / 2 + 2 * D * V / Y},
    ),
    # Whole rows a device, cut along the sequence: gather and scatter both ways, a gain to add up.
    "tp+sp": ({Y: 4 * B * D}, {Y: 4 * B * D + 2 * 2 * D}),
    "fsdp+tp": (
        {X: 2 * (2 * D * V + D) / Y, Y: (4 * B * D + STATS / 2) / X},
        # The table's gradient comes out as V, D_YX and is wanted as V_Y, D_X: the blocks change
        # their order, then Y moves from one dim to the other.
        {
            X: (2 * (D * V + D) + 2 * (2 * D * V + D)) / Y,
            Y: (2 * B * D + STATS / 2) / X + 2 * D * V / (X * Y),
            (Y, X): 2 * D * V / (X * Y),
        },
    ),
    # Logits are partial sums along X.
    "2d": (
        {Y: 4 * B * D / X, X: 2 * 2 * B * V / Y, (X, Y): STATS / 2},
        {Y: 2 * B * D / X + 2 * D * V / (X * Y), (X, Y): STATS / 2},
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_embedding_and_head(name: str) -> None:
    sharded = LLAMA.ends.shard(strategy(name))
    for phase, wanted in zip(sharded.phases, ENDS[name], strict=False):
        agree(phase.volume(), wanted)


# --- names and axes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alias", "name"),
    [("zero3", "fsdp"), ("ddp", "dp"), ("Megatron", "tp"), ("ws2d", "2d"), ("ZeRO", "fsdp"),
     ("zero3 + megatron", "fsdp+tp"), ("sp+tp", "tp+sp"), ("fsdp+sp+tp", "fsdp+tp+sp")],
)  # fmt: skip
def test_aliases(alias: str, name: str) -> None:
    assert strategy(alias).lines(LAYER) == strategy(name).lines(LAYER)
    assert strategy(alias).parts == strategy(name).parts


def test_a_strategy_is_itself() -> None:
    made = strategy("fsdp+tp")
    assert strategy(made) is made
    assert set(ALIASES.values()) <= set(PARTS)


def test_three_axes_and_flattened_ones() -> None:
    flat = LAYER.shard(strategy("fsdp", data="XYZ"))
    agree(flat.forward.volume(), {(X, Y, Z): 4 * D * F})
    agree(flat.backward.volume(), {(X, Y, Z): 8 * D * F})
    wanted = 4 * D * F / (W_ici * (M_X + M_Y + M_Z))
    assert cancel(flat.forward.time.comms - wanted) == 0
    mixed = LAYER.shard(strategy("fsdp+tp", data="XY", tensor="Z"))
    agree(mixed.forward.volume(), {(X, Y): 4 * D * F / Z, Z: 4 * B * D / (X * Y)})
    assert cancel(mixed.forward.time.math - 4 * B * D * F / (X * Y * Z * C)) == 0
    wide = LAYER.shard(strategy("fsdp+tp", data="X", tensor="YZ"))
    agree(wide.forward.volume(), {X: 4 * D * F / (Y * Z), (Y, Z): 4 * B * D / X})


def test_long_axis_names() -> None:
    data, tensor = axis("data"), axis("model")
    for given in ("data", ("data",), ["data"]):
        found = LAYER.shard(strategy("fsdp+tp", data=given, tensor="model"))
        agree(found.forward.volume(), {data: 4 * D * F / tensor, tensor: 4 * B * D / data})
    two = strategy("fsdp", data=("pod", "data"))
    assert two.mesh_axes == ("pod", "data")
    assert "Win[D_{pod,data}, F]" in two.lines(LAYER)


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        ("fdsp", {}, "unknown strategy 'fdsp'; parts: dp, .*; did you mean fsdp?"),
        ("", {}, "unknown strategy ''; parts: dp, zero1"),
        ("fsdp+", {}, r"unknown strategy 'fsdp\+'"),
        ("dp+fsdp", {}, r"strategy 'dp\+fsdp': two parts want the role data"),
        ("tp+2d", {}, r"strategy 'tp\+2d': two parts want the role tensor"),
        ("fsdp", {"tensor": "Y"}, "strategy 'fsdp' has no role 'tensor'; it has data"),
        ("fsdp+tp", {"tensor": "X"}, r"strategy 'fsdp\+tp': mesh axis X plays two roles"),
        ("fsdp", {"data": "XX"}, "strategy 'fsdp': mesh axis X plays two roles"),
        ("fsdp", {"data": ""}, "strategy 'fsdp': role data has no mesh axis"),
        ("fsdp", {"data": ()}, "strategy 'fsdp': role data has no mesh axis"),
        ("fsdp+2d", {}, r"strategy 'fsdp\+2d': mesh axis X plays two roles"),
    ],
)
def test_errors(name: str, axes: dict[str, object], message: str) -> None:
    with pytest.raises(StrategyError, match=message) as caught:
        strategy(name, **axes)
    assert "\n" not in str(caught.value)


def test_axes_of_a_made_strategy_are_not_changed_in_silence() -> None:
    with pytest.raises(StrategyError, match="has its mesh axes"):
        strategy(strategy("fsdp"), data="Y")


def test_an_axis_cannot_bear_the_name_of_a_size() -> None:
    for name in ("B", "L", "m", "n"):
        with pytest.raises(StrategyError, match=f"mesh axis '{name}' is the symbol of"):
            strategy("fsdp", data=(name,))
    with pytest.raises(NotationError, match="mesh axis 'B'"):
        LAYER.shard("In[B_B, D]")


def test_results_show_themselves() -> None:
    table = strategies()
    assert len(table) == sum(map(len, (NAMES, MORE_NAMES, CONTEXT_NAMES, EXPERT_NAMES)))
    assert "X: 8*D*F/Y" in str(table)
    assert table.to_dict()[0]["strategy"] == "dp"
    made = strategy("fsdp+tp")
    assert repr(made).startswith("strategy('fsdp+tp'): data=X, tensor=Y")
    assert made.to_dict()["lines"] == list(made.lines(LAYER))
    assert "In[B_X, D_Y]" in made._repr_html_()
