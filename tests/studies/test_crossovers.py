"""The catalogue of named crossovers: its interface, and every entry by a second route.

The second route knows nothing of the solver: both sides are written out in plain numbers from what
the question says, and their difference changes sign on a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from symscale import chip, model
from symscale.algebra.errors import SymscaleError
from symscale.algebra.symbols import B, C, G, K, N, S, T, W_hbm
from symscale.solve.crossover import crossover
from symscale.studies.catalogue_attention import attention_core
from symscale.studies.crossovers import ENTRIES, named_crossover
from symscale.studies.evaluated import evaluated_crossover

NUMBERS: dict[str, float] = {
    "D": 8192, "F": 28672, "N": 64, "K": 8, "G": 8, "H": 128, "L": 80, "V": 128256,
    "E": 64, "k": 4, "X": 64, "Y": 16, "Z": 4, "n": 4096, "B": 2**20, "b": 4, "T": 8192, "S": 32768,
    "C": 4.59e14, "C_int8": 9.18e14, "W_hbm": 2.765e12, "W_vmem": 6e13, "W_ici": 1.8e11,
    "W_dcn": 6.25e9, "W_pcie": 1.6e10, "t_hop": 1e-6, "M_X": 2, "M_Y": 1, "M_Z": 1,
    "p": 16, "loss": 0.05, "bytes": 1e6,
}  # fmt: skip


@dataclass(frozen=True)
class Numbers:
    """The numbers under their names."""

    values: dict[str, float]

    def __getattr__(self, name: str) -> float:
        return self.values[name]


Side = Callable[[float, Numbers], float]


def matmul(left: int, right: int, rate: str, memory: str) -> tuple[Side, Side]:
    """2BDF FLOPs against activations, weights and results in bytes."""

    def work(v: float, s: Numbers) -> float:
        return 2 * v * s.D * s.F / s.values[rate]

    def move(v: float, s: Numbers) -> float:
        return (left * v * s.D + right * s.D * s.F + left * v * s.F) / s.values[memory]

    return work, move


def layer(v: float, chips: float, s: Numbers) -> float:
    """Seconds of two matmuls' forward pass on so many chips."""
    return 4 * v * s.D * s.F / (chips * s.C)


def data_parallel(axes: int) -> tuple[Side, Side]:
    """Backward: 8BDF FLOPs against an AllReduce of two gradients, over one link's axis each."""
    return (
        lambda v, s: 8 * v * s.D * s.F / s.C,
        lambda v, s: 2 * 2 * (2 * s.D * s.F) / (axes * s.W_ici),
    )


def fully_sharded(axes: int) -> tuple[Side, Side]:
    """Forward: 4BDF FLOPs against a gather of two weights."""
    return (
        lambda v, s: 4 * v * s.D * s.F / s.C,
        lambda v, s: 2 * (2 * s.D * s.F) / (axes * s.W_ici),
    )


def best(f: Callable[[float], float], chips: float) -> float:
    """The least of a function that is convex in log x, by golden section."""
    low, high = math.log(1e-6), math.log(chips * 1e6)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(120):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        low, high = (low, b) if f(math.exp(a)) < f(math.exp(b)) else (a, high)
    return f(math.exp((low + high) / 2))


def mixed(join: Callable[[float, float], float]) -> tuple[Side, Side]:
    """Weights gathered over X and activations over Y, the chips split as well as can be."""

    def move(v: float, s: Numbers) -> float:
        def comms(x: float) -> float:
            y = s.n / x
            weights = 2 * (2 * s.D * s.F / y) / (s.M_X * s.W_ici)
            states = 2 * (2 * v * s.n * s.D / x) / (s.M_Y * s.W_ici)
            return join(weights, states)

        return best(comms, s.n)

    return (lambda v, s: layer(v * s.n, s.n, s)), move


def _scores(v: float, s: Numbers) -> float:
    """One token's scores against v keys, and the sum of their values."""
    return 2 * 2 * v * s.N * s.H


