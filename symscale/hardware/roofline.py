"""Every roof of a chip in one object: arithmetic, memories, links, network, host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr, Integer, Rational, sympify

from symscale.algebra.errors import HardwareError, near
from symscale.algebra.maximum import Minimum
from symscale.algebra.symbols import W_dcn, W_hbm, W_ici, W_pcie, W_vmem, info, symbol
from symscale.algebra.table import Table
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.figure import RATES, MissingFigure, short
from symscale.hardware.rates import rate_text

_DTYPES: Mapping[str, str] = {
    "bf16": "C", "f16": "C_f16", "f32": "C_f32", "tf32": "C_tf32",
    "fp8": "C_fp8", "fp4": "C_fp4", "int8": "C_int8", "int4": "C_int4",
}  # fmt: skip


@dataclass(frozen=True)
class Roof:
    """One way in which bytes reach a chip: ``rate`` in symbols, ``value`` in bytes/s."""

    name: str
    rate: Expr
    value: Expr
    meaning: str

    def to_dict(self) -> dict[str, Any]:
        """The roof for JSON."""
        return {
            "name": self.name,
            "rate": str(self.rate),
            "bytes_per_s": float(self.value),
            "meaning": self.meaning,
        }


@dataclass(frozen=True)
class Roofline:
    """The roofs of one chip for products of one dtype.

    An op with F FLOPs that moves b bytes through a roof of rate W has intensity F/b there, and can
    run no faster than W F/b; nor than ``peak``.

    >>> line = roofline("tpu-v5e")
    >>> [roof.name for roof in line.roofs]
    ['on-chip memory', 'hbm', 'links', 'network', 'pcie']
    >>> line.ridge("hbm"), float(line.ridge("hbm"))
    (197000/819, 240.5...)
    """

    chip: str
    dtype: str
    peak_rate: Expr
    peak: Expr
    roofs: tuple[Roof, ...]
    missing: tuple[str, ...] = ()

    def roof(self, name: str) -> Roof:
        """One roof by name.

        Raises:
            MissingFigure: for one whose number the chip does not have.
            HardwareError: for a name that is no roof.
        """
        for one in self.roofs:
            if one.name == name:
                return one
        if name in self.missing:
            raise MissingFigure(
                f"{self.chip} has no {_FIGURES[name]} ({info(_FIGURES[name]).meaning}): give it by "
                f".override({_FIGURES[name]}=...)"
            )
        known = [one.name for one in self.roofs]
        raise HardwareError(
            f"no roof {name!r}{near(name, known) or '; roofs: ' + ', '.join(known)}"
        )

    def ridge(self, name: str) -> Expr:
        """FLOPs a byte from which a roof no longer holds arithmetic back: peak over rate."""
        return self.peak / self.roof(name).value

    def ridge_formula(self, name: str) -> Expr:
        """The same in symbols.

        >>> roofline("h100").ridge_formula("links")
        C/W_nvlink
        """
        return self.peak_rate / self.roof(name).rate

    def attainable(self, **intensities: Any) -> Expr:
        """FLOP/s that an op can reach with these FLOPs a byte through each roof.

        Names are those of the roofs, with ``_`` for a space or a dash.

        >>> float(roofline("tpu-v5e").attainable(hbm=100, links=10000))
        81900000000000.0
        """
        found = [self.roof(name).value * value for name, value in self._given(intensities).items()]
        return Minimum(self.peak, *found)

    def attainable_formula(self, **intensities: Any) -> Expr:
        """The same in symbols.

        >>> from symscale.algebra.symbols import B
        >>> roofline("tpu-v5e").attainable_formula(hbm=B)
        Minimum(C, B*W_hbm)
        """
        found = [self.roof(name).rate * value for name, value in self._given(intensities).items()]
        return Minimum(self.peak_rate, *found)

    def binding(self, **intensities: Any) -> str:
        """What holds such an op back: a roof, or ``compute``.

        >>> roofline("tpu-v5e").binding(hbm=100), roofline("tpu-v5e").binding(hbm=1000)
        ('hbm', 'compute')
        """
        given = self._given(intensities)
        rates = {name: self.roof(name).value * value for name, value in given.items()}
        rates["compute"] = self.peak
        return min(rates, key=lambda name: rates[name])

    def _given(self, intensities: Mapping[str, Any]) -> dict[str, Expr]:
        names = {one.replace(" ", "_").replace("-", "_"): one for one in _FIGURES}
        out = {}
        for given, value in intensities.items():
            name = names.get(given, given)
            self.roof(name)
            out[name] = sympify(value, strict=True)
        return out

    def table(self) -> Table:
        """The roofs with rates and ridge points."""
        rows: list[tuple[str, Any, Any]] = [("compute", f"{short(self.peak)} FLOP/s", "")]
        for one in self.roofs:
            rows.append((one.name, rate_text(one.value), f"{float(self.ridge(one.name)):,.4g}"))
        return Table(("roof", "rate", "ridge, FLOPs a byte"), tuple(rows))

    def __repr__(self) -> str:
        lines = [f"roofline of {self.chip}, {self.dtype}", str(self.table())]
        if self.missing:
            lines.append(f"note: no number for {', '.join(self.missing)}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The roofs for JSON."""
        return {
            "chip": self.chip,
            "dtype": self.dtype,
            "peak_flops_per_s": float(self.peak),
            "roofs": [{**r.to_dict(), "ridge": float(self.ridge(r.name))} for r in self.roofs],
            "missing": list(self.missing),
        }


#: Roofs and the figure of each, from the nearest memory to the farthest; "links" is a chip's own.
_FIGURES: Mapping[str, str] = {
    "on-chip memory": W_vmem.name, "hbm": W_hbm.name, "links": "W_ici",
    "network": W_dcn.name, "pcie": W_pcie.name,
}  # fmt: skip


def roofline(chip: str | Chip, dtype: str = "bf16") -> Roofline:
    """The roofs of a chip, those it has numbers for.

    ``links`` are all scale-up links of the chip: every axis of a torus, one way into a switch. A
    dtype whose rate has no symbol enters formulas as its number.

    Raises:
        HardwareError: for an unknown chip or dtype, or a dtype that the chip has no rate for.

    >>> roofline("h100")
    roofline of h100, bf16
    roof            rate             ridge, FLOPs a byte
    compute         9.89e14 FLOP/s
    on-chip memory  5.5 TB/s         179.8
    hbm             3.35 TB/s        295.2
    links           450 GB/s         2,198
    network         50 GB/s          1.978e+04
    pcie            63 GB/s          1.57e+04
    """
    found = find_chip(chip)
    peak = found.rate(dtype)
    links, axes = _links(found)
    roofs: list[Roof] = []
    missing: list[str] = []
    for name, figure in {**_FIGURES, "links": links}.items():
        if figure not in found.figures:
            missing.append(name)
            continue
        count = axes if name == "links" else 1
        rate = symbol(figure) * count
        value = found.figure(figure).value * count
        roofs.append(Roof(name, rate, value, info(figure).meaning))
    figure = _DTYPES[dtype]
    rate = symbol(figure) if figure in RATES else peak
    return Roofline(found.name, dtype, rate, peak, tuple(roofs), tuple(missing))


def _links(chip: Chip) -> tuple[str, Expr]:
    """The figure of the scale-up links, and how often it counts."""
    if chip.torus is not None:
        return W_ici.name, Integer(chip.torus.axes)
    return chip.fabric.rate or "W_nvlink", Rational(1)
