"""A prefix that many prompts share: read once, kept, and found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

from sympy import Add, Expr, S, Symbol, cancel, expand, factor, sympify

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SymbolError
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import bindings, exact
from symscale.algebra.symbols import B, T, b, to_latex
from symscale.algebra.table import Table
from symscale.arrays.dtype import DType
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.inference_result import InferenceResult, as_float
from symscale.studies.serving.batching import Batching
from symscale.studies.serving.numbers import Numbers
from symscale.studies.serving.prompts import prompt_flops, prompt_seconds
from symscale.studies.serving.words import (
    KV,
    PREFIX,
    REUSES,
    S_IN,
    S_OUT,
    T_BETWEEN,
    W_LINK,
)


@dataclass(frozen=True)
class Prefix:
    """``m_reuse`` prompts of ``S_in`` tokens that begin with the same ``S_prefix``.

    Attributes:
        whole: seconds to read a prompt of which nothing is cached.
        rest: seconds to read one whose prefix is cached.
        whole_flops: arithmetic of the first.
        rest_flops: arithmetic of the second.
        token_bytes: bytes cached for a token.
    """

    whole: Expr
    rest: Expr
    whole_flops: Expr
    rest_flops: Expr
    token_bytes: Expr = KV

    @property
    def read(self) -> Expr:
        """Tokens that are read for all prompts together: the first whole, the others' rests."""
        return S_IN + (REUSES - 1) * (S_IN - PREFIX)

    @property
    def hit_rate(self) -> Expr:
        """The share of all prompt tokens that are found in the cache."""
        return factor(cancel(1 - self.read / (REUSES * S_IN)))

    @property
    def saved_flops(self) -> Expr:
        """Arithmetic that a prompt saves whose prefix is found."""
        return expand(self.whole_flops - self.rest_flops)

    @property
    def saved_seconds(self) -> Expr:
        """Seconds by which its first token comes sooner, and that the server has for others."""
        return self.whole - self.rest

    @property
    def saved_bytes(self) -> Expr:
        """Bytes of cache that prompts in flight save by holding the prefix once."""
        apart = REUSES * S_IN * self.token_bytes
        shared = self.read * self.token_bytes
        return factor(expand(apart - shared))

    @cached_property
    def worth_loading(self) -> Crossover:
        """The bandwidth from which on fetching a prefix is no slower than reading it again.

        From host memory, a disk or another server; a first prompt pays nothing for it.
        """
        return crossover(self.saved_seconds, PREFIX * self.token_bytes / W_LINK, W_LINK)

    @property
    def displaced(self) -> Expr:
        """The share of a server's room that a kept prefix takes: of b whole sequences' tokens.

        >>> Prefix(S_IN, S_IN, S_IN, S_IN).displaced
        S_prefix/(b*(S_in + S_out))
        """
        return PREFIX / Batching().reserved

    @cached_property
    def worth_keeping(self) -> Crossover:
        """The seconds between two uses up to which a prefix earns its room in HBM.

        Each use saves seconds of the server; until then places for sequences stand empty, and
        generation is slower by their share.
        """
        return crossover(self.saved_seconds, T_BETWEEN * self.displaced, T_BETWEEN)

    @property
    def derivation(self) -> Derivation:
        """The steps."""
        steps = Derivation().then("tokens read", self.read, "the first prompt whole, then rests")
        steps = steps.then("hit rate", self.hit_rate, "the share of all tokens not read")
        steps = steps.then("arithmetic saved by a hit", self.saved_flops, "whole less rest")
        return steps.then("bytes saved", self.saved_bytes, "the prefix is held once")

    def at(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> PrefixResult:
        """The savings with numbers in them: a chip's rates, ``n``, ``S_in``, ``S_prefix``...

        Raises:
            SymbolError: for a symbol without a number, or a prefix longer than the prompt.
        """
        values = bindings(*sources, **numbers)
        as_float(self.saved_seconds + self.hit_rate, values)
        if not values[PREFIX] < values[S_IN]:
            raise SymbolError(
                f"S_prefix = {values[PREFIX]}: at least one token of a prompt of {values[S_IN]} "
                f"has to be read; the longest prefix is {values[S_IN] - 1}"
            )
        return PrefixResult(self, values)

    def __repr__(self) -> str:
        return f"prefix cache: hit rate {self.hit_rate}"

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.hit_rate)}$"

    def to_dict(self) -> dict[str, Any]:
        """The formulas as plain text."""
        names = ("hit_rate", "saved_flops", "saved_seconds", "saved_bytes")
        return {name: str(getattr(self, name)) for name in names} | self.derivation.to_dict()


