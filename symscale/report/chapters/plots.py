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
    return [section("Two pictures", *_roofline(study), *_batch(study))]


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
            " or more of HBM traffic can run at full rate. The spots are the products of one "
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
    """Each product of a layer's forward pass that touches HBM, equal ones once."""
    phase = study.step.layer.forward
    seen: set[float] = set()
    for made in phase.computes:
        if not isinstance(made.op, Einsum):
            continue
        moved = sum(a.bytes for a in (*made.inputs, made.output) if a.name not in phase.fused)
        value = study.result.seconds(made.flops / moved)
        if round(value, 3) not in seen:
            seen.add(round(value, 3))
            yield made.output.name, value


def _batch(study: TrainingStudy) -> list[Block]:
    batches = [study.batch * 2 ** ((i - _POINTS // 2) / 5) for i in range(_POINTS)]
    rivals = [study.rival(name) for name in _drawn(study)]
    series = [_curve(rivals[0], "arithmetic", rivals[0].step.time.math, batches)]
    for rival in rivals:
        series.append(_curve(rival, rival.strategy.name, rival.step.time.comms, batches))
    return [
        text(
            "Arithmetic and communication (summed over mesh axes) of a whole step against the "
            "batch, "
            f"on {study.result.chips:,} chips. A strategy is compute-bound where its curve "
            "runs below "
            "that of arithmetic."
        ),
        LinePlot(
            "Time of a step against the batch",
            "batch, tokens",
            "seconds",
            tuple(series),
            xlog=True,
            ylog=True,
            markers=(vline(study.batch, f"{study.batch:,} tokens"),),
        ),
    ]


def _drawn(study: TrainingStudy) -> list[str]:
    """Strategies whose step times differ; those that only move memory about share a curve."""
    known = {rival.strategy.name for rival in study.rivals}
    return [name for name in ("dp", "fsdp", "tp", "fsdp+tp") if name in known]


def _curve(rival: Rival, label: str, expr: Expr, batches: list[float]) -> Series:
    fixed = {key: value for key, value in rival.values.items() if key != B}
    values = numeric(expr.xreplace(fixed), B)(batches)
    constant = not hasattr(values, "__len__")
    shown = [float(values)] * len(batches) if constant else [float(v) for v in values]
    style: Style = "dashed" if label == "arithmetic" else "solid"
    return line(label, zip(batches, shown, strict=True), style)
