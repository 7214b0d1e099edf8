"""The best split of the chips between the mesh axes: by formula, then on real meshes."""

from __future__ import annotations

from typing import Any

from symscale.algebra.symbols import B, axis, n
from symscale.report.document import DerivationBlock, Section, equation, section, table, text
from symscale.report.numbers import count, number, percent, seconds
from symscale.report.rich import Code, Part
from symscale.report.study import Rival, TrainingStudy
from symscale.studies.conditions import compute_bound


def split_chapter(study: TrainingStudy) -> list[Section]:
    """The closed form with its derivation, both conditions, and the meshes that divide."""
    if study.left_out:
        return []
    name = study.step.strategy.name
    rival = study.rival(name) if len(study.step.strategy.axes) > 1 else study.rival("fsdp+tp")
    if not _applies(rival):
        return []
    return [section(f"The best split of {rival.strategy.name}", *_formula(rival), *_meshes(study))]


def _applies(rival: Rival) -> bool:
    return rival in rival.study.rivals and rival.bound.split is not None and bool(rival.wall)


def _formula(rival: Rival) -> list[Any]:
    split, study = rival.bound.split, rival.study
    assert split is not None
    first = axis(rival.strategy.mesh_axes[0])
    best = rival.number(split[first])
    at_once = compute_bound(rival.strategy, overlapped=True, network=rival.step.network)
    wall = rival.number(at_once.per_chip)
    own = rival.wall
    assert own is not None
    return [
        text(
            "Of all ways to divide the chips between the two axes, one has the least communication "
            "on the layer of two matmuls. It is found as a geometric program."
        ),
        *_derived(rival),
        text(
            f"On {study.chips:,} chips with {study.batch:,} tokens: ",
            equation(first, split[first], number(best)),
            ". That lies off the mesh: one axis takes all chips." if rival.off_mesh else ".",
        ),
        text(
            "At that split the layer is compute-bound from ",
            equation(B / n, rival.bound.per_chip, number(own, "tokens a chip")),
            " when the mesh axes work one after another (summed communication), and from ",
            equation(B / n, at_once.per_chip, number(wall, "tokens a chip")),
            f" when they work at once (overlapped), {own / wall:,.3g} times lower: "
            if wall < own
            else " when they work at once: they share a port, so it makes no difference; ",
            f"here each chip has {study.per_chip:,.4g} tokens.",
        ),
    ]


def _derived(rival: Rival) -> list[Any]:
    """The derivation, unless the strategy's own section holds it."""
    split = rival.bound.split
    assert split is not None
    if rival in rival.study.rivals:
        return [text("Its derivation opens that of ", Code(rival.strategy.name), " above.")]
    return [DerivationBlock(split.derivation, "The best split")]


def _meshes(study: TrainingStudy) -> list[Any]:
    rows = []
    for option in study.options[:6]:
        mesh = " × ".join(f"{name} = {size}" for name, size in option.mesh.items())
        pairs: list[Part] = [_pair(pair) for pair in option.pressures.values()]
        rows.append((mesh, count(option.chips), *pairs, seconds(option.result.time)))
    heads = list(study.options[0].pressures)
    return [
        text(
            "The axes must divide what they shard. The table lists the largest meshes of ",
            Code(study.step.strategy.name),
            f" on at most {study.chips:,} chips, with "
            "communication as a share of arithmetic: summed, then overlapped. Below 100% "
            "arithmetic "
            "can hide it.",
        ),
        table(
            ["mesh", ("chips", "right"), *((head, "right") for head in heads), ("step", "right")],
            rows,
            "Communication over arithmetic (summed / overlapped) on the meshes that divide.",
        ),
    ]


def _pair(pair: tuple[float, float]) -> str:
    summed, overlapped = (percent(one, 4).text for one in pair)
    return f"{summed} / {overlapped}"
