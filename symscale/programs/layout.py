"""Where an op computes: the sharding of each dim while it runs, before any array is moved.

These are the textbook's four cases and their relatives. An operand that alone is sharded on a
summed dim is gathered; where both are, the product is local and its result a partial sum; where two
dims claim one mesh axis, the claim survives that leaves the wanted result's sharding.
"""

from __future__ import annotations

from collections.abc import Mapping

from symscale.arrays.array import Array
from symscale.programs.ops import Einsum, Lookup, Op, Pointwise, View
from symscale.programs.pool import Pool, pool_layout
from symscale.programs.routing import Pick

Axes = tuple[str, ...]
Layout = dict[str, Axes]


def common_prefix(left: Axes, right: Axes) -> Axes:
    """The axes that two shardings of a dim share from the major end.

    >>> common_prefix(("X", "Y"), ("X",))
    ('X',)
    """
    out = []
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        out.append(a)
    return tuple(out)


def layout(
    op: Op,
    operands: tuple[Array, ...],
    wanted: Mapping[str, Axes] | None,
    weights: frozenset[str],
) -> Layout:
    """The mesh axes of every dim while the op runs.

    ``operands`` are the arrays as they lie; ``wanted`` is the sharding the result should end with
    (None: whatever comes out); ``weights`` names the arrays that are gathered first in a tie.
    """
    if isinstance(op, Pool):
        return pool_layout(op, operands[0])
    if isinstance(op, View):
        return _view(op, operands[0])
    if isinstance(op, Pointwise):
        return _pointwise(op, operands, wanted)
    if isinstance(op, Lookup | Pick):
        operands = (_one_hot(op, operands), operands[1])
    assert isinstance(op, Einsum | Lookup | Pick)
    return _product(op, operands, wanted or {}, weights)


def _one_hot(op: Lookup | Pick, operands: tuple[Array, ...]) -> Array:
    """The ids as the one-hot matrix they stand for, its row dim lying as the table's does."""
    ids, table = operands
    if op.reverse:
        return ids
    extended = Array(ids.name, (*ids.dims, table.dim(op.row)), ids.dtype)
    sharding = {**ids.sharding, op.row: _unclaimed(table.dim(op.row).axes, ids.axes)}
    return extended.placed(sharding)


def _unclaimed(axes: Axes, taken: Axes) -> Axes:
    return tuple(name for name in axes if name not in taken)


def _product(
    op: Op, operands: tuple[Array, ...], wanted: Mapping[str, Axes], weights: frozenset[str]
) -> Layout:
    left, right = operands
    out: Layout = {}
    for label in dict.fromkeys((*left.labels, *right.labels)):
        if label in left.labels and label in right.labels:
            out[label] = _shared(
                left.dim(label).axes, right.dim(label).axes, label in op.summed, wanted.get(label)
            )
        else:
            out[label] = (left if label in left.labels else right).dim(label).axes
    _settle_claims(out, left, right, wanted, weights)
    _slice_for(out, wanted)
    return out


def _shared(left: Axes, right: Axes, summed: bool, wanted: Axes | None) -> Axes:
    """A dim of both operands: summed dims meet in what both have, batching dims in the finer."""
    prefix = common_prefix(left, right)
    if summed or prefix not in (left, right):
        return prefix if summed or wanted is None else wanted
    return max(left, right, key=len)


def _settle_claims(
    out: Layout,
    left: Array,
    right: Array,
    wanted: Mapping[str, Axes],
    weights: frozenset[str],
) -> None:
    """Let each mesh axis shard one dim only."""
    for name in dict.fromkeys(axis for axes in out.values() for axis in axes):
        claims = [label for label, axes in out.items() if name in axes]
        if len(claims) > 1:
            keeper = min(claims, key=lambda c: _rank(c, name, left, right, wanted, weights))
            for label in claims:
                if label != keeper:
                    out[label] = tuple(axis for axis in out[label] if axis != name)


def _rank(
    label: str,
    name: str,
    left: Array,
    right: Array,
    wanted: Mapping[str, Axes],
    weights: frozenset[str],
) -> tuple[bool, bool, bool]:
    """Best first: wanted by the result, then held by an activation, then by the left operand."""
    owners = [array for array in (left, right) if label in array.labels]
    return (
        name not in wanted.get(label, ()),
        all(array.name in weights for array in owners),
        label not in left.labels,
    )


def _slice_for(out: Layout, wanted: Mapping[str, Axes]) -> None:
    """Where the result should be sharded finer on an axis nobody uses, slice the operand: free."""
    for label, axes in wanted.items():
        held = out.get(label, ())
        if axes[: len(held)] != held:
            continue
        used = {axis for other in out.values() for axis in other}
        extra: list[str] = []
        for axis in axes[len(held) :]:
            if axis in used:
                break
            extra.append(axis)
        out[label] = held + tuple(extra)


def _pointwise(
    op: Pointwise, operands: tuple[Array, ...], wanted: Mapping[str, Axes] | None
) -> Layout:
    """An elementwise op works where its result should lie.

    Where dims vanish, the work stays where the main operand lies (sliced finer where that is free):
    what then has to move is the smaller result.
    """
    main = max(operands, key=lambda array: len(array.labels))
    held = {label: main.dim(label).axes if label in main.labels else () for label in op.labels}
    if wanted is None:
        return held
    if op.summed:
        _slice_for(held, wanted)
        return held
    return {label: wanted[label] for label in op.labels}


def _view(op: View, operand: Array) -> Layout:
    """Regrouped dims can be sharded on their major factor only."""
    out: Layout = {}
    for left, right in op.groups:
        out.update(dict.fromkeys((*left, *right), ()))
        axes = operand.dim(left[0]).axes
        out[left[0]] = axes
        out[right[0]] = axes
    return out
