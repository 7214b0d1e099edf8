"""A whole attention block: norm, rotation, softmax, regrouped heads, under FSDP and tensor axes."""

from __future__ import annotations

import pytest

from symscale.algebra.symbols import B, D, G, H, K, N, S, T, X, Y, b
from symscale.programs.program import program
from tests.algebra.equality import assert_same, assert_volumes
from tests.simulator.check import Run, slope_error

BLOCK = program(
    "rmsnorm(In[B, D], g[D]; D) -> Xn[B, D]",
    "Xn[B, D] * Wq[D, N, H] -> Q[B, N, H]",
    "Xn[B, D] * Wk[D, K, H] -> Ks[B, K, H]",
    "Xn[B, D] * Wv[D, K, H] -> Vs[B, K, H]",
    "rope(Q[B, N, H]) -> Qr[B, N, H]",
    "rope(Ks[B, K, H]) -> Kr[B, K, H]",
    "Qr[B, N, H] -> Q4[b, T, K, G, H]",
    "Kr[B, K, H] -> K4[b, S, K, H]",
    "Vs[B, K, H] -> V4[b, S, K, H]",
    "Q4[b, T, K, G, H] * K4[b, S, K, H] -> Sc[b, K, G, T, S]",
    "softmax(Sc[b, K, G, T, S]; S) -> P[b, K, G, T, S]",
    "P[b, K, G, T, S] * V4[b, S, K, H] -> O4[b, T, K, G, H]",
    "O4[b, T, K, G, H] -> O[B, N, H]",
    "O[B, N, H] * Wo[N, H, D] -> Att[B, D]",
    "In[B, D] + Att[B, D] -> Out[B, D]",
    sizes={"B": b * T, "N": K * G, "S": T},
    fused=("Sc", "P"),
)
WEIGHTS = "Wq[D_X,N_Y,H] Wk[D_X,K_Y,H] Wv[D_X,K_Y,H] Wo[N_Y,H,D_X]"
SHARDINGS = {
    "fsdp": "In[B_X,D] g[D_X] Wq[D_X,N,H] Wk[D_X,K,H] Wv[D_X,K,H] Wo[N,H,D_X] Out[B_X,D]",
    "mixed": f"In[B_X,D_Y] g[D_YX] Xn[B_X,D_Y] {WEIGHTS} Att[B_X,D_Y] Out[B_X,D_Y]",
    "mixed, sequence": f"In[B_XY,D] g[D_X] Xn[B_XY,D] {WEIGHTS} Att[B_XY,D] Out[B_XY,D]",
    "tp": "In[B,D_Y] g[D_Y] Xn[B,D_Y] Wq[D,N_Y,H] Wk[D,K_Y,H] Wv[D,K_Y,H] Wo[N_Y,H,D] "
    "Att[B,D_Y] Out[B,D_Y]",
}
NUMBERS = {b: 4, T: 3, D: 12, K: 2, G: 2, H: 4}


@pytest.mark.parametrize("keep", ["activations", "all", "none"])
@pytest.mark.parametrize("name", SHARDINGS)
def test_on_simulated_devices(name: str, keep: str) -> None:
    made = BLOCK.shard(*SHARDINGS[name].split(), keep=keep)
    Run.of(made, {"X": 2, "Y": 2}, NUMBERS).check()


def test_the_reference_has_the_right_slope() -> None:
    assert slope_error(Run.of(BLOCK.shard(), {}, NUMBERS)) < 1e-6


def test_the_mixed_block() -> None:
    """Gathers of four weights and of the input, one scattered result: heads need nothing else.

    The gradient of the input, fed by three products, is one ReduceScatter of a sum.
    """
    made = BLOCK.shard(*SHARDINGS["mixed"].split())
    weights = (2 * D * H * N + 2 * D * H * K) * 2 / Y
    weights = weights.subs(N, K * G)
    norm = 2 * D / Y
    tokens = b * T / X
    statistic = 2 * 4 * tokens
    assert_volumes(made.forward.volume(), {X: weights + norm, Y: 2 * 2 * D * tokens + statistic})
    assert_volumes(made.forward.volume(statistics=False), {X: weights + norm, Y: 4 * D * tokens})
    assert_volumes(
        made.backward.volume(statistics=False), {X: 2 * weights + 2 * norm, Y: 4 * D * tokens}
    )
    scatters = [m.before.short for m in made.backward.collectives if m.kind == "ReduceScatter"]
    assert [text for text in scatters if text.startswith("dXn")] == ["dXn[B_X, D]{U_Y}"]


def test_flops_of_the_block() -> None:
    """Four projections, two products of heads; the reverse is twice the forward."""
    made = BLOCK.shard(*SHARDINGS["mixed"].split())
    heads, tokens = K * G, b * T
    wanted = 4 * tokens * D * H * (heads + K) + 4 * tokens * T * heads * H
    assert_same(made.forward.flops, wanted / (X * Y))
    assert_same(made.backward.flops, 2 * wanted / (X * Y))


def test_scores_that_stay_on_chip_cost_no_bytes() -> None:
    open_block = program(*(str(line) for line in str(BLOCK).splitlines()), sizes={
        "B": b * T, "N": K * G, "S": T,
    })  # fmt: skip
    scores = 2 * b * K * G * T * T
    # made and read by the softmax, made by it and read by the product
    assert_same(open_block.shard().forward.hbm_bytes - BLOCK.shard().forward.hbm_bytes, 4 * scores)
    assert B not in BLOCK.shard().forward.hbm_bytes.free_symbols
    assert S not in BLOCK.shard().forward.hbm_bytes.free_symbols
