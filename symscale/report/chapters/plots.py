"""Two plots, from the same formulas: a roofline, and times against the batch."""

from __future__ import annotations

from collections.abc import Iterator

from sympy import Expr

from symscale.algebra.symbols import B, C, W_hbm
from symscale.programs.ops import Einsum
from symscale.report.document import Block, Section, section, text
from symscale.report.numbers import number
from symscale.report.plots import LinePlot, Series, Style, line, spot, vline
from symscale.report.study import Rival, TrainingStudy
from symscale.solve.numeric import numeric

_POINTS = 41


def plots_chapter(study: TrainingStudy) -> list[Section]:
    """The roofline of the chip, and time against batch for each strategy."""
    return [section("Plots", *_roofline(study), *_batch(study))]


def _roofline(study: TrainingStudy) -> list[Block]:
    top, bandwidth = float(study.chip[C]), float(study.chip[W_hbm])
    ridge = top / bandwidth
    spots = [spot(x, min(top, bandwidth * x), name) for name, x in _intensities(study)]
    high = max([point.x for point in spots] + [ridge]) * 4
    grid = [high ** (i / (_POINTS - 1)) for i in range(_POINTS)]
    curve = line("attainable", [(x, min(top, bandwidth * x)) for x in sorted({*grid, ridge})])
    return [
        text(
            "The roofline of one chip: an op that does ",
            number(ridge, "FLOPs a byte"),
            " or more of HBM traffic can run at full rate. The points are the products of one "
            "layer's "
            "forward pass on one device, at the mesh above; those of attention's scores keep "
            "scores "
            "on chip.",
        ),
        LinePlot(
            f"Roofline of {study.chip.title}",
            "arithmetic intensity, FLOPs a byte",
            "attainable FLOP/s",
            (curve,),
            xlog=True,
            ylog=True,
            markers=(vline(ridge, f"ridge {ridge:,.0f}"),),
            spots=tuple(spots),
        ),
    ]


def _intensities(study: TrainingStudy) -> Iterator[tuple[str, float]]:
    """Each product of the forward pass that touches HBM; those close to one another once."""
    seen: list[float] = []
    for phase in (study.step.layer.forward, study.step.ends.forward):
        for made in phase.computes:
            if not isinstance(made.op, Einsum):
                continue
            arrays = (*made.inputs, made.output)
            moved = sum(array.bytes for array in arrays if array.name not in phase.fused)
            value = study.result.seconds(made.flops / moved)
            if all(not 0.75 < value / other < 1.33 for other in seen):
                seen.append(value)
                yield made.output.name, value


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
