"""The lines that a user types in a REPL, as the public surface promises them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Expr, Rational, sqrt

from symscale import *  # noqa: F403
from symscale import (
    M_X,
    M_Y,
    B,
    C,
    D,
    Eq,
    F,
    T,
    W_hbm,
    W_ici,
    X,
    Y,
    chip,
    crossover,
    einsum,
    leading,
    minimise,
    model,
    n,
    numeric,
    program,
    regimes,
    report,
    strategies,
    strategy,
    training,
)


def same(left: Expr, right: Expr) -> bool:
    """Equal at a few exact points; all symbols are positive."""
    symbols = sorted((left - right).free_symbols, key=str)
    for seed in (3, 5, 11):
        point = {s: Rational(seed * (i + 2) ** 2 + 1) for i, s in enumerate(symbols)}
        if abs((left - right).subs(point).evalf(30)) > abs(left.subs(point).evalf(30)) * 1e-20:
            return False
    return True


@pytest.fixture
def mm() -> Any:
    return einsum("A[B, D] * W[D, F] -> Out[B, F]")


@pytest.fixture(scope="module")
def mixed() -> Any:
    mlp = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
    return mlp.shard(
        "In[B_X, D_Y]", "Win[D_X, F_Y]", "Tmp[B_X, F_Y]", "Wout[F_Y, D_X]", "Out[B_X, D_Y]"
    )


def test_a_product(mm: Any) -> None:
    assert same(mm.flops, 2 * B * D * F)
    assert same(mm.bytes, 2 * B * D + 2 * D * F + 2 * B * F)
    assert same(mm.intensity, B * D * F / (B * D + D * F + B * F))
    order = leading(mm.intensity, small=[B / D, B / F])
    assert order.term == B
    assert same(order.factor, 1 / (1 + B / D + B / F))
    assert same(mm.time.math, mm.flops / C)
    assert same(mm.time.hbm, mm.bytes / W_hbm)
    assert same(mm.time.upper, mm.time.math + mm.time.hbm)
    values = {B: 64, D: 4096, F: 8192, C: 10**15, W_hbm: 10**12}
    assert mm.time.lower.subs(values) == max(mm.time.math.subs(values), mm.time.hbm.subs(values))


def test_the_dot_may_be_a_dot(mm: Any) -> None:
    assert einsum("A[B, D] · W[D, F] -> Out[B, F]").flops == mm.flops


def test_its_crossover(mm: Any) -> None:
    c = crossover(mm.time.math, mm.time.hbm, B)
    assert same(c.threshold, C * D * F / (D * F * W_hbm - C * D - C * F))
    assert c.condition.lhs == B
    assert c.requires.subs({C: 1, D: 8, F: 8, W_hbm: 1}) == True  # noqa: E712
    assert c.requires.subs({C: 9, D: 8, F: 8, W_hbm: 1}) == False  # noqa: E712
    term = leading(c.threshold, small=[C / (D * W_hbm), C / (F * W_hbm)]).term
    assert same(term, C / W_hbm)
    assert float(term.subs(chip("tpu-v5e", edition="book-2025"))) == pytest.approx(243.2, abs=0.05)
    assert float(term.subs(chip("tpu-v5e"))) == pytest.approx(1.97e14 / 8.19e11)
    assert "each" not in str(c.derivation)
    assert len(c.derivation) > 3


def test_mixed_types() -> None:
    int8 = einsum("A: bf16[B, D] * W: int8[D, F] -> Out: bf16[B, F]")
    assert same(int8.bytes, 2 * B * D + D * F + 2 * B * F)
    assert same(int8.time.math, 2 * B * D * F / C)


def test_a_sharded_program(mixed: Any) -> None:
    assert "ReduceScatter_Y" in str(mixed.forward)
    assert same(mixed.forward.flops, 4 * B * D * F / (X * Y))
    assert dict(mixed.forward.volume()) == {X: 4 * D * F / Y, Y: 4 * B * D / X}
    assert dict(mixed.backward.volume()) == {X: 8 * D * F / Y, Y: 4 * B * D / X}
    by_axis = mixed.forward.time.by_axis
    assert same(by_axis[X], 4 * D * F / (Y * M_X * W_ici))
    assert same(by_axis[Y], 4 * B * D / (X * M_Y * W_ici))
    assert same(mixed.forward.time.comms, by_axis[X] + by_axis[Y])
    mlp = mixed.program
    assert mlp.shard(strategy("fsdp+tp")).forward.volume() == mixed.forward.volume()
    assert len(strategies()) >= 9


def test_the_best_split(mixed: Any) -> None:
    best = minimise(mixed.forward.time.comms, over=(X, Y), subject_to=Eq(X * Y, n))
    assert same(best[X], sqrt(B * n * M_X / (F * M_Y)))
    assert best.certificate == "geometric program, degree of difficulty 0"
    wall = crossover(mixed.forward.time.math, best.value, B)
    assert same(wall.threshold / n, 4 * (C / W_ici) ** 2 / (M_X * M_Y * F))


def test_regimes_say_which_term_binds(mixed: Any) -> None:
    found = regimes(mixed.forward.time.lower, B)
    numbers = {D: 8192, F: 28672, X: 64, Y: 4, M_X: 2, M_Y: 1, **chip("tpu-v5p")}
    rows = list(found.at(numbers))
    assert rows[0].lower == 0
    for row, after in pairwise(rows):
        assert row.upper == after.lower


def test_models() -> None:
    llama = model("llama-3-70b")
    assert llama.params.count == 70_553_706_496
    assert llama.params.total.subs(llama) == llama.params.count
    assert len(llama.params.table()) >= 5
    assert llama.flops_per_token(T, training=True).subs(llama).subs(T, 0) > 6 * 69e9
    assert llama.kv_bytes_per_token(dtype="int8").subs(llama) == 163_840


def test_a_training_step(tmp_path: Path) -> None:
    step = training(model("llama-3-70b"), "fsdp+tp")
    r = step.at(chip="tpu-v5p", B=2**22, X=2048, Y=4)
    assert r.bottleneck == "math"
    assert 0.4 < r.time < 0.7
    assert r.compute_fraction == pytest.approx(1.0)
    assert sum(r.memory.values()) == r.memory_bytes
    f = numeric(step.time.lower, *sorted(step.time.lower.free_symbols, key=str))
    values = [float(r.values[s]) for s in sorted(step.time.lower.free_symbols, key=str)]
    assert float(f(*values)) == pytest.approx(r.time, rel=1e-6)
    page = report(step, chip="tpu-v5p", B=2**22, X=2048, Y=4)
    made = page.save(tmp_path / "out", ("tex", "html"))
    assert {path.name for path in made} == {"report.tex", "report.html"}


def test_numeric_broadcasts(mixed: Any) -> None:
    f = numeric(mixed.forward.flops.subs({D: 8, F: 16}), B, X, Y)
    assert np.array_equal(f(64, [1, 2, 4], 2), 4 * 64 * 8 * 16 / np.array([2.0, 4.0, 8.0]))


@pytest.mark.parametrize(
    "made",
    [
        lambda: einsum("A[B, D] * W[D, F] -> Out[B, F]"),
        lambda: crossover(2 * B, D, B),
        lambda: leading(B / (B + D), small=[B / D]),
        lambda: minimise(X + Y, over=(X, Y), subject_to=Eq(X * Y, n)),
        lambda: strategy("fsdp"),
        strategies,
        lambda: model("llama-2-7b"),
        lambda: model("llama-2-7b").params,
        lambda: chip("tpu-v5p"),
        lambda: training("llama-2-7b", "dp"),
        lambda: training("llama-2-7b", "dp").at("tpu-v5p", B=2**20, X=256),
    ],
)
def test_results_show_themselves(made: Any) -> None:
    result = made()
    assert repr(result)
    assert "object at 0x" not in repr(result)
    assert hasattr(result, "_repr_latex_") or hasattr(result, "_repr_html_")
    assert result.to_dict()
