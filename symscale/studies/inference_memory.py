"""Bytes on one device while a model serves: weights, cache, states and a step's own arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, Integer, S, Symbol, cancel, ceiling, sympify

from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, quantity
from symscale.arrays.array import Array
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.bykind import ByKind
from symscale.studies.inference_kernels import Pass
from symscale.studies.inference_layout import ServingLayout
from symscale.studies.inference_program import Served

#: Bytes of memory of one chip that may be used.
HBM_BYTES = quantity("M_hbm", r"M_{\mathrm{hbm}}", "bytes of HBM of one chip", "byte")


#: No batch is looked for above this.
_MOST = 2**60


@dataclass(frozen=True, repr=False)
class ServingMemory(ByKind):
    """Bytes on a device by kind, for ``B`` sequences of ``S`` tokens in flight.

    ``weights``; ``cache``, keys and values; ``state`` of recurrent layers; ``working``, the most
    that one kernel reads and writes besides those (of gathered weights, one kernel's). ``kept`` are
    the cached arrays with how often a model has them.
    """

    weights: Expr
    state: Expr
    working: Expr
    kept: tuple[tuple[Expr, Array], ...]
    block: Expr = S.One

    @property
    def cache(self) -> Expr:
        """Bytes that the cache reserves: whole blocks of tokens (of one token, what is needed)."""
        return Add(*(count * self._reserved(array) for count, array in self.kept))

    def _reserved(self, array: Array) -> Expr:
        if self.block == 1:
            return array.bytes
        tokens = array.dims[1].size
        return array.bytes / tokens * self.block * ceiling(tokens / self.block)

    def paged(self, block: int) -> ServingMemory:
        """The same with the cache in blocks of so many tokens; 1: only what is needed."""
        return replace(self, block=sympify(block, strict=True))

    @property
    def kinds(self) -> Mapping[str, Expr]:
        """All kinds; those that are nothing are left out."""
        every = {
            "weights": self.weights,
            "cache": self.cache,
            "state": self.state,
            "working": self.working,
        }
        return MappingProxyType({kind: value for kind, value in every.items() if value != 0})

    @property
    def largest_batch(self) -> Crossover:
        """From which batch the memory of a chip is too small, in closed form.

        >>> from symscale.studies.inference import inference
        >>> memory = inference("llama-3-70b").formulas.memory
        >>> memory.largest_batch.variable
        B
        """
        return crossover(self.total, HBM_BYTES, B)

    def largest(self, room: Expr, step: int, values: Mapping[Symbol, Any]) -> int:
        """The largest batch in so many bytes, a multiple of ``step``; 0 if there is none.

        ``values`` are all numbers but the batch. Where the total is no line, it is found by halving
        an interval: memory never falls with the batch.
        """
        total = evaluate(self.total, {**values, B: B})

        def fits(times: int) -> bool:
            return bool(total.xreplace({B: Integer(times * step)}).doit() <= room)

        if not fits(1):
            return 0
        low, high = 1, 2
        while high < _MOST and fits(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low * step

    def ways(self, mesh: Mapping[str, int]) -> int:
        """The ways over which a batch is cut, on a mesh of these sizes."""
        axes = {name for _, array in self.kept for name in array.dims[0].axes}
        return prod(mesh.get(name, 1) for name in axes)

    def put(self, values: Mapping[Symbol, Any]) -> ServingMemory:
        """The same with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        kept = tuple((count.xreplace(swap), _put(array, swap)) for count, array in self.kept)
        weights, state, working = (
            one.xreplace(swap) for one in (self.weights, self.state, self.working)
        )
        return ServingMemory(weights, state, working, kept, self.block)


def _put(array: Array, swap: Mapping[Symbol, Expr]) -> Array:
    return replace(array, dims=tuple(replace(d, size=d.size.xreplace(swap)) for d in array.dims))


def serving_memory(
    layers: Iterable[Served],
    layout: ServingLayout,
    step: Pass,
    state: Expr = S.Zero,
    beside: Expr = S.Zero,
) -> ServingMemory:
    """Memory of a model that generates under a layout.

    Args:
        layers: layers and ends, as they serve.
        layout: where they lie.
        step: a step of generation, for the arrays that it works on.
        state: bytes that one sequence keeps at any length.
        beside: bytes of weights that no step reads and every device holds (an image tower's).
    """
    parts = tuple(layers)
    weights, kept = beside, []
    for served in parts:
        weights += Add(*weights_of(served, layout).values())
        kept += [(served.count, layout.around_cache(array)) for array in served.kept]
    rows = Array("rows", (next(d for _, a in kept for d in a.dims[:1]),)) if kept else None
    cut = S.One if rows is None else rows.elements / B
    return ServingMemory(weights, state * B * cut, _working(step), tuple(kept))


def weights_of(served: Served, layout: ServingLayout) -> Mapping[str, Expr]:
    """Bytes of each weight of a program on a device, as often as a model has the program."""
    arrays = served.program.arrays
    return MappingProxyType(
        {name: served.count * layout.weight(arrays[name]).bytes for name in served.program.weights}
    )


def _working(step: Pass) -> Expr:
    """The arrays of the largest kernel, with the weights that are gathered for it alone.

    Activations all grow with the batch, so that it is factored out.
    """
    arms: dict[Expr, dict[Expr, None]] = {}
    for one in step.kernels:
        if one.activations != 0 or one.gathered != 0:
            arms.setdefault(one.gathered, {})[cancel(one.activations / B)] = None
    each = [B * _largest(rows) + weights for weights, rows in arms.items()]
    return _largest(each) if each else S.Zero


def _largest(amounts: Iterable[Expr]) -> Expr:
    unlike = tuple(dict.fromkeys(amounts))
    return unlike[0] if len(unlike) == 1 else Maximum(*unlike)
