"""One step of a server: how long it takes as a function of what is in it.

The textbook's aggregate: all weights are read once, under the arithmetic of all tokens; then the
cache of every sequence is read; then sums are exchanged, where chips share the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from sympy import Expr, S, Symbol, sympify

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, T, W_hbm, b, n, to_latex
from symscale.algebra.symbols import S as KEYS
from symscale.arrays.dtype import DType, dtype
from symscale.models.model import Model
from symscale.models.model import model as find_model


@dataclass(frozen=True)
class ServerStep:
    """Seconds and bytes of a step of a server of ``n`` chips.

    Attributes:
        math: seconds of arithmetic for ``B`` tokens.
        weights: seconds to read the weights once; of experts, those that ``B`` tokens meet.
        cache: seconds to read what ``b`` sequences of ``S`` tokens have cached.
        comms: seconds of exchanges for ``B`` tokens that hide behind nothing.
        weight_bytes: bytes of the weights, all chips together.
        cache_bytes: bytes that ``b`` sequences of ``S`` tokens have cached, all chips together.

    >>> from symscale.algebra.symbols import C
    >>> step = ServerStep(B / C, 2 / W_hbm, b * KEYS / W_hbm)
    >>> step.seconds()
    S*b/W_hbm + Maximum(2/W_hbm, b/C)
    >>> step.seconds(queries=3).subs(KEYS, 5)
    Maximum(2/W_hbm, 3*b/C) + 5*b/W_hbm
    """

    math: Expr
    weights: Expr
    cache: Expr = S.Zero
    comms: Expr = S.Zero
    weight_bytes: Expr = S.Zero
    cache_bytes: Expr = S.Zero

    def seconds(
        self, sequences: Expr = b, queries: Any = 1, context: Any = KEYS, beside: Any = 0
    ) -> Expr:
        """Seconds of a step.

        Args:
            sequences: in flight; each reads its own cache once, whatever its queries.
            queries: tokens of each sequence in this step; one in plain generation.
            context: tokens that each sequence has cached.
            beside: tokens of prompts that ride on the same step.
        """
        tokens = sequences * sympify(queries, strict=True) + sympify(beside, strict=True)
        read = self.cache.subs({b: sequences, KEYS: context}, simultaneous=True)
        busy = Maximum(self.math.subs(B, tokens), self.weights.subs(B, tokens))
        return busy + read + self.comms.subs(B, tokens)

    @property
    def formula(self) -> Expr:
        """Seconds of ``b`` sequences with ``T`` queries each and ``S`` tokens cached."""
        return self.seconds(queries=T)

    @property
    def memory(self) -> Expr:
        """Bytes of weights and cache, all chips together."""
        return self.weight_bytes + self.cache_bytes

    def put(self, values: Mapping[Symbol, Any]) -> ServerStep:
        """The same with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        parts = (self.math, self.weights, self.cache, self.comms)
        sizes = (self.weight_bytes, self.cache_bytes)
        return ServerStep(*(part.xreplace(swap) for part in (*parts, *sizes)))

    def __repr__(self) -> str:
        return f"step of a server, seconds: {self.seconds()}"

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.seconds())}$"

    def to_dict(self) -> dict[str, str]:
        """The parts as plain text."""
        names = ("math", "weights", "cache", "comms", "weight_bytes", "cache_bytes")
        return {"seconds": str(self.seconds())} | {name: str(getattr(self, name)) for name in names}


def server_step(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    weights: str = "bf16",
    kv: str = "bf16",
    compute: str | DType = "bf16",
    comms: Any = 0,
) -> ServerStep:
    """The aggregate step of a model whose weights and cache lie evenly on ``n`` chips.

    FLOPs are those of all products but attention's scores, which wait for the cache at any batch;
    weights are all stored ones.

    Args:
        model: a name of the zoo, a configuration, or a model.
        weights: how weights are stored (see :func:`stored_bytes`).
        kv: how keys and values are stored.
        compute: the type whose matrix rate is used.
        comms: seconds of exchanges that nothing hides, in ``B`` and ``n``.

    Source: How To Scale Your Model, "All About Transformer Inference", the throughput estimate
    B / (B KV / W + max(2 B P / C, P / W)).

    >>> from symscale.algebra.symbols import C
    >>> step = server_step("llama-3-70b", weights="int8")
    >>> step.weights * W_hbm * n
    70553706496
    """
    found = find_model(model)
    sizes = dict(found)
    flops = (found.flops_per_token() - found.attention_flops_per_token()).expand()
    stored = found.weight_bytes(weights).xreplace(sizes)
    cached = b * (found.kv_bytes(dtype=kv) + found.state_bytes()).xreplace(sizes)
    return ServerStep(
        math=B * flops.xreplace(sizes) / (n * dtype(compute).rate),
        weights=stored / (n * W_hbm),
        cache=cached / (n * W_hbm),
        comms=sympify(comms, strict=True),
        weight_bytes=stored,
        cache_bytes=cached,
    )
