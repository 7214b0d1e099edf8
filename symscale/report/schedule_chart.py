"""A pipeline schedule as a chart from its timeline: rows are devices, columns are time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from markupsafe import escape

from symscale.algebra.errors import ReportError
from symscale.parallel.schedules.timeline import Block
from symscale.parallel.schedules.work import Kind
from symscale.report.axes import Axis
from symscale.report.escaping import tex
from symscale.report.plots import PALETTE

if TYPE_CHECKING:
    from symscale.parallel.schedules.schedule import Schedule

_MOST_BLOCKS = 2000
#: Palette index and name of each kind of work, in the legend's order.
_KINDS: dict[Kind, tuple[int, str]] = {
    "F": (0, "forward"),
    "BW": (1, "backward"),
    "B": (6, "gradient of the inputs"),
    "W": (2, "gradient of the weights"),
}
_TINTS = (0.32, 0.62)
_LETTER: dict[Kind, str] = {"F": "F", "BW": "B", "B": "b", "W": "w"}


@dataclass(frozen=True)
class Cell:
    """A block on the chart: its row, its sides from 0 to 1, its half of the row if it is paired."""

    row: int
    left: float
    right: float
    half: int | None
    colour: int
    tint: float
    label: str


@dataclass(frozen=True)
class ScheduleChart:
    """Blocks of work over devices and time.

    Raises:
        ReportError: for no blocks, or more than can be told apart on a page.

    >>> from symscale.parallel.schedules.lookup import schedule
    >>> schedule_chart(schedule("1f1b", p=4, m=8)).total
    33.0
    """

    title: str
    blocks: tuple[Block, ...]
    xlabel: str = "time"
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.blocks:
            raise ReportError(f"chart {self.title!r} has no blocks")
        if len(self.blocks) > _MOST_BLOCKS:
            raise ReportError(
                f"chart {self.title!r} has {len(self.blocks)} blocks; at most {_MOST_BLOCKS} can "
                "be told apart, draw fewer microbatches or devices"
            )

    @cached_property
    def rows(self) -> int:
        """The number of devices."""
        return 1 + max(block.stage for block in self.blocks)

    @cached_property
    def total(self) -> float:
        """The end of the last block."""
        return float(max(block.end for block in self.blocks))

    @cached_property
    def axis(self) -> Axis:
        """The axis of time."""
        return Axis(0.0, self.total)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The blocks, placed; later chunks in a deeper tint."""
        return tuple(self._cell(block) for block in self.blocks)

    def _cell(self, block: Block) -> Cell:
        last = max(block.chunk for block in self.blocks)
        low, high = _TINTS
        tint = low + (high - low) * (block.chunk / last if last else 0.0)
        half = None if not block.overlapped else 0 if block.kind == "F" else 1
        return Cell(
            block.stage,
            self.axis.place(float(block.start)),
            self.axis.place(float(block.end)),
            half,
            _KINDS[block.kind][0],
            tint,
            str(block.microbatch),
        )

    @cached_property
    def legend(self) -> tuple[tuple[int, str], ...]:
        """Palette index and name of the kinds that occur."""
        used = {block.kind for block in self.blocks}
        return tuple(entry for kind, entry in _KINDS.items() if kind in used)

    @cached_property
    def hint(self) -> str:
        """What the drawing's shades and halves mean, where there are any."""
        told = []
        if any(block.chunk for block in self.blocks):
            told.append("deeper shades are later chunks of a device")
        if any(block.overlapped for block in self.blocks):
            told.append("halves of a row are overlapped")
        return "; ".join(told)

    def letters(self, columns: int) -> Iterator[str]:
        r"""Each device as a line of letters: a kind of work, its microbatch, dashes to its end.

        >>> from symscale.parallel.schedules.lookup import schedule
        >>> print(*schedule_chart(schedule("1f1b", p=2, m=2)).letters(27), sep="\n")
        F0-F1-......B0----...B1----
        ...F0-B0----F1-B1----......
        """
        lines = [["."] * columns for _ in range(self.rows)]
        for block in self.blocks:
            start, end = (
                round(float(at) / self.total * columns) for at in (block.start, block.end)
            )
            letter = "&" if block.overlapped else _LETTER[block.kind]
            if not block.overlapped or block.kind == "F":
                label = f"{letter}{block.microbatch}"
                shown = label if len(label) <= end - start else letter
                shown = shown.ljust(end - start, "-")[: end - start]
                lines[block.stage][start:end] = shown
        yield from map("".join, lines)

    def to_dict(self) -> dict[str, Any]:
        """The blocks, for JSON."""
        return {
            "kind": "schedule",
            "title": self.title,
            "rows": self.rows,
            "total": self.total,
            "blocks": [block.to_dict() for block in self.blocks],
            "caption": self.caption,
        }

    def _repr_html_(self) -> str:
        return chart_svg(self)


