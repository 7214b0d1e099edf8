"""What joins a chip to others, as its file says: a torus, a switch, a full mesh or a host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sympy import Expr

from symscale.algebra.symbols import symbol
from symscale.hardware.layout import TorusShape
from symscale.hardware.levels import Level

FabricKind = Literal["torus", "switch", "mesh", "host"]


@dataclass(frozen=True)
class LevelFigure:
    """A level above the node, by the figure of its rate; ``taper`` divides it."""

    name: str
    size: int | None
    rate: str
    taper: int = 1

    @property
    def level(self) -> Level:
        """The level with its rate as a symbol."""
        return Level(self.name, self.size, symbol(self.rate) / self.taper)

    def to_dict(self) -> dict[str, Any]:
        """The level as its file has it."""
        return {"name": self.name, "size": self.size, "rate": self.rate, "taper": self.taper}


@dataclass(frozen=True)
class Fabric:
    """The scale-up network of one node or pod, and the levels above it.

    ``rate`` names the figure of one chip's egress where it is no torus: into a switch, over the
    links of a full mesh together, or into its host's PCIe.

    >>> print(Fabric("switch", rate="W_nvlink", levels=(LevelFigure("leaf", 32, "W_dcn"),)))
    one switch, W_nvlink; leaf of 32, W_dcn
    """

    kind: FabricKind
    torus: TorusShape | None = None
    rate: str | None = None
    levels: tuple[LevelFigure, ...] = ()

    @property
    def place(self) -> str:
        """What the chips joined by it are called."""
        return {"torus": "pod", "host": "host"}.get(self.kind, "node")

    @property
    def egress(self) -> Expr:
        """One chip's egress, as a symbol."""
        return symbol(self.rate or "W_ici")

    def __str__(self) -> str:
        if self.torus is not None:
            shape = "x".join(map(str, self.torus.shape))
            closed = {
                "axis": f"an axis wraps at {self.torus.wrap_size}",
                "cube": f"slices of full cubes of {self.torus.wrap_size} wrap",
            }
            inner = f"torus {shape}, {closed[self.torus.rule]}"
        else:
            words = {"switch": "one switch", "mesh": "a link to every other", "host": "one host"}
            inner = f"{words[self.kind]}, {self.rate}"
        above = [
            f"{one.name} of {one.size}, {one.rate}{f'/{one.taper}' if one.taper > 1 else ''}"
            for one in self.levels
        ]
        return "; ".join([inner, *above])

    def to_dict(self) -> dict[str, Any]:
        """The network for JSON."""
        out: dict[str, Any] = {"kind": self.kind}
        if self.torus is not None:
            out |= self.torus.to_dict()
        else:
            out["rate"] = self.rate
        if self.levels:
            out["levels"] = [level.to_dict() for level in self.levels]
        return out
