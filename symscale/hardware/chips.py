"""The chips on file: find one by name, list all, or read one from a file of the same form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from os import PathLike, fspath
from pathlib import Path
from types import MappingProxyType
from typing import Any

from symscale.algebra.errors import HardwareError, near
from symscale.algebra.table import html_table, text_table
from symscale.hardware.chip import Chip
from symscale.hardware.figure import short
from symscale.hardware.loading import parse

_DATA = "symscale/hardware/data"
_COLUMNS = ("C", "C_int8", "W_hbm", "hbm_bytes", "links", "W_dcn", "pod")


@dataclass(frozen=True, repr=False)
class ChipTable:
    """Several chips side by side; a dash where a number is not on file.

    ``links`` is what one chip sends over all its scale-up links, one way.

    >>> [row["name"] for row in chips().to_dict()["chips"]][:2]
    ['a100', 'a100-40gb']
    """

    entries: tuple[Chip, ...]

    def __iter__(self) -> Iterator[Chip]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def _rows(self) -> list[tuple[str, ...]]:
        return [(chip.name, *(_cell(chip, column) for column in _COLUMNS)) for chip in self.entries]

    def __repr__(self) -> str:
        return text_table(("chip", *_COLUMNS), self._rows(), "lr")

    def _repr_html_(self) -> str:
        return html_table(("chip", *_COLUMNS), self._rows())

    def to_dict(self) -> dict[str, Any]:
        """Every chip with every figure, for JSON."""
        return {"chips": [chip.to_dict() for chip in self.entries]}


def _cell(chip: Chip, column: str) -> str:
    if column == "links":
        figure = "W_ici" if chip.torus is not None else chip.fabric.rate or ""
        ways = chip.torus.axes if chip.torus is not None else 1
        return short(chip.figures[figure].value * ways) if figure in chip.figures else "-"
    return short(chip.figures[column].value) if column in chip.figures else "-"


def chips() -> ChipTable:
    """All chips on file.

    >>> len(chips())
    31
    """
    return ChipTable(tuple(_shipped().values()))


def chip(name: str | PathLike[str] | Chip, edition: str | None = None) -> Chip:
    """The chip of this name, or of this JSON file.

    Spelling is lenient ("v5p", "TPU v5p", "tpu_v5p"). ``edition`` takes the numbers that one
    source prints, where it prints others: ``"book"`` and ``"book-2025"`` are the 2026 and the
    February 2025 edition of How To Scale Your Model, ``"nominal"`` the nominal link rates;
    ``Chip.editions`` lists a chip's.

    Raises:
        HardwareError: for an unknown chip or edition (with near names), or a wrong file.

    >>> from symscale.algebra.symbols import C, W_hbm
    >>> (C / W_hbm).subs(chip("tpu-v5e", edition="book-2025"))
    19700/81
    """
    if not isinstance(name, str | PathLike | Chip):
        raise HardwareError(f"chip {name!r}: a name is wanted, a file, or a chip")
    found = name if isinstance(name, Chip) else _find(fspath(name))
    if edition is None:
        return found
    known = sorted({*found.editions, *(one for entry in chips() for one in entry.editions)})
    if edition not in known:
        hint = near(edition, known) or f"; known are {', '.join(known)}"
        raise HardwareError(f"unknown edition {edition!r} of {found.name}{hint}")
    return found.with_edition(edition)


def _find(name: str) -> Chip:
    if name.lower().endswith(".json"):
        return _from_file(Path(name))
    key, names = _normal(name), _names()
    if key in names:
        return _shipped()[names[key]]
    close = near(key, sorted(_shipped())) or near(key, sorted(names))
    hint = close or f"; known are {', '.join(_shipped())}"
    raise HardwareError(f"unknown chip {name!r}{hint}")


def _from_file(path: Path) -> Chip:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as wrong:
        raise HardwareError(f"{path}: cannot be read: {wrong.strerror}") from None
    except UnicodeDecodeError:
        raise HardwareError(f"{path}: not JSON: the file is not UTF-8 text") from None
    return parse(text, str(path))


@cache
def _shipped() -> Mapping[str, Chip]:
    folder = files("symscale.hardware") / "data"
    read = [
        parse(entry.read_text(encoding="utf-8"), f"{_DATA}/{entry.name}")
        for entry in folder.iterdir()
        if entry.name.endswith(".json")
    ]
    return MappingProxyType({chip.name: chip for chip in sorted(read, key=lambda one: one.name)})


@cache
def _names() -> Mapping[str, str]:
    """Every accepted spelling, to the chip's name."""
    out: dict[str, str] = {}
    for entry in _shipped().values():
        for spelling in (entry.name, entry.title, *entry.aliases):
            owner = out.setdefault(_normal(spelling), entry.name)
            if owner != entry.name:
                raise HardwareError(f"{spelling!r} names both {owner} and {entry.name}")
    return MappingProxyType(out)


def _normal(name: str) -> str:
    return "-".join(name.lower().replace("_", " ").replace("-", " ").split())
