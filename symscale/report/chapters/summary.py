"""What the report comes to: the verdict, its caveats, and all strategies side by side."""

from __future__ import annotations

from symscale.algebra.symbols import B
from symscale.report.chapters.layers import left_out_text
from symscale.report.chapters.step import mesh_text
from symscale.report.document import (
    Block,
    Cell,
    Section,
    Table,
    callout,
    section,
    table,
    text,
)
from symscale.report.numbers import memory, number, percent, seconds
from symscale.report.rich import Code, Part
from symscale.report.study import Rival, TrainingStudy
from symscale.studies.meshes import MeshOption


def abstract(study: TrainingStudy) -> tuple[Part, ...]:
    """The report in three sentences."""
    result = study.result
    word = "fits" if result.fits else "does not fit"
    return (
        f"Training {study.model.name} on {study.chip.title} with {study.batch:,} tokens a step: "
        "under ",
        Code(study.step.strategy.name),
        f" on {mesh_text(study)} a step takes at least ",
        seconds(result.time),
        f" and is bound by {bound_text(result.bottleneck)}; a chip holds ",
        memory(result.memory_bytes),
        f", which {word}. Every formula below was derived from the shardings; every number follows "
        "from a formula.",
    )


def bound_text(resource: str) -> str:
    """A resource in words.

    >>> bound_text("math"), bound_text("X")
    ('arithmetic', 'the links of mesh axis X')
    """
    names = {"math": "arithmetic", "hbm": "HBM bandwidth", "nvlink": "NVLink", "pcie": "PCIe",
             "dcn": "the data-centre network"}  # fmt: skip
    return names.get(resource, f"the links of mesh axis {resource}")


def recommendation(study: TrainingStudy) -> list[Section]:
    """Which strategy, and why not the others."""
    blocks: list[Block] = [_choice(study)]
    blocks += [callout("note", note[0].upper() + note[1:] + ".") for note in caveats(study)]
    blocks.append(left_out_text(study) if study.left_out else _comparison(study))
    if len(study.options) > 1:
        least = min(study.options, key=lambda option: option.pressures["whole step"][0])
        if dict(least.mesh) != study.result.mesh:
            blocks.append(_other_mesh(study, least))
    return [section("Recommendation", *blocks)]


def caveats(study: TrainingStudy) -> tuple[str, ...]:
    """What the verdict leaves out: remarks, notes of the step, and limits of the pod."""
    found = [*study.remarks, *study.result.notes]
    largest = study.chip.figures.get("max_slice")
    if largest is not None and study.result.chips > int(largest.value):
        found.append(
            f"the mesh has {study.result.chips:,} chips; the largest slice that one job can ask "
            f"for is {int(largest.value):,}"
        )
    if study.chips != study.result.chips and not study.left_out:
        found.append(
            f"walls are compared on all {study.chips:,} chips at hand "
            f"({study.per_chip:,.4g} tokens a chip); times and memory are those of the mesh, "
            f"{study.result.chips:,} chips ({study.batch / study.result.chips:,.4g} tokens a chip)"
        )
    return tuple(found)


def _other_mesh(study: TrainingStudy, option: MeshOption) -> Block:
    mesh = " × ".join(f"{name} = {size}" for name, size in option.mesh.items())
    own = next((o for o in study.options if dict(o.mesh) == study.result.mesh), None)
    if own is None:
        return text(f"{mesh} is a mesh of more chips; see the table of meshes.")
    also = "; so it does" if option.textbook < own.textbook else ", but more"
    return text(
        f"Over the whole step, {mesh} communicates less (",
        percent(option.pressures["whole step"][0]),
        " of arithmetic, summed, against ",
        percent(own.pressures["whole step"][0]),
        f"){also} on the forward pass of the layer of two matmuls (",
        percent(option.textbook),
        " against ",
        percent(own.textbook),
        ").",
    )


def _comparison(study: TrainingStudy) -> Table:
    """Every strategy on the chips at hand: its wall, and whether it fits."""
    rows = [_row(rival) for rival in study.rivals]
    notes = [
        f"{rival.strategy.name}: the best split lies off the mesh, so one axis takes all chips."
        for rival in study.rivals
        if rival.off_mesh
    ]
    notes += [
        f"{rival.strategy.name}: {rival.cannot_lie}; its numbers are those of the formulas."
        for rival in study.rivals
        if rival.cannot_lie
    ]
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
        f"The strategies on {study.chips:,} chips: the wall of the layer of two matmuls, mesh axes "
        "one after another, what that layer waits for, and the memory of a chip.",
        notes=notes,
    )


def _row(rival: Rival) -> tuple[Cell, ...]:
    on_batch = rival.bound.answer.variable == B
    has = number(rival.measured, "tokens a chip" if on_batch else "chips")
    return (
        Code(rival.strategy.name),
        _wall(rival.wall, on_batch),
        has,
        rival.bound_by,
        memory(rival.memory_bytes),
        "yes" if rival.fits else "no",
    )


def _wall(wall: float | None, on_batch: bool) -> Cell:
    return "none" if wall is None else ["> " if on_batch else "< ", number(wall)]


def _choice(study: TrainingStudy) -> Block:
    result = study.result
    name = study.step.strategy.name
    shares = [result.useful_math / time for time in result.times.values()]
    fractions: tuple[Part, ...] = (
        " The compute fraction is ", percent(shares[0]), " if everything overlaps, ",
        percent(shares[1]), " if collectives that the next op needs wait, ", percent(shares[2]),
        " if nothing overlaps.",
    )  # fmt: skip
    where = f"{name} on {mesh_text(study)}"
    if result.bottleneck == "math" and result.fits:
        return callout(
            "good",
            f"Use {where} ({result.chips:,} of {study.chips:,} chips): bound by arithmetic, at "
            "least ", seconds(result.time), " a step, ", memory(result.memory_bytes), " a chip.",
            *fractions, title="In short",
        )  # fmt: skip
    if result.fits and study.left_out:
        return callout(
            "note",
            f"{where} fits, ", memory(result.memory_bytes), " a chip. Its longest pass waits for "
            f"{bound_text(result.bottleneck)}; a step takes at least ", seconds(result.time), ".",
            *fractions, title="In short",
        )  # fmt: skip
    why = [] if result.fits else [f"{result.memory_bytes / 1e9:,.4g} GB a chip do not fit"]
    if result.bottleneck != "math":
        why.append(f"it is bound by {bound_text(result.bottleneck)}")
    instead = _instead(study)
    said = f"{name} on {mesh_text(study)} is not enough: {' and '.join(why)}.{instead}"
    return callout("bad", said, title="In short")


def _instead(study: TrainingStudy) -> str:
    """What to do about a step that is not enough."""
    if study.left_out:
        return "" if study.result.fits else f" To fit: {remedy_text(study)}."
    own = study.step.strategy.name
    better = [r.strategy.name for r in study.rivals if r.is_good and r.strategy.name != own]
    if better:
        return f" Compute-bound and small enough here: {', '.join(better)}."
    return " None of the strategies compared is both compute-bound and small enough here."


def remedy_text(study: TrainingStudy) -> str:
    """The least change that makes a step fit, in words."""
    found = study.result.remedy
    return "no single change is enough" if found is None else str(found)
