"""When strategies are compute-bound, by a second route: times in numbers and bisection."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from sympy import Expr, Symbol, lambdify

from symscale import chip, strategies, strategy
from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, M_Z, B, C, D, F, H, N, W_ici, X, Y, Z, n
from symscale.models.decoder import two_matmul_layer
from symscale.models.model import Model
from symscale.models.zoo import find_config
from symscale.parallel.table import NAMES
from symscale.studies.attention import attention_passes
from symscale.studies.conditions import ComputeBound, compute_bound

CHIPS = 4096
NUMBERS = {
    D: 5120, F: 13824, C: 4.59e14, W_ici: 1.8e11, M_X: 2, M_Y: 1, M_Z: 1, n: CHIPS,
}  # fmt: skip
Function = Callable[..., float]


def function(expr: Expr, *over: Symbol) -> Function:
    """The expression in plain floats; a maximum becomes Python's."""
    numbers = {key: value for key, value in NUMBERS.items() if key not in over}
    return lambdify(over, expr.subs(numbers), [{"Maximum": max}, "math"])


@cache
def times(name: str, overlapped: bool) -> tuple[Expr, Expr]:
    """Arithmetic and communication of what a strategy leaves to compare, put together by hand."""
    sharded = strategy(name).shard(two_matmul_layer())
    forward, backward, update = (phase.time for phase in sharded.phases)
    both = name in ("fsdp", "tp", "tp+sp", "fsdp+tp", "fsdp+tp+sp", "2d")
    parts = [forward] if both else [backward, update]
    by_axis: dict[object, Expr] = {}
    for part in parts:
        for key, value in part.by_axis.items():
            by_axis[key] = by_axis.get(key, 0) + value
    comms = Maximum(*by_axis.values()) if overlapped else sum(by_axis.values())
    return sum(part.math for part in parts), comms


def least_comms(comms: Function, chips: float, batch: float) -> tuple[float, float]:
    """The best split of the chips, by golden section on log X (the cost is convex there)."""
    low, high = math.log(1e-6), math.log(chips * 1e6)
    ratio = (math.sqrt(5) - 1) / 2

    def cost(u: float) -> float:
        x = math.exp(u)
        return comms(x, chips / x, batch)

    for _ in range(200):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, right) if cost(left) < cost(right) else (left, high)
    return math.exp((low + high) / 2), cost((low + high) / 2)


def bisect(excess: Function) -> float:
    """Where a function of one positive number changes its sign."""
    low, high = 1e-9, 1e15
    rising = excess(high) > 0
    assert rising != (excess(low) > 0)
    for _ in range(300):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if (excess(middle) > 0) == rising else (middle, high)
    return low


def wall(name: str, overlapped: bool) -> float:
    """The threshold in numbers: of the batch, of the axis, or of the chips."""
    arithmetic, comms = times(name, overlapped)
    axes = strategy(name).mesh_axes
    if len(axes) == 1:
        unknown = B if axes == ("X",) else Y
        numbers = {X: CHIPS, Y: 16, B: 2**20}
        rest = {key: value for key, value in numbers.items() if key != unknown}
        return bisect(function((arithmetic - comms).subs(rest), unknown))
    work, move = function(arithmetic, X, Y, B), function(comms, X, Y, B)
    if name == "2d":
        batch = 2.0**20
        return bisect(lambda chips: work(chips, 1, batch) - least_comms(move, chips, batch)[1])
    return bisect(lambda batch: work(CHIPS, 1, batch) - least_comms(move, CHIPS, batch)[1])


def in_numbers(found: ComputeBound) -> float:
    return float(found.answer.threshold.subs({**NUMBERS, X: CHIPS, Y: 16}))


@pytest.mark.parametrize("overlapped", [False, True], ids=["summed", "overlapped"])
@pytest.mark.parametrize("name", [*NAMES, "dp+tp", "zero2+tp"])
def test_threshold_by_bisection(name: str, overlapped: bool) -> None:
    found = compute_bound(strategy(name), overlapped)
    assert in_numbers(found) == pytest.approx(wall(name, overlapped), rel=1e-7)


