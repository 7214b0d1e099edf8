"""Networks: the one place where a collective's volume becomes time.

Volumes follow symscale's convention: an AllReduce's counts its array twice, an AllToAll's is the
local bytes before it. What a network is made of lies in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Expr, Integer

from symscale.algebra.links import CollectiveKind, Network
from symscale.hardware.fidelity import KINDS, Fidelity, Kind
from symscale.hardware.hierarchy import Hierarchy, worst_level
from symscale.hardware.levels import Lay, Level
from symscale.hardware.switch import FullMesh, Switch
from symscale.hardware.torus import Torus, line, ring

__all__ = [
    "KINDS",
    "Fidelity",
    "FullMesh",
    "Hierarchy",
    "Kind",
    "Lay",
    "Level",
    "Switch",
    "Torus",
    "Trimmed",
    "line",
    "ring",
    "worst_level",
]


@dataclass(frozen=True)
class Trimmed:
    """A network on which some mesh axes have size 1: nothing moves along those.

    >>> from symscale.algebra.symbols import B
    >>> Trimmed(Torus(), frozenset({"Y"})).time("AllGather", B, ["Y"])
    0
    """

    inner: Network
    trivial: frozenset[str]

    def time(self, kind: CollectiveKind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds over the axes that have more than one device."""
        left = tuple(name for name in axes if name not in self.trivial)
        reorders = kind == "CollectivePermute" and len(left) < len(axes)
        if not left or (reorders and len(left) == 1):
            return Integer(0)
        return self.inner.time(kind, volume, left)

    def resource(self, axes: Sequence[str], kind: CollectiveKind = "AllGather") -> str:
        """What the axes that are left occupy."""
        left = tuple(name for name in axes if name not in self.trivial)
        return self.inner.resource(left or axes, kind)
