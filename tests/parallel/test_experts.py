"""Expert parallelism as a strategy: lines, volumes by hand, whole layers on simulated devices."""

from __future__ import annotations

import pytest
from sympy import Integer, Rational, cancel

from symscale import model, strategies, strategy, training
from symscale.algebra.errors import ShardingError, StrategyError, SymbolError
from symscale.algebra.symbols import (
    M_X,
    M_Z,
    B,
    C,
    D,
    E,
    F,
    F_e,
    F_s,
    H,
    K,
    N,
    T,
    V,
    W_ici,
    X,
    Y,
    Z,
    axis,
    imbalance,
    k,
    symbol,
)
from symscale.models.decoder import two_matmul_experts, two_matmul_layer
from symscale.parallel.table import EXPERT_NAMES
from symscale.programs.program import Keep, Program, program
from symscale.studies.conditions import compute_bound
from tests.algebra.equality import assert_same, assert_volumes
from tests.simulator.check import Run

LAYER = two_matmul_experts()
MIXTRAL = model("mixtral-8x7b").programs.layer
#: Latent attention and shared experts.
DEEPSEEK = next(made for made in model("deepseek-v3").programs.kinds if "moe" in made.name).program
#: Experts with biases, and another router.
GPT_OSS = model("gpt-oss-20b").programs.kinds[0].program

SMALL = {B: 128, T: 16, D: 8, F: 8, F_e: 8, F_s: 8, E: 8, k: 2, N: 8, K: 4, H: 2} | {
    symbol(name): size for name, size in {"R_q": 8, "R_kv": 8, "H_n": 2, "H_r": 2, "H_v": 2}.items()
}

#: Strategies, and the axes of their roles where they are not the usual ones.
SPLITS: dict[str, tuple[str, dict[str, str]]] = {
    **{
        name: (name, {})
        for name in ("ep", "dp+ep", "zero1+ep", "zero2+ep", "fsdp+ep", "tp+ep", "tp+sp+ep",
                     "fsdp+tp+ep", "fsdp+tp+sp+ep", "ep+tpwhole", "2d+ep", "cp+ep", "ep+fsdp")
    },
    "over all axes": ("ep", {"expert": "XYZ"}),
    "of data ranks": ("fsdp+ep", {"data": "XYZ", "expert": "YZ"}),
    "out of tensor ranks": ("fsdp+tp+ep", {"expert": "ZY"}),
    "of tensor ranks": ("fsdp+tp+sp+ep", {"expert": "Y"}),
    "out of tensor ranks with tokens split": ("fsdp+tp+sp+ep", {"expert": "ZY"}),
    "of some tensor ranks": ("fsdp+tp+ep", {"tensor": "YU", "expert": "Y"}),
    "of some tensor ranks with tokens split": ("zero1+tp+sp+ep", {"tensor": "YU", "expert": "U"}),
    "of all ranks": ("fsdp+tp+sp+ep", {"expert": "XZY", "data": "XZ"}),
    "of context ranks": ("fsdp+cp+ep", {"expert": "Z"}),
    "beside context ranks": ("fsdp+cp+ep", {"context": "Y"}),
    "beside heads exchanged": ("fsdp+ulysses+ep", {"context": "Y"}),
    "beside a ring": ("dp+ring+ep", {"context": "Y"}),
    "five ways but stages": ("fsdp+tp+sp+cp+ep", {"expert": "Z"}),
    "of context and tensor ranks": ("fsdp+tp+sp+cp+ep", {"expert": "ZY"}),
    "of tensor ranks with tokens whole": ("dp+tpwhole+ep", {"expert": "Y"}),
    "in groups": ("hsdp+ep", {"replica": "Y"}),
}  # fmt: skip


def run(program: Program, split: str, keep: Keep = "activations") -> None:
    name, axes = SPLITS[split]
    made = strategy(name, **axes)
    mesh = dict.fromkeys(made.mesh_axes, 2)
    Run.of(made.shard(program, keep=keep), mesh, SMALL).check()


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("layer", [MIXTRAL, DEEPSEEK], ids=["mixtral", "deepseek"])
def test_whole_layers_on_simulated_devices(layer: Program, split: str) -> None:
    run(layer, split)


