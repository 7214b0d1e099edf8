"""Ways to compute a product, weighed by numbers where the better one depends on them.

Without sizes a product computes where :func:`~symscale.programs.layout.layout` says, a rule that
holds for any. Two choices turn with the sizes: which operand moves, and whether an operand that
alone is sharded on a summed dim is gathered or the other one sliced and the partial result reduced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sympy import Add, Expr, Symbol

from symscale.algebra.substitution import evaluate
from symscale.arrays.array import Array
from symscale.programs.collectives import Collective, Move
from symscale.programs.layout import Axes, Layout
from symscale.programs.ops import Einsum
from symscale.programs.phase import Compute
from symscale.programs.reshard import reshard

#: What a tie in FLOPs is broken by, and what fewer FLOPs may cost: up to twice the bytes. An
#: AllReduce counts its array twice, so an operand is sliced rather than gathered exactly where the
#: result on a device is smaller than the gathered operand: the smaller array is the one that moves.
WORTH = 2

Fetch = Callable[[Array, Layout], tuple[Move, ...]]


@dataclass(frozen=True)
class Price:
    """Matrix FLOPs and bytes of collectives on a device, as numbers."""

    flops: Expr
    bytes: Expr

    def beats(self, other: Price) -> bool:
        """Whether this way is taken instead of the other: :data:`WORTH` has the rule."""
        if self.flops < other.flops:
            return bool(self.bytes < WORTH * other.bytes)
        return bool(self.flops == other.flops and self.bytes < other.bytes)


def other_layouts(
    op: Einsum, usual: Layout, operands: tuple[Array, ...], wanted: Mapping[str, Axes] | None
) -> Iterator[Layout]:
    """The layouts besides the usual one: where the result is wanted, and summed dims left cut.

    None where both operands are cut along a summed dim: that such a product is local and its result
    reduced is no matter of sizes.
    """
    if any(usual[label] for label in op.summed):
        return
    if wanted is not None:
        yield {**usual, **{label: wanted.get(label, ()) for label in op.output.labels}}
    used = {axis for axes in usual.values() for axis in axes}
    for label in op.summed:
        for axes in dict.fromkeys(array.dim(label).axes for array in operands):
            if axes and used.isdisjoint(axes):
                yield {**usual, label: axes}


def cheapest(
    op: Einsum,
    layouts: Sequence[Layout],
    fetch: Fetch,
    target: Array | None,
    sizes: Mapping[Symbol, Expr],
) -> Layout:
    """The layout that none of the others beats, the first in a tie."""
    best, paid = layouts[0], _price(op, layouts[0], fetch, target, sizes)
    for where in layouts[1:]:
        price = _price(op, where, fetch, target, sizes)
        if price.beats(paid):
            best, paid = where, price
    return best


def _price(
    op: Einsum, where: Layout, fetch: Fetch, target: Array | None, sizes: Mapping[Symbol, Expr]
) -> Price:
    moves = [move for array in op.inputs for move in fetch(array, where)]
    partial = tuple(axis for label in op.summed for axis in where.get(label, ()))
    result = op.output.placed({x: where.get(x, ()) for x in op.output.labels}, partial)
    goal = target if target is not None else result.placed(result.sharding)
    moves += reshard(result, goal)
    operands = tuple(a.placed({x: where.get(x, ()) for x in a.labels}) for a in op.inputs)
    volume = Add(*(move.volume for move in moves if isinstance(move, Collective)))
    flops = Compute(op, operands, result).flops
    return Price(evaluate(flops, sizes), evaluate(volume, sizes))
