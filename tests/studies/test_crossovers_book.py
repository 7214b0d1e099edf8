"""The catalogue against the book: each fact's numbers put in, its recomputed value reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from symscale import leading
from symscale.algebra.symbols import C, D, F, W_hbm, symbol
from symscale.studies.crossovers import named_crossover
from symscale.studies.evaluated import evaluated_crossover

PATH = Path(__file__).parents[1] / "truth" / "book_crossovers.json"
FACTS = json.loads(PATH.read_text("utf-8"))["facts"]


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact['id']} {fact['crossover']}")
def test_fact(fact: dict[str, Any]) -> None:
    found = evaluated_crossover(fact["crossover"], numbers=fact["numbers"])
    assert found.value == pytest.approx(fact["exact"], rel=1e-12)


def test_the_formula_of_2d_weight_stationary() -> None:
    """18 F/D chips with one physical axis under X and two under Y."""
    found = named_crossover("2d-or-1d")
    assert found.expr.subs(found.numbers) == 18 * F / D


def test_leading_order_of_the_exact_batch() -> None:
    exact, rough = (named_crossover(f"critical-batch{end}") for end in ("-exact", ""))
    small = [C / (D * W_hbm), C / (F * W_hbm)]
    assert leading(exact.expr, small=small).term == rough.expr


def test_llama_on_a_pod_of_h100s() -> None:
    """Tensor parallelism inside a node: 28672 * 450 GB/s / 990 TFLOP/s = 13.03 ways."""
    found = evaluated_crossover(
        "tensor-limit",
        chip="h100",
        numbers={"F": 28672, "C": 990 * 10**12, "W_nvlink": 450 * 10**9},
    )
    assert found.value == pytest.approx(13.032727272727273)
    assert symbol("W_nvlink") in found.crossover.expr.free_symbols
