"""The dense decoder as programs: one layer, and the embedding and head around the layers.

Dims: B tokens (b sequences of T), D width, F feed-forward width, N query heads, K key/value heads, G
query heads a key/value head, H head width, V vocabulary. In self-attention the keys are as many as
the queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from symscale.algebra.symbols import B, K, N, T
from symscale.models.config import ModelConfig
from symscale.programs.program import Program, program

#: How dims that are not symbols of their own follow from those that are.
SIZES = MappingProxyType({"b": B / T, "G": N / K, "S": T})

#: The component that each weight belongs to, in the order of a parameter table.
COMPONENTS = MappingProxyType(
    {
        "embedding": ("Emb",),
        "attention": ("Wq", "Wk", "Wv", "Wo"),
        "mlp": ("Wgate", "Win", "Wout"),
        "norms": ("g1", "g2", "gf"),
        "head": ("Head",),
    }
)

_ATTENTION = (
    "rmsnorm(In[B, D], g1[D]; D) -> Xa[B, D]",
    "Xa[B, D] * Wq[D, N, H] -> Q[B, N, H]",
    "Xa[B, D] * Wk[D, K, H] -> Keys[B, K, H]",
    "Xa[B, D] * Wv[D, K, H] -> Vals[B, K, H]",
    "rope(Q[B, N, H]) -> Qr[B, N, H]",
    "rope(Keys[B, K, H]) -> Kr[B, K, H]",
    "Qr[B, N, H] -> Qs[b, T, K, G, H]",
    "Kr[B, K, H] -> Ks[b, S, K, H]",
    "Vals[B, K, H] -> Vs[b, S, K, H]",
    "Qs[b, T, K, G, H] * Ks[b, S, K, H] -> Scores[b, K, G, T, S]",
    "softmax(Scores[b, K, G, T, S]; S) -> Probs[b, K, G, T, S]",
    "Probs[b, K, G, T, S] * Vs[b, S, K, H] -> Os[b, T, K, G, H]",
    "Os[b, T, K, G, H] -> O[B, N, H]",
    "O[B, N, H] * Wo[N, H, D] -> Att[B, D]",
    "In[B, D] + Att[B, D] -> Mid[B, D]",
    "rmsnorm(Mid[B, D], g2[D]; D) -> Xm[B, D]",
)
_GATED = (
    "Xm[B, D] * Wgate[D, F] -> Gate[B, F]",
    "Xm[B, D] * Win[D, F] -> Up[B, F]",
    "swiglu(Gate[B, F], Up[B, F]) -> Act[B, F]",
)
_PLAIN = (
    "Xm[B, D] * Win[D, F] -> Up[B, F]",
    "gelu(Up[B, F]) -> Act[B, F]",
)
_DOWN = (
    "Act[B, F] * Wout[F, D] -> Mlp[B, D]",
    "Mid[B, D] + Mlp[B, D] -> Out[B, D]",
)


@dataclass(frozen=True)
class Decoder:
    """A decoder's two programs: ``layer``, repeated L times, and ``ends`` (embedding and head)."""

    layer: Program
    ends: Program


def decoder(config: ModelConfig) -> Decoder:
    """The programs of a dense decoder with grouped-query attention.

    Scores and probabilities stay on chip, as in a fused attention kernel.

    >>> from symscale.models.zoo import find_config
    >>> decoder(find_config("llama-3-70b")).layer.weights
    ('g1', 'Wq', 'Wk', 'Wv', 'Wo', 'g2', 'Wgate', 'Win', 'Wout')
    """
    mlp = _GATED if config.gated else _PLAIN
    layer = program(*_ATTENTION, *mlp, *_DOWN, fused=("Scores", "Probs"), sizes=SIZES)
    table = "Emb" if config.tied else "Head"
    ends = program(
        "lookup(Ids[B], Emb[V, D]) -> First[B, D]",
        "rmsnorm(Last[B, D], gf[D]; D) -> Xf[B, D]",
        f"Xf[B, D] * {table}[V, D] -> Logits[B, V]",
        inputs=("Ids", "Last"),
        sizes=SIZES,
    )
    return Decoder(layer, ends)


def two_matmul_layer() -> Program:
    """The textbook's layer: two matmuls, nothing else.

    Source: How To Scale Your Model, "Training".

    >>> print(two_matmul_layer())
    In[B, D] · Win[D, F] -> Tmp[B, F]
    Tmp[B, F] · Wout[F, D] -> Out[B, D]
    """
    return program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
