"""A chip: a mapping from rate symbols to exact numbers, each with its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import Any

from sympy import Expr, Integer, Symbol

from symscale.algebra.errors import HardwareError, SymbolError
from symscale.algebra.links import Network
from symscale.algebra.symbols import check_known, symbol
from symscale.algebra.table import html_table, note, text_table
from symscale.hardware.fabric import Fabric
from symscale.hardware.fidelity import Fidelity
from symscale.hardware.figure import (
    RATES,
    Figure,
    MissingFigure,
    Reading,
    Source,
    check_name,
    checked_value,
    meaning,
    short,
)
from symscale.hardware.layout import Layout, TorusShape, mesh_axes, mesh_sizes
from symscale.hardware.layouts import LayoutChoice, layout_choice
from symscale.hardware.placement import Placement
from symscale.hardware.placing import placed, reach, unsized

_BY_DTYPE = {
    "bf16": "C", "f16": "C_f16", "f32": "C_f32", "tf32": "C_tf32",
    "fp8": "C_fp8", "fp4": "C_fp4", "int8": "C_int8", "int4": "C_int4",
}  # fmt: skip

_CALLER = Source("given", "given by the caller", "", "")


@dataclass(frozen=True, eq=False, repr=False)
class Chip(Mapping[Symbol, Expr]):
    """A chip as a mapping from rate symbols to exact rationals, those it has a number for.

    So ``expr.subs(chip)`` works. Asking for a missing rate raises :class:`MissingFigure`, naming
    the chip, the figure, and the file to put it in.

    >>> from symscale.algebra.symbols import C, W_hbm
    >>> from symscale.hardware.chips import chip
    >>> (C / W_hbm).subs(chip("tpu-v5e"))
    197000/819
    """

    name: str
    title: str
    vendor: str
    entries: tuple[Figure, ...]
    fabric: Fabric = field(default_factory=lambda: Fabric("switch", rate="W_nvlink"))
    aliases: tuple[str, ...] = ()
    traps: tuple[str, ...] = ()
    file: str = ""
    edition: str | None = None

    def __getitem__(self, key: Symbol | str) -> Expr:
        name = key if isinstance(key, str) else getattr(key, "name", None)
        if isinstance(key, Symbol):
            try:
                check_known(key)
            except SymbolError as stranger:
                raise MissingFigure(str(stranger)) from None
        if name not in RATES:
            raise MissingFigure(f"{key} is no rate of a chip; rates are {', '.join(RATES)}")
        return self.figure(name).value

    def __iter__(self) -> Iterator[Symbol]:
        known = self.figures
        return (symbol(name) for name in RATES if name in known)

    def __len__(self) -> int:
        return sum(entry.name in RATES for entry in self.entries)

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.items())))

    @property
    def figures(self) -> Mapping[str, Figure]:
        """All figures by name: the rates, and what has no symbol (``hbm_bytes``, ``pod``...)."""
        return MappingProxyType({entry.name: entry for entry in self.entries})

    def figure(self, name: str) -> Figure:
        """One figure, with its unit, source and alternatives.

        Raises:
            MissingFigure: when the chip has no number for it, saying where to put one.
            HardwareError: for a name that is no figure of a chip.

        >>> from symscale.hardware.chips import chip
        >>> str(chip("tpu-v5p").figure("hbm_bytes").alternatives["book"].value)
        '96000000000'
        """
        check_name(name)
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise MissingFigure(
            f"{self.name} has no {name} ({meaning(name)}): add it under 'figures' in "
            f"{self.file or 'its file'}, or give it by .override({name}=...)"
        )

    def rate(self, dtype: str) -> Expr:
        """The matrix rate in FLOP/s for operands of this dtype, dense.

        Raises:
            HardwareError: for an unknown dtype, or one that the chip has no rate for.

        >>> from symscale.hardware.chips import chip
        >>> str(chip("tpu-v5e").rate("int8"))
        '394000000000000'
        """
        if dtype not in _BY_DTYPE:
            raise HardwareError(f"unknown dtype {dtype!r}; known are {', '.join(_BY_DTYPE)}")
        return self.figure(_BY_DTYPE[dtype]).value

    @property
    def torus(self) -> TorusShape | None:
        """The torus of a whole pod, or None for a chip that has none."""
        return self.fabric.torus

    @property
    def reach(self) -> int:
        """The most chips that one mesh can have: a pod, or all nodes of its network.

        >>> from symscale.hardware.chips import chip
        >>> chip("h100").reach, chip("tpu-v5e").reach
        (1024, 256)
        """
        return reach(self)

    @property
    def hbm_bytes(self) -> Integer:
        """Bytes of HBM."""
        return self.figure("hbm_bytes").value

    @property
    def pod(self) -> int:
        """Chips in the largest pod."""
        return int(self.figure("pod").value)

    @property
    def domain(self) -> int:
        """Chips joined by scale-up links: a TPU pod, a GPU node."""
        return int(self.figure("domain").value)

    @property
    def chips_per_host(self) -> int:
        """Chips attached to one host."""
        return int(self.figure("chips_per_host").value)

    @property
    def price(self) -> Figure:
        """USD for an hour of one chip; its source and note say when and where."""
        return self.figure("price")

    @property
    def editions(self) -> tuple[str, ...]:
        """The names under which other values are on file, such as ``book`` or ``nominal``."""
        return tuple(dict.fromkeys(name for entry in self.entries for name, _ in entry.others))

    def with_edition(self, edition: str) -> Chip:
        """This chip with the numbers that an edition prints, where it prints others."""
        chosen = tuple(replace(entry, edition=edition) for entry in self.entries)
        return replace(self, entries=chosen, edition=edition)

    def override(self, **numbers: Any) -> Chip:
        """This chip with other numbers, or with ones that it lacked.

        Raises:
            HardwareError: for a name that is no figure, or a value that is no positive number.

        >>> from symscale.hardware.chips import chip
        >>> str(chip("tpu-v5e").override(W_hbm=8e11)["W_hbm"])
        '800000000000'
        """
        changed = dict(self.figures)
        for name, value in numbers.items():
            changed[name] = Figure(name, Reading(checked_value(name, value), _CALLER))
        return replace(self, entries=tuple(changed.values()))

    def layout(self, axes: Iterable[str], sizes: Mapping[Any, int] | None = None) -> Layout:
        """How mesh axes lie on the chip's network: over how many physical axes each.

        On a torus the axes cover all physical ones, the first taking what the others leave; an axis
        of size 1, when sizes are given, takes none from the others. Behind a switch each counts
        as 1.

        Raises:
            HardwareError: for more mesh axes than the torus has.

        >>> from symscale.hardware.chips import chip
        >>> chip("tpu-v5p").layout(["X", "Y"]).to_dict()
        {'X': 2, 'Y': 1}
        """
        names = mesh_axes(axes)
        ones = Layout(tuple((name, 1) for name in names))
        if self.torus is None:
            return ones
        known = {} if sizes is None else mesh_sizes(names, sizes)
        wide = tuple(name for name in names if known.get(name, 2) > 1)
        if not wide:
            return ones
        laid = self.torus.spread(wide)
        return Layout(tuple((name, laid.get(name, 1)) for name in names))

    def network(
        self,
        axes: Iterable[str],
        fidelity: Fidelity = "ideal",
        sizes: Mapping[Any, int] | None = None,
        links: Mapping[str, int] | None = None,
        layout: str | LayoutChoice | None = None,
        reduces: Iterable[str] = (),
    ) -> Network:
        """The network under these mesh axes, with sizes and links still symbols.

        ``sizes`` decide which axes wrap around (without them all do), which levels of a tree they
        cross, and are checked against the pod; ``layout(axes, sizes).bindings`` are the numbers for
        ``M_X`` that go with it, unless ``links`` lays some axes otherwise. ``layout`` is what
        ``--layout`` takes (see :func:`layout_choice`), ``reduces`` names levels whose switches add
        up an AllReduce ("node", "leaf"...).

        Raises:
            HardwareError: for more mesh axes than the torus has, one that does not fit it, a mesh
                larger than the pod, an unknown fidelity, or a size that is not a whole number.
            MissingFigure: for a latency or a network that the chip has no number for.

        >>> from symscale.hardware.chips import chip
        >>> chip("tpu-v5e").network(["X", "Y"], "ring", {"X": 4, "Y": 16}).wrap
        {'X': False, 'Y': True}
        """
        names = mesh_axes(axes)
        if fidelity == "latency":
            self.figure("t_hop")
        if sizes is None:
            self.layout(names)
            return unsized(self, fidelity, frozenset(reduces))
        found = self.placement(names, sizes, links, layout)
        if fidelity == "latency" and found.levels:
            self.figure("t_net")
        made: Network = found.network(fidelity, frozenset(reduces))
        return made

    def placement(
        self,
        axes: Iterable[str],
        sizes: Mapping[Any, int],
        links: Mapping[str, int] | None = None,
        layout: str | LayoutChoice | None = None,
    ) -> Placement:
        """Where mesh axes of these sizes lie: levels, strides, and what each waits for.

        Raises:
            HardwareError: as :meth:`network`.

        >>> from symscale.hardware.chips import chip
        >>> [a.binding for a in chip("h100").placement(["X", "Y"], {"X": 2, "Y": 8}).axes]
        ['leaf', 'node']
        """
        names = mesh_axes(axes)
        return placed(self, names, mesh_sizes(names, sizes), links or {}, layout_choice(layout))

    def to_dict(self) -> dict[str, Any]:
        """All that is known of the chip, for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "vendor": self.vendor,
            "edition": self.edition,
            "figures": {entry.name: entry.to_dict() for entry in self.entries},
            "network": self.fabric.to_dict(),
            "traps": list(self.traps),
        }

    def __repr__(self) -> str:
        edition = f", edition {self.edition}" if self.edition else ""
        rows = [(e.name, short(e.value), e.unit, _cite(e)) for e in self.entries]
        used = {entry.source.key: entry.source for entry in self.entries}
        lines = [
            f"{self.title} ({self.name}{edition})",
            text_table((), rows, "lrl"),
            note(f"network: {self.fabric}", 9),
            *(note(f"note: {trap}", 6) for trap in self.traps),
            *(note(f"[{key}] {source}") for key, source in used.items()),
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head = ("figure", "meaning", "value", "unit", "source", "note")
        rows = [
            (e.name, meaning(e.name), short(e.value), e.unit, str(e.source), e.note)
            for e in self.entries
        ]
        traps = "".join(f"<li>{escape(trap)}</li>" for trap in self.traps)
        return f"<h4>{escape(self.title)}</h4>{html_table(head, rows)}<ul>{traps}</ul>"


def _cite(entry: Figure) -> str:
    others = ", ".join(
        f"{name}: {short(other.value)}" for name, other in entry.alternatives.items()
    )
    return f"[{entry.source.key}]" + (f" ({others})" if others else "")