def schedule_chart(
    schedule: Schedule, p: int | None = None, m: int | None = None, v: int | None = None, *,
    title: str = "", caption: str = "", xlabel: str = "time", **durations: Any,
) -> ScheduleChart:  # fmt: skip
    """The chart of a schedule for numbers; ``durations`` as :meth:`Schedule.timeline` takes them.

    Raises:
        StrategyError: for a size that is no number, or sizes that cannot be.
        ReportError: for more blocks than can be told apart.
    """
    blocks = schedule.timeline(p, m, v, **durations)
    return ScheduleChart(title or f"Schedule {schedule.name}", blocks, xlabel, caption)


# --- SVG -----------------------------------------------------------------------------------

_WIDTH, _LEFT, _RIGHT, _TOP = 720.0, 52.0, 10.0, 34.0
_DIGIT, _CHAR = 5.6, 6.4


def chart_svg(chart: ScheduleChart) -> str:
    """The chart as one ``<svg>`` element; text follows the page's colour, labels stay dark.

    >>> from symscale.parallel.schedules.lookup import schedule
    >>> chart_svg(schedule_chart(schedule("gpipe", p=2, m=2)))[:4]
    '<svg'
    """
    high = _row_height(chart)
    bottom = _TOP + chart.rows * high
    legend, height = _svg_legend(chart, bottom + 58)
    body = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" role="img" '
        f'aria-label="{escape(chart.title)}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor" xmlns="http://www.w3.org/2000/svg">',
        f"<title>{escape(chart.title)}</title>",
        _svg_text(_LEFT, 18, chart.title, "start", ' font-size="14" font-weight="600"'),
        *_svg_axes(chart, high, bottom),
        *(_svg_cell(cell, high) for cell in chart.cells),
        *legend,
        "</svg>",
    ]
    return "".join(body)


def _row_height(chart: ScheduleChart) -> float:
    paired = any(block.overlapped for block in chart.blocks)
    return 30.0 if paired else 22.0


def _svg_x(place: float) -> float:
    return _LEFT + place * (_WIDTH - _LEFT - _RIGHT)


def _svg_text(x: float, y: float, text: str, anchor: str, extra: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(text)}</text>'


def _svg_axes(chart: ScheduleChart, high: float, bottom: float) -> Iterator[str]:
    yield (
        f'<rect x="{_LEFT:.1f}" y="{_TOP:.1f}" width="{_WIDTH - _LEFT - _RIGHT:.1f}" '
        f'height="{bottom - _TOP:.1f}" fill="currentColor" fill-opacity="0.05"/>'
    )
    for row in range(chart.rows):
        yield _svg_text(_LEFT - 8, _TOP + (row + 0.5) * high + 4, str(row), "end")
    middle = (_TOP + bottom) / 2
    turned = f' transform="rotate(-90 16 {middle:.1f})"'
    yield _svg_text(16, middle, "device", "middle", turned)
    for tick in chart.axis.ticks:
        x = _svg_x(chart.axis.place(tick.value))
        yield (
            f'<line x1="{x:.1f}" y1="{bottom:.1f}" x2="{x:.1f}" y2="{bottom + 4:.1f}" '
            'stroke="currentColor" stroke-opacity="0.55"/>'
        )
        yield _svg_text(x, bottom + 17, str(tick.label), "middle")
    yield _svg_text(_svg_x(0.5), bottom + 34, chart.xlabel, "middle")


def _svg_cell(cell: Cell, high: float) -> str:
    top, tall = _band(cell, high)
    x, wide = _svg_x(cell.left), _svg_x(cell.right) - _svg_x(cell.left)
    drawn = (
        f'<rect class="halo" x="{x:.2f}" y="{_TOP + top:.2f}" width="{wide:.2f}" '
        f'height="{tall:.2f}" fill="#{mixed(cell.colour, cell.tint)}" stroke="#fff" '
        'stroke-width="0.8"/>'
    )
    if wide < len(cell.label) * _DIGIT + 2:
        return drawn
    extra = ' fill="#16181c" font-size="10"'
    return drawn + _svg_text(x + wide / 2, _TOP + top + tall / 2 + 3.5, cell.label, "middle", extra)


def _band(cell: Cell, high: float) -> tuple[float, float]:
    """A cell's top and height: a row, or the upper or lower half of it."""
    if cell.half is None:
        return cell.row * high, high
    return (cell.row + cell.half / 2) * high, high / 2