def _split(v: float, s: Numbers) -> float:
    """Slope in x of the summed communication, X = v."""
    return -2 * 2 * s.B * s.D / (v**2 * s.M_Y) + 2 * 2 * s.D * s.F / (s.n * s.M_X)


def _flat(v: float, s: Numbers) -> float:
    return 2 * (2 * s.B * s.D) / (3 * s.W_ici)


def _square(v: float, s: Numbers) -> float:
    """2D weight-stationary: X on one physical axis, YZ on two."""
    return best(
        lambda x: 2 * (2 * s.B * s.D / x) / (2 * s.W_ici) + 2 * (2 * s.B * s.F / (v / x)) / s.W_ici,
        v,
    )


def _per_token(s: Numbers) -> dict[str, float]:
    return {
        "projections": 2 * s.D * s.H * (2 * s.N + 2 * s.K),
        "mlp": 2 * 3 * s.D * s.F,
    }


ENDS = ("", "-2-axes", "-3-axes")
ROUTES: dict[str, tuple[Side, Side]] = {
    "critical-batch-exact": matmul(2, 2, "C", "W_hbm"),
    "critical-batch-int8-exact": matmul(1, 1, "C_int8", "W_hbm"),
    "critical-batch-mixed-exact": matmul(2, 1, "C", "W_hbm"),
    "critical-batch-vmem": matmul(2, 2, "C", "W_vmem"),
    "critical-batch-int8-vmem": matmul(1, 1, "C_int8", "W_vmem"),
    "weights-over-pcie": (
        lambda v, s: layer(v, 1, s), lambda v, s: 2 * 2 * s.D * s.F / s.W_pcie,
    ),
    # Half of the sum each; a chip sends its 2BF bytes of partial sums one way over one link.
    "two-chips": (
        lambda v, s: 2 * s.B * v * s.F / (2 * s.C), lambda v, s: 2 * s.B * s.F / (s.W_ici / 2),
    ),
    "gather-or-reduce": (lambda v, s: 2 * s.B * s.D, lambda v, s: 2 * s.B * v),
    "compute-bound": mixed(lambda a, b: a + b),
    "mixed": mixed(lambda a, b: a + b),
    "compute-bound-overlapped": mixed(max),
    "mixed-overlapped": mixed(max),
    "best-split": (_split, lambda v, s: 0.0),
    **{f"data-parallel{end}": data_parallel(i) for i, end in enumerate(ENDS, 1)},
    **{f"zero1{end}": data_parallel(i) for i, end in enumerate(ENDS, 1)},
    **{f"zero2{end}": data_parallel(i) for i, end in enumerate(ENDS, 1)},
    **{f"fsdp{end}": fully_sharded(i) for i, end in enumerate(ENDS, 1)},
    "tensor-limit": (
        lambda v, s: layer(s.B, v, s), lambda v, s: 2 * 2 * s.B * s.D / (s.M_Y * s.W_ici),
    ),
    "2d-or-1d": (_flat, _square),
    # On a bidirectional ring of v devices a quarter of the tokens' bytes crosses each link.
    "expert-parallel": (
        lambda v, s: 2 * 2 * (s.B * s.k / v) * s.D * s.F / s.C,
        lambda v, s: 2 * (2 * s.B * s.k * s.D / v) * v / 4 / (s.M_X * s.W_ici),
    ),
    "pipeline-bubble": (lambda v, s: s.loss * (v + s.p - 1), lambda v, s: s.p - 1),
    # A pod of n chips: each sends its share of two gradients' AllReduce through its own egress.
    "across-pods": (
        lambda v, s: 8 * v * s.D * s.F / (s.n * s.C),
        lambda v, s: 2 * 2 * (2 * s.D * s.F / s.n) / s.W_dcn,
    ),
    # A device of n holds 1/n of two matrices; its tokens are 1/n of the batch.
    "offload-optimizer": (
        lambda v, s: 12 * v * s.D * s.F / (s.n * s.C),
        lambda v, s: (2 + 2) * 2 * s.D * s.F / (s.n * s.W_pcie),
    ),
    "offload-parameters": (
        lambda v, s: 4 * v * s.D * s.F / (s.n * s.C),
        lambda v, s: 2 * 2 * s.D * s.F / (s.n * s.W_pcie),
    ),
    "attention-mlp": (_scores, lambda v, s: _per_token(s)["mlp"]),
    "attention-projections": (
        _scores, lambda v, s: _per_token(s)["projections"],
    ),
    "attention-layer": (
        _scores, lambda v, s: sum(_per_token(s).values()),
    ),
    "attention-prefill": (
        lambda v, s: 4 * v * v * s.N * s.H / s.C,
        lambda v, s: (4 * v * s.N * s.H + 4 * v * s.K * s.H) / s.W_hbm,
    ),
    "attention-generation": (
        lambda v, s: 4 * s.S * v * s.K * s.H / s.C,
        lambda v, s: (4 * v * s.K * s.H + 4 * s.S * s.K * s.H) / s.W_hbm,
    ),
    "ring-attention-block": (
        lambda v, s: 4 * v * s.S * s.N * s.H / s.C,
        lambda v, s: 4 * s.S * s.K * s.H / (s.M_X * s.W_ici),
    ),
    "ici-or-hbm": (
        lambda v, s: 2 * 2 * s.B * s.D / (s.M_Y * s.W_ici),
        lambda v, s: 2 * 2 * s.D * s.F / v / s.W_hbm,
    ),
    "replicas-or-tensor": (
        lambda v, s: 4 * s.D * s.F / s.Y / s.W_hbm + 4 * v * s.D / (s.M_Y * s.W_ici),
        lambda v, s: 4 * s.D * s.F / s.W_hbm,
    ),
    "cache-or-weights": (
        lambda v, s: v * s.S * 2 * 2 * s.K * s.H * s.L,
        lambda v, s: 2 * (
            s.L * (3 * s.D * s.F + 2 * s.D * s.H * (s.N + s.K) + 2 * s.D) + 2 * s.D * s.V + s.D
        ),
    ),
    "latency-buffer": (lambda v, s: v / s.W_ici, lambda v, s: s.X / 2 * s.t_hop),
    "latency-degree": (lambda v, s: v / 2 * s.t_hop, lambda v, s: s.bytes / s.W_ici),
}  # fmt: skip