@pytest.mark.parametrize("overlapped", [False, True], ids=["summed", "overlapped"])
@pytest.mark.parametrize("name", ["fsdp+tp", "2d", "dp+tp"])
def test_split_by_golden_section(name: str, overlapped: bool) -> None:
    batch = 2.0**20
    move = function(times(name, overlapped)[1], X, Y, B)
    x, value = least_comms(move, CHIPS, batch)
    split = compute_bound(strategy(name), overlapped).split
    assert split is not None
    values = {**NUMBERS, B: 2**20}
    assert float(split.value.subs(values)) == pytest.approx(value, rel=1e-9)
    assert float(split[X].subs(values)) == pytest.approx(x, rel=1e-5)
    assert float((split[X] * split[Y]).subs(values)) == pytest.approx(CHIPS, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_both_sides_of_the_wall(name: str) -> None:
    found = compute_bound(strategy(name))
    threshold = in_numbers(found)
    free = found.answer.variable
    numbers = {**NUMBERS, X: CHIPS, Y: 16, B: 2**20}
    below = {**numbers, free: max(1, math.floor(threshold) - 1)}
    above = {**numbers, free: math.ceil(threshold) + 1}
    assert found.answer.holds(above) == (free == B)
    assert found.answer.holds(below) == (free != B)


def test_overlap_is_a_factor_four_for_equal_shares() -> None:
    summed, at_once = (compute_bound(strategy("fsdp+tp"), o) for o in (False, True))
    assert summed.per_chip == 4 * at_once.per_chip
    assert summed.split[X] == at_once.split[X]


def test_several_axes_in_one_role() -> None:
    flat = compute_bound(strategy("fsdp", data="XYZ"))
    assert flat.per_chip == C / (W_ici * (M_X + M_Y + M_Z))
    assert flat.answer.threshold == X * Y * Z * flat.per_chip
    wide = compute_bound(strategy("tp", tensor="YZ"))
    assert wide.answer.variable == Y
    assert wide.answer.threshold == F * W_ici * (M_Y + M_Z) / (C * Z)
    both = compute_bound(strategy("fsdp+tp", data="XY", tensor="Z"))
    assert both.per_chip == 4 * (C / W_ici) ** 2 / (F * M_Z * (M_X + M_Y))
    assert both.split is not None
    assert both.split[X] ** 2 == B * n * (M_X + M_Y) / (F * M_Z)


def test_pure_fsdp_on_a_pod() -> None:
    # 468 tokens a chip against 850 on three axes.
    found = compute_bound(strategy("fsdp"))
    v5p = chip("v5p")
    need = found.per_chip.subs(v5p).subs(v5p.layout(["X"]).bindings)
    assert need == 850
    assert round(2**22 / 8960) == 468
    numbers = {**v5p, **v5p.layout(["X"]).bindings, X: 8960}
    assert not found.answer.holds({**numbers, B: 2**22})
    assert found.answer.holds({**numbers, B: 850 * 8960})


def test_which_pass_is_compared() -> None:
    passes = {name: compute_bound(strategy(name)).passes for name in (*NAMES, "dp+tp")}
    assert passes["fsdp"] == passes["tp"] == passes["2d"] == "forward pass"
    assert passes["dp"] == passes["dp+tp"] == "backward pass"
    assert "optimizer" in passes["zero1"]


def test_every_condition_tells_its_steps() -> None:
    refused = {"hsdp": "no minimum is attained", "pp": "bound by their bubble"}
    for row in strategies():
        if row[0] in refused:
            with pytest.raises(SolveError, match=refused[row[0]]):
                compute_bound(strategy(row[0]))
            continue
        found = compute_bound(strategy(row[0]))
        plain = found.to_dict()
        assert plain["derivation"]["steps"]
        assert plain["condition"]
        assert len(found.derivation) > len(found.answer.derivation) or found.split is None


def test_attention_without_a_gate() -> None:
    # Two products with weights instead of three: 4DF against 4HNT.
    plain = Model(replace(find_config("llama-2-7b"), gated=False))
    found = attention_passes(plain, "mlp")
    assert found.other == 4 * D * F
    assert found.answer.threshold == D * F / (H * N)
    assert attention_passes(plain, "mlp", causal=True).answer.threshold == 2 * D * F / (H * N)
    assert found.to_dict()["rival"] == "mlp"
