"""The roofline of a chip with all its roofs, and the products and collectives of a layer on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log10
from typing import Any

from sympy import Expr

from symscale.algebra.errors import HardwareError
from symscale.hardware.roofline import Roofline, roofline
from symscale.programs.ops import Einsum
from symscale.programs.phase import Phase
from symscale.report.document import Section, section, table, text
from symscale.report.numbers import number
from symscale.report.plots import LinePlot, Series, Style, line, spot, vline
from symscale.report.study import TrainingStudy

_POINTS = 41
#: Powers of ten that a letter of a name takes up, and the least ratio of two points.
_ROOM, _NEAR = 0.055, 1.8
_STYLES: tuple[Style, ...] = ("solid", "dashed", "dotted")


@dataclass(frozen=True)
class OpPoint:
    """An op by the FLOPs it does for each byte through one roof."""

    name: str
    roof: str
    intensity: float

    def height(self, roofs: Roofline) -> float:
        """FLOP/s it can reach under that roof."""
        return min(float(roofs.peak), self.intensity * float(roofs.roof(self.roof).value))


def roofline_plot(roofs: Roofline, points: Sequence[OpPoint] = (), title: str = "") -> LinePlot:
    """All roofs of a chip as curves, with ops on the roof that they load.

    >>> plot = roofline_plot(roofline("tpu-v5e"), [OpPoint("Tmp", "hbm", 100.0)])
    >>> [series.label for series in plot.series], plot.spots[0].y
    (['on-chip memory', 'hbm', 'links', 'network', 'pcie'], 81900000000000.0)
    """
    known = [float(roofs.ridge(one.name)) for one in roofs.roofs]
    if not known:
        raise HardwareError(f"{roofs.chip} has no rate of any memory or link: nothing to draw")
    places = [point.intensity for point in points]
    low, high = min([*known, *places]) / 8, max([*known, *places]) * 4
    return LinePlot(
        title or f"Roofs of {roofs.chip}, {roofs.dtype}",
        "FLOPs for each byte through the roof",
        "attainable FLOP/s",
        tuple(_curves(roofs, low, high)),
        xlog=True,
        ylog=True,
        markers=tuple(
            vline(float(roofs.ridge(one.name)), f"{one.name} {float(roofs.ridge(one.name)):,.0f}")
            for one in roofs.roofs
        ),
        spots=tuple(spot(one.intensity, one.height(roofs), one.name) for one in points),
    )


def _curves(roofs: Roofline, low: float, high: float) -> Iterator[Series]:
    top = float(roofs.peak)
    grid = [low * (high / low) ** (i / (_POINTS - 1)) for i in range(_POINTS)]
    for place, one in enumerate(roofs.roofs):
        rate, ridge = float(one.value), float(roofs.ridge(one.name))
        xs = sorted({*grid, ridge})
        yield line(one.name, [(x, min(top, rate * x)) for x in xs], _STYLES[place % 3])


def layer_points(
    phase: Phase, number_of: Callable[[Expr], float], roof_of: Callable[[tuple[str, ...]], str]
) -> tuple[OpPoint, ...]:
    """Products by their HBM traffic, and all products together by what each mesh axis moves.

    ``number_of`` puts numbers in; ``roof_of`` names the roof under some mesh axes.
    """
    found: dict[tuple[str, float], OpPoint] = {}
    for point in (*_products(phase, number_of), *_axes(phase, number_of, roof_of)):
        found.setdefault((point.roof, round(point.intensity, 3)), point)
    return tuple(found.values())


def _products(phase: Phase, number_of: Callable[[Expr], float]) -> Iterator[OpPoint]:
    for made in phase.computes:
        if isinstance(made.op, Einsum):
            touched = dict.fromkeys((*made.inputs, made.output))
            moved = sum(a.bytes for a in touched if a.name not in phase.fused)
            yield OpPoint(made.output.name, "hbm", number_of(made.flops / moved))


def _axes(
    phase: Phase,
    number_of: Callable[[Expr], float],
    roof_of: Callable[[tuple[str, ...]], str],
) -> Iterator[OpPoint]:
    for key, moved in phase.volume(statistics=False).items():
        names = tuple(str(one) for one in (key if isinstance(key, tuple) else (key,)))
        if number_of(moved) > 0:
            label = f"layer over {''.join(names)}"
            yield OpPoint(label, roof_of(names), number_of(phase.flops / moved))


def _apart(points: Sequence[OpPoint]) -> list[OpPoint]:
    """The points without those whose names would cover one another."""
    kept: list[OpPoint] = []
    # Those of a mesh axis first: there is one for each.
    for one in sorted(points, key=lambda point: point.roof == "hbm"):
        if one.roof != "hbm" or all(_readable(one, other) for other in kept):
            kept.append(one)
    return kept


def _readable(one: OpPoint, other: OpPoint) -> bool:
    """Whether two names can stand beside one another: the longer they are, the further apart."""
    room = max(_ROOM * (len(one.name) + len(other.name)), log10(_NEAR))
    return abs(log10(one.intensity / other.intensity)) >= room


def _points_of(
    study: TrainingStudy,
    number_of: Callable[[Expr], float],
    roof_of: Callable[[tuple[str, ...]], str],
) -> list[OpPoint]:
    """The points of every kind of layer; those of whole layers say of which kind."""
    shares = study.step.shares
    found = []
    for share in shares:
        named = "" if len(shares) == 1 else f"{share.kind.name} "
        for point in layer_points(share.sharded.forward, number_of, roof_of):
            whole = point.name.startswith("layer over")
            found.append(replace(point, name=f"{named if whole else ''}{point.name}"))
    return found


def roofline_chapter(study: TrainingStudy) -> list[Section]:
    """The roofs of the study's chip, and a layer's forward pass on them."""
    roofs = roofline(study.chip)
    mesh = study.result.mesh
    placed = study.result.placement or study.chip.placement(tuple(mesh), mesh)
    inside = placed.places[0]

    def roof_of(names: tuple[str, ...]) -> str:
        waits = {one.binding for one in placed.axes if one.name in names}
        return "links" if waits == {inside} else "network"

    def number_of(expr: Expr) -> float:
        return study.result.seconds(study.of_microbatch(expr))

    points = _points_of(study, number_of, roof_of)
    drawn = _apart([one for one in points if one.roof not in roofs.missing])
    rows: list[tuple[Any, ...]] = [
        (one.name, number(float(one.value)), number(float(roofs.ridge(one.name))))
        for one in roofs.roofs
    ]
    return [
        section(
            "The roofs of the chip",
            text(
                "Bytes reach a chip in several ways, and each bounds an op: one that does ",
                number(float(roofs.ridge("hbm"))), " FLOPs or more for each byte of HBM traffic is "
                "not held back by HBM. Products are drawn on the roof of HBM, a layer as a whole "
                "on the roof of the links that each mesh axis runs over; of those close "
                "together one "
                "is drawn."
            ),
            table(
                ["roof", ("byte/s", "right"), ("ridge, FLOPs a byte", "right")],
                rows,
                f"Roofs of one {study.chip.title}.",
            ),
            roofline_plot(roofs, drawn, f"Roofs of {study.chip.title}"),
        )
    ]  # fmt: skip
