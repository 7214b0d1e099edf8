"""Crossovers of collectives: when hops take longer than bytes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sympy import Expr, Symbol

from symscale.algebra.links import IDEAL
from symscale.algebra.symbols import X, axis, links, quantity, symbol
from symscale.hardware.networks import Torus
from symscale.solve.crossover import crossover
from symscale.studies.catalogue_common import Entry, Found, Setting, found

GROUP = "collectives"
BUFFER = quantity("bytes", r"\mathrm{bytes}", "bytes that every device has after a gather", "byte")


def _hops(size: Symbol) -> Expr:
    """Seconds for the hops of an AllGather on a ring of ``2*size`` devices."""
    ring = Torus("latency", links={"X": 1})
    whole = ring.time("AllGather", BUFFER, ["X"]).expand()
    return whole.subs(BUFFER, 0).subs(X, 2 * size)


def _bytes() -> Expr:
    return IDEAL.time("AllGather", BUFFER, ["X"]).subs(links("X"), 1)


def buffer(setting: Setting) -> Found:
    """The bytes from which a gather on an even ring takes longer than its hops."""
    half = symbol("half")
    answer = crossover(_bytes(), _hops(half).subs(half, axis("X") / 2), BUFFER)
    return found(answer, "bytes", "bytes")


def degree(setting: Setting) -> Found:
    """The devices of an even ring from which hops take longer than bytes."""
    half = symbol("half")
    wall = found(crossover(_hops(half), _bytes(), half), "half", "devices")
    return wall.scaled(2, "X", "devices")


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "latency-buffer": Entry(
            GROUP, "From how many bytes is a gather on a ring bound by bandwidth, not hops?", buffer
        ),
        "latency-degree": Entry(
            GROUP, "From how many devices is a gather on a ring bound by its hops?", degree
        ),
    }
)
