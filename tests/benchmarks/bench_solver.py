"""How much processor time the solver takes, beside SymPy's own route where it has one.

Run it by hand: ``python tests/benchmarks/bench_solver.py`` (``--json`` for the numbers). Nothing
here is collected with the tests: a time is no fact of the code alone. Ratios within one run are.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy  # noqa: F401  (a search would else be charged for its import)
from sympy import Eq, Max, Symbol, solve, symbols
from sympy.solvers.inequalities import reduce_inequalities

from symscale import einsum, strategy, training
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import M_X, M_Y, B, D, F, W_ici, X, Y, n
from symscale.models.decoder import two_matmul_layer
from symscale.solve.crossover import crossover
from symscale.solve.minimise import minimise
from symscale.solve.regimes import regimes
from symscale.studies.crossovers import ENTRIES, named_crossover

Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """What is timed, the most it should take, and SymPy's route (None where it has none)."""

    name: str
    run: Run
    most_ms: float
    rival: Run | None = None
    route: str = ""


def measured(run: Run, rounds: int = 1) -> float:
    """The best of several runs in milliseconds."""
    best = float("inf")
    for _ in range(rounds):
        start = process_time()
        run()
        best = min(best, process_time() - start)
    return 1e3 * best


def linear() -> Case:
    product = einsum("A[B, D] * W[D, F] -> Out[B, F]").time

    def rival() -> Any:
        return solve(product.math - product.hbm, B)

    return Case(
        "linear crossover", lambda: crossover(product.math, product.hbm, B), 20, rival,
        "solve (no condition, no side)",
    )  # fmt: skip


def inequality() -> Case:
    """The same with numbers, where reduce_inequalities can answer at all."""
    x = Symbol("x", positive=True)
    left, right = 7 * x**2 + 3 * x, 5 * x + 11

    return Case(
        "quadratic crossover", lambda: crossover(left, right, x), 20,
        lambda: reduce_inequalities([left >= right], x), "reduce_inequalities",
    )  # fmt: skip


def maximum() -> Case:
    rates = symbols("r:12", positive=True)
    terms = [(i + 1) * B ** (i % 3) * D / rate for i, rate in enumerate(rates)]
    numbers = dict.fromkeys(rates, 7) | {B: 3, D: 5}

    return Case(
        "maximum of 12 terms, built and substituted",
        lambda: evaluate(Maximum(*terms), numbers), 10, lambda: Max(*terms).subs(numbers), "Max",
    )  # fmt: skip


def step() -> Case:
    time = training("llama-3-70b", "fsdp+tp").time.lower
    return Case("regimes of the FSDP and tensor step", lambda: regimes(time, B), 200)


def plane() -> Case:
    made = two_matmul_layer().shard(strategy("fsdp+tp")).forward.time
    time = Maximum(made.math, *made.by_axis.values()).subs(Y, n / X)
    return Case("regimes in batch and mesh axis", lambda: regimes(time, B, X), 200)


def split() -> Case:
    cost = 4 * D * F / (Y * M_X * W_ici) + 4 * B * D / (X * M_Y * W_ici)

    def rival() -> Any:
        inside = cost.subs(Y, n / X)
        return solve(inside.diff(X), X)

    return Case(
        "best split of the chips", lambda: minimise(cost, (X, Y), Eq(X * Y, n)), 50, rival,
        "solve of the derivative",
    )  # fmt: skip


def whole() -> Case:
    cost = (4 * D * F / Y + 4 * B * D / X).subs({D: 8192, F: 28672, B: 2**22})
    rule = Eq(X * Y, 4096)
    return Case(
        "best divisors of 4096", lambda: minimise(cost, (X, Y), rule, integer="divisors"), 200
    )


def catalogue() -> Case:
    return Case("whole catalogue", lambda: [named_crossover(name) for name in ENTRIES], 10_000)


CASES: tuple[Callable[[], Case], ...] = (
    linear, inequality, maximum, step, plane, split, whole, catalogue,
)  # fmt: skip


def results() -> list[dict[str, Any]]:
    """Every case's times in milliseconds: ours, first and again, and the other route's first."""
    rows = []
    for make in CASES:
        case = make()
        slow = case.most_ms > 1000
        row = {
            "name": case.name,
            "most_ms": case.most_ms,
            "first_ms": measured(case.run),
            "again_ms": measured(case.run, 2 if slow else 5),
            "route": case.route,
            "route_ms": None if case.rival is None else measured(case.rival),
        }
        rows.append(row)
    return rows


def main() -> None:
    """Print the table."""
    rows = results()
    if "--json" in sys.argv:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        other = ""
        if row["route_ms"] is not None:
            ratio = row["route_ms"] / row["first_ms"]
            other = f"   {row['route']}: {row['route_ms']:9.1f} ms, {ratio:.3g} times ours"
        ok = "ok " if row["first_ms"] <= row["most_ms"] else "SLOW"
        print(
            f"{ok} {row['name']:45} first {row['first_ms']:8.1f} ms  "
            f"again {row['again_ms']:8.1f} ms  (most {row['most_ms']:g}){other}"
        )


if __name__ == "__main__":
    main()
