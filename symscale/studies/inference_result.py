"""Generation with its numbers in: step time, throughput, memory, and what binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sympy import Expr, Float, Symbol

from symscale.algebra.errors import HardwareError
from symscale.algebra.links import Network
from symscale.algebra.substitution import evaluate, exact
from symscale.algebra.symbols import B, axis
from symscale.algebra.table import Table
from symscale.algebra.time import HBM, MATH, Overlap
from symscale.hardware.chip import Chip
from symscale.hardware.placement import Placement
from symscale.studies.inference_kernels import Method, Pass
from symscale.studies.inference_notes import notes_of

if TYPE_CHECKING:
    from symscale.studies.inference import Inference


def as_float(expr: Expr, values: Mapping[Symbol, Expr]) -> float:
    """An expression in floating point: the share of experts that many tokens meet is a high power.

    Raises:
        SymbolError: naming every symbol that has no value, with its meaning.

    >>> from sympy import Integer, Rational
    >>> as_float(B * (Rational(3, 4)) ** B, {B: Integer(2)})
    1.125
    """
    if not expr.free_symbols <= set(values):
        evaluate(expr, values)
    chosen = {key: Float(values[key]) for key in expr.free_symbols}
    return float(expr.xreplace(chosen).doit())


def cost_per_million(chip: Chip, tokens_per_second: float) -> float | None:
    """US dollars for a million tokens at so many a second for each chip; None without a price."""
    try:
        price = float(chip.price.value)
    except HardwareError:
        return None
    return price / 3600 / tokens_per_second * 1e6


def bottleneck_of(
    step: Pass,
    network: Network,
    method: Method,
    on_chip: bool,
    number: Callable[[Expr], float],
) -> str:
    """What sets the pace of a pass: ``math``, ``hbm``, or the mesh axes of a communication."""
    bound = {MATH: 0.0, HBM: 0.0}
    for one in step.kernels:
        math, hbm = number(one.count * one.math), number(one.count * one.hbm(on_chip))
        bound[MATH if math > hbm else HBM] += max(math, hbm)
    compute = number(step.compute(method, on_chip))
    if method == "aggregate":
        math, weights = number(step.products), number(step.all_weights)
        cache = compute - max(math, weights)
        bound = {MATH: math, HBM: cache} if math > weights else {HBM: weights + cache}
    comms = {name: number(value) for name, value in step.comms(network).items()}
    slowest = max(comms, key=lambda name: comms[name], default="")
    if slowest and comms[slowest] > compute:
        return slowest
    return max(bound, key=lambda name: bound[name])


@dataclass(frozen=True)
class InferenceResult:
    """Seconds, bytes and the bottleneck of one step of generation.

    ``batch`` sequences are in flight over all ``replicas``, each with ``context`` tokens cached;
    ``mesh`` is one replica's. Times are in seconds under ``method`` and ``overlap``. ``rivals`` are
    the other meshes and cuts of the cache that answer the same question.
    """

    study: Inference
    chip: Chip
    mesh: Mapping[str, int]
    values: Mapping[Symbol, Expr]
    batch: int
    context: int
    replicas: int = 1
    method: Method = "per-op"
    overlap: Overlap = "full"
    on_chip: bool = True
    block: int = 1
    usable: int = 0
    placement: Placement | None = None
    origin: Inference | None = None
    asked: Mapping[str, Any] = field(default_factory=dict, repr=False)
    rivals: tuple[InferenceResult, ...] = field(default=(), repr=False, compare=False)

    def again(self, **changes: Any) -> InferenceResult:
        """The same question with some of its numbers changed.

        Raises:
            SymscaleError: as the question itself.

        >>> from symscale.studies.inference import inference
        >>> one = inference("llama-3-8b").at("h100", chips=1, batch=8, context=2048)
        >>> one.again(chips=2).chips
        2
        """
        return (self.origin or self.study).at(self.chip, **{**self.asked, **changes})

    def number(self, expr: Expr) -> float:
        """An expression of the study in numbers."""
        return as_float(expr, self.values)

    @property
    def axes(self) -> dict[Symbol, int]:
        """The mesh axes' sizes by symbol, to be put into formulas."""
        return {axis(name): size for name, size in self.mesh.items()}

    @property
    def chips(self) -> int:
        """Chips of all replicas."""
        return self.replicas * prod(self.mesh.values())

    def seconds(self, method: Method | None = None, overlap: Overlap | None = None) -> float:
        """Seconds of a step under another method or overlap."""
        chosen = self.study.time(method or self.method, overlap or self.overlap, self.on_chip)
        return self.number(chosen)

    @cached_property
    def step_time(self) -> float:
        """Seconds of a step: one token for each sequence."""
        return self.seconds()

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second, all replicas together."""
        return self.batch / self.step_time

    @property
    def tokens_per_second_per_chip(self) -> float:
        """Tokens a second for each chip."""
        return self.tokens_per_second / self.chips

    @property
    def cost_per_million_tokens(self) -> float | None:
        """US dollars for a million generated tokens at the price on file; None without one."""
        return cost_per_million(self.chip, self.tokens_per_second_per_chip)

    @cached_property
    def kernels(self) -> tuple[tuple[str, float, float], ...]:
        """Each kernel with its seconds of arithmetic and of HBM traffic over all layers."""
        found = []
        for one in self.study.step.kernels:
            math, hbm = one.count * one.math, one.count * one.hbm(self.on_chip)
            found.append((one.name, self.number(math), self.number(hbm)))
        return tuple(found)

    @cached_property
    def comms(self) -> Mapping[str, float]:
        """Seconds of communication by resource."""
        every = self.study.step.comms(self.study.network)
        return MappingProxyType({name: self.number(value) for name, value in every.items()})

    @cached_property
    def busy(self) -> Mapping[str, float]:
        """Seconds that each resource is busy."""
        math = sum(one[1] for one in self.kernels)
        hbm = sum(one[2] for one in self.kernels)
        return MappingProxyType({MATH: math, HBM: hbm, **self.comms})

    @property
    def bottleneck(self) -> str:
        """What sets the pace: ``math``, ``hbm``, or the mesh axes of a communication."""
        step, network = self.study.step, self.study.network
        return bottleneck_of(step, network, self.method, self.on_chip, self.number)

    @property
    def kv_bytes(self) -> int:
        """Bytes of all sequences' keys and values, held once."""
        each = self.study.model.kv_bytes(self.context, self.study.kv)
        return round(float(evaluate(each, self.study.model)) * self.batch)

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of one token's keys and values, all layers."""
        each = self.study.model.kv_bytes_per_token(self.study.kv)
        return round(float(evaluate(each, self.study.model)))

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """Bytes on one device, by kind; the cache in whole blocks."""
        kinds = self.study.memory.paged(self.block)
        found = {kind: round(float(evaluate(e, self.values))) for kind, e in kinds.items()}
        return MappingProxyType(found)

    @property
    def reserved_cache(self) -> int:
        """Bytes of cache that one device reserves: whole blocks of tokens of each sequence."""
        return self.memory.get("cache", 0)

    @property
    def needed_cache(self) -> int:
        """Bytes of cache that one device needs, blocks not filled up."""
        return round(float(evaluate(self.study.memory.cache, self.values)))

    @property
    def memory_bytes(self) -> int:
        """Bytes on one device, all kinds together."""
        return sum(self.memory.values())

    @property
    def usable_bytes(self) -> int:
        """Bytes of one chip's HBM that weights, cache and a step's own arrays may fill."""
        return self.usable

    @property
    def fits(self) -> bool:
        """Whether it fits the chip's HBM."""
        return self.memory_bytes <= self.usable_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes that one device lacks; 0 where it fits."""
        return max(0, self.memory_bytes - self.usable_bytes)

    @property
    def padded_batch(self) -> int:
        """Sequences that all replicas' steps are counted for: the batch, its rows filled up."""
        return int(self.values[B]) * self.replicas

    @cached_property
    def largest_batch(self) -> int:
        """The largest batch that fits these chips at this context, all replicas; 0 if none does.

        Where mesh and cut of the cache are not the caller's, the best of them for it is taken.
        """
        return max(one.largest_on_mesh for one in (self, *self.rivals))

    @cached_property
    def largest_on_mesh(self) -> int:
        """The same on this very mesh, with the cache as it lies."""
        memory = self.study.memory.paged(self.block)
        fixed = {key: value for key, value in self.values.items() if key != B}
        room, step = exact(self.usable_bytes, "bytes"), self.batch_step
        return memory.largest(room, step, fixed) * self.replicas

    @property
    def batch_step(self) -> int:
        """What a replica's batch is filled up to a multiple of: the ways that cut it."""
        return self.study.rows_cut(self.mesh)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the numbers leave out, and what does not fit."""
        return notes_of(self)

    def table(self) -> Table:
        """The headline numbers."""
        cost = self.cost_per_million_tokens
        rows: list[tuple[str, str | float | int]] = [
            ("chips", self.chips),
            ("seconds a step", self.step_time),
            ("tokens/s", self.tokens_per_second),
            ("tokens/s a chip", self.tokens_per_second_per_chip),
            ("bottleneck", self.bottleneck),
            *((f"busy: {name}, s", value) for name, value in self.busy.items()),
            *((f"{kind}, bytes a chip", value) for kind, value in self.memory.items()),
            ("fits", "yes" if self.fits else "no"),
            ("largest batch", self.largest_batch),
            ("USD a million tokens", "no price on file" if cost is None else cost),
        ]
        return Table(("", "value"), tuple(rows))

    def __repr__(self) -> str:
        mesh = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        head = f"{self.study.model.name}, {self.study.layout.name}, {self.chip.name}, {mesh}"
        more = f", {self.replicas} replicas" if self.replicas > 1 else ""
        top = f"{head}{more}; a batch of {self.batch}, {self.context} tokens cached of each"
        return "\n".join([top, str(self.table()), *(f"note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "model": self.study.model.name,
            "strategy": self.study.layout.name,
            "cache": self.study.layout.cache,
            "chip": self.chip.name,
            "mesh": dict(self.mesh),
            "replicas": self.replicas,
            "chips": self.chips,
            "batch": self.batch,
            "context": self.context,
            "method": self.method,
            "overlap": self.overlap,
            "step_time_s": self.step_time,
            "tokens_per_s": self.tokens_per_second,
            "tokens_per_s_per_chip": self.tokens_per_second_per_chip,
            "usd_per_million_tokens": self.cost_per_million_tokens,
            "bottleneck": self.bottleneck,
            "busy_s": dict(self.busy),
            "kv_bytes_per_token": self.kv_bytes_per_token,
            "kv_bytes": self.kv_bytes,
            "needed_cache_bytes": self.needed_cache,
            "reserved_cache_bytes": self.reserved_cache,
            "memory_bytes": self.memory_bytes,
            "memory": dict(self.memory),
            "usable_bytes": self.usable_bytes,
            "missing_bytes": self.missing_bytes,
            "fits": self.fits,
            "max_batch": self.largest_batch,
            "notes": list(self.notes),
        }
