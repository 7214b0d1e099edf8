"""The document model: what a report says, before any page is drawn.

Writers use the lower-case helpers (:func:`text`, :func:`display`, :func:`table`, ...), which accept
strings, expressions and numbers as they come; the classes hold what the renderers need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sympy import Basic

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import ReportError
from symscale.report.numbers import Figure, count, number
from symscale.report.plots import LinePlot
from symscale.report.rich import Code, Equation, Formula, Math, Part, Parts, Side, Strong, plain
from symscale.report.schedule_chart import ScheduleChart

Align = Literal["left", "right", "center"]
Verdict = Literal["good", "bad", "note"]
Cell: TypeAlias = "Part | Basic | int | float | Sequence[Part | Basic | int | float]"


@dataclass(frozen=True)
class Paragraph:
    """Running text with mathematics, code and figures in it."""

    parts: Parts

    def to_dict(self) -> dict[str, Any]:
        """The paragraph as text, for JSON."""
        return {"kind": "paragraph", "text": plain(self.parts)}


@dataclass(frozen=True)
class Line:
    """One displayed formula and the words (or symbol) that label it."""

    label: Parts
    formula: Formula


@dataclass(frozen=True)
class Display:
    """Formulas set off from the text, one below another, each with its label."""

    lines: tuple[Line, ...]

    def to_dict(self) -> dict[str, Any]:
        """The formulas as text and LaTeX, for JSON."""
        rows = [
            {"label": plain(x.label), "text": x.formula.text, "latex": x.formula.latex()}
            for x in self.lines
        ]
        return {"kind": "display", "lines": rows}


@dataclass(frozen=True)
class DerivationBlock:
    """A derivation's steps, numbered: statement, mathematics, reason."""

    derivation: Derivation
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The steps as text, for JSON."""
        return {"kind": "derivation", "title": self.title, **self.derivation.to_dict()}


@dataclass(frozen=True)
class Column:
    """A table column: its head and how its cells align."""

    title: Parts
    align: Align = "left"


@dataclass(frozen=True)
class Table:
    """Rows of cells under column heads, with a caption and notes below.

    Raises:
        ReportError: when a row has more or fewer cells than there are columns.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Parts, ...], ...]
    caption: Parts = ()
    notes: tuple[Parts, ...] = ()

    def __post_init__(self) -> None:
        for index, row in enumerate(self.rows, 1):
            if len(row) != len(self.columns):
                raise ReportError(
                    f"row {index} of table {plain(self.caption)!r} has {len(row)} cells "
                    f"for {len(self.columns)} columns"
                )

    def to_dict(self) -> dict[str, Any]:
        """The table as text, for JSON."""
        return {
            "kind": "table",
            "caption": plain(self.caption),
            "columns": [plain(column.title) for column in self.columns],
            "rows": [[plain(cell) for cell in row] for row in self.rows],
            "notes": [plain(note) for note in self.notes],
        }


@dataclass(frozen=True)
class Listing:
    """Lines of an algorithm in a monospaced face, spaces kept."""

    lines: tuple[str, ...]
    caption: Parts = ()

    def to_dict(self) -> dict[str, Any]:
        """The lines, for JSON."""
        return {"kind": "listing", "caption": plain(self.caption), "lines": list(self.lines)}


@dataclass(frozen=True)
class Callout:
    """A short boxed statement: a verdict that is good or bad, or a note."""

    kind: Verdict
    parts: Parts
    title: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The statement as text, for JSON."""
        return {
            "kind": "callout",
            "verdict": self.kind,
            "title": self.title,
            "text": plain(self.parts),
        }


Block: TypeAlias = (
    Paragraph | Display | DerivationBlock | Table | Listing | LinePlot | ScheduleChart | Callout
)


@dataclass(frozen=True)
class Section:
    """A titled run of blocks; level 1 is a section, 2 a subsection."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 1

    def to_dict(self) -> dict[str, Any]:
        """The section with its blocks, for JSON."""
        blocks = [block.to_dict() for block in self.blocks]
        return {"title": self.title, "level": self.level, "blocks": blocks}


