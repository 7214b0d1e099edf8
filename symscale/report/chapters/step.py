"""The chosen step in numbers: time under each assumption on overlap, walls, and its notes."""

from __future__ import annotations

from typing import Any

from sympy import together

from symscale.algebra.printing import to_plain
from symscale.algebra.time import Overlap, Time
from symscale.report.document import Section, callout, display, section, table, text
from symscale.report.numbers import count, percent, rate, seconds
from symscale.report.rich import Code, Math
from symscale.report.study import TrainingStudy
from symscale.studies.pressure import kind_pressures, pressures

_ASSUMPTIONS: tuple[tuple[Overlap, str], ...] = (
    ("full", "everything overlaps (lower bound)"),
    ("critical", "collectives that the next op needs wait, the others hide"),
    ("none", "nothing overlaps (upper bound)"),
)


#: Characters of a formula beyond which it is not shown whole.
_READABLE = 280


def step_chapter(study: TrainingStudy) -> list[Section]:
    """Time and walls of the step on its mesh."""
    return [
        section("The step on its mesh", *_time(study)),
        section("Where the wall is", *_walls(study), level=2),
    ]


def mesh_text(study: TrainingStudy) -> str:
    """The mesh on one line."""
    return " × ".join(f"{name} = {size}" for name, size in study.result.mesh.items())


def _time(study: TrainingStudy) -> list[Any]:
    result = study.result
    rows = [
        (said, seconds(result.times[word]), percent(result.useful_math / result.times[word]))
        for word, said in _ASSUMPTIONS
    ]
    busy = [(_resource(name), seconds(value)) for name, value in result.busy.items()]
    forward, backward = (study.step.formulas.pass_time(position) for position in (0, 1))
    long = _too_long(forward, backward)
    return [
        text(
            "Under ",
            Code(study.step.strategy.name),
            f" on {mesh_text(study)} "
            f"({result.chips:,} chips), {_extent(study)}. In the forward pass, the terms are:",
        ),
        *_terms(forward, long),
        text("In the backward pass:"),
        *_terms(backward, long),
        *_elsewhere(study, long),
        table(["resource", ("busy", "right")], busy, "Time that each resource is busy in a step."),
        table(
            ["assumption", ("step", "right"), ("compute fraction", "right")],
            rows,
            "Time of a step; the compute fraction is useful arithmetic over the step.",
        ),
        text(
            "The chips together do ",
            rate(float(study.chip.rate("bf16")) * result.chips * result.compute_fraction),
            f" and take {result.tokens_per_second / 1e6:,.3g} million tokens a second"
            f"{_assumed(study)}.",
        ),
        *_placement(study),
        *(callout("note", f"{note[0].upper()}{note[1:]}.") for note in result.notes),
    ]


def _extent(study: TrainingStudy) -> str:
    """What the terms are summed over."""
    used = study.step.strategy
    over = "all layers" if used.pipeline is None else "an even share of all layers"
    parts = used.techniques.microbatches
    return f"{over} together" if parts == 1 else f"{over} and {parts} microbatches together"


def _assumed(study: TrainingStudy) -> str:
    words = {"full": " at the lower bound", "none": " at the upper bound"}
    return words.get(study.result.overlap, "")


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


def _too_long(*times: Time) -> tuple[str, ...]:
    """The resources whose formulas fill a page: sums over kinds of layer."""
    found = {
        name: None
        for time in times
        for name, value in time.stages[0].by_resource().items()
        if len(to_plain(together(value))) > _READABLE
    }
    return tuple(found)


def _terms(time: Time, long: tuple[str, ...]) -> list[Any]:
    """Each resource's time as a formula."""
    busy = time.stages[0].by_resource()
    lines = [
        (_resource(name), Math(together(value))) for name, value in busy.items() if name not in long
    ]
    return [display(*lines)] if lines else []


def _elsewhere(study: TrainingStudy, long: tuple[str, ...]) -> list[Any]:
    """Where to find the formulas that are left out."""
    if not long:
        return []
    names = " and ".join(_resource(name) for name in long)
    over = " over the devices of the pipeline" if study.step.strategy.pipeline else ""
    return [
        text(
            f"Those of {names} are too long for a page: they are those of the layers above, times "
            f"the number of layers of each kind, and of embedding and head{over}."
        )
    ]


def _resource(name: str) -> str:
    known = {"math": "arithmetic", "hbm": "HBM", "nvlink": "NVLink", "pcie": "PCIe",
             "dcn": "data-centre network"}  # fmt: skip
    together_on = " and ".join(name) if len(name) > 1 and name.isupper() else name
    return known.get(name, f"links of {together_on}")


def _walls(study: TrainingStudy) -> list[Any]:
    rows = []
    found = kind_pressures(study.step) if study.left_out else pressures(study.step)
    for one in found:
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
    if summed == 0:
        return "nothing moves"
    if summed <= 1:
        return f"compute-bound, by {1 - summed:.1%} with summed communication"
    if overlapped <= 1:
        return f"over the wall by {summed - 1:.1%} summed, inside it overlapped"
    return f"communication-bound, by {overlapped - 1:.1%} even overlapped"
