"""How hard communication presses on arithmetic, for parts of a training step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr, S, Symbol

from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B
from symscale.algebra.time import Time
from symscale.models.decoder import two_matmul_layer
from symscale.models.model import is_score
from symscale.programs.ops import Einsum
from symscale.programs.phase import Phase
from symscale.studies.training import TrainingStep


@dataclass(frozen=True)
class Pressure:
    """Arithmetic and communication of one part of a step, in seconds.

    ``summed`` lets the mesh axes work one after another, ``overlapped`` at once.
    """

    part: str
    math: Expr
    summed: Expr
    overlapped: Expr

    def ratio(self, values: Mapping[Symbol, Any], overlapped: bool = False) -> float:
        """Communication over arithmetic; below one, arithmetic can hide it."""
        chosen = self.overlapped if overlapped else self.summed
        return float(evaluate(chosen, values)) / float(evaluate(self.math, values))

    def to_dict(self) -> dict[str, Any]:
        """The expressions as text."""
        return {
            "part": self.part,
            "math": str(self.math),
            "comms_summed": str(self.summed),
            "comms_overlapped": str(self.overlapped),
        }


def pressures(step: TrainingStep) -> tuple[Pressure, ...]:
    """The textbook's layer, the decoder's without and with attention's scores, the whole step.

    The first three are forward passes of one layer.

    >>> from symscale.studies.training import training
    >>> [p.part for p in pressures(training("llama-3-8b", "fsdp"))][0]
    'two matmuls, forward'
    """
    textbook = step.strategy.shard(two_matmul_layer()).forward.time_on(step.network)
    layer = step.layer.forward
    timed = layer.time_on(step.network)
    return (
        _of("two matmuls, forward", textbook, textbook.math),
        _of("decoder layer without attention scores, forward", timed, _without_scores(layer)),
        _of("decoder layer, forward", timed, timed.math),
        _of("whole step", step.time, step.time.math),
    )


def kind_pressures(step: TrainingStep) -> tuple[Pressure, ...]:
    """The forward pass of each kind of layer, for one microbatch, and the work of the whole step.

    >>> from symscale.studies.training import training
    >>> [p.part for p in kind_pressures(training("deepseek-v3", "fsdp+ep"))]
    ['dense layer, forward', 'moe layer, forward', 'whole step']
    """
    parts = step.strategy.techniques.microbatches
    found = []
    for share in step.shares:
        timed = share.sharded.forward.time_on(step.network).put({B: B / parts})
        name = share.kind.name if len(step.shares) > 1 else "decoder"
        found.append(_of(f"{name} layer, forward", timed, timed.math))
    return (*found, _of("whole step", step.time, step.time.math))


def _of(part: str, time: Time, math: Expr) -> Pressure:
    return Pressure(part, math, time.comms, time.comms_overlapped)


def _without_scores(phase: Phase) -> Expr:
    return sum(
        (
            step.flops / step.op.rate
            for step in phase.computes
            if isinstance(step.op, Einsum) and not is_score(step)
        ),
        S.Zero,
    )
