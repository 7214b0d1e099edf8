"""The derived list of collectives held against the list that XLA emitted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from symscale.algebra.table import Table
from symscale.arrays.notation import axes_text
from symscale.xla.compare_known import KNOWN, Known, Left
from symscale.xla.compare_lists import Derived, all_same, once_each, same
from symscale.xla.readings import Emitted, HloReport

#: Columns of a line, and of what is said of a derived collective in it.
LINE = 100
_WIDEST = 40


@dataclass(frozen=True)
class Row:
    """One line of the table: derived and emitted collectives that belong together.

    ``verdict`` is ``exact``, ``same bytes``, ``dearer`` or ``cheaper`` (XLA's bytes against the
    derived ones), ``only derived`` or ``only XLA``; ``why`` is the reason where one is known.
    """

    derived: tuple[Derived, ...]
    emitted: tuple[Emitted, ...]
    why: str = ""

    @property
    def derived_bytes(self) -> int:
        """Bytes of the derived side."""
        return sum(one.volume for one in self.derived)

    @property
    def emitted_bytes(self) -> int:
        """Bytes of XLA's side."""
        return sum(one.volume for one in self.emitted)

    @property
    def exact(self) -> bool:
        """Whether both sides are the same collectives."""
        return all_same(self.derived, self.emitted)

    @property
    def explained(self) -> bool:
        """Whether it is exact, or differs for a known reason."""
        return self.exact or bool(self.why)

    @property
    def verdict(self) -> str:
        """How XLA's side compares."""
        if self.exact:
            return "exact"
        if not self.emitted:
            return "only derived"
        if not self.derived:
            return "only XLA"
        return ratio_text(self.derived_bytes, self.emitted_bytes)

    def to_dict(self) -> dict[str, Any]:
        """Both sides, bytes, verdict and reason as plain values."""
        return {
            "derived": [one.to_dict() for one in self.derived],
            "emitted": [_emitted_dict(one) for one in self.emitted],
            "derived_bytes": self.derived_bytes,
            "emitted_bytes": self.emitted_bytes,
            "verdict": self.verdict,
            "why": self.why,
        }


def ratio_text(own: int, other: int) -> str:
    """How XLA's bytes compare with the derived ones.

    >>> ratio_text(4, 6), ratio_text(4, 3), ratio_text(4, 4)
    ('dearer × 1.5', 'cheaper × 0.75', 'same bytes')
    """
    if own == other:
        return "same bytes"
    return f"{'dearer' if other > own else 'cheaper'} × {other / own:.3g}"


