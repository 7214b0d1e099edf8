"""The step's own layers, kind by kind: sharding, derived algorithm, costs."""

from __future__ import annotations

from collections.abc import Callable

from sympy import Expr, together

from symscale.algebra.links import Network
from symscale.programs.phase import Compute, Phase
from symscale.programs.sharded import ShardedProgram
from symscale.report.document import (
    Block,
    Cell,
    Listing,
    Paragraph,
    Section,
    listing,
    section,
    table,
    text,
)
from symscale.report.numbers import seconds
from symscale.report.rich import Code, Math, Part
from symscale.report.study import TrainingStudy
from symscale.studies.share import Share

#: Lines of an algorithm beyond which only those that move something are shown.
_READABLE = 50


def own_layers(study: TrainingStudy) -> list[Section]:
    """A section for each kind of layer of the step."""
    return [
        section(_title(study, share), *_layer(study, share), level=2) for share in study.step.shares
    ]


def _title(study: TrainingStudy, share: Share) -> str:
    kinds = len(study.step.shares)
    return "The layer" if kinds == 1 else f"Layers of kind {share.kind.name}"


def kind_text(share: Share) -> str:
    """A layer's kind in words: models of one kind of layer have no name for it."""
    return "layer" if share.kind.name == "layer" else f"{share.kind.name} layer"


def _layer(study: TrainingStudy, share: Share) -> list[Block]:
    phases = [phase for passes in share.passes for phase in passes if phase.steps]
    return [
        text(f"{share.kind.number} of the model's layers, ", Math(share.kind.count), "."),
        listing(_shardings(share.sharded), "Sharding of its arrays and weights."),
        *(algorithm(phase) for phase in phases),
        _costs(study, share, phases),
    ]


def _shardings(sharded: ShardedProgram) -> list[str]:
    """The arrays as they lie, a few a line."""
    names = [sharded.sharding(name).short for name in sharded.program.arrays]
    return ["  ".join(names[start : start + 4]) for start in range(0, len(names), 4)]


def algorithm(phase: Phase) -> Listing | Paragraph:
    """The lines of a phase; of a long one those that move something between chips."""
    lines = phase.lines()
    title = f"Derived algorithm, {phase.name}"
    if len(lines) <= _READABLE:
        return listing(lines, f"{title}.")
    moving = [
        line
        for line, step in zip(lines, phase.steps, strict=True)
        if not isinstance(step, Compute) and not line.endswith("free")
    ]
    if not moving:
        return text(f"None of the {len(lines)} lines of {phase.name} moves anything between chips.")
    return listing(
        moving,
        f"{title}: of its {len(lines)} lines those that move something between chips.",
    )


def _costs(study: TrainingStudy, share: Share, phases: list[Phase]) -> Block:
    result = study.result

    def timed(expr: Expr) -> Part:
        return seconds(result.seconds(study.of_microbatch(expr)))

    parts = study.step.strategy.techniques.microbatches
    of = "" if parts == 1 else ", for one microbatch (B is its batch)"
    return table(
        ["pass", "cost of one layer", "formula", ("time", "right")],
        cost_rows(tuple(phases), study.step.network, timed),
        f"One {kind_text(share)}, per device{of}; the update comes once a step. Times "
        "are those of chips at their peaks.",
    )


def cost_rows(
    phases: tuple[Phase, ...], network: Network, timed: Callable[[Expr], Part]
) -> list[tuple[Cell, ...]]:
    """FLOPs, bytes and seconds of each pass, as rows of a table."""
    rows: list[tuple[Cell, ...]] = []
    for phase in phases:
        if not phase.steps:
            continue
        time = phase.time_on(network)
        if phase.flops != 0:
            rows.append((phase.name, "FLOPs", Math(together(phase.flops)), timed(time.math)))
            rows.append(("", "HBM bytes", Math(together(phase.hbm_bytes)), timed(time.hbm)))
        for place, (key, seconds_on) in enumerate(time.by_axis.items()):
            names = "".join(s.name for s in key) if isinstance(key, tuple) else key.name
            first = "" if phase.flops != 0 or place else phase.name
            moved = Math(together(phase.volume()[key]))
            rows.append((first, f"bytes over {names}", moved, timed(seconds_on)))
    return rows


def left_out_text(study: TrainingStudy) -> Block:
    """Why no other strategy is compared."""
    return text(
        "Strategies are not compared here on the textbook's layer of two matmuls: ",
        study.left_out,
        ", which that layer does not stand for. What follows is ",
        Code(study.step.strategy.name),
        " on the model's own layers.",
    )
