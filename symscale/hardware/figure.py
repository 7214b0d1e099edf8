"""A chip's figures: each a number with its unit, its source, and what others print instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr, Integer

from symscale.algebra.errors import HardwareError, SymbolError, near
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import EXPORTED, info

#: The symbols of rates and latencies that a chip can give a number for, in the table's order.
RATES = (*(name for name in EXPORTED if info(name).kind in ("rate", "time")), "t_net")

#: What else is known of a chip: meaning and unit of each figure that has no symbol.
FACTS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "C_f16": ("matrix rate of one chip in f16, dense", "FLOP/s"),
        "C_tf32": ("matrix rate of one chip in f32 rounded to tf32, dense", "FLOP/s"),
        "hbm_bytes": ("HBM of one chip", "byte"),
        "host_bytes": ("memory of one host", "byte"),
        "vmem_bytes": ("on-chip memory of one chip", "byte"),
        "cmem_bytes": ("second on-chip memory of one chip", "byte"),
        "sbuf_bytes": ("state buffers of one chip", "byte"),
        "sram_bytes": ("on-chip memory of one chip", "byte"),
        "l2_bytes": ("level-2 cache of one chip", "byte"),
        "infinity_cache_bytes": ("last-level cache of one chip", "byte"),
        "smem_bytes": ("shared memory of one core", "byte"),
        "tmem_bytes": ("tensor memory of one core", "byte"),
        "cores": ("TensorCores of a TPU, multiprocessors of a GPU", "1"),
        "alus": ("vector lanes with an ALU of one core", "1"),
        "clock": ("clock of one core", "Hz"),
        "switches": ("scale-up switches of one node", "1"),
        "switch_ports": ("links of one scale-up switch", "1"),
        "links": ("scale-up links of one chip", "1"),
        "link_oneway": ("bandwidth of one scale-up link, one way", "byte/s"),
        "domain": ("chips joined by scale-up links", "chip"),
        "pod": ("chips in the largest pod", "chip"),
        "max_slice": ("chips in the largest slice one job can ask for", "chip"),
        "chips_per_host": ("chips of one host", "chip"),
        "tdp": ("power of one chip", "W"),
        "price": ("price of one chip", "USD/(chip h)"),
        "purchase": ("price of one chip, bought", "USD"),
    }
)

_WHOLE = frozenset({"1", "chip", "byte"})


class MissingFigure(HardwareError, KeyError):
    """A figure that a chip does not have; also a ``KeyError``, so that ``in`` and ``get`` work."""

    def __str__(self) -> str:
        return Exception.__str__(self)


def meaning(name: str) -> str:
    """What a figure of this name says.

    >>> meaning("W_hbm"), meaning("tdp")
    ("bandwidth of one chip's HBM", 'power of one chip')
    """
    return info(name).meaning if name in RATES else FACTS[name][0]


def unit(name: str) -> str:
    """The unit in which a figure of this name is given.

    >>> unit("W_hbm"), unit("pod")
    ('byte/s', 'chip')
    """
    return info(name).unit if name in RATES else FACTS[name][1]


@dataclass(frozen=True)
class Source:
    """Where a number was read, and when that was so."""

    key: str
    text: str
    url: str
    as_of: str

    def __str__(self) -> str:
        return ", ".join(part for part in (self.text, self.url, self.as_of) if part)


@dataclass(frozen=True)
class Reading:
    """A value of a figure as one source prints it."""

    value: Expr
    source: Source
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The reading for JSON; ``exact`` is the value as an exact fraction."""
        return {
            "value": plain(self.value),
            "exact": str(self.value),
            "source": str(self.source),
            "note": self.note,
        }


@dataclass(frozen=True)
class Figure:
    """One number of a chip.

    ``usual`` is the file's own choice, ``others`` what named editions print instead; ``edition``
    picks one of those, where the figure has it.
    """

    name: str
    usual: Reading
    others: tuple[tuple[str, Reading], ...] = ()
    edition: str | None = None

    @property
    def chosen(self) -> Reading:
        """The reading in force."""
        return dict(self.others).get(self.edition or "", self.usual)

    @property
    def value(self) -> Expr:
        """The number, exact."""
        return self.chosen.value

    @property
    def source(self) -> Source:
        """Where the number was read."""
        return self.chosen.source

    @property
    def note(self) -> str:
        """What to know about the number."""
        return self.chosen.note

    @property
    def unit(self) -> str:
        """The number's unit."""
        return unit(self.name)

    @property
    def alternatives(self) -> Mapping[str, Reading]:
        """The readings not in force, by edition; the file's own choice is ``default``."""
        every = {"default": self.usual, **dict(self.others)}
        in_force = self.edition if self.edition in every else None
        del every[in_force or "default"]
        return MappingProxyType(every)

    def to_dict(self) -> dict[str, Any]:
        """The figure for JSON."""
        alternatives = {name: other.to_dict() for name, other in self.alternatives.items()}
        return {**self.chosen.to_dict(), "unit": self.unit, "alternatives": alternatives}


def check_name(name: str) -> None:
    """Refuse a name that is no figure of a chip.

    Raises:
        HardwareError: with near names.

    >>> check_name("W_nvlnk")
    Traceback (most recent call last):
    symscale.algebra.errors.HardwareError: 'W_nvlnk' is no figure of a chip; did you mean \
W_nvlink or links?
    """
    known = (*RATES, *FACTS)
    if name not in known:
        hint = near(name, known) or f"; figures are {', '.join(known)}"
        raise HardwareError(f"{name!r} is no figure of a chip{hint}")


def checked_value(name: str, value: Any) -> Expr:
    """A figure's value as an exact number.

    Raises:
        HardwareError: for an unknown figure, or a value that is not above zero, or not whole where
            things are counted.

    >>> checked_value("tdp", -1)
    Traceback (most recent call last):
    symscale.algebra.errors.HardwareError: tdp = -1: a size or rate must be above zero
    """
    check_name(name)
    try:
        number = exact(value, name)
    except SymbolError as wrong:
        raise HardwareError(str(wrong)) from None
    if unit(name) in _WHOLE and not isinstance(number, Integer):
        raise HardwareError(f"{name} = {value}: {meaning(name)} must be a whole number")
    return number


def plain(value: Expr) -> int | float:
    """A number for JSON: an int where it is whole.

    >>> from sympy import Rational
    >>> plain(Rational(8)), plain(Rational(1, 2))
    (8, 0.5)
    """
    return int(value) if isinstance(value, Integer) else float(value)


def short(value: Expr) -> str:
    """A number in few characters; the exact one is in ``value``.

    >>> from sympy import Integer
    >>> short(Integer(197 * 10**12)), short(Integer(8960)), short(Integer(17179869184))
    ('1.97e14', '8960', '1.718e10')
    """
    number = plain(value)
    if isinstance(number, int) and number < 10**5:
        return str(number)
    digits, _, exponent = f"{float(number):.4e}".partition("e")
    return f"{float(digits):.4g}e{int(exponent)}" if abs(int(exponent)) > 4 else f"{number:.4g}"
