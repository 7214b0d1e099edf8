"""What a training report is about: a step with numbers in, and everything its chapters compare."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.errors import HardwareError, ShardingError, SolveError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import B, E, F, T, axis, n
from symscale.hardware.chip import Chip
from symscale.models.decoder import two_matmul_layer
from symscale.models.model import Model
from symscale.parallel.strategy import Strategy, strategy
from symscale.parallel.table import NAMES
from symscale.parallel.techniques import OPTIONS
from symscale.studies.conditions import ComputeBound, compute_bound, compute_bound_on
from symscale.studies.meshes import MeshOption, mesh_options
from symscale.studies.result import StepResult
from symscale.studies.training import TrainingStep


@dataclass(frozen=True)
class TrainingStudy:
    """A training step on a chip, the chips at hand (perhaps more than its mesh uses), and what a
    writer remarks on where its numbers come from.
    """

    result: StepResult
    chips: int
    remarks: tuple[str, ...] = ()

    @property
    def step(self) -> TrainingStep:
        """The step, in symbols."""
        return self.result.step

    @property
    def model(self) -> Model:
        """The model that is trained."""
        return self.step.model

    @property
    def chip(self) -> Chip:
        """The chip it runs on."""
        return self.result.chip

    @property
    def batch(self) -> int:
        """Tokens a step."""
        return int(self.result.values[B])

    @property
    def length(self) -> int:
        """Tokens a sequence."""
        return int(self.result.values[T])

    @property
    def spans_nodes(self) -> bool:
        """Whether the mesh reaches beyond one node of a chip without a torus."""
        return self.chip.torus is None and self.result.chips > self.chip.domain

    @property
    def per_chip(self) -> float:
        """Tokens for each chip at hand."""
        return self.batch / self.chips

    @cached_property
    def left_out(self) -> str:
        """Why strategies are not compared on the textbook's layer of two matmuls; else empty.

        That layer stands for a dense one whose batch goes through whole.
        """
        used = self.step.strategy
        if len(self.step.shares) > 1:
            return f"the layers of {self.model.name} are of {len(self.step.shares)} kinds"
        if E in self.model or F not in self.model:
            return f"the layers of {self.model.name} have experts"
        if "expert" in used.axes or "context" in used.axes:
            return f"{used.name} splits more than batch and weights"
        if used.pipeline is not None:
            return "a stage of a pipeline waits for its neighbours"
        if used.techniques.accumulates:
            return f"a batch goes through in {used.techniques.microbatches} parts"
        return ""

    @cached_property
    def options(self) -> tuple[MeshOption, ...]:
        """The meshes that the step's strategy can have, best first; none where none is compared."""
        if self.left_out:
            return ()
        plain = self.step.changed(self.step.strategy)
        return mesh_options(plain, self.chip, self.chips, self.batch, self.length)

    @cached_property
    def rivals(self) -> tuple[Rival, ...]:
        """Every strategy of the table, on the chips at hand; none where none is compared."""
        if self.left_out:
            return ()
        own = self.step.strategy.name
        names = NAMES if own in NAMES else (*NAMES, own)
        found = [self.step.strategy if name == own else self._alike(name) for name in names]
        return tuple(Rival(self, one) for one in found if self._can_lie(one))

    def _alike(self, name: str) -> Strategy:
        """Another strategy with the same techniques, as far as it takes them."""
        used = self.step.strategy.techniques
        given = {key: getattr(used, key) for key in OPTIONS if key != "reduce"}
        return strategy(name, **given)

    def of_microbatch(self, expr: Expr) -> Expr:
        """An expression of all tokens as that of one microbatch."""
        return expr.xreplace({B: B / self.step.strategy.techniques.microbatches})

    @property
    def own(self) -> Rival:
        """The study's own strategy among the rivals."""
        return Rival(self, self.step.strategy)

    def _can_lie(self, found: Strategy) -> bool:
        try:
            self.chip.layout(found.mesh_axes)
        except HardwareError:
            return False
        return True

    def rival(self, name: str) -> Rival:
        """The rival of this name, on the chips at hand."""
        return Rival(self, self._alike(name))


