"""A model: its sizes, its programs, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sympy import Expr, Rational, S, Symbol, cancel

from symscale.algebra.substitution import exact
from symscale.algebra.symbols import B, D, F, G, H, K, L, N, T, V
from symscale.algebra.table import Table
from symscale.arrays.dtype import DType, dtype
from symscale.models.config import ModelConfig
from symscale.models.decoder import Decoder, decoder
from symscale.models.params import Parameters, parameters
from symscale.models.zoo import find_config, zoo_entry, zoo_names
from symscale.programs.ops import Einsum
from symscale.programs.phase import Compute, Phase


class Model(Mapping[Symbol, int]):
    """A decoder: a mapping from dimension symbols to sizes, with programs and formulas.

    ``expr.subs(model)`` puts the sizes into any expression. ``context`` is the longest sequence that
    the configuration names (None when it names none).

    >>> llama = model("llama-3-70b")
    >>> llama.params.count
    70553706496
    >>> llama.kv_bytes_per_token(dtype="int8").subs(llama)
    163840
    """

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    @cached_property
    def _sizes(self) -> Mapping[Symbol, int]:
        return self.programs.sizes

    def __getitem__(self, key: Symbol) -> int:
        return self._sizes[key]

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __hash__(self) -> int:
        return hash(self.config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.config == other.config

    @property
    def name(self) -> str:
        """What the model is called."""
        return self.config.name

    @property
    def context(self) -> int | None:
        """The longest sequence in tokens, as the configuration has it."""
        return self.config.context

    @cached_property
    def programs(self) -> Decoder:
        """The layer, and the embedding and head, as programs."""
        return decoder(self.config)

    @cached_property
    def params(self) -> Parameters:
        """Parameters by component, as formulas and counts."""
        return parameters(self.programs, self)

    def flops_per_token(
        self,
        length: Expr | int = T,
        training: bool = False,
        causal: bool = False,
        head: bool = True,
        embeddings: bool = False,
    ) -> Expr:
        """Matrix FLOPs for one token, as a formula.

        Args:
            length: tokens in a sequence; each query meets as many keys.
            training: forward and backward instead of forward alone; nothing is recomputed.
            causal: count half of the attention scores, as a causal kernel may skip the rest.
            head: count the product with the output head.
            embeddings: count the lookup in the embedding as the one-hot product it stands for.

        A multiply-add is two FLOPs. The number is summed over the programs' products, forward and
        transposed; work of the vector unit (norms, softmax, activations) is not in it.

        >>> from symscale.algebra.symbols import T
        >>> from sympy import expand
        >>> llama = model("llama-3-70b")
        >>> (llama.flops_per_token(T, training=True) / llama.flops_per_token(T)).cancel()
        3
        """
        layer = self.programs.layer.shard()
        total = L * _flops(layer.forward, causal)
        total += L * _flops(layer.backward, causal) if training else 0
        if head:
            ends = self.programs.ends.shard()
            total += ends.forward.flops + (ends.backward.flops if training else 0)
        if embeddings:
            table = self.programs.ends.arrays["Emb"].size
            total += 2 * B * table * (3 if training else 1)
        per_token = (total / B).expand()
        if length is T or length == T:
            return per_token
        number = length if isinstance(length, Expr) else exact(length, "T")
        return per_token.subs(T, number)

    def attention_flops_per_token(self, length: Expr | int = T, causal: bool = False) -> Expr:
        """The scores' part of the forward FLOPs of one token: both products with keys and values."""
        phase = self.programs.layer.shard().forward
        found = sum((s.flops for s in phase.computes if is_score(s)), S.Zero)
        per_token = cancel(L * found / B) * (Rational(1, 2) if causal else 1)
        return per_token.subs(T, length)

    def kv_bytes_per_token(self, dtype: str | DType = "bf16") -> Expr:
        """Bytes that the KV cache holds for one token of one sequence, as a formula.

        >>> model("llama-3-70b").kv_bytes_per_token()
        4*H*K*L
        """
        arrays = self.programs.layer.arrays
        elements = arrays["Keys"].size + arrays["Vals"].size
        return cancel(L * _bytes_of(dtype) * elements / B)

    def summary(self) -> Table:
        """The sizes with their symbols."""
        rows = tuple((symbol.name, size) for symbol, size in self.items())
        return Table(("symbol", "size"), rows)

    def card(self) -> str:
        """Sizes, source and parameters, for a terminal."""
        context = f"{self.context:,} tokens" if self.context else "not given"
        assumed = ", ".join(self.config.defaulted) or "none"
        return "\n".join(
            [
                f"{self.name}  ({self.config.model_type}, {self.config.dtype} weights)",
                f"source: {self.config.source}",
                f"context: {context}; keys that took a default: {assumed}",
                ", ".join(f"{symbol.name} = {size:,}" for symbol, size in self.items()),
                "",
                str(self.params.table()),
            ]
        )

    def __repr__(self) -> str:
        sizes = ", ".join(f"{symbol.name}={size}" for symbol, size in self.items())
        return f"Model {self.name}: {sizes}; {self.params.count:,} parameters"

    def _repr_html_(self) -> str:
        return f"<p>{self.config.name}</p>{self.params.table()._repr_html_()}"

    def to_dict(self) -> dict[str, Any]:
        """Sizes, source and parameters."""
        return {
            "name": self.name,
            "source": self.config.source,
            "sizes": {symbol.name: size for symbol, size in self.items()},
            "context": self.context,
            "parameters": self.params.to_dict(),
        }


def _bytes_of(kind: str | DType) -> Rational:
    return dtype(kind).bytes


def is_score(step: Compute) -> bool:
    """Whether a product pairs every query with every key: attention's scores, or their use.

    >>> layer = model("llama-3-8b").programs.layer.shard().forward
    >>> [step.output.name for step in layer.computes if is_score(step)]
    ['Scores', 'Os']
    """
    return isinstance(step.op, Einsum) and {"T", "S"} <= set(step.op.labels)


def _flops(phase: Phase, causal: bool) -> Expr:
    halves = Rational(1, 2) if causal else S.One
    return sum(
        (step.flops * (halves if is_score(step) else 1) for step in phase.computes), S.Zero
    )


def model(source: str | os.PathLike[str] | Mapping[str, Any] | Model) -> Model:
    """A model by its name in the zoo, from a ``config.json``, or from a mapping of its keys.

    Raises:
        ModelError: for an unknown name, or a configuration that cannot be read.

    >>> model("lama-3-70b")
    Traceback (most recent call last):
    symscale.algebra.errors.ModelError: unknown model 'lama-3-70b'...
    """
    if isinstance(source, Model):
        return source
    return Model(find_config(source))


def models() -> Table:
    """The zoo: name, parameters, context and source.

    >>> len(models()) >= 11
    True
    """
    rows = []
    for name in zoo_names():
        entry = model(name)
        source = zoo_entry(name).source.removeprefix("https://huggingface.co/")
        origin = source.removesuffix("/blob/main/config.json")
        rows.append((name, entry.params.count, entry.context or "", origin))
    return Table(("model", "parameters", "context", "on Hugging Face"), tuple(rows))