@dataclass(frozen=True)
class Comparison:
    """All rows of one program, matrix FLOPs on a device by both accounts, and what was not read."""

    rows: tuple[Row, ...]
    derived_flops: int
    emitted_flops: int
    flops_why: str = ""
    unread: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        """Every collective and the FLOPs agree, and all was read."""
        return (
            all(row.exact for row in self.rows)
            and self.derived_flops == self.emitted_flops
            and not self.unread
        )

    @property
    def explained(self) -> bool:
        """Everything agrees, or differs for a known reason."""
        flops = self.derived_flops == self.emitted_flops or bool(self.flops_why)
        return flops and not self.unread and all(row.explained for row in self.rows)

    @property
    def derived_bytes(self) -> int:
        """Bytes of all derived collectives on a device."""
        return sum(row.derived_bytes for row in self.rows)

    @property
    def emitted_bytes(self) -> int:
        """Bytes of all emitted collectives on a device."""
        return sum(row.emitted_bytes for row in self.rows)

    @property
    def verdict(self) -> str:
        """In a word: exact, or how XLA's bytes compare."""
        if all(row.exact for row in self.rows):
            return "exact" if self.derived_flops == self.emitted_flops else "exact, other FLOPs"
        if not self.derived_bytes:
            return "only XLA"
        return ratio_text(self.derived_bytes, self.emitted_bytes)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why they differ, each reason once."""
        found = [row.why for row in self.rows if row.why]
        return tuple(dict.fromkeys(found + [self.flops_why] * bool(self.flops_why)))

    def table(self) -> Table:
        """A row for each collective or group that belongs together."""
        rows = tuple(line for row in self.rows for line in _lines(row))
        return Table(("derived", "XLA", "bytes", "XLA bytes", "verdict"), rows)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def lines(self) -> list[str]:
        """The table, FLOPs, reasons and the unread list, for a terminal."""
        out = str(self.table()).splitlines() if self.rows else ["no collectives, on either side"]
        agree = (
            "exact"
            if self.derived_flops == self.emitted_flops
            else (
                ratio_text(self.derived_flops, self.emitted_flops)
                if self.derived_flops
                else "only XLA"
            )
        )
        out += ["", f"matrix FLOPs a device: derived {self.derived_flops:,}, "
                f"XLA {self.emitted_flops:,}: {agree}"]  # fmt: skip
        said = [f"why: {reason}" for reason in self.reasons]
        said += [f"not explained: {_side(row)}" for row in self.rows if not row.explained]
        if agree != "exact" and not self.flops_why:
            said.append("not explained: the FLOPs")
        said += [f"not read: {text}" for text in self.unread]
        return out + [line for text in said for line in wrap(text, LINE, subsequent_indent="  ")]

    def to_dict(self) -> dict[str, Any]:
        """Rows, FLOPs, verdicts and the unread list."""
        return {
            "rows": [row.to_dict() for row in self.rows],
            "flops": {
                "derived": self.derived_flops, "xla": self.emitted_flops, "why": self.flops_why,
            },
            "unread": list(self.unread),
            "verdict": self.verdict,
            "exact": self.exact,
            "explained": self.explained,
        }  # fmt: skip


def compare(
    derived: Sequence[Derived], report: HloReport, flops: int, known: Sequence[Known] = KNOWN
) -> Comparison:
    """What was derived against what was read: equal collectives are paired first, then known
    differences are looked for among the rest.

    Args:
        derived: the derived collectives.
        report: what was read from XLA's module.
        flops: derived matrix FLOPs on a device.
        known: the differences that are taken for explained.
    """
    rows, left = _paired(derived, report, flops)
    flops_why = ""
    for one in known:
        while found := one.find(left):
            rows.append(Row(tuple(found.derived), tuple(found.emitted), one.reason))
            flops_why = flops_why or (one.reason if one.moves_flops else "")
            left = left.without(found)
    rows += _rest(left)
    same = flops == report.dot_flops
    return Comparison(
        tuple(rows), flops, report.dot_flops, "" if same else flops_why, report.unread
    )


def _paired(derived: Sequence[Derived], report: HloReport, flops: int) -> tuple[list[Row], Left]:
    waiting = list(once_each(report.collectives))
    rows, alone = [], []
    for one in derived:
        found = next((e for e in waiting if same(one, e)), None)
        if found is None:
            alone.append(one)
        else:
            waiting.remove(found)
            rows.append(Row((one,), (found,)))
    left = Left(tuple(derived), tuple(alone), tuple(waiting), flops, report.dot_flops, report.mesh)
    return rows, left


def _rest(left: Left) -> Iterable[Row]:
    """What no reason is known for: paired by mesh axes where possible."""
    waiting = list(left.emitted)
    for one in left.derived:
        alike = next((e for e in waiting if set(e.axes) == set(one.axes)), None)
        if alike is not None:
            waiting.remove(alike)
        yield Row((one,), (alike,) if alike else ())
    for other in waiting:
        yield Row((), (other,))


def _lines(row: Row) -> Iterable[tuple[str, str, str, str, str]]:
    """A group takes as many lines as its longer side; the verdict stands on the first."""
    height = max(len(row.derived), len(row.emitted))
    for number in range(height):
        own = row.derived[number] if number < len(row.derived) else None
        other = row.emitted[number] if number < len(row.emitted) else None
        yield (
            _short(f"{_name(own.kind, own.axes)} {own.array.partition(' -> ')[0]}") if own else "",
            _name(other.kind, other.axes) if other else "",
            f"{own.volume:,}" if own else "",
            f"{other.volume:,}" if other else "",
            row.verdict if number == 0 else "",
        )


def _name(kind: str, axes: Sequence[str]) -> str:
    return f"{kind}_{axes_text(axes)}"


def _short(text: str) -> str:
    """Cut to what leaves room for the other columns in a line."""
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def _side(row: Row) -> str:
    own = ", ".join(f"{_name(d.kind, d.axes)} of {d.volume:,} bytes" for d in row.derived)
    other = ", ".join(f"{_name(e.kind, e.axes)} of {e.volume:,} bytes" for e in row.emitted)
    return f"derived {own or 'nothing'}; XLA {other or 'nothing'}"


def _emitted_dict(one: Emitted) -> dict[str, Any]:
    return {
        "kind": one.kind, "axes": list(one.axes), "volume": one.volume, "dtype": one.dtype,
        "name": one.name, "note": one.note,
    }  # fmt: skip
