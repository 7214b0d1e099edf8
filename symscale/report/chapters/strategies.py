"""Each strategy: its sharding, the derived algorithm, costs, condition, memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sympy import Expr, together

from symscale.algebra.symbols import B, n
from symscale.models.decoder import two_matmul_layer
from symscale.programs.sharded import ShardedProgram
from symscale.report.chapters.layers import algorithm, cost_rows, left_out_text, own_layers
from symscale.report.document import (
    Callout,
    Cell,
    DerivationBlock,
    Section,
    Table,
    callout,
    equation,
    listing,
    section,
    table,
    text,
)
from symscale.report.numbers import memory, number, seconds
from symscale.report.rich import Code, Math, Part
from symscale.report.study import Rival, TrainingStudy

Tick = Callable[[str], None]


def strategies_chapter(study: TrainingStudy, tick: Tick) -> list[Section]:
    """The table of all strategies, then one section for each; else the step's own layers."""
    if study.left_out:
        name = study.step.strategy.name
        tick(f"strategy {name}")
        return [section(f"Strategy {name}", *_own(study)), *own_layers(study)]
    sections = [section("Strategies", *_overview(study))]
    derived: dict[tuple[Expr, Expr], str] = {}
    for rival in study.rivals:
        name = rival.strategy.name
        tick(f"strategy {name}")
        earlier = derived.setdefault((rival.bound.math, rival.bound.comms), name)
        blocks = _strategy(rival, earlier if earlier != name else "")
        sections.append(section(f"Strategy {name}", *blocks, level=2))
    return sections


def _own(study: TrainingStudy) -> list[Any]:
    """What the step's strategy splits, and why no other is compared."""
    meaning = study.step.strategy.meaning
    axes = ", ".join(
        f"{role} on {''.join(names)}" for role, names in study.step.strategy.axes.items()
    )
    return [
        text(f"{meaning[0].upper()}{meaning[1:]}. Mesh axes by role: {axes}."),
        left_out_text(study),
    ]


def _overview(study: TrainingStudy) -> list[Any]:
    layer = two_matmul_layer()
    rows = []
    for rival in study.rivals:
        passes = rival.strategy.shard(layer).phases
        rows.append((Code(rival.strategy.name), *(_volumes(p.volume()) for p in passes)))
    return [
        text(
            "A strategy is an assignment of mesh axes to dims. The table shows what that costs "
            "on the "
            "textbook's layer of two matmuls, ",
            Code("In[B, D] · Win[D, F]"),
            " then ",
            Code("Tmp[B, F] · Wout[F, D]"),
            ": the partitioner inserts the collectives, and the "
            "backward pass is the forward pass transposed and partitioned again.",
        ),
        table(
            ["strategy", "forward", "backward", "optimizer step"],
            rows,
            "Bytes that enter each device's collectives on a layer of two matmuls, by mesh axis.",
        ),
    ]


def _volumes(volume: Mapping[Any, Expr]) -> list[Part]:
    parts: list[Part] = []
    for key, value in sorted(volume.items(), key=lambda item: str(item[0])):
        names = "".join(s.name for s in key) if isinstance(key, tuple) else str(key)
        parts += [", " if parts else "", f"{names}: ", Math(value)]
    return [p for p in parts if p != ""] or ["0"]


def _strategy(rival: Rival, earlier: str) -> list[Any]:
    """A strategy's blocks; ``earlier`` names one with the same comparison, already derived."""
    sharded = rival.strategy.shard(two_matmul_layer())
    title = f"When it is compute-bound ({rival.bound.passes})"
    derivation = (
        text(f"{title}: the two times are those of ", Code(earlier), ", and so is the wall.")
        if earlier
        else DerivationBlock(rival.bound.derivation, title)
    )
    meaning = rival.strategy.meaning
    blocks: list[Any] = [
        text(f"{meaning[0].upper()}{meaning[1:]}."),
        listing([_sharding(sharded)], "Sharding of the layer of two matmuls."),
        *(algorithm(phase) for phase in sharded.phases if phase.steps),
        _costs(rival),
        derivation,
        _numbers(rival),
        _verdict(rival),
        _memory(rival),
    ]
    return blocks


def _sharding(sharded: ShardedProgram) -> str:
    return "  ".join(sharded.sharding(name).short for name in sharded.program.arrays)


def _costs(rival: Rival) -> Table:
    """The decoder's layer: FLOPs, bytes and seconds of each pass."""

    def timed(expr: Expr) -> Part:
        return seconds(rival.number(expr))

    return table(
        ["pass", "cost of one layer", "formula", ("time", "right")],
        cost_rows(rival.step.layer.phases, rival.step.network, timed),
        f"The decoder's layer under {rival.strategy.name}, per device; times at {rival.axis_text}.",
    )


def _numbers(rival: Rival) -> Any:
    if rival.wall is None:
        return text(
            "On this network it has no single wall; the verdict compares the times themselves."
        )
    bound, study = rival.bound, rival.study
    batch = bound.answer.variable == B
    quantity = _quantity(rival)
    value = number(rival.wall, "tokens a chip" if batch else "chips")
    return text(
        f"On {study.chip.title}, with ",
        *_links(rival),
        ", the wall is at ",
        equation(quantity, bound.per_chip, value),
        ".",
    )


def _quantity(rival: Rival) -> Expr:
    bound = rival.bound
    if bound.answer.variable != B:
        return bound.answer.variable
    return B / n


def _links(rival: Rival) -> list[Part]:
    laid = rival.study.chip.layout(rival.strategy.mesh_axes).bindings
    parts: list[Part] = []
    for symbol, count in laid.items():
        parts += [", " if parts else "", equation(symbol, number(int(count)))]
    return [p for p in parts if p != ""]


def _verdict(rival: Rival) -> Callout:
    study = rival.study
    good = rival.is_compute_bound
    word = {"compute": "compute-bound", "HBM": "HBM-bound"}.get(
        rival.bound_by, "communication-bound"
    )
    if rival.wall is None:
        said = f"on {rival.axis_text} the layer of two matmuls is {word}."
    elif rival.bound.answer.variable == B:
        side = "above" if rival.measured >= rival.wall else "below"
        said = (
            f"{study.batch:,} tokens on {study.chips:,} chips are {study.per_chip:,.4g} a chip, "
            f"{side} the {rival.wall:,.4g} needed: {word}."
        )
    else:
        side = "within" if rival.measured <= rival.wall else "beyond"
        said = (
            f"{study.chips:,} chips are {side} the "
            f"{rival.wall:,.4g} that this split supports: {word}."
        )
    if rival.off_mesh:
        said += " The best split lies off the mesh; with one axis taking all chips it is so."
    title = f"{rival.strategy.name} on {study.chips:,} chips"
    return callout("good" if good else "bad", said, title=title)


def _memory(rival: Rival) -> Table:
    kinds = rival.step.formulas.memory.by_kind
    rows: list[tuple[str, Cell, Cell]] = [
        (kind, Math(together(expr)), memory(rival.number(expr))) for kind, expr in kinds.items()
    ]
    hbm = int(rival.study.chip.hbm_bytes)
    rows.append(("total", "", memory(rival.memory_bytes)))
    word = "It fits" if rival.fits else "It does not fit"
    return table(
        ["kind", "formula", ("bytes", "right")],
        rows,
        f"Memory of one chip under {rival.strategy.name} at {rival.axis_text}.",
        notes=[
            [f"{word} the chip's ", memory(hbm), "."],
            *([f"On this mesh it cannot lie: {rival.cannot_lie}."] if rival.cannot_lie else []),
        ],
    )
