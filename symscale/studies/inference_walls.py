"""The walls of a step of generation, solved from its own kernels and exchanges.

Below the critical batch a step reads weights and above it, it multiplies; beyond so many
tensor-parallel ways it waits for links, whichever of the two it did before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sympy import Add, Expr, Integer, S

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import StrategyError
from symscale.algebra.links import IDEAL
from symscale.algebra.symbols import B, W_hbm, Y, Z, to_latex
from symscale.algebra.table import Table
from symscale.programs.sharded import ShardedProgram
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.inference import Inference
from symscale.studies.inference_exchanges import exchanges_of
from symscale.studies.inference_kernels import Kernel, Pass, one_pass
from symscale.studies.inference_layout import serving_layout
from symscale.studies.inference_program import Served


@dataclass(frozen=True)
class Walls:
    """Where layers of a model stop being bound by what binds them, in closed form.

    ``step`` has the layers' kernels, ``comms`` the seconds of their exchanges along Y. All symbols
    but the model's sizes are left: ``B``, ``Y`` ways, rates, links. Ways beyond the key/value heads
    are not told apart from the others, and every expert is read.
    """

    step: Pass
    comms: Expr

    @property
    def matrices(self) -> tuple[Kernel, ...]:
        """The kernels that multiply by weights."""
        return tuple(one for one in self.step.kernels if not one.attention and one.math != 0)

    @property
    def math(self) -> Expr:
        """Seconds of the products with weights."""
        return Add(*(one.count * one.math for one in self.matrices))

    @property
    def reading(self) -> Expr:
        """Seconds to read those weights."""
        return Add(*(one.count * one.weights for one in self.matrices)) / W_hbm

    @cached_property
    def critical_batch(self) -> Crossover:
        """The batch from which products take longer than reading their weights."""
        return crossover(self.math, self.reading, B)

    @cached_property
    def links_or_weights(self) -> Crossover:
        """The ways from which exchanges take longer than reading the weights: F/(B beta) and its
        like.
        """
        return crossover(self.comms, self.reading, Y)

    @cached_property
    def links_or_math(self) -> Crossover:
        """The ways from which exchanges take longer than the products: F/alpha and its like."""
        return crossover(self.comms, self.math, Y)

    @property
    def every(self) -> Mapping[str, Crossover]:
        """All of them by name."""
        return {
            "products outlast reading weights": self.critical_batch,
            "links outlast reading weights": self.links_or_weights,
            "links outlast products": self.links_or_math,
        }

    @property
    def derivation(self) -> Derivation:
        """The steps of all, one after another."""
        steps = Derivation()
        for found in self.every.values():
            steps = steps + found.derivation
        return steps

    def table(self) -> Table:
        """Each wall as a condition."""
        rows = [(name, str(found.condition)) for name, found in self.every.items()]
        return Table(("wall", "holds where"), tuple(rows))

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.critical_batch.threshold)}$"

    def to_dict(self) -> dict[str, Any]:
        """The conditions as plain text."""
        return {name: found.to_dict() for name, found in self.every.items()}


def walls(study: Inference) -> Walls:
    """The walls of a model's layers under tensor parallelism, norms and attention left out.

    Raises:
        StrategyError: for another layout than ``tp`` or ``tp+ep``.

    >>> from symscale.studies.inference import inference
    >>> walls(inference("llama-3-70b", weights="int8")).critical_batch.threshold
    C/(2*W_hbm)
    """
    if study.layout.rows or study.layout.batch:
        raise StrategyError(f"walls are of tensor parallelism, not of {study.layout.name}")
    name = "tp+ep" if study.layout.experts == "whole" else "tp"
    layout = serving_layout(name).without(frozenset({"Z"}))
    parts = [(served, layout.shard(served)) for served in study.layers[:-1]]
    step, comms = one_pass(parts, study.kv), Add(*_seconds(parts))
    sizes = {**(dict(study.model) if study.sized else {}), Z: Integer(1)}
    return Walls(_all_met(step).put(sizes), comms.xreplace(sizes))


def _seconds(parts: list[tuple[Served, ShardedProgram]]) -> list[Expr]:
    """Seconds of the exchanges of all layers, links of one mesh axis."""
    return [
        served.count * move.seconds(IDEAL)
        for served, sharded in parts
        for move in exchanges_of(sharded)
    ]


def _all_met(step: Pass) -> Pass:
    """The same with every expert read; what few tokens leave unread is a power of B."""

    def met(expr: Expr) -> Expr:
        return expr.replace(lambda e: e.is_Pow and e.exp.has(B), lambda e: S.Zero)

    return replace(step, kernels=tuple(replace(k, weights=met(k.weights)) for k in step.kernels))