@dataclass(frozen=True)
class Document:
    """A whole report: title, subtitle, abstract, and its sections in order."""

    title: str
    subtitle: str = ""
    abstract: Parts = ()
    sections: tuple[Section, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The document as text, for JSON."""
        return {
            "title": self.title,
            "subtitle": self.subtitle,
            "abstract": plain(self.abstract),
            "sections": [section.to_dict() for section in self.sections],
        }


def part(value: Part | Basic | int | float) -> Part:
    """One piece of text from what a writer has: whole numbers get separators, floats are rounded.

    >>> part(70553706496), part(4.59e14)
    (<70,553,706,496>, <4.59e14>)
    """
    if isinstance(value, str | Math | Equation | Code | Strong | Figure):
        return value
    if isinstance(value, Basic):
        return Math(value)
    return count(value) if isinstance(value, int) else number(value)


def parts(cell: Cell) -> Parts:
    """A cell or label as a tuple of parts; an empty string is no part.

    >>> parts("")
    ()
    """
    if isinstance(cell, tuple | list):
        return tuple(part(one) for one in cell)
    single: Any = cell
    return () if isinstance(single, str) and not single else (part(single),)


def text(*pieces: Part | Basic | int | float) -> Paragraph:
    """A paragraph of strings, expressions and numbers, set one after another.

    >>> from symscale.algebra.symbols import B, D
    >>> plain(text("The volume is ", 4 * B * D, " bytes.").parts)
    'The volume is 4*B*D bytes.'
    """
    return Paragraph(parts(pieces))


def display(*lines: tuple[Cell, Formula | Basic] | Formula | Basic) -> Display:
    """Displayed formulas, each alone or after its label.

    >>> from symscale.algebra.symbols import B, C, D, F
    >>> display(("arithmetic", 4 * B * D * F / C)).lines[0].formula.text
    '4*B*D*F/C'
    """
    made = []
    for line in lines:
        label, formula = line if isinstance(line, tuple) else ("", line)
        shown = Math(formula) if isinstance(formula, Basic) else formula
        made.append(Line(parts(label), shown))
    return Display(tuple(made))


def equation(*sides: Side | int | float, relation: str = "=") -> Equation:
    """A chain of equal sides: a symbol, its formula, its value.

    >>> from symscale.algebra.symbols import B, C
    >>> equation(Math.name("T_math"), B / C, number(2.5, "s")).text
    'T_math = B/C = 2.5 s'
    """
    made = [number(s) if isinstance(s, float) else count(s) if isinstance(s, int) else s
            for s in sides]  # fmt: skip
    return Equation(tuple(made), relation)


def table(
    columns: Sequence[Column | str | tuple[Cell, Align]],
    rows: Iterable[Sequence[Cell]],
    caption: Cell = "",
    notes: Sequence[Cell] = (),
) -> Table:
    """A table from plain Python rows; a column is its head, or its head and alignment.

    >>> table(["kind", ("bytes", "right")], [["weights", 8]]).rows
    ((('weights',), (<8>,)),)
    """
    heads = []
    for column in columns:
        if isinstance(column, Column):
            heads.append(column)
        else:
            head, align = column if isinstance(column, tuple) else (column, "left")
            heads.append(Column(parts(head), align))
    body = tuple(tuple(parts(cell) for cell in row) for row in rows)
    return Table(tuple(heads), body, parts(caption), tuple(parts(note) for note in notes))


def listing(lines: str | Iterable[str], caption: Cell = "") -> Listing:
    r"""A listing from lines, or from one string of several.

    >>> listing("a\nb").lines
    ('a', 'b')
    """
    split = lines.splitlines() if isinstance(lines, str) else lines
    return Listing(tuple(split), parts(caption))


def callout(kind: Verdict, *pieces: Part | Basic | int | float, title: str = "") -> Callout:
    """A boxed statement: ``good``, ``bad`` or ``note``.

    Raises:
        ReportError: for another kind.
    """
    if kind not in ("good", "bad", "note"):
        raise ReportError(f"callout kind {kind!r} is none of 'good', 'bad', 'note'")
    return Callout(kind, parts(pieces), title)


def section(title: str, *blocks: Block, level: int = 1) -> Section:
    """A section of these blocks."""
    return Section(title, tuple(blocks), level)
