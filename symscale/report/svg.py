"""Line plots as inline SVG: no script, no font, no file beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from markupsafe import escape

from symscale.report.numbers import Figure, Power
from symscale.report.plots import PALETTE, LinePlot, Spot, Style

_WIDTH = 720.0
_PLOT_HEIGHT = 330.0
_LEFT = 74.0
_CHAR = 6.4
_LINE = 17.0
_HALO = ' class="halo" stroke="#fff" stroke-width="4" paint-order="stroke"'
_DASH: dict[Style, str] = {"solid": "", "dashed": "7 4", "dotted": "2 3"}


@dataclass(frozen=True)
class _Frame:
    """The plot's rectangle on the page, and the height of what surrounds it."""

    plot: LinePlot

    @property
    def left(self) -> float:
        return _LEFT

    @property
    def right(self) -> float:
        longest = max((len(m.label) for m in self.plot.horizontal), default=0)
        return _WIDTH - (14.0 if not longest else min(longest * _CHAR + 12, 200.0))

    @property
    def top(self) -> float:
        levels = max(self.plot.label_levels, default=-1) + 1
        return 34.0 + levels * _LINE

    @property
    def bottom(self) -> float:
        return self.top + _PLOT_HEIGHT

    def x(self, value: float) -> float:
        return self.left + self.plot.x_axis.place(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self.plot.y_axis.place(value) * (self.bottom - self.top)


def svg(plot: LinePlot) -> str:
    """The plot as one ``<svg>`` element; colours follow the page's text colour and its style.

    >>> from symscale.report.plots import line
    >>> svg(LinePlot("t", "x", "y", (line("a", [(1, 2), (3, 4)]),)))[:4]
    '<svg'
    """
    frame = _Frame(plot)
    legend, height = _legend(frame)
    ident = f"clip{crc32(repr(plot).encode()):08x}"
    body = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(plot.title)}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{escape(plot.title)}</title>",
        _text(frame.left, 18, plot.title, extra=' font-size="14" font-weight="600"'),
        *_grid(frame),
        *_markers(frame),
        f'<clipPath id="{ident}"><rect x="{frame.left:.1f}" y="{frame.top:.1f}" '
        f'width="{frame.right - frame.left:.1f}" height="{_PLOT_HEIGHT:.1f}"/></clipPath>',
        f'<g clip-path="url(#{ident})">',
        *_curves(frame),
        "</g>",
        *_spots(frame),
        *legend,
        "</svg>",
    ]
    return "".join(body)


def _text(x: float, y: float, text: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, extra: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {extra}/>'


def tick_label(label: Figure) -> str:
    """A power of ten with its exponent raised."""
    shown = []
    for index, piece in enumerate(label.pieces):
        if isinstance(piece, Power):
            times = "\N{MULTIPLICATION SIGN}" if index else ""
            shown.append(f'{times}10<tspan dy="-5" font-size="9">{piece.shown}</tspan>')
        else:
            shown.append(str(escape(piece)))
    return "".join(shown)


def _grid(frame: _Frame) -> Iterator[str]:
    left, right, top, bottom = frame.left, frame.right, frame.top, frame.bottom
    faint, clear = (
        'stroke="currentColor" stroke-opacity="0.06"',
        ('stroke="currentColor" stroke-opacity="0.18"'),
    )
    for value in frame.plot.x_axis.minor:
        yield _line(frame.x(value), top, frame.x(value), bottom, faint)
    for value in frame.plot.y_axis.minor:
        yield _line(left, frame.y(value), right, frame.y(value), faint)
    for tick in frame.plot.x_axis.ticks:
        x = frame.x(tick.value)
        yield _line(x, top, x, bottom, clear)
        label = tick_label(tick.label)
        yield f'<text x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{label}</text>'
    for tick in frame.plot.y_axis.ticks:
        y = frame.y(tick.value)
        yield _line(left, y, right, y, clear)
        label = tick_label(tick.label)
        yield f'<text x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">{label}</text>'
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}" '
        f'height="{bottom - top:.1f}" fill="none" stroke="currentColor" stroke-opacity="0.55"/>'
    )
    yield _text((left + right) / 2, bottom + 38, frame.plot.xlabel, "middle")
    middle = (top + bottom) / 2
    turned = f' transform="rotate(-90 16 {middle:.1f})"'
    yield _text(16, middle, frame.plot.ylabel, "middle", turned)


def _markers(frame: _Frame) -> Iterator[str]:
    style = 'stroke="currentColor" stroke-opacity="0.65" stroke-dasharray="4 4"'
    for marker, level in zip(frame.plot.vertical, frame.plot.label_levels, strict=True):
        x = frame.x(marker.value)
        reach = frame.top - 5 - level * _LINE
        yield _line(x, reach + 2, x, frame.bottom, style)
    for marker, level in zip(frame.plot.vertical, frame.plot.label_levels, strict=True):
        x = frame.x(marker.value)
        reach = frame.top - 5 - level * _LINE
        half = len(marker.label) * _CHAR / 2
        shifted = min(max(x, half + 2), _WIDTH - half - 2)
        yield _text(shifted, reach - 1, marker.label, "middle", _HALO)
    for marker in frame.plot.horizontal:
        y = frame.y(marker.value)
        yield _line(frame.left, y, frame.right, y, style)
        yield _text(frame.right + 6, y + 4, marker.label, extra=' fill-opacity="0.85"')


def _stroke(plot: LinePlot, index: int) -> str:
    colour = plot.colour_of(index)
    dash = _DASH[plot.series[index].style]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return f'class="c{colour}" stroke="#{PALETTE[colour]}" stroke-width="2.2" fill="none"{dashes}'


def _curves(frame: _Frame) -> Iterator[str]:
    for index, series in enumerate(frame.plot.series):
        points = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in series.points)
        joins = 'stroke-linejoin="round"'
        yield f'<polyline points="{points}" {_stroke(frame.plot, index)} {joins}/>'


def _spots(frame: _Frame) -> Iterator[str]:
    for spot, label in zip(frame.plot.spots, frame.plot.spot_labels, strict=True):
        x, y = frame.x(spot.x), frame.y(spot.y)
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
        yield _spot_label(spot, x + (9 if label.right else -9), y + (-8 if label.above else 17),
                          label.right)  # fmt: skip


def _spot_label(spot: Spot, x: float, y: float, right: bool) -> str:
    return _text(x, y, spot.label, "start" if right else "end", _HALO + ' font-weight="600"')


def _legend(frame: _Frame) -> tuple[list[str], float]:
    """Legend entries in rows below the plot, clear of every curve; and the height of it all."""
    series = frame.plot.series
    widest = 34 + max(len(one.label) for one in series) * _CHAR + 22
    columns = max(1, min(len(series), int((_WIDTH - frame.left) / widest)))
    drawn = []
    y = top = frame.bottom + 64
    for index, one in enumerate(series):
        x, y = frame.left + index % columns * widest, top + index // columns * (_LINE + 3)
        drawn.append(_line(x, y - 4, x + 26, y - 4, _stroke(frame.plot, index)))
        drawn.append(_text(x + 32, y, one.label))
    return drawn, y + 14
