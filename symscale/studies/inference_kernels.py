"""What one device does in a pass, kernel by kernel, and how long that takes.

A kernel is an op, or ops joined by arrays that stay on chip (attention proper): what it reads, it
reads once. Two models of a step's time are made of the same kernels:

- ``per-op``: kernels run one after another, each for the longer of its arithmetic and its HBM
  traffic;
- ``aggregate``, the textbook's: the cache of all sequences is read, then all weights under all the
  arithmetic of the products with them.

Source of the second: How To Scale Your Model, "All About Transformer Inference".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from sympy import Add, Expr, S, Symbol, cancel, sympify

from symscale.algebra.errors import SymscaleError
from symscale.algebra.links import Network
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import E, W_hbm, k
from symscale.algebra.time import Overlap
from symscale.arrays.array import Array
from symscale.arrays.dtype import DType
from symscale.models.params import experts_touched
from symscale.programs.collectives import Collective
from symscale.programs.ops import Einsum, Lookup
from symscale.programs.phase import Compute
from symscale.programs.sharded import ShardedProgram
from symscale.studies.inference_exchanges import exchanges_of
from symscale.studies.inference_program import Served, base, is_keys

Method = Literal["per-op", "aggregate"]
METHODS: tuple[Method, ...] = ("per-op", "aggregate")


@dataclass(frozen=True)
class Kernel:
    """One kernel on one device, ``count`` times in a pass.

    ``math`` is in seconds; ``weights`` (what is read of them), ``cache`` (keys, values and states,
    read or written), ``activations`` and ``tables`` (whole tables of which rows are looked up) in
    bytes; ``gathered`` are the bytes of its weights that other devices hold and that are gathered
    for it. ``attention``: it meets cached keys, or keeps a state.
    """

    name: str
    count: Expr
    math: Expr
    weights: Expr
    cache: Expr
    activations: Expr
    tables: Expr
    attention: bool
    gathered: Expr = S.Zero

    def hbm(self, on_chip: bool) -> Expr:
        """Seconds of HBM traffic; activations may stay on chip."""
        kept = S.Zero if on_chip else self.activations
        return (self.weights + self.cache + kept) / W_hbm

    def seconds(self, on_chip: bool) -> Expr:
        """Seconds: the longer of arithmetic and traffic."""
        return Maximum(self.math, self.hbm(on_chip))

    def put(self, values: Mapping[Symbol, Any]) -> Kernel:
        """The same with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        names = ("count", "math", "weights", "cache", "activations", "tables", "gathered")
        return replace(self, **{name: getattr(self, name).xreplace(swap) for name in names})


@dataclass(frozen=True)
class Exchange:
    """A collective of a pass, ``count`` times."""

    count: Expr
    move: Collective

    def seconds(self, network: Network) -> Expr:
        """Seconds of all of them on a network."""
        return self.count * self.move.seconds(network)


@dataclass(frozen=True)
class Pass:
    """One pass through a model on one device: its kernels, and what moves between devices."""

    kernels: tuple[Kernel, ...]
    exchanges: tuple[Exchange, ...]

    def total(self, what: str) -> Expr:
        """Bytes or seconds of one kind over all kernels."""
        return Add(*(one.count * getattr(one, what) for one in self.kernels))

    def compute(self, method: Method = "per-op", on_chip: bool = True) -> Expr:
        """Seconds of arithmetic and HBM traffic, nothing moved between devices.

        Raises:
            SymscaleError: for another method.
        """
        if method == "per-op":
            return Add(*(one.count * one.seconds(on_chip) for one in self.kernels))
        if method == "aggregate":
            return self.total("cache") / W_hbm + Maximum(self.products, self.all_weights)
        raise SymscaleError(f"method {method!r} is none of {', '.join(METHODS)}")

    @property
    def products(self) -> Expr:
        """Seconds of the products with weights."""
        return Add(*(one.count * one.math for one in self.kernels if not one.attention))

    @property
    def all_weights(self) -> Expr:
        """Seconds to read all weights that a pass touches, tables whole."""
        return (self.total("weights") + self.total("tables")) / W_hbm

    def comms(self, network: Network, waiting: bool | None = None) -> dict[str, Expr]:
        """Seconds of communication by resource; ``waiting``: only what does (not) have to wait."""
        out: dict[str, Expr] = {}
        for one in self.exchanges:
            if waiting is None or one.move.critical == waiting:
                name = network.resource(one.move.axes)
                out[name] = out.get(name, S.Zero) + one.seconds(network)
        return {name: value for name, value in out.items() if value != 0}

    def seconds(
        self,
        network: Network,
        method: Method = "per-op",
        overlap: Overlap = "full",
        on_chip: bool = True,
    ) -> Expr:
        """Seconds of the pass.

        ``overlap``: ``"full"`` hides communication behind kernels or them behind it; under
        ``"critical"`` collectives that the next op waits for hide nothing; under ``"none"``
        arithmetic, traffic and communication are added up.

        Raises:
            SymscaleError: for another method or overlap.
        """
        if overlap not in ("full", "none", "critical"):
            raise SymscaleError(f"overlap {overlap!r} is none of 'full', 'none', 'critical'")
        compute = self.compute(method, on_chip)
        if overlap == "full":
            return Maximum(compute, *self.comms(network).values())
        if overlap == "none":
            busy = Add(*(k.count * (k.math + k.hbm(on_chip)) for k in self.kernels))
            return busy + Add(*self.comms(network).values())
        hidden = Maximum(compute, *self.comms(network, waiting=False).values())
        return hidden + Add(*self.comms(network, waiting=True).values())

    def put(self, values: Mapping[Symbol, Any]) -> Pass:
        """The same kernels with numbers for some symbols."""
        return replace(self, kernels=tuple(one.put(values) for one in self.kernels))


