"""Pictures of regimes in two variables: cells and walls on logarithmic axes, in LaTeX and SVG.

Both are drawn from the same :class:`RegimePicture`; walls carry their formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import atan2, cos, degrees, hypot, log10, pi, sin
from typing import Any

from markupsafe import escape

from symscale.algebra.printing import to_plain
from symscale.algebra.symbols import to_latex
from symscale.report.axes import Axis
from symscale.report.escaping import tex
from symscale.report.plots import PALETTE
from symscale.report.svg import tick_label
from symscale.solve.picture import RegimePicture, WallSegment

_WIDTH, _HEIGHT = 720.0, 430.0
_LEFT, _TOP, _RIGHT, _BOTTOM = 74.0, 34.0, 14.0, 52.0
_LINE = 18.0
_HALO = ' class="halo" stroke="#fff" stroke-width="4" paint-order="stroke"'
_TEX_SIZE = (12.0, 7.5)  # centimetres


@dataclass(frozen=True)
class RegimesFigure:
    """A picture with its title; ``svg`` and ``latex`` draw it."""

    picture: RegimePicture
    title: str

    @property
    def x_axis(self) -> Axis:
        """The first variable's axis."""
        return Axis(*self.picture.x_range, log=True)

    @property
    def y_axis(self) -> Axis:
        """The second variable's axis."""
        return Axis(*self.picture.y_range, log=True)

    def svg(self) -> str:
        """One ``<svg>`` element: no script, no font, no file beside it."""
        frame = _Frame(self)
        height = _HEIGHT + _LINE * len(self.picture.regions)
        body = [
            f'<svg class="plot" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
            f'aria-label="{escape(self.title)}" font-family="system-ui, sans-serif" '
            'font-size="12" fill="currentColor" xmlns="http://www.w3.org/2000/svg">',
            f"<title>{escape(self.title)}</title>",
            _text(_LEFT, 18, self.title, extra=' font-size="14" font-weight="600"'),
            *_regions(frame),
            *_axes(frame),
            *_walls(frame),
            *_names(frame),
            *_legend(frame),
            "</svg>",
        ]
        return "".join(body)

    def latex(self) -> str:
        """A ``tikzpicture`` for pgfplots."""
        return "\n".join(_tikz(self))

    def _repr_html_(self) -> str:
        return self.svg()

    def to_dict(self) -> dict[str, Any]:
        """The picture's numbers, for JSON."""
        return {"kind": "regimes", "title": self.title, **self.picture.to_dict()}


@dataclass(frozen=True)
class _Frame:
    """The drawing's rectangle on the page."""

    figure: RegimesFigure

    @property
    def picture(self) -> RegimePicture:
        return self.figure.picture

    def x(self, value: float) -> float:
        return _LEFT + self.figure.x_axis.place(value) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        bottom = _HEIGHT - _BOTTOM
        return bottom - self.figure.y_axis.place(value) * (bottom - _TOP)


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _colour(index: int) -> str:
    return PALETTE[index % len(PALETTE)]


def _regions(frame: _Frame) -> Iterator[str]:
    for index, region in enumerate(frame.picture.regions):
        points = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in region.corners)
        yield f'<polygon points="{points}" fill="#{_colour(index)}" fill-opacity="0.16"/>'


def _axes(frame: _Frame) -> Iterator[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    style = 'stroke="currentColor" stroke-opacity="0.14"'
    for tick in frame.figure.x_axis.ticks:
        x = frame.x(tick.value)
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}" {style}/>'
        label = tick_label(tick.label)
        yield f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{label}</text>'
    for tick in frame.figure.y_axis.ticks:
        y = frame.y(tick.value)
        yield f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" {style}/>'
        label = tick_label(tick.label)
        yield f'<text x="{_LEFT - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield (
        f'<rect x="{_LEFT}" y="{_TOP}" width="{right - _LEFT}" height="{bottom - _TOP}" '
        'fill="none" stroke="currentColor" stroke-opacity="0.55"/>'
    )
    v, w = frame.picture.variables
    middle = (_TOP + bottom) / 2
    yield _text((_LEFT + right) / 2, bottom + 38, to_plain(v), "middle")
    yield _text(16, middle, to_plain(w), "middle", f' transform="rotate(-90 16 {middle:.1f})"')


def _walls(frame: _Frame) -> Iterator[str]:
    labels = []
    for wall in frame.picture.walls:
        (x1, y1), (x2, y2) = ((frame.x(x), frame.y(y)) for x, y in (wall.start, wall.end))
        yield (
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            'stroke="currentColor" stroke-width="1.8"/>'
        )
        angle = atan2(y2 - y1, x2 - x1)
        angle -= pi if angle > pi / 2 else 0.0
        angle += pi if angle <= -pi / 2 else 0.0
        away = (sin(angle) * 6, -cos(angle) * 6)
        middle = ((x1 + x2) / 2 + away[0], (y1 + y2) / 2 + away[1])
        if hypot(x2 - x1, y2 - y1) > 24:
            turned = f' transform="rotate({degrees(angle):.1f} {middle[0]:.1f} {middle[1]:.1f})"'
            labels.append(_text(*middle, to_plain(wall.formula), "middle", _HALO + turned))
    yield from labels


