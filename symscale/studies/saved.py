"""What a sharded layer keeps for its backward pass under a policy, and what it computes again.

Both are read off the passes: what the backward pass reads and does not find has to be made again,
by the steps of the forward pass that make it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Expr

from symscale.arrays.array import Array
from symscale.models.remat import is_held, rematerialise
from symscale.parallel.techniques import Remat
from symscale.programs.collectives import Collective, Move
from symscale.programs.ops import View
from symscale.programs.phase import Compute, Phase, Step
from symscale.programs.sharded import ShardedProgram


def read_back(sharded: ShardedProgram) -> tuple[Array, ...]:
    """The forward arrays that the backward pass reads, in the sharding it reads them.

    Regrouped dims are the same memory under another name; arrays kept on chip are made again.
    """
    same = _regrouped(sharded)
    found: dict[tuple[str, Expr], Array] = {}
    for array in _outside(sharded):
        if array.name not in sharded.program.fused and is_held(array):
            found.setdefault((same.get(array.name, array.name), array.elements), array)
    return tuple(found.values())


def _regrouped(sharded: ShardedProgram) -> dict[str, str]:
    """For a regrouped array the name of what it is a view of."""
    ops = sharded.program.ops
    return {op.output.name: op.inputs[0].name for op in ops if isinstance(op, View)}


def _outside(sharded: ShardedProgram) -> Iterator[Array]:
    """What the backward pass takes from the forward pass, weights left out."""
    program = sharded.program
    forward = frozenset(program.arrays) - frozenset(program.weights)
    made = {step.after for step in sharded.backward.collectives}
    for step in sharded.backward.steps:
        for array in step.inputs if isinstance(step, Compute) else (step.before,):
            if array.name in forward and array not in made:
                yield array


def saved(sharded: ShardedProgram, policy: Remat) -> tuple[Array, ...]:
    """The arrays that a policy saves, in the sharding in which the backward pass reads them.

    Saved by name, or for a whole layer to be computed again, they lie as they do between ops.

    Raises:
        ModelError: for a name that the layer does not have.
    """
    read = read_back(sharded)
    if policy == "none":
        return read
    names = tuple(array.name for array in rematerialise(sharded.program, policy).saved)
    if isinstance(policy, tuple):
        return tuple(sharded.sharding(name) for name in policy)
    if policy in ("block", "full"):
        return tuple(sharded.sharding(name) for name in names)
    by_name = {array.name: array for array in read}
    return tuple(by_name.get(name, sharded.sharding(name)) for name in names)


def recomputed(sharded: ShardedProgram, policy: Remat) -> Phase:
    """The steps of the forward pass that are repeated before the backward pass.

    Gathered weights are not gathered anew for it: the backward pass gathers them anyway. Without a
    policy nothing is repeated but what stays on chip, which counts as part of its kernel.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> tensor = two_matmul_layer().shard("In[B, D_Y]", "Win[D, F_Y]", "Tmp[B, F_Y]")
    >>> print(recomputed(tensor, "block"))
    In[B, D]    = AllGather_Y In[B, D_Y]    2*B*D bytes, waits
    Tmp[B, F_Y] = In[B, D] · Win[D, F_Y]
    """
    if policy == "none":
        return Phase("recompute", ())
    made = _Demand(sharded, policy)
    kept = [step for step in reversed(sharded.forward.steps) if made.takes(step)]
    return Phase("recompute", tuple(reversed(kept)), sharded.forward.fused)


class _Demand:
    """Walks the forward pass backwards and takes what makes something that is wanted."""

    def __init__(self, sharded: ShardedProgram, policy: Remat) -> None:
        self.weights = frozenset(sharded.program.weights)
        self.same = _regrouped(sharded)
        self.held = {self._place(array) for array in saved(sharded, policy)}
        self.wanted = {a for a in _outside(sharded) if self._place(a) not in self.held}
        self.rows: set[str] = set()

    def _place(self, array: Array) -> tuple[str, Expr, tuple[str, ...]]:
        """The memory that an array lies in: views share theirs."""
        name = array.name
        while name in self.same:
            name = self.same[name]
        return name, array.elements, array.unreduced

    def takes(self, step: Step) -> bool:
        """Whether a step is repeated; what it reads is wanted then."""
        if isinstance(step, Collective) and step.statistic:
            return step.before.name in self.rows
        after = step.output if isinstance(step, Compute) else step.after
        if after not in self.wanted or after.name in self.weights:
            return False
        if isinstance(step, Compute):
            self.rows.add(f"{step.output.name}.stat")
        inputs = step.inputs if isinstance(step, Compute) else (step.before,)
        self.wanted |= {array for array in inputs if self._place(array) not in self.held}
        assert isinstance(step, Compute | Move)
        return True
