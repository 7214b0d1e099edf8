"""A model: its sizes, its programs, and what follows from them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from textwrap import wrap
from types import MappingProxyType
from typing import Any

from sympy import Expr, S, Symbol, cancel

from symscale.algebra.substitution import exact
from symscale.algebra.symbols import B, T, check_known
from symscale.algebra.symbols import S as Keys
from symscale.algebra.table import Table
from symscale.arrays.dtype import DType
from symscale.models.blocks import Latent
from symscale.models.cache import (
    kv_of_sequence,
    kv_on_device,
    kv_per_token,
    longest,
    state_of_sequence,
)
from symscale.models.config import ModelConfig
from symscale.models.conventions import Conventions
from symscale.models.counting import (
    again,
    decode_flops,
    flops_by_component,
    model_flops,
    over_all,
    scores_flops,
)
from symscale.models.decoder import Decoder, decoder
from symscale.models.params import Parameters, experts_touched, parameters
from symscale.models.remat import Policy, rematerialise
from symscale.models.scores import Causal, is_score
from symscale.models.storage import Format, stored_bytes
from symscale.models.zoo import compared_with, find_config, zoo_entry, zoo_names

__all__ = ["Model", "is_score", "model", "models"]


class Model(Mapping[Symbol, int]):
    """A decoder: a mapping from dimension symbols to sizes, with programs and formulas.

    ``expr.subs(model)`` puts the sizes into any expression. ``context`` is the longest sequence
    that the configuration names (None when it names none).

    >>> llama = model("llama-3-70b")
    >>> llama.params.count
    70553706496
    >>> llama.kv_bytes_per_token(dtype="int8").subs(llama)
    163840
    """

    def __init__(self, config: ModelConfig, capacity: Expr | int = 1) -> None:
        self.config = config
        self.capacity = S(capacity)

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
        return hash((self.config, self.capacity))

    def __eq__(self, other: object) -> bool:
        alike = isinstance(other, Model) and self.config == other.config
        return alike and self.capacity == other.capacity  # type: ignore[attr-defined]

    def stretched(self, capacity: Expr | float) -> Model:
        """The same model whose experts' slots are so many times their even share of tokens: their
        arithmetic, the exchange with them and their buffers are stretched.

        ``capacity`` is a number or a formula: a capacity factor (padded buffers), the load
        ``imbalance`` (tokens of the hottest rank over the mean), or their product. What a token
        needs, :meth:`flops_per_token`, stays as it is.

        Raises:
            SymbolError: for a number that is not above zero, or a symbol of another package.

        >>> from symscale.algebra.symbols import imbalance
        >>> hot = model("mixtral-8x7b").stretched(imbalance)
        >>> hot.programs.layer.arrays["Xe"].size
        B*D*imbalance*k
        """
        if isinstance(capacity, Expr) and capacity.free_symbols:
            check_known(capacity)
            return Model(self.config, capacity)
        return Model(self.config, exact(capacity, "capacity"))

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
        """The layers, and the embedding and head, as programs."""
        return decoder(self.config, self.capacity)

    @cached_property
    def params(self) -> Parameters:
        """Parameters by component, as formulas and counts."""
        return parameters(self.programs, self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the formulas cover, where that is not the whole model."""
        return self.config.notes

    def flops_per_token(
        self,
        length: Expr | int = T,
        training: bool = False,
        causal: Causal = False,
        head: bool = True,
        embeddings: bool = False,
        *,
        recompute: Policy | None = None,
        capacity: Expr | float = 1,
        mtp: bool = False,
    ) -> Expr:
        """Matrix FLOPs for one token, as a formula.

        Args:
            length: tokens in a sequence.
            training: forward and backward instead of forward alone; nothing is recomputed.
            causal: false counts every query with every key that a layer's window holds; true (or
                ``"half"``) the half that a causal kernel needs, ``"exact"`` every pair once (see
                :func:`mean_keys`).
            head: count the product with the output head.
            embeddings: count the lookup in the embedding as the one-hot product it stands for.
            recompute: count what this policy computes a second time (hardware FLOPs); scores that
                stay on chip are made again under each of them.
            capacity: experts work on buffers this many times their even share of tokens.
            mtp: count the multi-token-prediction modules, each with a head of its own.

        A multiply-add is two FLOPs. The number is summed over the programs' products, forward and
        transposed; work of the vector unit (norms, softmax, activations) is not in it.

        >>> from symscale.algebra.symbols import T
        >>> from sympy import expand
        >>> llama = model("llama-3-70b")
        >>> (llama.flops_per_token(T, training=True) / llama.flops_per_token(T)).cancel()
        3
        """
        how = Conventions(training, causal, head, embeddings, recompute, capacity, mtp)
        return self.flops_by(how, length)

    def flops_by(self, how: Conventions, length: Expr | int = T) -> Expr:
        """Matrix FLOPs for one token, under conventions that are kept with the number."""
        total = model_flops(self._programs(how.capacity), how)
        return _at_length((total / B).expand(), length)

    def _programs(self, capacity: Expr | float) -> Decoder:
        factor = exact(capacity, "capacity")
        return self.programs if factor == self.capacity else decoder(self.config, factor)

    def attention_flops_per_token(self, length: Expr | int = T, causal: Causal = False) -> Expr:
        """The scores' part of a token's forward FLOPs: both products with keys and values."""
        return _at_length(cancel(scores_flops(self.programs, causal) / B), length)

    def flops_by_component(
        self, length: Expr | int = T, causal: Causal = False
    ) -> Mapping[str, Expr]:
        """Forward matrix FLOPs of one token by component, as formulas.

        A head that is the embedding is called head; attention's scores are a component.

        >>> model("llama-3-8b").flops_by_component()["mlp"]
        6*D*F*L
        """
        parts = flops_by_component(self._programs(1), causal)
        return MappingProxyType(
            {name: _at_length((amount / B).expand(), length) for name, amount in parts.items()}
        )

    def recomputed_flops_per_token(
        self, policy: Policy, length: Expr | int = T, causal: Causal = False
    ) -> Expr:
        """Matrix FLOPs of one token that a rematerialisation policy computes a second time."""
        total = over_all(self.programs, lambda kind: again(kind, policy, causal))
        return _at_length((total / B).expand(), length)

    def saved_bytes_per_token(self, policy: Policy) -> Expr:
        """Bytes of activations, all layers together, that a policy keeps for one token."""
        total = over_all(self.programs, lambda kind: rematerialise(kind.program, policy).bytes)
        return (total / B).expand()

    def decode_flops_per_token(self, context: Expr | int = Keys, absorbed: bool = True) -> Expr:
        """Matrix FLOPs of one new token that sees ``context`` tokens, itself among them.

        Latent attention decodes ``absorbed`` (every head reads the latent vectors) or makes keys
        and values of all cached tokens again; for other attention there is no difference.
        """
        latent = bool(self.config.body.find(Latent))
        programs = decoder(self.config, absorbed=True) if latent and absorbed else self.programs
        return decode_flops(programs, S(context), absorbed).expand()

    def kv_bytes_per_token(self, dtype: str | DType = "bf16") -> Expr:
        """Bytes that the KV cache holds for one token of one sequence, as a formula.

        All layers are counted, as for a sequence that fits their windows; see :meth:`kv_bytes`.

        >>> model("llama-3-70b").kv_bytes_per_token()
        4*H*K*L
        """
        return kv_per_token(self.programs, dtype)

    def kv_bytes(self, length: Expr | int = Keys, dtype: str | DType = "bf16") -> Expr:
        """Bytes that the KV cache holds for one sequence of this length.

        Layers with a window keep no more tokens than it holds; :meth:`state_bytes` come on top.

        >>> model("llama-3-70b").kv_bytes(8192).subs(model("llama-3-70b"))
        2684354560
        """
        return kv_of_sequence(self.programs, S(length), dtype)

    def kv_bytes_per_device(
        self, length: Expr | int = Keys, tensor: int = 1, dtype: str | DType = "bf16"
    ) -> Expr:
        """Bytes of one sequence's KV cache on a device that shares it with ``tensor`` - 1 others.

        Key/value heads are dealt out; where there are fewer than devices, they are repeated, and
        a latent vector, which has no heads, is whole on every device. A sequence lives on one
        data-parallel replica: other replicas do not share it.

        >>> llama = model("llama-3-70b")
        >>> llama.kv_bytes_per_device(1, tensor=4).subs(llama)
        81920
        """
        return kv_on_device(self.programs, S(length), dtype, tensor)

    def state_bytes(self, dtype: str | DType = "f32") -> Expr:
        """Bytes that layers without keys and values keep for one sequence, whatever its length."""
        return state_of_sequence(self.programs, dtype)

    def longest_sequence(self, budget: int, dtype: str | DType = "bf16") -> int:
        """The most tokens whose KV cache fits a budget in bytes, one sequence.

        Not the budget over the bytes of a token: behind their window, layers stop growing.

        Raises:
            ModelError: the cache stops growing, so that every sequence fits.

        >>> model("llama-3-70b").longest_sequence(2**30)
        3276
        """
        formula = self.kv_bytes(Keys, dtype).xreplace(dict(self))
        return longest(lambda length: formula.xreplace({Keys: S(length)}), budget)

    def weight_bytes(
        self,
        default: str | Format = "bf16",
        by_component: Mapping[str, str | Format] | None = None,
    ) -> Expr:
        """Bytes of the stored weights, scales included (see :func:`stored_bytes`)."""
        return stored_bytes(self.params, default, by_component)

    def experts_touched(self, batch: Expr | int = B) -> Expr:
        """How many different experts of a layer a batch of tokens touches, of E.

        >>> model("mixtral-8x7b").experts_touched(3).subs(model("mixtral-8x7b"))
        37/8
        """
        return experts_touched(batch)

    def summary(self) -> Table:
        """The sizes with their symbols."""
        rows = tuple((symbol.name, size) for symbol, size in self.items())
        return Table(("symbol", "size"), rows)

    def card(self) -> str:
        """Sizes, source and parameters, for a terminal."""
        context = f"{self.context:,} tokens" if self.context else "not given"
        assumed = ", ".join(self.config.defaulted) or "none"
        checked = compared_with(self.config)
        said = f"checked: {checked}" if checked else ""
        rows = [
            f"context: {context}; keys that took a default: {assumed}",
            ", ".join(f"{symbol.name} = {size:,}" for symbol, size in self.items()),
            *(f"covers: {note}" for note in self.notes),
        ]
        return "\n".join(
            [
                f"{self.name}  ({self.config.model_type}, {self.config.dtype} weights)",
                f"source: {self.config.source}",
                *wrap(
                    said, 80, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
                ),
                *(line for row in rows for line in wrap(row, 80, subsequent_indent="  ")),
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
            "checked": compared_with(self.config),
            "model_type": self.config.model_type,
            "sizes": {symbol.name: size for symbol, size in self.items()},
            "layers": {kind.name: kind.number for kind in self.programs.kinds},
            "context": self.context,
            "defaulted": list(self.config.defaulted),
            "notes": list(self.notes),
            "parameters": self.params.to_dict(),
        }


def _at_length(formula: Expr, length: Expr | int) -> Expr:
    if length is T or length == T:
        return formula
    return formula.subs(T, length if isinstance(length, Expr) else exact(length, "T"))


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
    """The zoo: name, parameters, those that a token meets, and context.

    >>> len(models()) >= 40
    True
    """
    rows = []
    for name in zoo_names():
        entry = model(name)
        params = entry.params
        rows.append((name, params.count, params.active_count, entry.context or ""))
    return Table(("model", "parameters", "active", "context"), tuple(rows))


def model_sources() -> Mapping[str, str]:
    """Where each configuration of the zoo was published.

    >>> model_sources()["gpt2"]
    'https://huggingface.co/openai-community/gpt2/blob/main/config.json'
    """
    return MappingProxyType({name: zoo_entry(name).source for name in zoo_names()})
