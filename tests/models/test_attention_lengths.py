"""The length at which attention's scores cost as much as what stands around them."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import Expr, cancel, solve

from symscale.algebra.symbols import D, F, H, K, N, T, symbol
from symscale.models.model import Model, model
from tests.models.cases import llama
from tests.models.test_fault_cache import LATENT

RIVALS = {"projections": ("attention",), "mlp": ("mlp",), "layer": ("attention", "mlp")}


def threshold(found: Model, rival: str, causal: Any = False) -> Expr:
    """Where the two cross, solved from the two counts."""
    parts = found.flops_by_component(T, causal=causal)
    other = sum(parts[name] for name in RIVALS[rival])
    (met,) = solve(parts["attention scores"] - other, T)
    return met


#: The textbook's shape: as many key/value heads as query heads, heads that fill the width, F = 4D.
USUAL = {K: N, H: D / N, F: 4 * D}


def usual(expr: Expr) -> Expr:
    return cancel(expr.subs({K: N}).subs({H: D / N, F: 4 * D}))


@pytest.mark.parametrize(
    ("rival", "gated", "expected"),
    [
        ("projections", True, 2 * D),
        ("mlp", True, 6 * D),
        ("layer", True, 8 * D),
        ("projections", False, 2 * D),
        ("mlp", False, 4 * D),
        ("layer", False, 6 * D),
    ],
)
def test_the_textbooks_cases(rival: str, gated: bool, expected: Expr) -> None:
    found = llama() if gated else llama(model_type="nemotron")
    assert usual(threshold(found, rival)) == expected
    assert usual(threshold(found, rival, causal=True)) == 2 * expected


def test_grouped_queries() -> None:
    assert cancel(threshold(llama(), "projections") - D * (K + N) / N) == 0
    assert cancel(threshold(llama(), "mlp") - 3 * D * F / (2 * H * N)) == 0
    assert cancel(threshold(llama(), "mlp", causal="half") - 3 * D * F / (H * N)) == 0


def test_one_token_more_under_the_exact_mask() -> None:
    half, exact = (threshold(llama(), "mlp", causal=how) for how in ("half", "exact"))
    assert cancel(half - exact) == 1


def test_latent_attention() -> None:
    found = llama(**LATENT)
    wide = symbol("H_n") + symbol("H_r") + symbol("H_v")
    expected = 3 * D * F / (N * wide)
    assert cancel(threshold(found, "mlp") - expected) == 0


@pytest.mark.parametrize("name", ["llama-3-8b", "deepseek-v2-lite", "gemma-7b"])
@pytest.mark.parametrize("causal", [False, True])
def test_by_going_up_one_token_at_a_time(name: str, causal: bool) -> None:
    found = model(name)
    parts = found.flops_by_component(T, causal=causal)
    other = int(parts["attention"].subs(found))
    scores = parts["attention scores"].subs(found)
    met = next(n for n in range(1, 10**6, 97) if int(scores.subs(T, n)) > other)
    exact = float(solve(scores - other, T)[0])
    assert met - 97 <= exact <= met


@pytest.mark.parametrize("window", [16, 64, 4096])
def test_a_window_caps_the_scores(window: int) -> None:
    """Behind its window a layer's scores stay below what the window holds: it may never cross."""
    found = llama(model_type="mistral", sliding_window=window, max_position_embeddings=10**6)
    parts = found.flops_by_component(T)
    other = int(parts["mlp"].subs(found))
    limit = 4 * found.config.layers * 6 * 10 * window
    crosses = [
        n
        for n in (10, 10**3, 10**5)
        if int(parts["attention scores"].subs(found).subs(T, n)) > other
    ]
    assert bool(crosses) == (limit > other)
