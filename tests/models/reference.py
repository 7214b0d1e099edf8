"""A decoder in plain NumPy that counts: weights as arrays, multiply-adds as their elements.

Nothing here is a formula: a product's multiply-adds are the elements of the array it would sum
over, and that array is really made.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def weights(config: dict[str, Any]) -> dict[str, Array]:
    """All weights of a model of this configuration, by name."""
    wide, heads = config["hidden_size"], config["num_attention_heads"]
    caches = config.get("num_key_value_heads", heads)
    each = config.get("head_dim", wide // heads)
    inner, words = config["intermediate_size"], config["vocab_size"]
    made = {"embedding": np.zeros((words, wide), np.float32), "norm": np.zeros(wide, np.float32)}
    if not config["tie_word_embeddings"]:
        made["head"] = np.zeros((words, wide), np.float32)
    shapes: dict[str, tuple[int, ...]] = {
        "attention.norm": (wide,),
        "attention.q": (wide, heads, each),
        "attention.k": (wide, caches, each),
        "attention.v": (wide, caches, each),
        "attention.o": (heads, each, wide),
        "mlp.norm": (wide,),
        "mlp.up": (wide, inner),
        "mlp.down": (inner, wide),
    }
    if config["gated"]:
        shapes["mlp.gate"] = (wide, inner)
    for layer in range(config["num_hidden_layers"]):
        made |= {f"{layer}.{name}": np.zeros(shape, np.float32) for name, shape in shapes.items()}
    return made


@dataclass
class Counted:
    """A forward and backward pass; ``adds`` holds multiply-adds by part and direction."""

    config: dict[str, Any]
    adds: Counter[tuple[str, str]] = field(default_factory=Counter)

    def product(self, part: str, spec: str, left: Array, right: Array) -> Array:
        """An einsum, counted; and its two transposes, counted as backward."""
        first, second, out = spec.replace("->", ",").split(",")
        result = np.einsum(spec, left, right)
        every = "".join(dict.fromkeys(first + second))
        self.adds[part, "forward"] += np.einsum(f"{first},{second}->{every}", left, right).size
        for mine, other, target in ((out, second, first), (first, out, second)):
            a = result if mine == out else left
            b = right if mine == out else result
            assert np.einsum(f"{mine},{other}->{target}", a, b).size
            self.adds[part, "backward"] += np.einsum(f"{mine},{other}->{every}", a, b).size
        return result

    def run(self, sequences: int, length: int) -> None:
        """One pass over a batch of sequences."""
        made = weights(self.config)
        x = np.zeros((sequences, length, self.config["hidden_size"]), np.float32)
        for layer in range(self.config["num_hidden_layers"]):
            own = {n.partition(".")[2]: w for n, w in made.items() if n.startswith(f"{layer}.")}
            x = x + self.attention(x, own)
            x = x + self.mlp(x, own)
        self.product("head", "btd,vd->btv", x, made.get("head", made["embedding"]))

    def attention(self, x: Array, own: dict[str, Array]) -> Array:
        q = self.product("projections", "btd,dnh->btnh", x, own["attention.q"])
        k = self.product("projections", "bsd,dkh->bskh", x, own["attention.k"])
        v = self.product("projections", "bsd,dkh->bskh", x, own["attention.v"])
        b, t, n, h = q.shape
        grouped = q.reshape(b, t, k.shape[2], n // k.shape[2], h)
        scores = self.product("scores", "btkgh,bskh->bkgts", grouped, k)
        mixed = self.product("scores", "bkgts,bskh->btkgh", scores, v)
        flat = mixed.reshape(b, t, n, h)
        return self.product("projections", "btnh,nhd->btd", flat, own["attention.o"])

    def mlp(self, x: Array, own: dict[str, Array]) -> Array:
        up = self.product("mlp", "btd,df->btf", x, own["mlp.up"])
        if "mlp.gate" in own:
            up = up * self.product("mlp", "btd,df->btf", x, own["mlp.gate"])
        return self.product("mlp", "btf,fd->btd", up, own["mlp.down"])

    def flops(self, direction: str, *parts: str) -> int:
        """Two for each multiply-add, of these parts or all."""
        return 2 * sum(
            count
            for (part, way), count in self.adds.items()
            if way == direction and (not parts or part in parts)
        )