def mixed(colour: int, tint: float) -> str:
    """A palette colour, ``tint`` of it on white.

    >>> mixed(0, 1.0), mixed(0, 0.0)
    ('0072B2', 'FFFFFF')
    """
    parts = (int(PALETTE[colour][i : i + 2], 16) for i in (0, 2, 4))
    return "".join(f"{round(255 + (part - 255) * tint):02X}" for part in parts)


def _svg_legend(chart: ScheduleChart, top: float) -> tuple[list[str], float]:
    drawn, x = [], _LEFT
    for colour, name in chart.legend:
        fill = mixed(colour, sum(_TINTS) / 2)
        drawn.append(
            f'<rect x="{x:.1f}" y="{top - 10:.1f}" width="14" height="12" fill="#{fill}"/>'
        )
        drawn.append(_svg_text(x + 20, top, name, "start"))
        x += 20 + len(name) * _CHAR + 22
    if chart.hint:
        top += 20
        drawn.append(_svg_text(_LEFT, top, chart.hint, "start", ' fill-opacity="0.8"'))
    return drawn, top + 12


# --- TikZ ----------------------------------------------------------------------------------

_EM_WIDTH, _EM_DIGIT = 42.0, 0.46


def chart_tikz(chart: ScheduleChart) -> str:
    r"""The chart as a ``tikzpicture`` in the report's colours, one em a unit.

    >>> from symscale.parallel.schedules.lookup import schedule
    >>> chart_tikz(schedule_chart(schedule("gpipe", p=2, m=2))).splitlines()[0]
    '\\begin{tikzpicture}[x=1em, y=-1em]'
    """
    high = 1.9 if _row_height(chart) > 22 else 1.35
    lines = [r"\begin{tikzpicture}[x=1em, y=-1em]", *_tikz_axes(chart, high)]
    lines += [line for cell in chart.cells for line in _tikz_cell(cell, high)]
    lines += [*_tikz_legend(chart, chart.rows * high + 3.6), r"\end{tikzpicture}"]
    return "\n".join(lines)


def _tikz_axes(chart: ScheduleChart, high: float) -> Iterator[str]:
    bottom = chart.rows * high
    yield rf"\fill[black!5] (0,0) rectangle ({_EM_WIDTH},{bottom:.2f});"
    for row in range(chart.rows):
        yield rf"\node[left, font=\footnotesize] at (0,{(row + 0.5) * high:.2f}) {{{row}}};"
    yield rf"\node[rotate=90, font=\small] at (-2.4,{bottom / 2:.2f}) {{device}};"
    for tick in chart.axis.ticks:
        x = chart.axis.place(tick.value) * _EM_WIDTH
        yield rf"\draw[black!60] ({x:.3f},{bottom:.2f}) -- ({x:.3f},{bottom + 0.3:.2f})"
        yield rf"  node[below, font=\footnotesize] {{${tick.label.latex}$}};"
    label = tex(chart.xlabel)
    yield rf"\node[font=\small] at ({_EM_WIDTH / 2},{bottom + 2.2:.2f}) {{{label}}};"


def _tikz_cell(cell: Cell, high: float) -> Iterator[str]:
    top, tall = _band(cell, high)
    left, right = cell.left * _EM_WIDTH, cell.right * _EM_WIDTH
    fill = f"c{cell.colour}!{round(100 * cell.tint)}"
    yield (
        rf"\draw[white, line width=0.3pt, fill={fill}] ({left:.3f},{top:.3f}) rectangle "
        f"({right:.3f},{top + tall:.3f});"
    )
    if right - left >= len(cell.label) * _EM_DIGIT + 0.1:
        x, y = (left + right) / 2, top + tall / 2
        yield rf"\node[font=\tiny, inner sep=0pt] at ({x:.3f},{y:.3f}) {{{cell.label}}};"


def _tikz_legend(chart: ScheduleChart, top: float) -> Iterator[str]:
    x = 0.0
    for colour, name in chart.legend:
        fill = f"c{colour}!{round(50 * sum(_TINTS))}"
        yield rf"\fill[{fill}] ({x:.2f},{top - 0.4:.2f}) rectangle ({x + 1:.2f},{top + 0.4:.2f});"
        x += 1.3
        yield rf"\node[right, inner sep=0pt, font=\footnotesize] at ({x:.2f},{top:.2f}) {{{name}}};"
        x += 0.45 * len(name) + 1.6
    if chart.hint:
        y = top + 1.4
        yield rf"\node[right, inner sep=0pt, font=\footnotesize] at (0,{y:.2f}) {{{chart.hint}}};"
