"""Chapter 4 of the book: parameters, FLOPs and caches of dense decoders."""

from __future__ import annotations

from sympy import Expr, S

from symscale import array, einsum, model, program
from symscale.algebra.symbols import B, C_fp8, D, F, H, K, L, N, T, V, symbol
from symscale.models.model import Model, is_score
from symscale.studies.attention import attention_passes
from tests.book.truth import check, entries, exact, given, number, same

#: The chapter's usual shape: F = 4D, heads that fill D, as many key/value heads as query heads.
USUAL = {F: 4 * D, H: D / N}


def usual(expr: Expr) -> Expr:
    return expr.subs(K, N).subs(USUAL)


def asked_model() -> Model:
    """4.1: any number of heads that fill the width gives the same counts."""
    sizes = entries()["4.1.1"]["inputs"]
    return model(
        {
            "model_type": "llama",
            "num_hidden_layers": sizes["L"],
            "hidden_size": sizes["D"],
            "intermediate_size": sizes["F"],
            "num_attention_heads": 32,
            "vocab_size": sizes["V"],
        }
    )


def flops_per_parameter() -> Expr:
    """Training FLOPs a token costs for each parameter of a product: forward and backward."""
    sharded = program("In[B, D] * W[D, F] -> Out[B, F]").shard()
    flops = sharded.forward.flops + sharded.backward.flops
    return flops / (B * sharded.program.parameters)


def test_scores_against_the_layer() -> None:
    # 4.text.a
    share = attention_passes(model("llama-2-7b"), "layer")
    assert exact("4.text.a") == "T/(8D)"
    assert same(usual(share.scores / share.other), T / (8 * D))
    causal = attention_passes(model("llama-2-7b"), "layer", causal=True)
    assert same(usual(causal.scores / causal.other), T / (16 * D))


def test_twenty_saved_activations() -> None:
    # 4.text.c
    saved = L * number("4.text.c", "saves") * array("Saved[B, D]").bytes
    check(saved, given("4.text.c", "B", "L", "D"), "4.text.c")


def test_vocabulary_in_training() -> None:
    # 4.text.f: B counts tokens here, the book's BT.
    ends = model("llama-3-70b").programs.ends.shard()
    assert exact("4.text.f") == "6BTDV"
    assert same(ends.forward.flops + ends.backward.flops, 6 * B * D * V)
    # The printed 12BTDV is what one gets with the lookup as a product.
    llama = model("llama-3-70b")
    both = llama.flops_per_token(T, training=True, embeddings=True)
    neither = llama.flops_per_token(T, training=True, head=False)
    assert same(both - neither, 12 * D * V)


def test_parameters() -> None:
    # 4.1.1: the book leaves out the last norm, and an edition one of the two norms of a layer.
    found = asked_model()
    assert found[N] * found[H] == found[D]
    check(found.params.total - D, found, "4.1.1", "two_norms")
    check(found.params.total - D - L * D, found, "4.1.1", "snapshot_formula")


def test_share_of_attention() -> None:
    # 4.1.2
    parts = asked_model().params.components
    check(parts["attention"] / (parts["attention"] + parts["mlp"]), asked_model(), "4.1.2")


def test_cache_of_a_token() -> None:
    # 4.1.3
    check(asked_model().kv_bytes_per_token("int8"), asked_model(), "4.1.3")


def test_shared_and_summed_dims() -> None:
    # 4.3
    found = einsum("A[I, J, K, L] * Bm[I, J, M, N, O] -> Cm[K, L, M, N, O]").flops
    wanted = S(2)
    for name in entries()["4.3"]["formula"].removeprefix("2"):
        wanted *= symbol(name)
    assert same(found, wanted)


def test_scores_against_the_projections() -> None:
    # 4.5: with grouped queries D(1 + K/N), and twice that if a causal kernel skips half.
    wall = attention_passes(model("llama-3-70b"), "projections").answer.threshold
    assert same(wall, D * (1 + K / N))
    assert exact("4.5") == "2D"
    assert same(usual(wall), 2 * D)
    causal = attention_passes(model("llama-3-70b"), "projections", causal=True)
    assert same(usual(causal.answer.threshold), 4 * D)


def test_products_to_do_again() -> None:
    # 4.6: saved are the results of the seven products with weights; the book's B is our B/T.
    layer = model("llama-3-70b").programs.layer
    products = [step for step in layer.shard().forward.computes if step.flops != 0]
    saved = {
        step.output.name
        for step in products
        if any(array.name in layer.weights for array in step.inputs)
    }
    assert len(saved) == 7
    again = [step for step in products if step.output.name not in saved]
    assert all(is_score(step) for step in again)
    assert exact("4.6") == "4BT^2NH"
    assert same(sum(step.flops for step in again), 4 * (B / T) * T**2 * N * H)


def test_use_of_the_fp8_rate() -> None:
    # 4.7: six FLOPs for each active parameter, counted on a product and its reverse.
    active, tokens = number("4.7", "N"), number("4.7", "T")
    seconds = 3600 * number("4.7", "hours")
    use = flops_per_parameter() * active * tokens / (seconds * C_fp8)
    check(use, {C_fp8: number("4.7", "C")}, "4.7")