@dataclass(frozen=True, repr=False)
class PrefixResult(Numbers):
    """What a shared prefix saves, in numbers."""

    of: Prefix
    values: Mapping[Symbol, Expr]

    def number(self, expr: Expr, **more: Any) -> float:
        """An expression in numbers; in floating point, as experts that are met are a high power."""
        return as_float(expr, bindings(self.values, **more))

    @property
    def numbered(self) -> Prefix:
        """The same prefix with numbers for its seconds."""
        whole, rest = (exact(self.number(one), "s") for one in (self.of.whole, self.of.rest))
        return replace(self.of, whole=whole, rest=rest)

    @property
    def hit_rate(self) -> float:
        """The share of all prompt tokens that are found in the cache."""
        return self.number(self.of.hit_rate)

    @property
    def saved_flops(self) -> float:
        """Arithmetic that a prompt saves whose prefix is found."""
        return self.number(self.of.saved_flops)

    @property
    def seconds(self) -> float:
        """Seconds to read a prompt whose prefix is found."""
        return self.number(self.of.rest)

    @property
    def saved_seconds(self) -> float:
        """Seconds by which its first token comes sooner."""
        return self.number(self.of.saved_seconds)

    @property
    def saved_bytes(self) -> float:
        """Bytes of cache saved while all prompts are in flight."""
        return self.number(self.of.saved_bytes)

    @property
    def smallest_link(self) -> float:
        """Bytes/s from which on fetching the prefix beats reading it; infinite if it never does."""
        if self.saved_seconds <= 0:
            return float("inf")
        return self.number(self.numbered.worth_loading.at(self.values).threshold)

    @property
    def longest_kept(self) -> float | None:
        """Seconds between two uses up to which a prefix earns its room.

        None without numbers for the server's sequences ``b`` and their answers ``S_out``.
        """
        if not {b, S_OUT} <= set(self.values):
            return None
        if self.saved_seconds <= 0:
            return 0.0
        return self.number(self.numbered.worth_keeping.at(self.values).threshold)

    def table(self) -> Table:
        """The numbers."""
        rows: list[tuple[str, str | float]] = [
            ("hit rate", self.hit_rate),
            ("FLOPs saved by a hit", self.saved_flops),
            ("seconds to a first token", self.seconds),
            ("seconds saved by a hit", self.saved_seconds),
            ("bytes of cache saved", self.saved_bytes),
            ("worth fetching from, bytes/s", self.smallest_link),
        ]
        if self.longest_kept is not None:
            rows.append(("worth keeping between uses up to, s", self.longest_kept))
        return Table(("prefix cache", "value"), tuple(rows))

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON; null where there is none."""
        names = ("hit_rate", "saved_flops", "seconds", "saved_seconds", "saved_bytes")
        link = self.smallest_link
        return {
            **{name: getattr(self, name) for name in names},
            "smallest_link_bytes_per_s": None if link == float("inf") else link,
            "longest_kept_s": self.longest_kept,
        }


def prefix_cache(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    weights: str = "bf16",
    kv: str = "bf16",
    compute: str | DType = "bf16",
) -> Prefix:
    """What a shared prefix saves a model on ``n`` chips.

    >>> prefix_cache("llama-3-8b").hit_rate
    S_prefix*(m_reuse - 1)/(S_in*m_reuse)
    >>> prefix_cache("llama-3-8b").saved_bytes
    131072*S_prefix*(m_reuse - 1)
    """
    found = find_model(model)
    return Prefix(
        whole=prompt_seconds(found, weights, compute),
        rest=prompt_seconds(found, weights, compute, cached=PREFIX),
        whole_flops=prompt_flops(found),
        rest_flops=prompt_flops(found, cached=PREFIX),
        token_bytes=sympify(found.kv_bytes_per_token(kv).xreplace(dict(found)), strict=True),
    )


def placed_prefix(found: InferenceResult, mfu: float | None = None) -> Prefix:
    """What a shared prefix saves on a server, its prompts read as its own prefill reads them.

    Seconds are the arithmetic of the prefill's kernels, or of reading the weights if that is more;
    what moves between chips is left out. The arithmetic of the tokens that are found is left out,
    all but the one product that gives a prompt its logits.

    Args:
        found: the server.
        mfu: the share of the peak that arithmetic reaches.

    >>> from symscale.studies.inference import inference
    >>> server = inference("llama-3-8b").at("h100", chips=1, batch=8, context=4096)
    >>> made = placed_prefix(server).at(S_in=4096, S_prefix=2048, m_reuse=2)
    >>> round(made.hit_rate, 3), made.saved_seconds < made.seconds
    (0.25, True)
    """
    study, model = found.study, found.study.model
    fixed = {key: value for key, value in found.values.items() if key not in (B, T)}

    def read(expr: Expr, tokens: Expr) -> Expr:
        return expr.xreplace(fixed).xreplace({B: tokens, T: tokens})

    reach = S.One if mfu is None else 1 / exact(mfu, "mfu")
    arithmetic, weights = study.prefill.total("math") * reach, study.prefill.all_weights
    each = (read(one.count * one.math * reach, T) for one in study.prefill.kernels)
    logits = Add(*(one for one in each if T not in one.free_symbols))  # of a prompt, not a token
    rest = read(arithmetic, S_IN) - (read(arithmetic, PREFIX) - logits)
    return Prefix(
        whole=Maximum(read(arithmetic, S_IN), read(weights, S_IN)),
        rest=Maximum(rest, read(weights, S_IN - PREFIX)),
        whole_flops=prompt_flops(model),
        rest_flops=prompt_flops(model, cached=PREFIX),
        token_bytes=sympify(model.kv_bytes_per_token(study.kv).xreplace(dict(model)), strict=True),
    )
