"""What was read from a trace, as tables."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import Any

TOTALS = ("compute", "comms", "exposed", "step")


@dataclass(frozen=True)
class Measured:
    """Seconds that a kind of op, a collective or a total took on the average device.

    ``count`` is the number of runs on all devices (of a total, the number of devices); ``bound``
    the least seconds the same work can take, if one was given.

    >>> Measured("matmul", 0.004, 8, bound=0.003).fraction
    0.75
    """

    kind: str
    seconds: float
    count: int
    bound: float | None = None
    name: str = ""

    @property
    def fraction(self) -> float | None:
        """Fraction of the roofline: bound over measured; nothing without a bound."""
        if self.bound is None or self.seconds == 0:
            return None
        return self.bound / self.seconds

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        named = {"name": self.name} if self.name else {}
        return {
            **named,
            "kind": self.kind,
            "seconds": self.seconds,
            "count": self.count,
            "bound": self.bound,
            "fraction": self.fraction,
        }


@dataclass(frozen=True)
class DeviceTime:
    """One device's seconds: first op to last, covered by compute, by collectives, by neither.

    ``exposed`` is the time of collectives that no compute op on the device covers.
    """

    device: str
    span: float
    compute: float
    comms: float
    exposed: float
    idle: float

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return dict(vars(self))


@dataclass(frozen=True, repr=False)
class TraceReport:
    """Measured times of a trace; seconds are over the whole trace, of ``steps`` steps."""

    path: str
    devices: tuple[DeviceTime, ...]
    kinds: tuple[Measured, ...]
    collectives: tuple[Measured, ...]
    totals: tuple[Measured, ...]
    steps: int = 1
    skipped: int = 0

    def total(self, name: str) -> Measured:
        """A total by name: ``compute``, ``comms``, ``exposed`` or ``step``."""
        return next(found for found in self.totals if found.kind == name)

    @property
    def exposed(self) -> float:
        """Seconds of communication that no compute covers, on the average device."""
        return self.total("exposed").seconds

    @property
    def exposed_fraction(self) -> float:
        """The exposed part of all communication; 0 without communication."""
        comms = self.total("comms").seconds
        return self.exposed / comms if comms else 0.0

    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table: what, runs, measured, bound, fraction of the roofline."""
        table: list[tuple[str, ...]] = [("", "runs", "measured", "bound", "fraction")]
        for found in (*self.kinds, *self.collectives, *self.totals):
            fraction = found.fraction
            table.append(
                (
                    f"  {found.name} ({found.kind})" if found.name else found.kind,
                    "" if found.kind in TOTALS else str(found.count),
                    seconds_text(found.seconds),
                    "" if found.bound is None else seconds_text(found.bound),
                    "" if fraction is None else f"{fraction:.1%}",
                )
            )
        return table

    def __repr__(self) -> str:
        table = self.rows()
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        lines = [
            f"trace {self.path}: {len(self.devices)} devices, {self.steps} steps, "
            f"{self.exposed_fraction:.1%} of communication exposed"
        ]
        for row in table:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            lines.append("  ".join(cells).rstrip())
        if self.skipped:
            lines.append(f"{self.skipped} ops without a time that can be read were left out")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [[html.escape(cell.strip()) for cell in row] for row in self.rows()]
        head = "".join(f"<th>{cell}</th>" for cell in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[1:]
        )
        caption = f"<caption>{html.escape(self.path)}</caption>"
        return f"<table>{caption}<tr>{head}</tr>{body}</table>"

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "path": self.path,
            "steps": self.steps,
            "kinds": [found.to_dict() for found in self.kinds],
            "collectives": [found.to_dict() for found in self.collectives],
            "totals": [found.to_dict() for found in self.totals],
            "devices": [found.to_dict() for found in self.devices],
            "exposed_fraction": self.exposed_fraction,
            "skipped": self.skipped,
        }


def seconds_text(seconds: float) -> str:
    """Seconds in the unit that reads best.

    >>> seconds_text(0.00125), seconds_text(3.0)
    ('1.25 ms', '3 s')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.4g} {unit}"
    return f"{seconds / 1e-9:.4g} ns"