#: Entries to leading order: the exact wall, by the second route, differs by the small ratios.
LEADING: dict[str, tuple[Side, Side]] = {
    "critical-batch": matmul(2, 2, "C", "W_hbm"),
    "critical-batch-int8": matmul(1, 1, "C_int8", "W_hbm"),
    "critical-batch-mixed": matmul(2, 1, "C", "W_hbm"),
    "decode-mlp": (
        lambda v, s: 3 * 2 * v * s.D * s.F / s.C,
        lambda v, s: (3 * 2 * s.D * s.F + 6 * v * s.D) / s.W_hbm,
    ),
    "decode-mlp-int8": (
        lambda v, s: 3 * 2 * v * s.D * s.F / s.C,
        lambda v, s: (3 * s.D * s.F + 6 * v * s.D) / s.W_hbm,
    ),
    "decode-moe": (
        lambda v, s: 4 * v * s.k * s.D * s.F / s.C,
        lambda v, s: (4 * s.E * s.D * s.F + 4 * v * s.k * (s.D + s.F)) / s.W_hbm,
    ),
}
NEVER = ("critical-batch-pcie", "offload-activations")


def wall(sides: tuple[Side, Side], numbers: Numbers) -> float:
    """Where the two sides cross: a sign change on a fine grid, closed in on by bisection."""
    left, right = sides

    def gap(v: float) -> float:
        return left(v, numbers) - right(v, numbers)

    grid = [10 ** (i / 40) for i in range(-240, 480)]
    places = [i for i in range(len(grid) - 1) if (gap(grid[i]) > 0) != (gap(grid[i + 1]) > 0)]
    assert len(places) == 1
    low, high = grid[places[0]], grid[places[0] + 1]
    rising = gap(high) > 0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if (gap(middle) > 0) == rising else (middle, high)
    return low