@pytest.mark.parametrize("keep", ["all", "none"])
@pytest.mark.parametrize("split", ["fsdp+ep", "out of tensor ranks", "fsdp+tp+sp+ep"])
def test_whatever_is_kept(split: str, keep: Keep) -> None:
    run(MIXTRAL, split, keep)


@pytest.mark.parametrize("split", ["zero1+ep", "fsdp+tp+ep", "of context ranks"])
def test_experts_with_biases(split: str) -> None:
    run(GPT_OSS, split)


def test_other_tensor_ranks_are_data_ranks_of_whole_experts() -> None:
    lines = strategy("fsdp+tp+sp+ep", tensor="YU", expert="Y").lines(DEEPSEEK)
    for line in (
        "Xm[B_XYU, D]", "SendIds[E, c_XUY]", "Xe[E_Y, c_XU, D]", "Ae[E_Y, c_XU, F_e]",
        "Ein[E_Y, D_XU, F_e]", "Sin[D_X, F_s_YU]", "Wuk[R_kv, N_YU, H_n]",
    ):  # fmt: skip
        assert line in lines


def test_waiting_gradients_of_tensor_ranks_stay_cut() -> None:
    lines = strategy("dp+tp+ep", expert="ZY", microbatches=4).lines(MIXTRAL)
    assert {"dWq[D, N_Y, H]{U_XZ}", "dEin[E_ZY, D, F_e]{U_X}"} <= set(lines)
    lines = strategy("dp+tp+ep", tensor="YU", expert="Y", microbatches=4).lines(MIXTRAL)
    assert {"dWq[D, N_YU, H]{U_X}", "dEin[E_Y, D, F_e]{U_UX}"} <= set(lines)


def test_gradients_that_wait_for_the_last_microbatch() -> None:
    """Dense gradients stay partial sums over data and expert ranks, those of experts over data."""
    made = strategy("dp+ep", microbatches=4)
    lines = made.lines(MIXTRAL)
    assert "dWq[D, N, H]{U_XZ}" in lines
    assert "dEin[E_Z, D, F_e]{U_X}" in lines
    Run.of(made.shard(MIXTRAL), {"X": 2, "Z": 2}, SMALL).check()


# --- what lies where ----------------------------------------------------------------------------


def test_lines() -> None:
    lines = strategy("fsdp+tp+ep").lines(MIXTRAL)
    for line in (
        "In[B_XZ, D_Y]", "Wq[D_XZ, N_Y, H]", "Wr[D_XZ, E]", "Route[B_XZ, E]", "Picked[B_XZ, k]",
        "SendIds[E, c_XZ]", "Xe[E_Z, c_X, D_Y]", "Ein[E_Z, D_X, F_e_Y]", "Ae[E_Z, c_X, F_e_Y]",
        "Eout[E_Z, F_e_Y, D_X]", "Ye[E_Z, c_X, D_Y]", "Yk[B_XZ, k, D_Y]",
    ):  # fmt: skip
        assert line in lines
    carved = strategy("fsdp+tp+ep", expert="ZY").lines(DEEPSEEK)
    assert {"Ein[E_ZY, D_X, F_e]", "Sin[D_XZ, F_s_Y]", "Xe[E_ZY, c_X, D]"} <= set(carved)
    state = strategy("zero1+ep").lines(MIXTRAL)
    assert {"mWq[D_XZ, N, H]", "mEin[E_Z, D_X, F_e]", "dEin[E_Z, D, F_e]{U_X}"} <= set(state)


def test_without_experts_the_axis_is_one_more_data_axis() -> None:
    plain = two_matmul_layer()
    for name in ("dp", "zero1", "zero2", "fsdp", "fsdp+tp"):
        with_experts = strategy(f"{name}+ep").lines(plain)
        assert with_experts == strategy(name, data="XZ").lines(plain)
    assert strategy("ep").lines(plain) == strategy("dp", data="Z").lines(plain)


