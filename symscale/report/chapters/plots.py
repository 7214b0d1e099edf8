"""Two plots, from the same formulas: a roofline, and times against the batch."""

from __future__ import annotations

from sympy import Expr

from symscale.algebra.symbols import B
from symscale.report.chapters.roofline import roofline_chapter
from symscale.report.document import Block, Section, section, text
from symscale.report.plots import LinePlot, Series, Style, line, vline
from symscale.report.study import Rival, TrainingStudy
from symscale.solve.numeric import numeric

_POINTS = 41


def plots_chapter(study: TrainingStudy) -> list[Section]:
    """The roofline of the chip, and time against batch for each strategy."""
    drawn = [] if study.left_out else [section("Time against the batch", *_batch(study))]
    return [*roofline_chapter(study), *drawn]


def _batch(study: TrainingStudy) -> list[Block]:
    batches = [study.batch * 2 ** ((i - _POINTS // 2) / 5) for i in range(_POINTS)]
    drawn = _drawn(study)
    series: dict[str, Series] = {}
    for rival in drawn:
        name = f"arithmetic, {_pass(rival)}"
        math = rival.bound.math
        series.setdefault(name, _curve(rival, name, math, batches, "dashed"))
    for rival in drawn:
        best = rival.bound.split.value if rival.bound.split else rival.bound.comms
        name = f"{rival.strategy.name}, {_pass(rival)}"
        series[name] = _curve(rival, name, best, batches, "solid")
    return [
        text(
            "Arithmetic (dashed) and communication of the layer of two matmuls against the batch, "
            f"on {study.chips:,} chips, mesh axes one after another and split in the best way "
            "where "
            "there are two. A strategy is compute-bound where its curve runs below the arithmetic "
            "of the same pass."
        ),
        LinePlot(
            "Time of a layer's pass against the batch",
            "batch, tokens",
            "seconds",
            tuple(series.values()),
            xlog=True,
            ylog=True,
            markers=(vline(study.batch, f"{study.batch:,} tokens"),),
        ),
    ]


def _pass(rival: Rival) -> str:
    return "forward" if "forward" in rival.bound.passes else "backward"


def _drawn(study: TrainingStudy) -> list[Rival]:
    """One rival for each pair of times that differ; those that only move memory about share one."""
    found: dict[tuple[Expr, Expr], Rival] = {}
    for rival in study.rivals:
        key = (rival.bound.math, rival.bound.comms)
        held = found.setdefault(key, rival)
        if rival.strategy == study.step.strategy and held is not rival:
            found[key] = rival
    return list(found.values())


def _curve(rival: Rival, label: str, expr: Expr, batches: list[float], style: Style) -> Series:
    """An expression against the batch, everything else at the chips at hand."""
    fixed = {key: value for key, value in rival.values.items() if key != B} | rival.spread
    values = numeric(expr.xreplace(fixed), B)(batches)
    constant = not hasattr(values, "__len__")
    shown = [float(values)] * len(batches) if constant else [float(v) for v in values]
    return line(label, zip(batches, shown, strict=True), style)
