"""What the report comes to: the verdict first, the recommendation and its reason last."""

from __future__ import annotations

from typing import Any

from symscale.report.chapters.step import mesh_text
from symscale.report.document import Block, Section, callout, section, text
from symscale.report.numbers import memory, percent, seconds
from symscale.report.rich import Code, Part
from symscale.report.study import Rival, TrainingStudy


def abstract(study: TrainingStudy) -> tuple[Part, ...]:
    """The report in three sentences."""
    result = study.result
    word = "fits" if result.fits else "does not fit"
    return (
        f"Training {study.model.name} on {study.chip.title} with {study.batch:,} tokens a step: under ",
        Code(study.step.strategy.name), f" on {mesh_text(study)} a step takes at least ",
        seconds(result.time), f" and is bound by {_bound(result.bottleneck)}; a chip holds ",
        memory(result.memory_bytes), f", which {word}. Every formula below was derived from the "
        "shardings; every number follows from a formula.",
    )  # fmt: skip


def _bound(resource: str) -> str:
    names = {"math": "arithmetic", "hbm": "HBM bandwidth"}
    return names.get(resource, f"the links of mesh axis {resource}")


def recommendation(study: TrainingStudy) -> list[Section]:
    """Which strategy, and why not the others."""
    blocks: list[Block] = [_choice(study)]
    blocks += [text(*_reason(rival)) for rival in study.rivals]
    least = min(study.options, key=lambda option: option.pressures["whole step"][0])
    if study.options and dict(least.mesh) != study.result.mesh:
        mesh = " × ".join(f"{name} = {size}" for name, size in least.mesh.items())
        blocks.append(
            text(
                f"Over the whole step, {mesh} communicates least (",
                percent(least.pressures["whole step"][0]),
                " of arithmetic, summed): the backward pass does twice the arithmetic for the same "
                "activations, which favours the axis that moves activations. On the forward pass of the layer of two "
                "matmuls the mesh above is the better one.",
            )
        )  # fmt: skip
    return [section("Recommendation", *blocks)]


def _choice(study: TrainingStudy) -> Any:
    result = study.result
    good = result.bottleneck == "math" and result.fits
    said = (
        f"Use {study.step.strategy.name} on {mesh_text(study)} ({result.chips:,} of {study.chips:,} "
        f"chips): "
    )
    why: list[Part] = [
        f"bound by {_bound(result.bottleneck)}, at least ", seconds(result.time), " a step, ",
        memory(result.memory_bytes), " a chip.",
    ]  # fmt: skip
    if not good:
        said = f"{study.step.strategy.name} on {mesh_text(study)} is not enough: "
    return callout("good" if good else "bad", said, *why, title="In short")


def _reason(rival: Rival) -> list[Part]:
    """One sentence on a strategy on the chips at hand."""
    study, name = rival.study, rival.strategy.name
    bound = "compute-bound" if rival.is_compute_bound else "communication-bound"
    fits = "fits" if rival.fits else "does not fit"
    on_batch = rival.bound.answer.variable.name == "B"
    have = f"{study.per_chip:,.4g} tokens a chip" if on_batch else f"{study.chips:,} chips"
    return [
        Code(name), f": {bound} on {study.chips:,} chips ({have} against a wall of {rival.wall:,.4g}); ",
        f"its {rival.memory_bytes / 1e9:,.4g} GB a chip {fits} in {int(study.chip.hbm_bytes) / 1e9:,.4g} GB.",
    ]  # fmt: skip