def test_each_way_is_one_all_to_all() -> None:
    """Wherever the experts' axes are carved from; only where tokens are cut along their width (D_Y)
    does that axis leave from another dim."""
    counts = {
        "out of tensor ranks": 8,
        "of some tensor ranks": 8,
        "of tensor ranks with tokens whole": 0,
    }
    for split, (name, axes) in SPLITS.items():
        made = strategy(name, **axes).shard(DEEPSEEK)
        found = [
            move
            for phase in made.phases
            for move in phase.collectives
            if move.kind == "AllToAll" and "E" in move.before.labels
        ]
        assert len(found) == counts.get(split, 4), split
        blocks = [m for p in made.phases for m in p.collectives if m.kind == "CollectivePermute"]
        assert not [move for move in blocks if "c" in move.before.labels], split


# --- volumes ------------------------------------------------------------------------------------

#: Bytes of the tokens' vectors on their way to k experts, over all devices.
WAY = 2 * k * B * D
#: Bytes of the experts' matrices.
WEIGHTS = 2 * (2 * E * D * F)

VOLUMES: dict[str, tuple[dict, dict, dict]] = {
    "ep": ({Z: 2 * WAY / Z}, {Z: 2 * WAY / Z}, {}),
    "zero1+ep": (
        {Z: 2 * WAY / (X * Z)},
        {Z: 2 * WAY / (X * Z)},
        {X: 2 * WEIGHTS / Z},
    ),
    "fsdp+ep": (
        {Z: 2 * WAY / (X * Z), X: WEIGHTS / Z},
        {Z: 2 * WAY / (X * Z), X: 2 * WEIGHTS / Z},
        {},
    ),
    # A slot's vector is gathered before the experts' first product and scattered behind the last.
    "tp+ep": (
        {Z: 2 * WAY / (Y * Z), Y: 2 * WAY / Z},
        {Z: 2 * WAY / (Y * Z), Y: 2 * WAY / Z},
        {},
    ),
    "fsdp+tp+ep": (
        {Z: 2 * WAY / (X * Y * Z), Y: 2 * WAY / (X * Z), X: WEIGHTS / (Y * Z)},
        {Z: 2 * WAY / (X * Y * Z), Y: 2 * WAY / (X * Z), X: 2 * WEIGHTS / (Y * Z)},
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPERT_NAMES)
def test_volumes(name: str) -> None:
    made = strategy(name).shard(LAYER)
    for phase, wanted in zip(made.phases, VOLUMES[name], strict=True):
        assert_volumes(phase.volume(), wanted)


@pytest.mark.parametrize("name", EXPERT_NAMES)
def test_arithmetic_is_divided_by_all_devices(name: str) -> None:
    made, devices = strategy(name).shard(LAYER), 1
    for used in strategy(name).mesh_axes:
        devices *= axis(used)
    assert_same(made.forward.flops, 4 * k * B * D * F / devices)
    assert_same(made.backward.flops, 8 * k * B * D * F / devices)


def test_whole_experts_instead_of_parts_move_less() -> None:
    """Experts out of tensor ranks: the tensor axis carries AllToAlls of the tokens' own part
    instead of whole vectors, Y times less each way."""
    parts = strategy("tp+sp+ep").shard(LAYER).forward.volume()[Y]
    made = strategy("tp+sp+ep", expert="ZY").shard(LAYER).forward.volume()
    assert_volumes(made, {(Z, Y): 2 * WAY / (Y * Z)})
    assert cancel(parts / made[Z, Y]) == Y


def test_capacity_and_imbalance_stretch_arithmetic_and_exchange() -> None:
    factor = imbalance * symbol("capacity")
    stretched = strategy("ep").shard(two_matmul_experts(factor))
    even = strategy("ep").shard(LAYER)
    for one, other in zip(stretched.phases, even.phases, strict=True):
        assert cancel(one.flops - factor * other.flops) == 0
        for key, value in other.volume().items():
            assert cancel(one.volume()[key] - factor * value) == 0
    slots = next(a for a in stretched.program.arrays.values() if a.name == "Xe")
    assert cancel(slots.global_bytes - factor * WAY) == 0


# --- published numbers --------------------------------------------------------------------------


def test_tokens_of_published_models() -> None:
    """GShard, section 3: each of a token's experts is sent its vector, here in bf16."""
    for name, sent in (("mixtral-8x7b", 2 * 4096), ("deepseek-v3", 8 * 7168)):
        found = model(name)
        kind = next(made for made in found.programs.kinds if "Xe" in made.program.arrays)
        made = strategy("ep").shard(kind.program).forward
        ways = [move.volume * Z / B for move in made.collectives if move.kind == "AllToAll"]
        assert [one.subs(found) for one in ways] == [2 * sent, 2 * sent]


def test_the_exchange_of_a_decoding_step() -> None:
    """Tokens sent in one byte, results in two: DeepSeek's limit of 120.96 us a layer.

    Source: Insights into DeepSeek-V3, https://arxiv.org/abs/2505.09343, section 2.3.2: 32 tokens a
    device, 9 experts (the shared one among them), width 7K, 50 GB/s.
    """
    layer = program(
        "dispatch(SendIds[E, c], X: fp8[B, D]) -> Xe: fp8[E, c, D]",
        "Xe: fp8[E, c, D] * W[E, D, D_o] -> Ye: bf16[E, c, D_o]",
        "combine(BackIds[B, k], Ye[E, c, D_o]) -> Yk[B, k, D_o]",
        inputs=("X", "SendIds", "BackIds"),
        sizes={"c": B * k / E, "D_o": D},
    )
    made = layer.shard(
        "SendIds[E, c_Z]", "X: fp8[B_Z, D]", "Xe: fp8[E_Z, c, D]", "W[E_Z, D, D_o]",
        "Ye[E_Z, c, D_o]", "BackIds[B_Z, k]", "Yk[B_Z, k, D_o]",
    )  # fmt: skip
    each = made.forward.volume()[Z].subs({B: 32 * Z, k: 9, D: 7000})
    assert round(float(each) / 50e9 * 1e6, 2) == 120.96


def test_how_wide_an_expert_has_to_be() -> None:
    """The book: an AllToAll takes a quarter of the AllGather of the same array. Both ways then take
    2 (2kBD)/4 over the bandwidth; arithmetic takes 4kBDF/Z over the rate."""
    found = compute_bound(strategy("ep"))
    assert found.answer.variable == Z
    assert_same(found.per_chip, 4 * F * M_Z * W_ici / C)


def test_experts_and_their_weights_split_at_best() -> None:
    """FSDP beside experts: the best share of ways by brute force over divisors of the chips."""
    found = compute_bound(strategy("fsdp+ep"))
    assert found.split is not None
    numbers = {M_X: 1, M_Z: 1, W_ici: 1, C: 1, B: 2**20, D: 64, F: 4096, E: 64, k: 8}
    layer = strategy("fsdp+ep").shard(LAYER).forward.time.comms.subs(numbers)
    chips = 4096
    best = min(float(layer.subs({Z: z, X: chips // z})) for z in (2**i for i in range(13)))
    bound = float(found.split.value.subs({symbol("n"): chips} | numbers))
    assert bound <= best <= 1.1 * bound


# --- what cannot be -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "axes", "message"),
    [
        ("ep+ep", {}, "two parts want the role expert"),
        ("ep", {"expert": "ZZ"}, "mesh axis Z plays two roles"),
        ("pp+ep", {"expert": "P"}, "mesh axis P plays two roles"),
        ("dp+tp+ep", {"tensor": "X"}, "mesh axis X plays two roles"),
        ("fsdp", {"expert": "Z"}, "has no role 'expert'; it has data"),
        ("ep", {"expert": ""}, "role expert has no mesh axis"),
    ],
)
def test_roles_that_do_not_fit(name: str, axes: dict[str, str], message: str) -> None:
    with pytest.raises(StrategyError) as caught:
        strategy(name, **axes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_table_shows_them_on_a_layer_of_experts() -> None:
    rows = {row[0]: row for row in strategies(names=EXPERT_NAMES).rows}
    assert rows["ep"][2:] == ("Z: 4*B*D*k/Z", "Z: 4*B*D*k/Z", "0")
    assert "Win[E_Z, D_X, F]" in rows["fsdp+ep"][1]
    assert V not in LAYER.parameters.free_symbols


@pytest.mark.parametrize(("ways", "fewer"), [(16, 8), (6, 4), (3, 2)])
def test_experts_that_do_not_divide(ways: int, fewer: int) -> None:
    step = training("mixtral-8x7b", "dp+ep")
    with pytest.raises(ShardingError) as caught:
        step.at(chip="h100", B=2**10 * 3 * 64, X=8, Z=ways, T=1024)
    assert str(caught.value) == (
        f"mesh axis Z = {ways} does not divide E = 8 of Xe[E_Z, c_X, D]; "
        f"the next fewer that does is {fewer}"
    )


def test_slots_need_not_be_whole() -> None:
    """They are a mean over tokens: 96 tokens a device to each of 64 experts, two at a time."""
    hot = model("deepseek-v2-lite").stretched(Rational(13, 10))
    kind = next(made for made in hot.programs.kinds if "Xe" in made.program.arrays)
    made = strategy("ep").shard(kind.program)
    values = {B: Integer(96 * 8), Z: Integer(8), **{s: Integer(v) for s, v in hot.items()}}
    for name in ("Xe", "Xm"):
        made.sharding(name).check(values, shares=kind.program.slots)
    with pytest.raises(ShardingError, match="does not divide B"):
        made.sharding("Xm").check({**values, B: Integer(97)}, shares=kind.program.slots)
    with pytest.raises(ShardingError, match="does not divide E = 64"):
        made.sharding("Xe").check({**values, Z: Integer(6)}, shares=kind.program.slots)


def test_a_stretched_model_needs_no_more_for_a_token() -> None:
    even, hot = model("mixtral-8x7b"), model("mixtral-8x7b").stretched(imbalance)
    assert hot != even
    assert hot.stretched(1) == even
    assert hash(hot.stretched(1)) == hash(even)
    assert hot.flops_per_token() == even.flops_per_token()
    assert hot.params.count == even.params.count
    one, other = (strategy("fsdp+ep").shard(made.programs.layer).forward for made in (hot, even))
    assert cancel(one.volume()[Z] - imbalance * other.volume()[Z]) == 0
    grown = cancel(one.flops - other.flops)
    assert_same(grown, (imbalance - 1) * 6 * k * B * D * F_e / (X * Z))
    for factor in (0, -1, True):
        with pytest.raises(SymbolError):
            even.stretched(factor)


# --- reported faults ----------------------------------------------------------------------------


def test_experts_on_a_device_are_those_of_its_expert_ranks() -> None:
    """Divided by expert ranks, and by the tensor ranks that are not expert ranks: not by all tensor
    ranks, and not kept whole everywhere.

    Source: NVIDIA/Megatron-LM issue #4050 (tensor 2 ways, experts 8 ways over them, whole).
    """
    made = strategy("tp+sp+ep", expert="ZY").shard(LAYER)
    share = sum(made.sharding(name).elements for name in LAYER.weights) / LAYER.parameters
    assert share.subs({Y: 2, Z: 4}) * 45097156608 == 5637144576
    # Tensor 8 ways, experts 2 ways over them, none cut.
    made = strategy("tp+sp+ep", tensor="YU", expert="Y").shard(LAYER)
    share = sum(made.sharding(name).elements for name in LAYER.weights) / LAYER.parameters
    assert share.subs({Y: 2, axis("U"): 4}) * 45097156608 == 22548578304
    cut = strategy("tp+sp+ep").shard(LAYER)
    share = sum(cut.sharding(name).elements for name in LAYER.weights) / LAYER.parameters
    assert_same(share, 1 / (Y * Z))


def test_experts_split_do_not_shrink_what_is_routed() -> None:
    """Expert ranks are data ranks: they trade tokens, and each keeps as many as before.

    Source: NVIDIA/Megatron-LM PR #6782 (4096 tokens, 8 of the experts, 2048 wide).
    """
    inside = strategy("dp+ep").shard(LAYER).sharding("Tmp").elements
    found = inside.subs(B, 4096 * X * Z).subs({k: 8, F: 2048})
    assert found == 67108864