@dataclass(frozen=True)
class Rival:
    """A strategy on the chips at hand: one mesh axis takes all; two are split as the study's mesh.

    The split need not divide anything: this compares formulas. A mesh to run on is the study's own.
    """

    study: TrainingStudy
    strategy: Strategy

    @cached_property
    def step(self) -> TrainingStep:
        """The step under this strategy, on the chip's network."""
        sizes = self.mesh if self.study.spans_nodes else None
        return self.study.step.changed(self.strategy).on(self.study.chip, sizes=sizes)

    @cached_property
    def bound(self) -> ComputeBound:
        """When its layer of two matmuls is compute-bound, mesh axes one after another."""
        try:
            return compute_bound(self.strategy, network=self.step.network)
        except SolveError:
            # A tree of levels has no closed split: the study's own mesh is compared.
            return compute_bound_on(self.strategy, self.mesh, self.step.network)

    @cached_property
    def mesh(self) -> Mapping[str, Any]:
        """The axes' sizes: the study's for two, all chips of the study's mesh for one."""
        names = self.strategy.mesh_axes
        own = self.study.result.mesh
        if len(names) == 1:
            return {names[0]: self.study.result.chips}
        sizes = list(own.values()) if len(own) == len(names) else [self.study.result.chips, 1]
        return dict(zip(names, sizes, strict=True))

    @cached_property
    def values(self) -> dict[Symbol, Expr]:
        """Rates, sizes, batch, mesh and links."""
        laid = self.study.chip.layout(self.strategy.mesh_axes).bindings
        numbers = {"B": self.study.batch, "T": self.study.length, **self.mesh}
        found = bindings(self.study.chip, self.study.model, laid, **numbers)
        return {**found, n: bindings(n=self.study.chips)[n]}

    def number(self, expr: Expr) -> float:
        """An expression in numbers."""
        return float(evaluate(expr, self.values))

    @property
    def wall(self) -> float | None:
        """The wall of its compute-bound condition, in numbers; None where there is not just one."""
        expr = self.bound.per_chip
        return None if expr is None else self.number(expr)

    @property
    def measured(self) -> float:
        """What the wall is compared with: tokens for each chip, or the axis's size."""
        if self.bound.answer.variable == B:
            return self.study.per_chip
        return float(self.study.chips)

    @cached_property
    def spread(self) -> dict[Symbol, float]:
        """All chips at hand over the mesh axes; the best split where there are two.

        The closed form may ask for less than one device on an axis; then the other takes all.
        """
        first, *others = (axis(name) for name in self.strategy.mesh_axes)
        chips = float(self.study.chips)
        if self.bound.mesh is not None or len(others) > 1:
            return {axis(name): float(size) for name, size in self.mesh.items()}
        if self.bound.split is None or not others:
            return {first: chips}
        wanted = min(max(self.number(self.bound.split[first]), 1.0), chips)
        return {first: wanted, others[0]: chips / wanted}

    @property
    def off_mesh(self) -> bool:
        """Whether the closed form of the split asks for less than one device on an axis."""
        if self.bound.split is None:
            return False
        first = axis(self.strategy.mesh_axes[0])
        return not 1 <= self.number(self.bound.split[first]) <= self.study.chips

    @cached_property
    def layer_seconds(self) -> dict[str, float]:
        """The compared pass of the layer of two matmuls on the chips at hand, by what takes it."""
        sharded = self.strategy.shard(two_matmul_layer())
        phase = sharded.forward if "forward" in self.bound.passes else sharded.backward
        parts = {
            "compute": self.bound.math,
            "communication": self.bound.comms,
            "HBM": phase.time_on(self.step.network).hbm,
        }
        values = {**self.values, **self.spread}
        return {name: float(evaluate(expr, values)) for name, expr in parts.items()}

    @property
    def bound_by(self) -> str:
        """What the layer of two matmuls waits for: compute, communication or HBM."""
        return max(self.layer_seconds, key=lambda name: self.layer_seconds[name])

    @property
    def is_compute_bound(self) -> bool:
        """Whether the layer of two matmuls is compute-bound on the chips at hand."""
        return self.bound_by == "compute"

    @cached_property
    def cannot_lie(self) -> str:
        """Why its mesh cannot be, where an axis does not divide its dim; else empty."""
        try:
            self.step.check(self.values)
        except ShardingError as error:
            return str(error)
        return ""

    @property
    def is_good(self) -> bool:
        """Whether it is compute-bound, fits, and can lie on its mesh."""
        return self.is_compute_bound and self.fits and not self.cannot_lie

    @property
    def memory_bytes(self) -> int:
        """Bytes on one device."""
        return round(self.number(self.step.memory.total))

    @property
    def fits(self) -> bool:
        """Whether they fit the chip's HBM."""
        return self.memory_bytes <= int(self.study.chip.hbm_bytes)

    @property
    def axis_text(self) -> str:
        """The mesh on one line."""
        return " × ".join(f"{name} = {size}" for name, size in self.mesh.items())
