"""Bytes on one device during training, by kind, as formulas read off the shardings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from sympy import Add, Expr, Symbol, sympify

from symscale.algebra.errors import SymscaleError
from symscale.algebra.symbols import L, to_latex
from symscale.algebra.table import Table
from symscale.arrays.array import Array
from symscale.programs.ops import View
from symscale.programs.phase import Compute
from symscale.programs.reverse import differentiable
from symscale.programs.sharded import ShardedProgram

Checkpoints = Literal["all", "block"] | tuple[str, ...]
Optimizer = Literal["adam", "adam+master", "sgd"]

#: Bytes of optimizer state for each parameter: two f32 moments, and perhaps an f32 master copy.
STATE_BYTES: Mapping[str, int] = MappingProxyType({"sgd": 0, "adam": 8, "adam+master": 12})


@dataclass(frozen=True)
class Memory(Mapping[str, Expr]):
    """Bytes on a device by kind: ``parameters``, ``gradients``, ``optimizer``, ``activations``."""

    by_kind: Mapping[str, Expr]

    def __getitem__(self, kind: str) -> Expr:
        return self.by_kind[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_kind)

    def __len__(self) -> int:
        return len(self.by_kind)

    @property
    def total(self) -> Expr:
        """All kinds together."""
        return Add(*self.by_kind.values())

    def put(self, values: Mapping[Symbol, Any]) -> Memory:
        """The same with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        return Memory(
            MappingProxyType({kind: expr.xreplace(swap) for kind, expr in self.by_kind.items()})
        )

    def table(self) -> Table:
        """Kind and formula."""
        return Table(("kind", "bytes on a device"), tuple(self.by_kind.items()))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.total)}$"

    def to_dict(self) -> dict[str, Any]:
        """Formulas as text."""
        return {kind: str(value) for kind, value in self.by_kind.items()}


def training_memory(
    layer: ShardedProgram,
    ends: ShardedProgram,
    optimizer: Optimizer = "adam",
    checkpoints: Checkpoints = "all",
) -> Memory:
    """Memory of a training step on one device.

    Args:
        layer: one layer, counted L times.
        ends: embedding and head, counted once.
        optimizer: ``"adam"`` (two f32 moments, 8 bytes a parameter, the book's count),
            ``"adam+master"`` (and an f32 copy, 12 bytes) or ``"sgd"`` (nothing).
        checkpoints: which activations the backward pass finds: ``"all"`` it reads, ``"block"`` (the
            layer's input alone; a layer is computed again), or the names of the arrays saved.

    Raises:
        SymscaleError: for another optimizer, or an array that the layer does not have.
    """
    if optimizer not in STATE_BYTES:
        raise SymscaleError(f"optimizer {optimizer!r} is none of {', '.join(STATE_BYTES)}")
    kinds: Mapping[str, Callable[[ShardedProgram], Expr]] = {
        "parameters": lambda p: _weights(p, ""),
        "gradients": lambda p: _weights(p, "d"),
        "optimizer": lambda p: STATE_BYTES[optimizer] * _elements(p),
    }
    out = {kind: L * count(layer) + count(ends) for kind, count in kinds.items()}
    saved = _saved(layer) if checkpoints == "all" else _named(layer, checkpoints)
    last = _saved(ends) if checkpoints == "all" else ()
    out["activations"] = L * _bytes(saved) + _bytes(last)
    return Memory(MappingProxyType(out))


def _weights(sharded: ShardedProgram, prefix: str) -> Expr:
    names = (name for name in sharded.program.weights)
    return _bytes(sharded.sharding(prefix + name) for name in names)


def _elements(sharded: ShardedProgram) -> Expr:
    states = (sharded.sharding(f"m{name}") for name in sharded.program.weights)
    return Add(*(array.elements for array in states))


def _bytes(arrays: Iterable[Array]) -> Expr:
    return Add(*(array.bytes for array in arrays))


def _named(sharded: ShardedProgram, checkpoints: Checkpoints) -> tuple[Array, ...]:
    names = sharded.program.inputs if checkpoints == "block" else tuple(checkpoints)
    for name in names:
        if name not in sharded.program.arrays:
            raise SymscaleError(
                f"checkpoint {name!r}: the layer's arrays are {', '.join(sharded.program.arrays)}"
            )
    return tuple(sharded.sharding(name) for name in names)


def _saved(sharded: ShardedProgram) -> tuple[Array, ...]:
    """The forward arrays that the backward pass reads, in the sharding it reads them.

    Regrouped dims are the same memory under another name; arrays kept on chip are made again.
    """
    program = sharded.program
    same = {op.output.name: op.inputs[0].name for op in program.ops if isinstance(op, View)}
    gathered_anew = {step.after for step in sharded.backward.collectives}
    found: dict[tuple[str, Expr], Array] = {}
    for step in sharded.backward.steps:
        read = step.inputs if isinstance(step, Compute) else (step.before,)
        for array in read:
            if _is_kept(array, sharded) and array not in gathered_anew:
                root = same.get(array.name, array.name)
                found.setdefault((root, array.elements), array)
    return tuple(found.values())


def _is_kept(array: Array, sharded: ShardedProgram) -> bool:
    program = sharded.program
    if array.name not in program.arrays or array.name in program.weights:
        return False
    return array.name not in program.fused and differentiable(array)
