"""Tokens of sequences as one pool, for what takes them in any order: routing, and tables of tokens.

A regrouping ``X[b, T, D] -> Xp[B, D]`` in the order of sequences could not keep T sharded. A pool
takes the tokens as devices hold them, block after block: ``X[b_X, T_Z, D]`` is ``Xp[B_XZ, D]`` as
it stands. So its order follows the sharding that it is meant for, ``major`` of sequences and
``minor`` of positions; under another sharding it is the same order, perhaps with a gather.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from symscale.arrays.array import Array
from symscale.programs.ops import View

Axes = tuple[str, ...]


@dataclass(frozen=True)
class Pool(View):
    """Two dims merged block by block, or such a merged dim split again."""

    major: Axes = field(default=(), kw_only=True)
    minor: Axes = field(default=(), kw_only=True)

    @property
    def merges(self) -> bool:
        """Whether two dims become one."""
        return len(self.inputs[0].dims) > len(self.output.dims)

    @property
    def split(self) -> tuple[str, str]:
        """The two dims."""
        array = self.inputs[0] if self.merges else self.output
        return array.labels[0], array.labels[1]

    @property
    def flat(self) -> str:
        """The one dim."""
        return (self.output if self.merges else self.inputs[0]).labels[0]


def pool_layout(op: Pool, operand: Array) -> dict[str, Axes]:
    """The mesh axes of every dim: axes stay as far as they are those of the pool's order.

    >>> from symscale.arrays.array import array
    >>> a, c = array("A[b, T, D]"), array("C[B, D]", {"B": array("A[b, T]").size})
    >>> op = Pool((a,), c, major=("X",), minor=("Z",))
    >>> pool_layout(op, array("A[b_X, T_Z, D_Y]"))
    {'D': ('Y',), 'b': ('X',), 'T': ('Z',), 'B': ('X', 'Z')}
    """
    labels = set(op.labels)
    whole = {*op.split, op.flat}
    out = {x: operand.dim(x).axes for x in operand.labels if x in labels - whole}
    if op.merges:
        first, second = (operand.dim(label).axes for label in op.split)
    else:
        held = operand.dim(op.flat).axes
        first, second = held[: len(op.major)], held[len(op.major) :]
    major = _shared(first, op.major)
    minor = _shared(second, op.minor) if major == op.major else ()
    out.update(zip((*op.split, op.flat), (major, minor, major + minor), strict=True))
    return out


def _shared(left: Axes, right: Axes) -> Axes:
    """The axes that both have from the major end."""
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return left[:count]
