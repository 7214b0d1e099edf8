"""Ring attention: keys and values go round instead of being gathered.

What gather-KV gathers before attention, ring attention passes on block by block while the block
at hand is worked on; what it scatters in reverse (gradients of keys and values) goes round too,
each device adding its own. The products are the same, so the passes are derived from gather-KV's:
each gather and each scatter along the keys becomes ``ways - 1`` CollectivePermutes of a block.

Source: Ring Attention, https://arxiv.org/abs/2310.01889, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sympy import Expr, Mul, S

from symscale.algebra.links import CollectiveKind, Network
from symscale.algebra.symbols import axis
from symscale.arrays.array import Array
from symscale.arrays.notation import axes_text
from symscale.parallel.sequence import KEYS
from symscale.programs.collectives import AllGather, Collective, ReduceScatter
from symscale.programs.partition import Partitioner
from symscale.programs.phase import Phase, Step
from symscale.programs.sharded import ShardedProgram


@dataclass(frozen=True)
class RingPass(Collective):
    """Blocks along ``dim`` go from device to device until each has been everywhere.

    Without ``adds``, every device sees the blocks of all others, one at a time. With it, the blocks
    are sums to which every device adds its part before it passes them on; each comes to rest,
    complete, where the block belongs. A device's own part need not travel, so there is one pass
    fewer than there are devices.
    """

    dim: str = ""
    adds: bool = False

    @property
    def kind(self) -> CollectiveKind:
        """The collective's standard name: every pass is one."""
        return "CollectivePermute"

    @property
    def name(self) -> str:
        """How an algorithm writes it: how many passes of what."""
        return f"({self.hops}) x CollectivePermute_{axes_text(self.axes)}"

    @property
    def hops(self) -> Expr:
        """How often a block is passed on: once less than there are devices."""
        return Mul(*map(axis, self.axes)) - 1

    @property
    def block(self) -> Array:
        """What goes over a link at a time."""
        return self.after if self.adds else self.before

    @property
    def volume(self) -> Expr:
        """Bytes: those of a block for every pass."""
        return self.hops * self.block.bytes

    @property
    def buffer(self) -> Expr:
        """Bytes of the one block that arrives while another is worked on."""
        return self.block.bytes

    def seconds(self, network: Network) -> Expr:
        """As many permutes of a block, one after another."""
        return self.hops * network.time(self.kind, self.block.bytes, self.axes)


@dataclass(frozen=True)
class RingProgram(ShardedProgram):
    """A sharded program whose keys and values go round along ``ring`` instead of being gathered.

    A block that went by is not kept: the backward pass sends keys and values round again.
    """

    ring: tuple[str, ...] = field(default=(), kw_only=True)

    def _hand_over(self, made: Partitioner) -> None:
        super()._hand_over(made)
        for name, copies in made.copies.items():
            made.copies[name] = [copy for copy in copies if _keys(copy) == _keys(copies[0])]

    def _carried(self, phase: Phase) -> Phase:
        """Keys and values go round, and in reverse the gradients of both as well."""
        steps = tuple(self._passed(step) for step in phase.steps)
        return Phase(phase.name, steps, phase.fused)

    def _passed(self, step: Step) -> Step:
        """A gather or scatter of blocks of keys as passes of them; another step as it is."""
        if not isinstance(step, AllGather | ReduceScatter) or step.axes != self.ring:
            return step
        if step.dim not in KEYS:
            return step
        adds = isinstance(step, ReduceScatter)
        return RingPass(step.before, step.after, step.axes, False, dim=step.dim, adds=adds)


def _keys(array: Array) -> tuple[tuple[str, ...], ...]:
    """How an array's keys are sharded."""
    return tuple(dim.axes for dim in array.dims if dim.name in KEYS)


def ringed(sharded: ShardedProgram, axes: tuple[str, ...]) -> RingProgram:
    """The same program with passes round a ring in place of its gathers along the keys."""
    shardings: Mapping[str, Array] = sharded.shardings
    return RingProgram(sharded.program, shardings, sharded.keep, sharded.sizes, ring=axes)


def ring_buffers(sharded: ShardedProgram) -> Expr:
    """Bytes of the blocks that arrive while others are worked on; nothing without a ring.

    In the backward pass these are a block of keys, of values and of the gradients of both.

    >>> from symscale.parallel.attention_layer import attention_layer
    >>> from symscale.parallel.strategy import strategy
    >>> ring_buffers(strategy("ring").shard(attention_layer()))
    8*B*H*K/Z
    """
    return S.Zero + sum((move.buffer for move in passes(sharded.backward)), S.Zero)


def passes(phase: Phase) -> tuple[RingPass, ...]:
    """The round trips of a pass."""
    return tuple(step for step in phase.steps if isinstance(step, RingPass))
