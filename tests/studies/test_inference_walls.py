"""Walls of a step: solved from the model's own kernels, held against the textbook's by hand."""

from __future__ import annotations

import pytest

from symscale import chip, inference
from symscale.algebra.errors import StrategyError
from symscale.algebra.symbols import M_Y, B, C, E, F, H, W_hbm, W_ici, Y, k
from symscale.studies.inference_walls import walls
from tests.book.truth import same

V5E = chip("tpu-v5e", edition="book")


@pytest.mark.parametrize(("kind", "bytes_"), [("bf16", 2), ("int8", 1)])
def test_a_dense_model(kind: str, bytes_: int) -> None:
    found = walls(inference("llama-3-70b", kind).formulas)
    assert same(found.critical_batch.threshold, C * bytes_ / (2 * W_hbm))
    # 8BD bytes a layer on links, against the layer's matrices: a published count, by hand.
    numbers = walls(inference("llama-3-70b", kind))
    matrices = 3 * 8192 * 28672 + 2 * 8192 * 64 * 128 + 2 * 8192 * 8 * 128
    links = M_Y * W_ici / (8 * 8192)
    assert same(numbers.links_or_weights.threshold, matrices * bytes_ * links / (B * W_hbm))
    assert same(numbers.links_or_math.threshold, 2 * matrices * links / C)


def test_the_widths_alone_give_the_textbooks_limits() -> None:
    """F/(B beta) and F/alpha belong to two matrices with a sum behind them; here are three."""
    found = walls(inference("llama-3-70b", "bf16").formulas)
    three = found.links_or_weights.threshold.subs({H: 0})
    assert same(three, 3 * F * M_Y * W_ici / (4 * B * W_hbm))


def test_experts_raise_the_critical_batch() -> None:
    found = walls(inference("mixtral-8x7b", "bf16"))
    dense = V5E[C] / V5E[W_hbm]
    values = {C: V5E[C], W_hbm: V5E[W_hbm], Y: 1}
    wall = found.critical_batch.threshold.subs(values)
    # Attention's matrices lie at the dense wall, the experts' at E/k of it.
    assert dense < wall < 4 * dense
    assert float(wall / dense) == pytest.approx(3.6, abs=0.2)
    formulas = walls(inference("mixtral-8x7b", "bf16").formulas)
    assert {E, k} <= formulas.critical_batch.threshold.free_symbols


def test_beyond_the_wall_links_bind() -> None:
    """On both sides of the wall, at the model's own numbers, without the solver."""
    study = inference("llama-3-70b", "int8", "int8", cache="heads")
    wall = walls(study).links_or_weights.threshold
    ways = float(wall.subs({**dict(V5E), M_Y: 1, B: 1024}))
    assert 1 < ways < 8
    for count, binds in ((1, False), (2, ways < 2), (4, ways < 4), (8, True)):
        if count == 1:
            continue
        made = study.at(V5E, Y=count, batch=1024, context=1, M_Y=1)
        weights = made.number(made.study.step.all_weights)
        assert (sum(made.comms.values()) > weights) is binds


def test_only_tensor_parallelism_has_them() -> None:
    with pytest.raises(StrategyError, match="not of 2d"):
        walls(inference("llama-3-8b", strategy="2d"))
    found = walls(inference("llama-3-8b"))
    assert "links outlast products" in repr(found)
    assert found.derivation.steps
    assert set(found.to_dict()) == set(found.every)
