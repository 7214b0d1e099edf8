"""When a strategy stays compute-bound: its layer timed, its best split found, and solved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Eq, Expr, Integer, Mul, Symbol, cancel

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.symbols import B, axis, n
from symscale.algebra.time import Time
from symscale.models.decoder import two_matmul_experts, two_matmul_layer
from symscale.parallel.strategy import Strategy
from symscale.programs.program import Program
from symscale.programs.sharded import ShardedProgram
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.solve.minimise import minimise
from symscale.solve.optimum import Optimum


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
    mesh: Mapping[str, int] | None = None

    @property
    def per_chip(self) -> Expr:
        """The threshold, for each chip where it is a batch."""
        wall = self.answer.threshold
        if wall is None or self.answer.variable != B:
            return wall
        if self.mesh is not None:
            return wall / Mul(*self.mesh.values())
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
    """When a strategy's layer of two matmuls takes longer to compute than to communicate (two an
    expert, and the way there and back, where experts are dealt out).

    The forward pass is compared where all mesh axes communicate in it, else the backward pass with
    the movements of the optimizer step behind it. Under two roles the chips are split in the best
    way first, several mesh axes in one role as one; ``overlapped`` lets the axes work at once
    instead of one after another. Where the batch cancels (no axis splits it), the condition is on
    the size of the mesh axis, or on the number of chips.

    Raises:
        SolveError: when no split is the best, or the strategy has stages, which a bubble binds.

    Source: How To Scale Your Model, "Training"; the layer, not the answer, is taken from there.

    >>> from symscale.parallel.strategy import strategy
    >>> compute_bound(strategy("fsdp")).per_chip
    C/(M_X*W_ici)
    """
    if strategy.pipeline is not None:
        raise SolveError(
            f"strategy {strategy.name}: stages are bound by their bubble; see schedule(...)"
        )
    sharded = strategy.shard(_layer(strategy))
    passes, time = _compared(sharded, set(strategy.mesh_axes), network)
    comms = time.comms_overlapped if overlapped else time.comms
    if len(strategy.axes) == 1:
        unknown = B if "data" in strategy.axes else axis(strategy.mesh_axes[0])
        answer = crossover(time.math, comms, unknown)
        return ComputeBound(strategy, passes, time.math, comms, answer, None, overlapped)
    roles, math, moved = _by_role(strategy, time.math, comms)
    best = minimise(moved, over=roles, subject_to=Eq(Mul(*roles), n))
    batch_stays = (math / best.value).has(B)
    math = math if batch_stays else math.subs(roles[1], n / roles[0])
    answer = crossover(math, best.value, B if batch_stays else n)
    return ComputeBound(strategy, passes, time.math, comms, answer, best, overlapped)


def compute_bound_on(
    strategy: Strategy, mesh: Mapping[str, int], network: Network, overlapped: bool = False
) -> ComputeBound:
    """The same on a mesh of given sizes, with no split sought: for networks on which it has none.

    >>> from symscale.parallel.strategy import strategy
    >>> from symscale.algebra.links import IDEAL
    >>> compute_bound_on(strategy("fsdp"), {"X": 8}, IDEAL).per_chip
    C/(M_X*W_ici)
    """
    sharded = strategy.shard(_layer(strategy))
    passes, found = _compared(sharded, set(strategy.mesh_axes), network)
    time = found.put({axis(name): size for name, size in mesh.items()})
    comms = time.comms_overlapped if overlapped else time.comms
    answer = crossover(time.math, comms, B)
    return ComputeBound(strategy, passes, time.math, comms, answer, None, overlapped, mesh)


def _layer(strategy: Strategy) -> Program:
    return two_matmul_experts() if "expert" in strategy.axes else two_matmul_layer()


def _by_role(strategy: Strategy, math: Expr, comms: Expr) -> tuple[tuple[Symbol, ...], Expr, Expr]:
    """One symbol a role: several mesh axes in one role count as one, the first, as large as all.

    Raises:
        SolveError: when a time depends on more than the product of a role's axes.
    """
    roles = []
    for names in strategy.axes.values():
        first, *others = (axis(name) for name in names)
        roles.append(first)
        for other in others:
            shifted = {first: first * other, other: Integer(1)}
            for time in (math, comms):
                if cancel((time - time.subs(shifted, simultaneous=True)).doit()) != 0:
                    raise SolveError(
                        f"strategy {strategy.name}: the split of {', '.join(names)} among "
                        "themselves matters; give each role one mesh axis"
                    )
            math, comms = math.subs(other, 1), comms.subs(other, 1)
    return tuple(roles), math, comms


def _compared(sharded: ShardedProgram, mesh_axes: set[str], network: Network) -> tuple[str, Time]:
    if {name for move in sharded.forward.collectives for name in move.axes} == mesh_axes:
        return "forward pass", sharded.forward.time_on(network)
    behind = sharded.backward.time_on(network)
    if not sharded.update.collectives:
        return "backward pass", behind
    both = behind.beside(sharded.update.time_on(network)).merged()
    return "backward pass, with the optimizer step's movements behind it", both
