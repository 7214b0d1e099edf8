"""What the report comes to: the verdict first, the recommendation and its reason last."""

from __future__ import annotations

from typing import Any

from symscale.algebra.symbols import B
from symscale.report.chapters.step import mesh_text
from symscale.report.document import Block, Section, Table, callout, section, table, text
from symscale.report.numbers import memory, number, percent, seconds
from symscale.report.rich import Code, Part
from symscale.report.study import TrainingStudy


def abstract(study: TrainingStudy) -> tuple[Part, ...]:
    """The report in three sentences."""
    result = study.result
    word = "fits" if result.fits else "does not fit"
    return (
        f"Training {study.model.name} on {study.chip.title} with {study.batch:,} tokens a "
        "step: under ",
        Code(study.step.strategy.name),
        f" on {mesh_text(study)} a step takes at least ",
        seconds(result.time),
        f" and is bound by {_bound(result.bottleneck)}; a chip holds ",
        memory(result.memory_bytes),
        f", which {word}. Every formula below was derived from the "
        "shardings; every number follows from a formula.",
    )


def _bound(resource: str) -> str:
    names = {"math": "arithmetic", "hbm": "HBM bandwidth"}
    return names.get(resource, f"the links of mesh axis {resource}")


def recommendation(study: TrainingStudy) -> list[Section]:
    """Which strategy, and why not the others."""
    blocks: list[Block] = [_choice(study), _comparison(study)]
    least = min(study.options, key=lambda option: option.pressures["whole step"][0])
    if dict(least.mesh) != study.result.mesh:
        mesh = " × ".join(f"{name} = {size}" for name, size in least.mesh.items())
        share = percent(least.pressures["whole step"][0])
        blocks.append(
            text(
                f"Over the whole step, {mesh} communicates least (",
                share,
                " of arithmetic, summed): "
                "the backward pass does twice the arithmetic on the same activations, which "
                "favours "
                "the axis that moves activations. On the forward pass of the layer of two matmuls, "
                "the tighter of the two, the mesh above is the better one.",
            )
        )
    return [section("Recommendation", *blocks)]


def _comparison(study: TrainingStudy) -> Table:
    """Every strategy on the chips at hand: its wall, and whether it fits."""
    rows = []
    for rival in study.rivals:
        on_batch = rival.bound.answer.variable == B
        has = number(rival.measured, "tokens a chip" if on_batch else "chips")
        sign = ">" if on_batch else "<"
        rows.append(
            (
                Code(rival.strategy.name),
                [f"{sign} ", number(rival.wall)],
                has,
                "compute" if rival.is_compute_bound else "communication",
                memory(rival.memory_bytes),
                "yes" if rival.fits else "no",
            )
        )
    return table(
        [
            "strategy",
            ("wall", "right"),
            ("here", "right"),
            "bound by",
            ("a chip holds", "right"),
            "fits",
        ],
        rows,
        f"The strategies on {study.chips:,} chips: the wall of the layer of two matmuls "
        "(tokens a chip, "
        "or chips where the batch cancels), mesh axes one after another, and the memory of a chip.",
    )


def _choice(study: TrainingStudy) -> Any:
    result = study.result
    good = result.bottleneck == "math" and result.fits
    said = (
        f"Use {study.step.strategy.name} on {mesh_text(study)} ({result.chips:,} of "
        f"{study.chips:,} "
        f"chips): "
    )
    why: list[Part] = [
        f"bound by {_bound(result.bottleneck)}, at least ",
        seconds(result.time),
        " a step, ",
        memory(result.memory_bytes),
        " a chip.",
    ]
    if not good:
        said = f"{study.step.strategy.name} on {mesh_text(study)} is not enough: "
    return callout("good" if good else "bad", said, *why, title="In short")
