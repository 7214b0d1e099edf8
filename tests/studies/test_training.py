"""The training step in numbers: LLaMA 3 70B on v5p, against counts made by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from sympy import Expr

from symscale import chip, training
from symscale.algebra.errors import (
    HardwareError,
    ModelError,
    ShardingError,
    StrategyError,
    SymbolError,
    SymscaleError,
)
from symscale.algebra.symbols import B, C, X, Y
from symscale.parallel.table import NAMES
from symscale.studies.meshes import MeshOption, mesh_options
from symscale.studies.pressure import pressures
from symscale.studies.training import TrainingStep

BATCH = 2**22
STEP = training("llama-3-70b", "fsdp+tp")
RESULT = STEP.at(chip="tpu-v5p", B=BATCH, X=2048, Y=4)

# The model and the chip once more, as plain numbers.
LAYERS, D, F, N, K, H, V, T = 80, 8192, 28672, 64, 8, 128, 128256, 8192
RATE, LINK = 4.59e14, 1.8e11
MX, MY = 2, 1
MATRICES = 2 * D * N * H + 2 * D * K * H + 3 * D * F
PARAMETERS = 70_553_706_496


def parts() -> dict[str, tuple[float, float]]:
    return {
        one.part: (one.ratio(RESULT.values), one.ratio(RESULT.values, overlapped=True))
        for one in pressures(RESULT.step)
    }


# --- LLaMA 3 70B on 2048 x 4 v5p ---------------------------------------------------------------


def by_hand(x: int, y: int, mx: int, my: int) -> tuple[float, float, float]:
    """Arithmetic, FSDP and tensor communication of the two-matmul layer, forward, in seconds."""
    math_time = 4 * BATCH * D * F / (x * y * RATE)
    gathers = 4 * D * F / y / (mx * LINK) if x > 1 else 0.0
    activations = 4 * BATCH * D / x / (my * LINK) if y > 1 else 0.0
    return math_time, gathers, activations


def test_textbook_layer_is_just_inside_the_wall() -> None:
    work, data, tensor = by_hand(2048, 4, MX, MY)
    summed, overlapped = parts()["two matmuls, forward"]
    assert summed == pytest.approx((data + tensor) / work, rel=1e-12)
    assert overlapped == pytest.approx(max(data, tensor) / work, rel=1e-12)
    assert summed == pytest.approx(0.9783, abs=5e-5)


def test_decoder_layer_is_just_outside() -> None:
    work = 2 * MATRICES * BATCH / (2048 * 4 * RATE)
    data = 2 * (MATRICES + 2 * D) / 4 / (MX * LINK)
    # Four times 2BD, and for each of two norms one f32 a row, counted twice.
    tensor = (8 * BATCH * D + 16 * BATCH) / 2048 / (MY * LINK)
    scores = 2 * 2 * BATCH * T * N * H / (2048 * 4 * RATE)
    found = parts()
    summed, overlapped = found["decoder layer without attention scores, forward"]
    assert summed == pytest.approx((data + tensor) / work, rel=1e-12)
    assert overlapped == pytest.approx(max(data, tensor) / work, rel=1e-12)
    assert summed == pytest.approx(1.0133, abs=5e-5)
    assert overlapped < 1
    whole = found["decoder layer, forward"]
    assert whole[0] == pytest.approx((data + tensor) / (work + scores), rel=1e-12)
    assert whole[0] < 1


def test_arithmetic_of_the_step() -> None:
    every_token = 6 * (LAYERS * MATRICES + V * D) + 3 * LAYERS * 4 * N * H * T
    wanted = every_token * BATCH / (2048 * 4 * RATE)
    assert RESULT.math == pytest.approx(wanted, rel=1e-12)
    assert RESULT.bottleneck == "math"
    assert RESULT.time == pytest.approx(wanted, rel=1e-12)
    assert RESULT.compute_fraction == 1
    assert RESULT.tokens_per_second == pytest.approx(BATCH / wanted, rel=1e-12)
    assert RESULT.chips == 8192


def test_communication_of_the_step() -> None:
    gains = 2 * D
    # Weights are gathered in both passes and gradients scattered: 6 bytes a parameter; the table
    # of the lookup is gathered forward alone.
    data = LAYERS * 6 * (MATRICES + gains) + (4 + 6) * V * D + 6 * D
    assert RESULT.busy["X"] == pytest.approx(data / 4 / (MX * LINK), rel=1e-12)
    layer = 2 * (8 * BATCH * D + 16 * BATCH) / 2048
    ends = (4 * BATCH * D + 8 * BATCH + 2 * BATCH * D + 8 * BATCH) / 2048
    moved_table = 2 * D * V / (2048 * 4) * 4 / 4  # An AllToAll on a ring of four.
    wanted = (LAYERS * layer + ends + moved_table) / (MY * LINK)
    assert RESULT.busy["Y"] == pytest.approx(wanted, rel=1e-12)
    assert set(RESULT.busy) == {"math", "hbm", "X", "Y", "YX"}


def test_memory_in_numbers() -> None:
    states = PARAMETERS / 8192
    assert RESULT.memory["parameters"] == round(2 * states)
    assert RESULT.memory["gradients"] == round(2 * states)
    assert RESULT.memory["optimizer"] == round(8 * states)
    wide = 2 * D + (2 * D + 2 * N * H + 2 * K * H + 3 * F) / 4
    saved = 2 * BATCH / 2048 * (LAYERS * wide + D + D / 4)
    assert RESULT.memory["activations"] == round(saved)
    assert RESULT.memory_bytes == sum(RESULT.memory.values())
    assert RESULT.fits
    assert not training("llama-3-70b", "dp").at("v5p", B=BATCH, X=512).fits


def test_cost_is_counted_over_the_step() -> None:
    total = STEP.cost.sum("flops").expr
    wanted = LAYERS * (6 * MATRICES + 12 * N * H * T) + 6 * V * D
    values = {**RESULT.values, B: 1, X: 1, Y: 1}
    assert total.subs(values) == wanted


# --- overlap and fidelity ----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fidelity", ["ideal", "ring"])
def test_more_overlap_is_never_slower(name: str, fidelity: Any) -> None:
    step = training("llama-3-8b", name)
    mesh = dict.fromkeys(step.strategy.mesh_axes, 8)
    full, critical, none = (
        step.at("v5p", B=2**20, overlap=overlap, fidelity=fidelity, **mesh)
        for overlap in ("full", "critical", "none")
    )
    assert full.time <= critical.time * (1 + 1e-12)
    assert critical.time <= none.time * (1 + 1e-12)
    assert none.time == pytest.approx(sum(none.busy.values()), rel=1e-9)
    assert full.time >= max(full.busy.values()) * (1 - 1e-12)
    assert 0 < none.compute_fraction <= full.compute_fraction <= 1


def test_waiting_collectives_are_added() -> None:
    full, critical = (
        STEP.at("v5p", B=BATCH, X=2048, Y=4, overlap=overlap) for overlap in ("full", "critical")
    )
    # Only gradients of the table move along Y without being waited for.
    hidden = 2 * D * V / (2048 * 4) / (MY * LINK)
    assert critical.time - full.time == pytest.approx(full.busy["Y"] - hidden, rel=1e-9)


def test_ring_keeps_its_own_share() -> None:
    ideal, ring = (
        STEP.at("v5p", B=BATCH, X=2048, Y=4, fidelity=fidelity) for fidelity in ("ideal", "ring")
    )
    assert ring.busy["X"] == pytest.approx(ideal.busy["X"] * 2047 / 2048, rel=1e-12)
    all_to_all = 2 * D * V / (2048 * 4) / (MY * LINK)
    gathers = ideal.busy["Y"] - all_to_all
    assert ring.busy["Y"] == pytest.approx(gathers * 3 / 4 + all_to_all, rel=1e-12)
    assert ring.math == ideal.math
    assert ring.busy["hbm"] == ideal.busy["hbm"]


def test_a_line_takes_longer_than_a_ring() -> None:
    # On v5e short axes do not wrap around: the chip at the end has one link, and all but its own
    # share comes in over it, 2(n-1)/n times the ideal, which is 1 for two chips.
    step = training("llama-3-8b", "fsdp")
    for size, factor in ((2, 1), (4, 3 / 2), (8, 7 / 4)):
        ideal, line = (
            step.at("v5e", B=2**20, X=size, fidelity=fidelity, M_X=1)
            for fidelity in ("ideal", "ring")
        )
        assert line.busy["X"] == pytest.approx(ideal.busy["X"] * factor, rel=1e-9)


def test_an_axis_of_one_moves_nothing() -> None:
    pure = STEP.at("v5p", B=BATCH, X=4096, Y=1)
    assert set(pure.busy) == {"math", "hbm", "X"}
    alone = training("llama-3-70b", "fsdp").at("v5p", B=BATCH, X=4096)
    assert pure.busy["X"] == pytest.approx(alone.busy["X"], rel=1e-5)
    assert pure.time == pytest.approx(alone.time, rel=1e-5)


def test_gathered_activations_may_be_gathered_again() -> None:
    kept = STEP.time.by_axis[Y]
    again = training("llama-3-70b", "fsdp+tp", keep="none").time.by_axis[Y]
    assert (again - kept).subs(RESULT.values) > 0


# --- meshes ------------------------------------------------------------------------------------


def brute_meshes(chips: int) -> dict[tuple[int, int], float]:
    """All pairs whose axes divide their dims, of the largest product, with the textbook's ratio."""
    fits = {
        (x, y)
        for x in range(1, chips + 1)
        if BATCH % x == 0 and D % x == 0
        for y in range(1, chips // x + 1)
        if F % y == 0 and K % y == 0 and N % y == 0 and V % y == 0 and D % (x * y) == 0
    }
    most = max(x * y for x, y in fits)
    out = {}
    for x, y in fits:
        if x * y == most:
            mx, my = (3, 1) if y == 1 else (1, 3) if x == 1 else (2, 1)
            work, data, tensor = by_hand(x, y, mx, my)
            out[x, y] = (data + tensor) / work
    return out


@pytest.mark.parametrize("chips", [8960, 8191, 512, 100])
def test_meshes_by_trying_all(chips: int) -> None:
    options = mesh_options(STEP, chip("v5p"), chips, BATCH)
    wanted = brute_meshes(chips)
    found = {(one.mesh["X"], one.mesh["Y"]): one.textbook for one in options}
    assert found == pytest.approx(wanted, rel=1e-12)
    assert [one.textbook for one in options] == pytest.approx(sorted(wanted.values()))


def test_best_mesh_of_a_pod() -> None:
    best: MeshOption = mesh_options(STEP, chip("v5p"), 8960, BATCH)[0]
    assert dict(best.mesh) == {"X": 2048, "Y": 4}
    assert best.chips == 8192
    assert best.textbook == pytest.approx(0.9783, abs=5e-5)
    assert json.dumps(best.to_dict())


def test_no_mesh() -> None:
    with pytest.raises(ShardingError, match="no mesh of zero1 on at most 0 chips"):
        mesh_options(training("llama-3-8b", "zero1"), chip("v5p"), 0, BATCH)


# --- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ({"B": BATCH, "X": 2048}, SymbolError, r"no size for mesh axis Y of strategy fsdp\+tp"),
        ({"X": 4, "Y": 4}, SymbolError, r"no value for B \(batch, in tokens\)"),
        ({"B": -1, "X": 4, "Y": 4}, SymbolError, "B = -1: a size or rate must be above zero"),
        ({"B": BATCH, "X": 0, "Y": 4}, SymbolError, "X = 0: a size or rate must be above zero"),
        ({"B": BATCH, "X": 4.5, "Y": 4}, SymbolError, "X = 4.5: .* must be a whole number"),
        ({"B": "4M", "X": 4, "Y": 4}, SymbolError, "B = '4M': a number is wanted"),
        ({"B": math.inf, "X": 4, "Y": 4}, SymbolError, "B = inf"),
        ({"B": BATCH, "X": 4, "Y": 3}, ShardingError, "mesh axis Y = 3 does not divide D = 8192"),
        ({"B": BATCH, "X": 4, "Y": 16}, ShardingError, "mesh axis Y = 16 does not divide K = 8"),
        ({"B": 1000, "X": 16, "Y": 4}, ShardingError, "mesh axis X = 16 does not divide B = 1000"),
        ({"B": BATCH, "X": 4096, "Y": 4}, HardwareError, "has 16384 chips; one tpu-v5p pod has"),
        ({"B": BATCH, "X": 4, "Y": 4, "Z": 2}, SymbolError, r"Z = 2: no size, no rate, .*\(X, Y\)"),
        ({"B": BATCH, "X": 4, "Y": 4, "w_ici": 1}, SymbolError, "w_ici = 1: no size, no rate"),
        ({"B": BATCH, "X": 4, "Y": 4, "T": -1}, SymbolError, "T = -1"),
    ],
)
def test_refused(numbers: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        _ = STEP.at("tpu-v5p", **numbers).time
    assert "\n" not in str(caught.value)


def test_refused_names() -> None:
    with pytest.raises(HardwareError, match="unknown chip 'tpu-v5x'; did you mean"):
        STEP.at("tpu-v5x", B=BATCH, X=4, Y=4)
    with pytest.raises(ModelError, match="unknown model 'lama-3-70b'; did you mean"):
        training("lama-3-70b", "fsdp")
    with pytest.raises(StrategyError, match="unknown strategy 'fdsp'"):
        training("llama-3-70b", "fdsp")
    with pytest.raises(SymscaleError, match="overlap 'some' is none of"):
        _ = STEP.at("v5p", B=BATCH, X=4, Y=4, overlap="some").time  # type: ignore[arg-type]
    with pytest.raises(HardwareError, match="unknown fidelity 'exact'"):
        STEP.at("v5p", B=BATCH, X=4, Y=4, fidelity="exact")  # type: ignore[arg-type]


def test_numbers_may_be_overridden() -> None:
    slow = STEP.at("v5p", B=BATCH, X=2048, Y=4, C=4.59e13)
    assert slow.math == pytest.approx(10 * RESULT.math, rel=1e-12)
    short = STEP.at("v5p", B=BATCH, X=2048, Y=4, T=2048)
    assert short.math < RESULT.math
    one = STEP.at("v5p", B=BATCH, X=2048, Y=4, M_X=1)
    assert one.busy["X"] == pytest.approx(2 * RESULT.busy["X"], rel=1e-12)


def test_notes_say_what_is_left_out() -> None:
    assert "512 sequences of 8192 tokens, cut over 2048 ways" in RESULT.notes[0]
    assert STEP.at("v5p", B=BATCH, X=512, Y=4).notes == ()
    odd = STEP.at("v5p", B=3 * 2**20, X=512, Y=4, T=2**19 + 2**18 + 1)
    assert "no whole number of sequences" in odd.notes[0]


# --- the objects -------------------------------------------------------------------------------


def test_symbolic_until_the_numbers_come() -> None:
    assert isinstance(STEP, TrainingStep)
    lower: Expr = STEP.time.lower
    assert {B, X, Y, C} <= lower.free_symbols
    assert STEP.time.math.subs(RESULT.values) == pytest.approx(RESULT.math, rel=1e-12)


def test_results_show_themselves() -> None:
    plain = json.loads(json.dumps(RESULT.to_dict()))
    for name in ("step_time_s", "bottleneck", "memory_bytes", "fits", "mesh", "notes"):
        assert name in plain
    assert plain["mesh"] == {"X": 2048, "Y": 4}
    assert "llama-3-70b, fsdp+tp, tpu-v5p, X=2048, Y=4" in repr(RESULT)
    assert "<table>" in RESULT._repr_html_()
    assert "<table>" in STEP._repr_html_()
    assert json.dumps(STEP.to_dict())
    assert "training step of llama-3-70b" in repr(STEP)
