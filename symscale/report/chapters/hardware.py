"""The chip with its sources, and the notation and conventions of the report."""

from __future__ import annotations

from symscale.algebra.symbols import info, links, symbol
from symscale.hardware.figure import Figure, meaning
from symscale.report.document import Section, section, table, text
from symscale.report.numbers import memory, number, rate
from symscale.report.rich import Code, Math, Part
from symscale.report.study import TrainingStudy

#: Symbols of a pipeline's schedule.
_SCHEDULE = ("p", "m", "v", "t_F", "t_B", "t_W", "t_FB")


def hardware_chapter(study: TrainingStudy) -> list[Section]:
    """Figures of the chip, each with its source."""
    chip = study.chip
    rows = []
    for figure in chip.figures.values():
        name = Math(symbol(figure.name)) if symbol_known(figure.name) else ""
        rows.append((name, meaning(figure.name), _value(figure), figure.source.key))
    sources = {figure.source.key: str(figure.source) for figure in chip.figures.values()}
    return [
        section(
            f"The chip: {chip.title}",
            table(
                ["symbol", "figure", ("value", "right"), "source"],
                rows,
                f"Figures of one {chip.title}.",
                notes=[f"{key}: {said}." for key, said in sources.items()],
            ),
            *(text(f"Note: {trap}.") for trap in chip.traps),
        )
    ]


def _value(figure: Figure) -> Part:
    """A figure with its unit, bytes both ways."""
    value = float(figure.value)
    if figure.unit == "byte":
        return memory(value)
    if figure.unit in ("FLOP/s", "byte/s"):
        return rate(value, figure.unit.replace("byte", "B"))
    return number(value, "" if figure.unit in ("1", "") else figure.unit)


def symbol_known(name: str) -> bool:
    """Whether a figure is one of the table's rates."""
    return name[:2] in ("C_", "W_") or name == "C"


def _others(study: TrainingStudy) -> tuple[str, ...]:
    """Symbols of the report beyond the model's sizes and the chip's rates."""
    used = study.step.strategy
    axes = dict.fromkeys((*used.mesh_axes, *(() if study.left_out else ("X", "Y"))))
    names = ("B", "T", *axes, *(links(name).name for name in axes))
    more = () if study.left_out else ("n",)
    return (*names, *more, *(() if used.pipeline is None else _SCHEDULE))


def notation_chapter(study: TrainingStudy) -> list[Section]:
    """How arrays, shardings and costs are written and counted."""
    rows = [(Math(symbol(name)), info(name).meaning, info(name).unit) for name in _others(study)]
    return [
        section(
            "Notation and conventions",
            text(
                "An array is written with its dims, and behind a dim the mesh axes that shard it: ",
                Code("In[B_X, D_Y]"),
                " is split along B over axis X and along D over axis Y. ",
                Code("{U_X}"),
                " marks partial sums that still have to be added along X.",
            ),
            text(
                "Costs are per device. The volume of a collective is, for an AllGather, the "
                "bytes on "
                "one device after it; for a ReduceScatter, those before it; for an AllReduce, "
                "twice its "
                "array; for an AllToAll or a CollectivePermute, the bytes before it. Time on "
                "the links "
                "is volume over bandwidth, with the bandwidth of all physical axes that a mesh "
                "axis "
                "is laid over."
            ),
            text(
                "Collectives whose result the next op needs are said to wait; gathers of "
                "weights and "
                "reductions of gradients can hide behind other work. Communication is called "
                "summed "
                "when the mesh axes work one after another, and overlapped when they work at "
                "once; in "
                "both cases arithmetic may hide it."
            ),
            table(
                ["symbol", "meaning", "unit"], rows, "Symbols besides the model's and the chip's."
            ),
        )
    ]
