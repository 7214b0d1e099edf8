"""The smallest layer with attention: four projections and what is between them."""

from __future__ import annotations

from functools import cache

from symscale.models.layers import SIZES
from symscale.programs.program import Program, program


@cache
def attention_layer() -> Program:
    """Grouped-query attention and its projections, without norms, rotation or residual stream.

    Scores and probabilities stay on chip.

    >>> attention_layer().weights
    ('Wq', 'Wk', 'Wv', 'Wo')
    """
    return program(
        "In[B, D] * Wq[D, N, H] -> Q[B, N, H]",
        "In[B, D] * Wk[D, K, H] -> Keys[B, K, H]",
        "In[B, D] * Wv[D, K, H] -> Vals[B, K, H]",
        "Q[B, N, H] -> Qs[b, T, K, G, H]",
        "Keys[B, K, H] -> Ks[b, S, K, H]",
        "Vals[B, K, H] -> Vs[b, S, K, H]",
        "Qs[b, T, K, G, H] * Ks[b, S, K, H] -> Scores[b, K, G, T, S]",
        "softmax(Scores[b, K, G, T, S]; S) -> Probs[b, K, G, T, S]",
        "Probs[b, K, G, T, S] * Vs[b, S, K, H] -> Os[b, T, K, G, H]",
        "Os[b, T, K, G, H] -> O[B, N, H]",
        "O[B, N, H] * Wo[N, H, D] -> Out[B, D]",
        sizes=SIZES,
        fused=("Scores", "Probs"),
    )
