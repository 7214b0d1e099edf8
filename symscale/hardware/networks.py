"""Networks: the one place where a collective's volume becomes time.

A network has a fidelity. ``ideal`` is bytes over bandwidth, the textbook's. ``ring`` counts the
bytes that really cross the busiest link: (n-1)/n of the volume, because a device has its own share
already, and half the bandwidth on an axis that does not wrap around, because the chip at its end
has only one link. Volumes follow symscale's convention: an AllReduce's counts its array twice, an
AllToAll's is the local bytes before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from sympy import Add, Expr, Integer, Mul, Rational, Symbol, sympify

from symscale.algebra.errors import HardwareError, near
from symscale.algebra.links import CollectiveKind, IDEAL, Network
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import W_ici, W_nvlink, axis, links
from symscale.hardware.layout import mesh_axes

Fidelity = Literal["ideal", "ring"]


@dataclass(frozen=True)
class Torus:
    """A torus of ICI links; each mesh axis is laid over one or more of its physical axes.

    ``wrap`` says which mesh axes wrap around (those not named do); ``links`` over how many physical
    axes each lies (those not named: the symbol ``M_X``). ``W_ici`` counts both directions of one
    physical axis. On several axes at once every link is used, and the chip with the fewest links
    (at the ends of all axes that do not wrap) sets the pace; that is reached on equal rings and a
    lower bound elsewhere.

    Source: How To Scale Your Model, "Sharded Matrices"; the factors of ``ring`` are counts of bytes
    over the busiest link, checked by simulation.

    Raises:
        HardwareError: for an unknown fidelity, or a number of links that is not above zero.

    >>> from symscale.algebra.symbols import B
    >>> Torus().time("AllGather", B, ["X"])
    B/(M_X*W_ici)
    >>> Torus("ring", wrap={"X": False}, links={"X": 1}).time("AllGather", B, ["X"])
    2*B*(X - 1)/(W_ici*X)
    """

    fidelity: Fidelity = "ideal"
    wrap: Mapping[str, bool] = field(default_factory=dict, hash=False)
    links: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_fidelity(self.fidelity)
        for name, count in self.links.items():
            if not sympify(count, strict=True).is_positive:
                raise HardwareError(f"mesh axis {name} over {count} physical axes: at least 1")

    def bandwidth(self, axes: Sequence[str]) -> Expr:
        """Bytes/s into the chip with the fewest links, over all physical axes of these mesh axes.

        >>> Torus(links={"X": 2, "Y": 1}).bandwidth(["X", "Y"])
        3*W_ici
        """
        return W_ici * Add(*(self._count(name) * self._share(name) for name in mesh_axes(axes)))

    def time(self, kind: CollectiveKind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds for a collective of this volume over these mesh axes.

        An AllToAll on a ring of n chips takes n/4 times its local bytes over ``W_ici`` (a chunk
        crosses n/4 links on average); on a line twice that, in ``ring``, because half of all chunks
        cross the middle. Over several axes the slowest decides. These are exact for even n and a
        factor 1 - 1/n**2 too high for odd n; for a mesh axis over M > 1 physical axes they are an
        upper bound. A CollectivePermute is, in ``ring``, a shift by one: one link, one way; where
        an axis does not wrap, the last chip's bytes go back over links that the shift leaves idle.

        Raises:
            HardwareError: for an unknown collective, no axis, or one axis named twice.
        """
        names = _checked(kind, axes)
        if kind == "AllToAll":
            return volume * Rational(1, 4) * self._slowest(names)
        if self.fidelity == "ideal":
            return volume / self.bandwidth(names)
        if kind == "CollectivePermute":
            return 2 * volume / W_ici
        return volume * _received(names) / self.bandwidth(names)

    def resource(self, axes: Sequence[str]) -> str:
        """Each mesh axis has links of its own.

        >>> Torus().resource(["X", "Y"])
        'XY'
        """
        return IDEAL.resource(axes)

    def _count(self, name: str) -> Expr:
        return sympify(self.links[name], strict=True) if name in self.links else links(name)

    def _share(self, name: str) -> Expr:
        line = self.fidelity == "ring" and not self.wrap.get(name, True)
        return Rational(1, 2) if line else Rational(1)

    def _slowest(self, names: tuple[str, ...]) -> Expr:
        weights = (axis(name) / (self._count(name) * self._share(name)) for name in names)
        return Maximum(*weights) / W_ici


@dataclass(frozen=True)
class Switch:
    """Devices behind one switch: any pair at full rate, each device sends and receives at ``rate``.

    ``rate`` is one device's egress, one way: ``W_nvlink`` in a GPU node, ``W_dcn`` across pods.

    Source: How To Scale Your Model, "How to Think About GPUs", on collectives within a node.

    Raises:
        HardwareError: for an unknown fidelity.

    >>> from symscale.algebra.symbols import B
    >>> Switch().time("AllGather", B, ["X"])
    B/W_nvlink
    >>> Switch("ring").time("AllGather", B, ["X"])
    B*(X - 1)/(W_nvlink*X)
    """

    fidelity: Fidelity = "ideal"
    rate: Symbol = W_nvlink

    def __post_init__(self) -> None:
        _check_fidelity(self.fidelity)

    def bandwidth(self, axes: Sequence[str]) -> Expr:
        """Bytes/s into one device, whatever the axes."""
        mesh_axes(axes)
        return self.rate

    def time(self, kind: CollectiveKind, volume: Expr, axes: Sequence[str]) -> Expr:
        """Seconds for a collective of this volume over these mesh axes.

        A device keeps its own share and moves the other (n-1)/n; a CollectivePermute moves all.

        Raises:
            HardwareError: for an unknown collective, no axis, or one axis named twice.
        """
        names = _checked(kind, axes)
        if self.fidelity == "ideal" or kind == "CollectivePermute":
            return volume / self.rate
        return volume * _received(names) / self.rate

    def resource(self, axes: Sequence[str]) -> str:
        """All axes share the device's one port.

        >>> Switch().resource(["X", "Y"])
        'nvlink'
        """
        return str(self.rate.name).removeprefix("W_")


def _received(names: tuple[str, ...]) -> Expr:
    """The share of a gathered array that a device does not hold already."""
    devices = Mul(*(axis(name) for name in names))
    return (devices - 1) / devices


def _checked(kind: str, axes: Sequence[str]) -> tuple[str, ...]:
    known = get_args(CollectiveKind)
    if kind not in known:
        hint = near(kind, known) or f"; known are {', '.join(known)}"
        raise HardwareError(f"unknown collective {kind!r}{hint}")
    return mesh_axes(axes)


def _check_fidelity(fidelity: str) -> None:
    known = get_args(Fidelity)
    if fidelity not in known:
        raise HardwareError(f"unknown fidelity {fidelity!r}: {' or '.join(known)} is wanted")


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

    def resource(self, axes: Sequence[str]) -> str:
        """What the axes that are left occupy."""
        left = tuple(name for name in axes if name not in self.trivial)
        return self.inner.resource(left or axes)