def one_pass(parts: Iterable[tuple[Served, ShardedProgram]], cache: DType) -> Pass:
    """The kernels and exchanges of all layers, each kind as often as the model has it."""
    kernels: list[Kernel] = []
    exchanges: list[Exchange] = []
    for served, sharded in parts:
        kernels += _kernels(served, sharded, cache)
        exchanges += [Exchange(served.count, move) for move in exchanges_of(sharded)]
    return Pass(tuple(kernels), tuple(exchanges))


def _kernels(served: Served, sharded: ShardedProgram, cache: DType) -> list[Kernel]:
    groups: list[list[Compute]] = []
    for step in sharded.forward.computes:
        touched = {a.name for a in (*step.inputs, step.output)} & sharded.program.fused
        joined = [g for g in groups if touched & _fused(g, sharded)]
        made = [one for group in joined for one in group] + [step]
        groups = [group for group in groups if group not in joined] + [made]
    return [_Counted(served, sharded, cache).kernel(group) for group in groups]


def _fused(group: list[Compute], sharded: ShardedProgram) -> set[str]:
    names = {a.name for step in group for a in (*step.inputs, step.output)}
    return names & sharded.program.fused


@dataclass(frozen=True)
class _Counted:
    """Counts a kernel's bytes by what they belong to."""

    served: Served
    sharded: ShardedProgram
    cache: DType

    def kernel(self, group: list[Compute]) -> Kernel:
        arrays: dict[str, tuple[Array, Compute]] = {}
        for step in group:
            if step.op.moves_bytes:
                for array in (*step.inputs, step.output):
                    arrays.setdefault(array.name, (array, step))
        found: dict[str, Expr] = {}
        for array, step in arrays.values():
            if array.name not in self.sharded.program.fused:
                for kind, amount in self.bytes(array, step):
                    found[kind] = found.get(kind, S.Zero) + amount
        names = {array.name for step in group for array in (*step.inputs, step.output)}
        labels = {x for step in group for a in (*step.inputs, step.output) for x in a.labels}
        met = any(map(is_keys, labels)) or bool(names & self.served.state)
        math = Add(*(self.math(step) for step in group))
        return Kernel(
            group[-1].output.name,
            self.served.count,
            math,
            weights=found.get("weights", S.Zero),
            cache=found.get("cache", S.Zero),
            activations=found.get("activations", S.Zero),
            tables=found.get("tables", S.Zero),
            attention=met,
            gathered=Add(*(self.gathered(array) for array, _ in arrays.values())),
        )

    def gathered(self, array: Array) -> Expr:
        """Bytes of a weight that are here for this kernel alone."""
        if array.name not in self.sharded.program.weights:
            return S.Zero
        held = self.sharded.sharding(array.name)
        return S.Zero if array.sharding == held.sharding else array.bytes - held.bytes

    def math(self, step: Compute) -> Expr:
        if not isinstance(step.op, Einsum):
            return S.Zero
        share = self.served.share.get(step.output.name, S.One)
        return share * step.flops / step.op.rate

    def bytes(self, array: Array, step: Compute) -> list[tuple[str, Expr]]:
        """What of an array is read or written, and what it counts as."""
        name = array.name
        if name in self.sharded.program.weights:
            if isinstance(step.op, Lookup):
                rows = array.dtype.bytes * step.output.elements
                if self.multiplied(name):
                    return [("weights", rows)]
                return [("weights", rows), ("tables", array.bytes - rows)]
            return [("weights", array.bytes * self.touched(array, step))]
        if name in self.served.cache or name in self.served.state:
            return [("cache", array.bytes)]
        out = [("activations", array.bytes)]
        if any(map(is_keys, array.labels)) and self.served.cache:
            # Keys and values made again of all cached tokens are too many to stay on chip.
            return [("cache", array.bytes)]
        if name in self.served.appended and array is step.output:
            out.append(("cache", self.cache.bytes * array.elements))
        return out

    def multiplied(self, table: str) -> bool:
        """Whether a table is a product's weight, too, and so read whole: a tied embedding."""
        ops = self.sharded.program.ops
        return any(isinstance(op, Einsum) and table in {a.name for a in op.inputs} for op in ops)

    def touched(self, weight: Array, step: Compute) -> Expr:
        """The share of the experts that this step's tokens meet: the expected one."""
        slots = next((dim.local for dim in step.inputs[0].dims if dim.name == "c"), None)
        if slots is None or "E" not in map(base, weight.labels):
            return S.One
        # Not over one denominator: E**B would leave the range of floats at a few hundred tokens.
        return experts_touched(cancel(slots * E / k)) / E
