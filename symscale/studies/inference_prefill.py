"""Prefill: how long prompts take until their first token, on the chips that generate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sympy import Expr, Symbol

from symscale.algebra.errors import ModelError, SymbolError
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import B, T
from symscale.algebra.table import Table
from symscale.algebra.time import HBM, MATH
from symscale.studies.inference_numbers import padded, whole
from symscale.studies.inference_result import as_float

if TYPE_CHECKING:
    from symscale.studies.inference_result import InferenceResult


@dataclass(frozen=True)
class Prefill:
    """The forward pass of ``prompts`` prompts of ``prompt`` tokens each.

    ``mfu``, if given, is the share of the peak that arithmetic reaches; the time is then the
    arithmetic's at that share, and no less than the step's own bound.
    """

    result: InferenceResult
    prompt: int
    prompts: int = 1
    mfu: float | None = None

    @property
    def values(self) -> Mapping[Symbol, Expr]:
        """Numbers by symbol."""
        tokens = {B: exact(self.prompt * self.prompts, "B"), T: exact(self.prompt, "T")}
        return MappingProxyType({**self.result.values, **tokens})

    def number(self, expr: Expr) -> float:
        """An expression of the prefill in numbers."""
        return as_float(expr, self.values)

    @cached_property
    def bound(self) -> float:
        """Seconds at the roofs: every kernel its arithmetic or its traffic."""
        study = self.result.study
        made = study.prefill.seconds(study.network, "per-op", self.result.overlap, False)
        return self.number(made)

    @cached_property
    def math(self) -> float:
        """Seconds of matrix arithmetic."""
        return self.number(self.result.study.prefill.total("math"))

    @property
    def time(self) -> float:
        """Seconds until the first tokens."""
        return self.bound if self.mfu is None else max(self.bound, self.math / self.mfu)

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Seconds that each resource is busy."""
        found = self.result.study.prefill
        hbm = sum(self.number(one.count * one.hbm(False)) for one in found.kernels)
        moved = found.comms(self.result.study.network)
        comms = {name: self.number(value) for name, value in moved.items()}
        return MappingProxyType({MATH: self.math, HBM: hbm, **comms})

    @property
    def bottleneck(self) -> str:
        """The busiest resource."""
        return max(self.busy, key=lambda name: self.busy[name])

    @property
    def tokens_per_second(self) -> float:
        """Prompt tokens a second of one replica."""
        return self.prompt * self.prompts / self.time

    def table(self) -> Table:
        """The headline numbers."""
        rows: list[tuple[str, str | float | int]] = [
            ("prompt, tokens", self.prompt),
            ("prompts at once", self.prompts),
            ("time to first token, s", self.time),
            ("prompt tokens/s", self.tokens_per_second),
            ("bottleneck", self.bottleneck),
            *((f"busy: {name}, s", value) for name, value in self.busy.items()),
        ]
        return Table(("prefill", "value"), tuple(rows))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "prompt": self.prompt,
            "prompts": self.prompts,
            "mfu": self.mfu,
            "ttft_s": self.time,
            "prefill_tokens_per_s": self.tokens_per_second,
            "prefill_bottleneck": self.bottleneck,
            "prefill_busy_s": dict(self.busy),
        }


def prefill(
    result: InferenceResult, prompt: int, prompts: int | None = None, mfu: float | None = None
) -> Prefill:
    """The prefill of prompts on the chips of a result.

    Each op reads and writes its arrays in HBM; a prompt's cache is written as it is made. Where a
    layout cuts the batch, as many prompts as there are parts run at once unless said otherwise.

    Raises:
        ModelError: for a prompt longer than the model's context.
        SymbolError: for a number that is not whole, or a utilisation not in (0, 1].

    >>> from symscale.studies.inference import inference
    >>> found = inference("llama-3-70b", weights="int8").at("tpu-v5e", chips=16, batch=32)
    >>> prefill(found, 8192).bottleneck
    'math'
    """
    length = checked_prompt(result, prompt, mfu)
    parts = prompts_at_once(result)
    count = parts if prompts is None else whole(prompts, "prompts")
    if count % parts:
        raise SymbolError(
            f"{count} prompts are cut over {parts} parts of the batch; {padded(count, parts)} "
            "is the next number that they divide"
        )
    return Prefill(result, length, count, None if mfu is None else float(mfu))


def prompts_at_once(result: InferenceResult) -> int:
    """As many prompts as a layout cuts the batch into parts."""
    return prod(result.mesh.get(name, 1) for name in result.study.layout.batch)


def checked_prompt(result: InferenceResult, prompt: Any, mfu: Any = None) -> int:
    """The tokens of a prompt that a model can have.

    Raises:
        ModelError: for a prompt longer than the model's context.
        SymbolError: for a number that is not whole, or a utilisation not in (0, 1].
    """
    longest, length = result.study.model.context, whole(prompt, "prompt")
    if longest is not None and length > longest and not result.asked.get("beyond"):
        raise ModelError(
            f"prompt {prompt}: {result.study.model.name} is made for sequences of at most "
            f"{longest} tokens"
        )
    if mfu is not None and exact(mfu, "mfu") > 1:
        raise SymbolError(f"mfu = {mfu}: a share above 0 and at most 1 is wanted")
    return length
