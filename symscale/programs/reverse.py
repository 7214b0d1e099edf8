"""The reverse pass: every op transposed for each of its operands."""

from __future__ import annotations

from dataclasses import replace

from symscale.arrays.array import Array
from symscale.programs.ops import Einsum, Lookup, Op, Pointwise, View
from symscale.programs.routing import Pick, Routed


def gradient_name(name: str) -> str:
    """What the gradient with respect to an array is called.

    >>> gradient_name("Win")
    'dWin'
    """
    return f"d{name}"


def gradient(array: Array, suffix: str = "") -> Array:
    """The gradient of an array: the same dims under another name."""
    return replace(array, name=gradient_name(array.name) + suffix)


def differentiable(array: Array) -> bool:
    """Whether a gradient flows into this array (indices and masks have none)."""
    return array.dtype.name not in ("int32", "bool")


def transpose(op: Op, shared: frozenset[str] = frozenset()) -> tuple[Op, ...]:
    """The ops that turn the gradient of an op's result into those of its operands.

    Arrays in ``shared`` are used by several ops, so their gradients are parts to be added; such a
    part is named after the op it comes through. Nothing flows back through an array of indices.

    >>> from symscale.programs.program import program
    >>> from symscale.programs.ops import describe
    >>> for made in transpose(program("In[B, D] * W[D, F] -> Out[B, F]").ops[0]):
    ...     print(describe(made))
    dOut[B, F] · W[D, F] -> dIn[B, D]
    In[B, D] · dOut[B, F] -> dW[D, F]
    """
    if not differentiable(op.output):
        return ()
    out = []
    for position, array in enumerate(op.inputs):
        if differentiable(array):
            suffix = _part(op, position) if array.name in shared else ""
            out.append(_for_operand(op, position, gradient(array, suffix)))
    return tuple(out)


def _part(op: Op, position: int) -> str:
    """What tells one part of a gradient from the others: the op, and the operand if it is twice."""
    twice = sum(array.name == op.inputs[position].name for array in op.inputs) > 1
    return f"({op.output.name}:{position + 1})" if twice else f"({op.output.name})"


def _for_operand(op: Op, position: int, result: Array) -> Op:
    incoming = gradient(op.output)
    if isinstance(op, Einsum):
        other = op.inputs[1 - position]
        pair = (incoming, other) if position == 0 else (other, incoming)
        return Einsum(pair, result, op.math)
    if isinstance(op, View):
        return replace(op, inputs=(incoming,), output=result)
    if isinstance(op, Lookup | Pick | Routed):
        return replace(op, inputs=(op.inputs[0], incoming), output=result, reverse=True)
    assert isinstance(op, Pointwise)
    saved: tuple[Array, ...] = op.inputs
    if op.function.linear:
        saved = ()
    elif op.function.product:
        saved = (op.inputs[1 - position],)
    elif op.function.saves_output:
        saved = (op.output,)
    elif op.function.reduces == "max":
        saved = (*op.inputs, op.output)
    return replace(op, inputs=(incoming, *saved), output=result, reverse=True, wrt=position)
