"""Rematerialisation: what a layer keeps from its forward pass, and what it computes again.

A policy names the arrays that are saved; everything else follows from the program: which arrays the
backward pass reads, and which operations make those that were not saved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from sympy import Add, Expr, S

from symscale.algebra.errors import ModelError, near
from symscale.algebra.symbols import to_latex
from symscale.arrays.array import Array
from symscale.programs.ops import Einsum, Op, View
from symscale.programs.phase import Compute
from symscale.programs.program import Program
from symscale.programs.reverse import differentiable

#: ``none`` saves all that the backward pass reads; ``selective`` all but attention's scores;
#: ``matmul`` the results of products with weights; ``block``, also called ``full``, the layer's
#: input alone.
Policy: TypeAlias = Literal["none", "selective", "matmul", "block", "full"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


@dataclass(frozen=True)
class Remat:
    """What one layer saves for its backward pass, and what it computes again.

    ``bytes`` are those of the saved arrays of B tokens (the few numbers a row that norms and
    softmaxes keep are left out); ``flops`` the matrix FLOPs of the repeated operations, every query
    with every key.
    """

    policy: Policy | tuple[str, ...]
    saved: tuple[Array, ...]
    steps: tuple[Compute, ...]

    @property
    def bytes(self) -> Expr:
        """Bytes that stay from the forward to the backward pass."""
        return Add(*(array.global_bytes for array in self.saved))

    @property
    def flops(self) -> Expr:
        """Matrix FLOPs computed a second time."""
        return S.Zero + Add(*(step.flops for step in self.steps))

    @property
    def recomputed(self) -> tuple[str, ...]:
        """The arrays that are computed again."""
        return tuple(step.output.name for step in self.steps)

    def __repr__(self) -> str:
        kept = ", ".join(array.name for array in self.saved)
        anew = ", ".join(self.recomputed) or "nothing"
        title = self.policy if isinstance(self.policy, str) else "these"
        return (
            f"{title}: saves {kept} ({self.bytes} bytes)\n"
            f"computes again: {anew} ({self.flops} FLOPs)"
        )

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.bytes)}$"

    def to_dict(self) -> dict[str, Any]:
        """Policy, arrays and formulas as plain text."""
        return {
            "policy": self.policy if isinstance(self.policy, str) else list(self.policy),
            "saved": [array.name for array in self.saved],
            "bytes": str(self.bytes),
            "recomputed": list(self.recomputed),
            "flops": str(self.flops),
        }


def rematerialise(program: Program, policy: Policy | tuple[str, ...], fused: bool = True) -> Remat:
    """What a layer's program saves and repeats under a policy.

    Args:
        program: the layer, unsharded.
        policy: ``none``, ``selective``, ``matmul``, ``block`` or ``full``; or the names of the
            arrays that are saved.
        fused: scores never leave the chip, so that a kernel makes them again even where nothing
            else is; false: they are arrays like others.

    Raises:
        ModelError: for another policy, or an array that the layer does not have.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> rematerialise(two_matmul_layer(), "none").bytes
    2*B*D + 2*B*F
    >>> rematerialise(two_matmul_layer(), "block")
    block: saves In (2*B*D bytes)
    computes again: Tmp (2*B*D*F FLOPs)
    """
    if isinstance(policy, tuple):
        for name in policy:
            if name not in program.arrays:
                raise ModelError(
                    f"checkpoint {name!r}: the layer's arrays are {', '.join(program.arrays)}"
                )
            if name in program.weights:
                raise ModelError(f"checkpoint {name!r} is a weight, which lies there anyway")
    elif policy not in POLICIES:
        raise ModelError(
            f"policy {policy!r} is none of {', '.join(POLICIES)}{near(str(policy), POLICIES)}"
        )
    made = _Plan(program, fused)
    return made.under(policy)


def is_held(array: Array) -> bool:
    """Whether an array that the backward pass reads counts as memory: ids of tokens do not."""
    return array.dtype.name != "int32"


class _Plan:
    """A program's arrays by the memory they lie in: a regrouping of dims is the same array."""

    def __init__(self, program: Program, fused: bool) -> None:
        self.program = program
        self.maker = {op.output.name: op for op in program.ops}
        self.on_chip = program.fused if fused else frozenset()
        self.outside = frozenset(program.inputs) | frozenset(program.weights)

    def root(self, name: str) -> str:
        op = self.maker.get(name)
        return self.root(op.inputs[0].name) if isinstance(op, View) else name

    def needed(self) -> tuple[str, ...]:
        """The forward arrays that the backward pass reads, weights left out."""
        arrays, weights = self.program.arrays, frozenset(self.program.weights)
        found: dict[str, None] = {}
        for step in self.program.shard().backward.computes:
            for array in step.inputs:
                known = array.name in arrays and array.name not in weights
                if known and is_held(array):
                    found[self.root(array.name)] = None
        return tuple(found)

    def under(self, policy: Policy | tuple[str, ...]) -> Remat:
        needed = self.needed()
        kept = frozenset(self.chosen(policy, needed)) | frozenset(
            name
            for name in self.program.inputs
            if policy in ("block", "full") and differentiable(self.program.arrays[name])
        )
        repeated, read = self.repeated(needed, kept)
        arrays = self.program.arrays
        saved = tuple(
            arrays[name]
            for name in arrays
            if name in kept and (name in read or name in needed) and is_held(arrays[name])
        )
        steps = {step.op: step for step in self.program.shard().forward.computes}
        return Remat(policy, saved, tuple(steps[op] for op in repeated))

    def chosen(self, policy: Policy | tuple[str, ...], needed: Iterable[str]) -> Iterable[str]:
        if isinstance(policy, tuple):
            return map(self.root, policy)
        if policy in ("block", "full"):
            return ()
        if policy == "matmul":
            return (*self.program.inputs, *filter(self.is_big, self.maker))
        return (
            name
            for name in needed
            if name not in self.on_chip and not (policy == "selective" and self.is_square(name))
        )

    def is_big(self, name: str) -> bool:
        op = self.maker[name]
        weights = self.program.weights
        return isinstance(op, Einsum) and any(array.name in weights for array in op.inputs)

    def is_square(self, name: str) -> bool:
        """Whether an array has an entry for every query and key."""
        return {"T", "S"} <= set(self.program.arrays[name].labels)

    def repeated(
        self, needed: Iterable[str], kept: frozenset[str]
    ) -> tuple[tuple[Op, ...], frozenset[str]]:
        """The operations that make what is not kept, in order, and the kept arrays they read."""
        wanted: set[Op] = set()
        read: set[str] = set()
        stack = [name for name in needed if name not in kept]
        while stack:
            op = self.maker.get(stack.pop())
            if op is None or op in wanted:
                continue
            wanted.add(op)
            for array in op.inputs:
                name = self.root(array.name)
                (read.add if name in kept else stack.append)(name)
        ordered = tuple(op for op in self.program.ops if op in wanted and not isinstance(op, View))
        return ordered, frozenset(read)
