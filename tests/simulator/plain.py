"""A program on whole arrays, forward and in reverse: what the shards must come to."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symscale.programs.ops import Einsum, Lookup, Op, Pointwise, View
from symscale.programs.pool import Pool
from symscale.programs.program import Program
from symscale.programs.routing import Pick, Routed
from tests.simulator import functions, pooling, routing
from tests.simulator.devices import Devices
from tests.simulator.local import align, reduce, subscripts

Values = dict[str, np.ndarray]


def forward(program: Program, outside: Mapping[str, np.ndarray], one: Devices) -> Values:
    """Every array's value, from those of inputs and weights."""
    values = dict(outside)
    for op in program.ops:
        values[op.output.name] = _forward(op, [values[a.name] for a in op.inputs], one)
    return values


def _forward(op: Op, xs: list[np.ndarray], one: Devices) -> np.ndarray:
    match op:
        case Einsum():
            return np.einsum(subscripts(op, ""), *xs)
        case Pool():
            return pooling.whole(op, xs[0], one)
        case View():
            return xs[0].reshape(one.shape_of(op.output))
        case Lookup():
            return xs[1][xs[0].astype(int)]
        case Pick() | Routed():
            return routing.whole(op, *xs)
        case Pointwise():
            return _pointwise(op, xs, one)
    raise AssertionError(op)


def _pointwise(op: Pointwise, xs: list[np.ndarray], one: Devices) -> np.ndarray:
    lined = [align(x, a.labels, op.labels, 0) for x, a in zip(xs, op.inputs, strict=True)]
    rows = _rows(op, op.labels, one)
    if op.function.shifts:
        return _moved(lined[0], rows.axes[0], 1)
    if op.function.reduces:
        return reduce(op.function.reduces, lined[0], rows.axes, rows.count)
    return functions.forward(op.function.name, lined, rows)


def _moved(x: np.ndarray, along: int, by: int) -> np.ndarray:
    """Row p at p + by, zeros where none comes from."""
    made = np.roll(x, by, axis=along)
    made[(slice(None),) * along + (0 if by > 0 else -1,)] = 0
    return made


def _rows(op: Pointwise, labels: tuple[str, ...], one: Devices) -> functions.LocalRows:
    sizes = dict(zip(op.inputs[0].labels, one.shape_of(op.inputs[0]), strict=True))
    count = int(np.prod([sizes[label] for label in op.over], dtype=int))
    axes = tuple(labels.index(label) for label in op.over)
    return functions.LocalRows(axes, count, tuple(sizes[label] for label in labels))


def backward(program: Program, values: Values, seeds: Values, one: Devices) -> Values:
    """The gradient of ``sum(seed * output)`` for every array that it reaches."""
    grads: Values = {name: seed.copy() for name, seed in seeds.items()}
    for op in reversed(program.ops):
        if op.output.name not in grads:
            continue
        for place, array in enumerate(op.inputs):
            if array.dtype.name not in ("int32", "bool"):
                made = _reverse(op, place, values, grads[op.output.name], one)
                grads[array.name] = grads.get(array.name, 0) + made
    return grads


def _reverse(op: Op, place: int, values: Values, grad: np.ndarray, one: Devices) -> np.ndarray:
    xs = [values[array.name] for array in op.inputs]
    match op:
        case Einsum():
            return _einsum_reverse(op, place, xs, grad)
        case Pool():
            return pooling.whole_reverse(op, grad, one)
        case View():
            return grad.reshape(xs[0].shape)
        case Lookup():
            made = np.zeros_like(xs[1])
            for where in np.ndindex(xs[0].shape):
                made[int(xs[0][where])] += grad[where]
            return made
        case Pick() | Routed():
            return routing.whole_reverse(op, *xs, grad)
        case Pointwise():
            return _pointwise_reverse(op, place, xs, values[op.output.name], grad, one)
    raise AssertionError(op)


def _einsum_reverse(op: Einsum, place: int, xs: list[np.ndarray], grad: np.ndarray) -> np.ndarray:
    """By the product rule, over all dims that the operands span."""
    inputs, output = subscripts(op, "").split("->")
    both = inputs.split(",")
    return np.einsum(f"{output},{both[1 - place]}->{both[place]}", grad, xs[1 - place])


def _pointwise_reverse(
    op: Pointwise,
    place: int,
    xs: list[np.ndarray],
    result: np.ndarray,
    grad: np.ndarray,
    one: Devices,
) -> np.ndarray:
    labels = op.labels
    lined = [align(x, a.labels, labels, 0) for x, a in zip(xs, op.inputs, strict=True)]
    out = align(result, op.output.labels, labels, 0)
    incoming = align(grad, op.output.labels, labels, 0)
    if op.function.name == "softmax":
        saved = [out]
    elif op.function.name == "max":
        saved = [lined[0], out]
    elif op.function.name == "mul":
        saved = [lined[1 - place]]
    else:
        saved = lined
    rows = _rows(op, labels, one)
    if op.function.shifts:
        return _moved(incoming, rows.axes[0], -1)
    full = np.broadcast_to(
        functions.reverse(op.function.name, place, incoming, saved, rows), rows.shape
    )
    wanted = op.inputs[place].labels
    lost = tuple(place for place, label in enumerate(labels) if label not in wanted)
    rest = tuple(label for label in labels if label in wanted)
    return align(full.sum(axis=lost), rest, wanted, 0)
