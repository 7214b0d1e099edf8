"""The chosen step in numbers: time under each assumption on overlap, memory, and its notes."""

from __future__ import annotations

from typing import Any

from sympy import together

from symscale.algebra.time import Overlap, Time
from symscale.report.document import Cell, Section, callout, display, section, table, text
from symscale.report.numbers import count, memory, percent, rate, seconds
from symscale.report.rich import Code, Math
from symscale.report.study import TrainingStudy
from symscale.studies.pressure import pressures

_ASSUMPTIONS: tuple[tuple[Overlap, str], ...] = (
    ("full", "everything overlaps (lower bound)"),
    ("critical", "collectives that the next op needs wait, the others hide"),
    ("none", "nothing overlaps (upper bound)"),
)


def step_chapter(study: TrainingStudy) -> list[Section]:
    """Time, walls and memory of the step on its mesh."""
    return [
        section("The step on its mesh", *_time(study)),
        section("Where the wall is", *_walls(study), level=2),
        section("Memory", *_memory(study), level=2),
    ]


def mesh_text(study: TrainingStudy) -> str:
    """The mesh on one line."""
    return " × ".join(f"{name} = {size}" for name, size in study.result.mesh.items())


def _time(study: TrainingStudy) -> list[Any]:
    result, time = study.result, study.step.time
    rows = []
    for overlap, said in _ASSUMPTIONS:
        total = result.seconds(time.total(overlap))
        rows.append((said, seconds(total), percent(result.math / total)))
    busy = [(_resource(name), seconds(value)) for name, value in result.busy.items()]
    forward, backward = (study.step.formulas.pass_time(position) for position in (0, 1))
    return [
        text(
            "Under ",
            Code(study.step.strategy.name),
            f" on {mesh_text(study)} "
            f"({result.chips:,} chips), all layers together. In the forward pass, the terms are:",
        ),
        display(*_terms(forward)),
        text("In the backward pass:"),
        display(*_terms(backward)),
        table(["resource", ("busy", "right")], busy, "Time that each resource is busy in a step."),
        table(
            ["assumption", ("step", "right"), ("compute fraction", "right")],
            rows,
            "Time of a step; the compute fraction is arithmetic over the step.",
        ),
        *_placement(study),
        *(callout("note", note) for note in result.notes),
    ]


def _placement(study: TrainingStudy) -> list[Any]:
    """Where each mesh axis lies on the network, and the level it waits for."""
    placed = study.result.placement
    if placed is None:
        return []
    rows = [
        (one.name, count(one.size), count(one.stride), one.where, one.binding, _rate(one.rate))
        for one in placed.axes
    ]
    return [
        table(
            [
                "axis",
                ("size", "right"),
                ("stride", "right"),
                "where it lies",
                "waits for",
                ("rate", "right"),
            ],
            rows,
            "Where the mesh axes lie: the last is innermost; the rate is that of a gather into one "
            "chip.",
        )
    ]


def _rate(value: Any) -> Any:
    return rate(float(value), "B/s")


def _terms(time: Time) -> list[tuple[str, Math]]:
    """Each resource's time as a formula."""
    busy = time.stages[0].by_resource()
    return [(_resource(name), Math(together(value))) for name, value in busy.items()]


def _resource(name: str) -> str:
    known = {"math": "arithmetic", "hbm": "HBM", "nvlink": "NVLink"}
    together_on = " and ".join(name) if len(name) > 1 and name.isupper() else name
    return known.get(name, f"links of {together_on}")


def _walls(study: TrainingStudy) -> list[Any]:
    rows = []
    for one in pressures(study.step):
        summed = one.ratio(study.result.values)
        overlapped = one.ratio(study.result.values, overlapped=True)
        rows.append(
            (one.part, percent(summed, 4), percent(overlapped, 4), _side(summed, overlapped))
        )
    return [
        text("Communication as a share of arithmetic, on this mesh:"),
        table(
            ["part", ("summed", "right"), ("overlapped", "right"), "so"],
            rows,
            "Below 100%, arithmetic hides communication.",
        ),
    ]


def _side(summed: float, overlapped: float) -> str:
    if summed <= 1:
        return f"compute-bound, by {1 - summed:.1%} with summed communication"
    if overlapped <= 1:
        return f"over the wall by {summed - 1:.1%} summed, inside it overlapped"
    return f"communication-bound, by {overlapped - 1:.1%} even overlapped"


def _memory(study: TrainingStudy) -> list[Any]:
    result = study.result
    rows: list[tuple[str, Cell, Cell]] = [
        (kind, Math(together(study.step.formulas.memory[kind])), memory(size))
        for kind, size in result.memory.items()
    ]
    rows.append(("total", "", memory(result.memory_bytes)))
    block = study.step.using(remat="block").formulas.memory
    saved = result.seconds(block["activations"])
    hbm = int(study.chip.hbm_bytes)
    word = "fits" if result.fits else "does not fit"
    return [
        table(["kind", "formula", ("bytes", "right")], rows, "Memory of one chip, by kind."),
        text(
            f"It {word} the chip's ",
            memory(hbm),
            ". Optimizer state is two f32 moments for each "
            "parameter. Activations are all that the backward pass reads; saving each layer's "
            "input "
            "alone, ",
            Math(block["activations"]),
            ", would take ",
            memory(saved),
            " and compute every layer's forward pass again.",
        ),
        text(
            "The chips together do ",
            rate(float(study.chip.rate("bf16")) * result.chips * result.compute_fraction),
            f" and take {result.tokens_per_second / 1e6:,.3g} million tokens a second at the lower "
            "bound.",
        ),
    ]
