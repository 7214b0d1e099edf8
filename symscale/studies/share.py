"""One kind of layer in a training step: its sharded program, and what it computes twice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from symscale.algebra.links import Network
from symscale.algebra.time import Time
from symscale.models.decoder import LayerKind
from symscale.models.scores import Causal, masked
from symscale.parallel.techniques import Remat
from symscale.programs.phase import Compute, Phase, Step
from symscale.programs.sharded import ShardedProgram
from symscale.studies.saved import recomputed


@dataclass(frozen=True)
class Share:
    """A kind of layer under a strategy.

    ``again`` is what the backward pass computes a second time under a policy. Gathered weights are
    not gathered anew for that: the backward pass gathers them anyway.
    """

    kind: LayerKind
    sharded: ShardedProgram
    remat: Remat = "none"
    causal: Causal = False

    def _masked(self, phase: Phase) -> Phase:
        """A pass in which a query meets the keys that its window (and a causal mask) leaves."""
        return masked(phase, self.kind, self.causal)

    @cached_property
    def again(self) -> Phase:
        """The part of the forward pass that is repeated."""
        return self._masked(recomputed(self.sharded, self.remat))

    @cached_property
    def forward(self) -> tuple[Phase, ...]:
        """The phases of the forward pass."""
        return (self._masked(self.sharded.forward),)

    @cached_property
    def backward(self) -> tuple[Phase, ...]:
        """The phases of the backward pass: what is computed again, then gradients."""
        made = self._masked(self.sharded.backward)
        return (self.again, made) if self.again.steps else (made,)

    @property
    def whole(self) -> tuple[Phase, ...]:
        """Forward and backward of the unsharded layer, nothing computed again."""
        every = self.kind.program.shard()
        return self._masked(every.forward), self._masked(every.backward)

    @property
    def update(self) -> tuple[Phase, ...]:
        """The movements of the optimizer step."""
        return (self.sharded.update,)

    @property
    def passes(self) -> tuple[tuple[Phase, ...], ...]:
        """Forward, backward, update."""
        return self.forward, self.backward, self.update

    def halves(self) -> tuple[tuple[Phase, ...], tuple[Phase, ...]]:
        """The backward pass as gradients of inputs (with what is computed again), and of weights.

        A pipeline schedule may put the second off.
        """
        inputs, weights = map(self._masked, split_backward(self.sharded))
        return ((self.again, inputs) if self.again.steps else (inputs,)), (weights,)


def together(phases: tuple[Phase, ...], network: Network) -> Time:
    """Phases as one stage in which everything may overlap."""
    made = Time()
    for phase in phases:
        made = made.beside(phase.time_on(network))
    return made.merged()


def split_backward(sharded: ShardedProgram) -> tuple[Phase, Phase]:
    """A backward pass in two: what leads to the gradients of inputs, and those of weights alone.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> inputs, weights = split_backward(two_matmul_layer().shard("In[B_X, D]"))
    >>> inputs.flops, weights.flops
    (4*B*D*F/X, 4*B*D*F/X)
    >>> [move.name for move in weights.collectives]
    ['AllReduce_X', 'AllReduce_X']
    """
    names = frozenset(f"d{name}" for name in sharded.program.weights)
    backward = sharded.backward
    inputs: list[Step] = []
    weights: list[Step] = []
    for step in backward.steps:
        made = step.output if isinstance(step, Compute) else step.after
        (weights if _base(made.name) in names else inputs).append(step)
    return (
        Phase("backward of inputs", tuple(inputs), backward.fused),
        Phase("backward of weights", tuple(weights), backward.fused),
    )


def _base(name: str) -> str:
    """A gradient's own name: a part of it is called after where it comes from."""
    return name.partition("(")[0].removesuffix("+")