def _names(frame: _Frame) -> Iterator[str]:
    for region in frame.picture.regions:
        x, y = region.centre
        style = _HALO + ' font-size="14" font-weight="600"'
        yield _text(frame.x(x), frame.y(y), region.name, "middle", style)


def _legend(frame: _Frame) -> Iterator[str]:
    """Each cell's term in rows below the drawing."""
    for index, region in enumerate(frame.picture.regions):
        y = _HEIGHT + _LINE * index
        yield (
            f'<rect x="{_LEFT}" y="{y - 10:.1f}" width="26" height="12" '
            f'fill="#{_colour(index)}" fill-opacity="0.35"/>'
        )
        yield _text(_LEFT + 34, y, f"{region.name}: {to_plain(region.term)}")


def _tikz(figure: RegimesFigure) -> Iterator[str]:
    picture = figure.picture
    v, w = picture.variables
    for index in range(min(len(picture.regions), len(PALETTE))):
        yield rf"\definecolor{{regime{index}}}{{HTML}}{{{_colour(index)}}}"
    yield r"\begin{tikzpicture}"
    yield rf"\begin{{axis}}[xmode=log, ymode=log, width={_TEX_SIZE[0]}cm, height={_TEX_SIZE[1]}cm,"
    yield "  scale only axis, enlargelimits=false, axis on top, clip=false,"
    yield f"  xmin={picture.x_range[0]:.10g}, xmax={picture.x_range[1]:.10g},"
    yield f"  ymin={picture.y_range[0]:.10g}, ymax={picture.y_range[1]:.10g},"
    yield f"  xlabel={{${to_latex(v)}$}}, ylabel={{${to_latex(w)}$}},"
    yield f"  title={{{tex(figure.title)}}},"
    yield "  legend style={draw=none, at={(0,-0.17)}, anchor=north west, cells={anchor=west}}]"
    for index, region in enumerate(picture.regions):
        points = " ".join(f"({x:.10g},{y:.10g})" for x, y in region.corners)
        colour = f"regime{index % len(PALETTE)}"
        yield rf"\addplot[draw=none, fill={colour}, fill opacity=0.16, area legend] coordinates {{"
        yield rf"  {points}}} -- cycle;"
        yield rf"\addlegendentry{{{tex(region.name)}: ${to_latex(region.term, inline=True)}$}}"
    for wall in picture.walls:
        yield from _tikz_wall(figure, wall)
    for region in picture.regions:
        x, y = region.centre
        yield rf"\node[font=\bfseries] at (axis cs:{x:.10g},{y:.10g}) {{{tex(region.name)}}};"
    yield r"\end{axis}"
    yield r"\end{tikzpicture}"


def _tikz_wall(figure: RegimesFigure, wall: WallSegment) -> Iterator[str]:
    (x1, y1), (x2, y2) = wall.start, wall.end
    yield rf"\draw[thick] (axis cs:{x1:.10g},{y1:.10g}) -- (axis cs:{x2:.10g},{y2:.10g});"
    across = (figure.x_axis.place(x2) - figure.x_axis.place(x1)) * _TEX_SIZE[0]
    along = (figure.y_axis.place(y2) - figure.y_axis.place(y1)) * _TEX_SIZE[1]
    if hypot(across, along) < 0.8:
        return
    angle = degrees(atan2(along, across))
    angle = angle - 180 if angle > 90 else angle
    middle = tuple(10 ** ((log10(a) + log10(b)) / 2) for a, b in ((x1, x2), (y1, y2)))
    yield (
        rf"\node[rotate={angle:.1f}, anchor=south, font=\small, inner sep=1.5pt] at "
        rf"(axis cs:{middle[0]:.10g},{middle[1]:.10g}) {{${to_latex(wall.formula, inline=True)}$}};"
    )


def regimes_figure(picture: RegimePicture, title: str) -> RegimesFigure:
    """A drawing of a plane of regimes.

    >>> from symscale.algebra.maximum import Maximum
    >>> from symscale.algebra.symbols import B, F
    >>> from symscale.solve.picture import picture
    >>> from symscale.solve.plane import plane
    >>> made = picture(plane(Maximum(10 * B, F), B, F), (1, 100), (1, 100))
    >>> regimes_figure(made, "Two terms").svg()[:4]
    '<svg'
    """
    return RegimesFigure(picture, title)