def value(name: str) -> float:
    found = named_crossover(name)
    numbers = {symbol: NUMBERS[symbol.name] for symbol in found.expr.free_symbols}
    return found.value(numbers, {s: NUMBERS[s.name] for s in found.answer.requires.free_symbols})


def in_question(name: str) -> Numbers:
    laid = {s.name: float(v) for s, v in named_crossover(name).numbers.items()}
    return Numbers({**NUMBERS, **laid})


def test_every_entry_has_a_second_route() -> None:
    assert {*ROUTES, *LEADING, *NEVER} == set(ENTRIES)


@pytest.mark.parametrize("name", ROUTES)
def test_by_a_second_route(name: str) -> None:
    assert value(name) == pytest.approx(wall(ROUTES[name], in_question(name)), rel=1e-9)


@pytest.mark.parametrize("name", LEADING)
def test_leading_order_by_a_second_route(name: str) -> None:
    exact = wall(LEADING[name], in_question(name))
    assert value(name) == pytest.approx(exact, rel=0.1)
    assert value(name) != exact
    answer = named_crossover(name).answer.at({s: NUMBERS[s.name] for s in _symbols(name) - {B}})
    assert float(answer.threshold) == pytest.approx(exact, rel=1e-9)


def _symbols(name: str) -> set[Any]:
    answer = named_crossover(name).answer
    return set(answer.threshold.free_symbols | answer.requires.free_symbols)


def test_out_of_host_memory_never() -> None:
    """With D = 8192 activations alone take longer over PCIe than all arithmetic."""
    found = evaluated_crossover("critical-batch-pcie", chip="v5p", model="llama-3-70b")
    assert found.verdict == "never"
    assert found.value is None
    assert "never at these numbers" in str(found)
    work, move = matmul(2, 2, "C", "W_pcie")
    numbers = Numbers(NUMBERS)
    assert all(work(10.0**i, numbers) < move(10.0**i, numbers) for i in range(15))
    with pytest.raises(SymscaleError, match="never at these numbers"):
        named_crossover("critical-batch-pcie").value(chip("v5p"), model("llama-3-70b"))


def test_activations_hide_behind_wide_matrices_or_never() -> None:
    """Bytes of In and Tmp a token against its 4DF FLOPs; the batch and the chips cancel."""
    rates = chip("h100")
    numbers = Numbers({"D": 8192, "C": float(rates["C"]), "W_pcie": float(rates["W_pcie"])})
    sides: tuple[Side, Side] = (
        lambda v, s: 4 * s.D * v / s.C,
        lambda v, s: 2 * (s.D + v) / s.W_pcie,
    )
    found = evaluated_crossover("offload-activations", chip="h100", model="llama-3-70b")
    assert found.value == pytest.approx(wall(sides, numbers), rel=1e-9)
    assert evaluated_crossover("offload-activations", chip="v5p").value is None
    narrow = evaluated_crossover("offload-activations", chip="v5p", model="llama-3-70b")
    assert narrow.verdict == "never"


def test_attention_is_never_compute_bound_in_generation() -> None:
    time = attention_core().shard().forward.time
    one = {T: 1, G: N / K}
    for name in ("v5e", "v5p", "h100"):
        rates = chip(name)
        numbers = {C: rates[C], W_hbm: rates[W_hbm], N: 64, K: 8}
        sides = (time.math.subs(one).subs(numbers), time.hbm.subs(one).subs(numbers))
        assert crossover(*sides, S).kind == "never"
    least = evaluated_crossover("attention-generation", chip="v5e", numbers={"S": 2**17})
    assert least.value is not None
    assert least.value > 240


def test_prefill_by_the_rule_of_thumb() -> None:
    """240 (G + 1)/G on v5e: 480 for multi-head attention, 270 for 8 query heads a key head."""
    for group, wanted in ((1, 480), (8, 270)):
        found = evaluated_crossover("attention-prefill", chip="v5e", numbers={"G": group})
        assert found.value == pytest.approx(wanted, rel=0.02)
