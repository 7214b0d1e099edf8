"""When a strategy stays compute-bound: its layer timed, its best split found, and solved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sympy import Eq, Expr, Mul

from symscale.algebra.derivation import Derivation
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.symbols import B, axis, n
from symscale.algebra.time import Time
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.strategy import Strategy
from symscale.programs.sharded import ShardedProgram
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.solve.minimise import Optimum, minimise


@dataclass(frozen=True)
class ComputeBound:
    """When arithmetic takes longer than communication on one layer under a strategy.

    ``answer`` is the condition on ``answer.variable``; ``split`` the best division of the chips
    among two mesh axes, where there are two; ``passes`` says which passes were compared.
    """

    strategy: Strategy
    passes: str
    math: Expr
    comms: Expr
    answer: Crossover
    split: Optimum | None = None
    overlapped: bool = False

    @property
    def per_chip(self) -> Expr:
        """The threshold, for each chip where it is a batch."""
        wall = self.answer.threshold
        if wall is None or self.answer.variable != B:
            return wall
        chips = n if self.split else Mul(*(axis(name) for name in self.strategy.mesh_axes))
        return wall / chips

    @property
    def derivation(self) -> Derivation:
        """The steps: the split, then the crossover."""
        before = self.split.derivation if self.split else Derivation()
        return before + self.answer.derivation

    def to_dict(self) -> dict[str, Any]:
        """The condition as plain text."""
        return {
            "strategy": self.strategy.name,
            "passes": self.passes,
            "condition": str(self.answer.condition),
            "per_chip": str(self.per_chip),
            "derivation": self.derivation.to_dict(),
        }


def compute_bound(
    strategy: Strategy, overlapped: bool = False, network: Network = IDEAL
) -> ComputeBound:
    """When a strategy's layer of two matmuls takes longer to compute than to communicate.

    The forward pass is compared where all mesh axes communicate in it, else the backward pass with
    the movements of the optimizer step behind it. Under two mesh axes the chips are split in the
    best way first; ``overlapped`` lets the axes work at once instead of one after another. Where
    the batch cancels (no axis splits it), the condition is on the size of the mesh axis, or on the
    number of chips.

    Raises:
        SolveError: when no split is the best, as of two mesh axes that play one role.

    Source: How To Scale Your Model, "Training"; the layer, not the answer, is taken from there.

    >>> from symscale.parallel.strategy import strategy
    >>> compute_bound(strategy("fsdp")).per_chip
    C/(M_X*W_ici)
    """
    sharded = strategy.shard(two_matmul_layer())
    passes, time = _compared(sharded, set(strategy.mesh_axes), network)
    comms = time.comms_overlapped if overlapped else time.comms
    axes = tuple(axis(name) for name in strategy.mesh_axes)
    if len(strategy.axes) == 1:
        data = "data" in strategy.axes
        answer = crossover(time.math, comms, B if data else axes[0])
        return ComputeBound(strategy, passes, time.math, comms, answer, None, overlapped)
    best = minimise(comms, over=axes, subject_to=Eq(Mul(*axes), n))
    batch_stays = (time.math / best.value).has(B)
    math = time.math if batch_stays else time.math.subs(axes[1], n / axes[0])
    answer = crossover(math, best.value, B if batch_stays else n)
    return ComputeBound(strategy, passes, time.math, comms, answer, best, overlapped)


def _compared(sharded: ShardedProgram, mesh_axes: set[str], network: Network) -> tuple[str, Time]:
    if {name for move in sharded.forward.collectives for name in move.axes} == mesh_axes:
        return "forward pass", sharded.forward.time_on(network)
    behind = sharded.backward.time_on(network)
    if not sharded.update.collectives:
        return "backward pass", behind
    both = behind.beside(sharded.update.time_on(network)).merged()
    return "backward pass, with the optimizer step's movements behind it", both
