"""Collectives derived: the bytes of every step over the busiest link, summed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sympy import Expr, Sum, Symbol, ceiling, floor, limit, oo

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import HardwareError
from symscale.algebra.symbols import W_ici, W_nvlink, n

s = Symbol("s", integer=True, positive=True)
v = Symbol("volume", positive=True)

SHAPES = ("ring", "one-way ring", "line", "switch")


@dataclass(frozen=True)
class Derived:
    """A closed form with the steps that led to it, and what it tends to for many devices."""

    kind: str
    shape: str
    time: Expr
    limit: Expr
    derivation: Derivation

    def __repr__(self) -> str:
        return f"{self.kind} on a {self.shape}: {self.time}\n{self.derivation}"

    def _repr_latex_(self) -> str:
        return self.derivation._repr_latex_()

    def to_dict(self) -> dict[str, Any]:
        """The closed form and its steps, for JSON."""
        return {
            "kind": self.kind,
            "shape": self.shape,
            "time": str(self.time),
            "limit": str(self.limit),
            **self.derivation.to_dict(),
        }


def derive(kind: str, shape: str = "ring") -> Derived:
    """A collective's time on a ring, one-way ring, line or switch, as a sum over steps.

    ``volume`` is as everywhere (see :mod:`symscale.hardware.networks`), n the devices.

    Raises:
        HardwareError: for a collective or a shape that has no such sum.

    >>> derive("AllGather").time
    volume*(n - 1)/(W_ici*n)
    >>> print(derive("AllToAll", "one-way ring").derivation)
    1. chunks over one link at step s: s*volume/n    (a chunk for the device s away crosses s links)
    2. summed over n - 1 steps: volume*(n - 1)/2    (sum of an arithmetic series)
    3. over the rate of one link: volume*(n - 1)/W_ici    (W_ici/2 one way)
    4. for many devices: n*volume/W_ici    (its ratio to this tends to 1)
    """
    if shape not in SHAPES:
        raise HardwareError(f"unknown shape {shape!r}; known are {', '.join(SHAPES)}")
    rate = W_nvlink if shape == "switch" else W_ici / 2
    if kind == "AllToAll":
        return _all_to_all(shape, rate)
    if kind in ("AllGather", "ReduceScatter", "AllReduce", "Gather"):
        return _passed_on(kind, shape, rate)
    if kind == "Broadcast":
        return _pipelined(shape, rate)
    raise HardwareError(f"{kind!r} has no sum over steps: it is one step")


def _passed_on(kind: str, shape: str, rate: Expr) -> Derived:
    """Shards that go from neighbour to neighbour, or straight through a switch."""
    rounds = 2 if kind == "AllReduce" else 1
    ways = 2 if shape == "ring" else 1
    piece = v / (rounds * ways * n)
    steps = rounds * (n - 1)
    words = {
        "ring": "half a shard each way round, passed on until everybody has had it",
        "one-way ring": "a shard, passed on until everybody has had it",
        "line": "the device at the end takes every other shard over its one link",
        "switch": "a shard to or from another peer",
    }
    text = Derivation().then("bytes over the busiest link at a step", piece, words[shape])
    summed = Sum(piece, (s, 1, steps)).doit()
    text = text.then(f"summed over {steps} steps", summed.factor(), "every step moves the same")
    return _finished(kind, shape, summed, rate, text)


def _all_to_all(shape: str, rate: Expr) -> Derived:
    chunk = v / n
    if shape == "switch":
        text = Derivation().then("bytes at a step", chunk, "to the peer s places on")
        summed = Sum(chunk, (s, 1, n - 1)).doit()
        text = text.then("summed over n - 1 steps", summed.factor(), "every step moves the same")
    elif shape == "one-way ring":
        text = Derivation().then(
            "chunks over one link at step s", s * chunk,
            "a chunk for the device s away crosses s links",
        )  # fmt: skip
        summed = Sum(s * chunk, (s, 1, n - 1)).doit().factor()
        text = text.then("summed over n - 1 steps", summed, "sum of an arithmetic series")
    elif shape == "line":
        summed = floor(n / 2) * ceiling(n / 2) * chunk
        text = Derivation().then(
            "bytes over the middle link", summed,
            "one chunk from each device on one side to each on the other",
        )  # fmt: skip
    else:
        return _round_the_short_way(chunk, rate)
    return _finished("AllToAll", shape, summed, rate, text)


def _round_the_short_way(chunk: Expr, rate: Expr) -> Derived:
    """A chunk goes the short way round; to the device opposite, half each way."""
    half = Symbol("m", integer=True, positive=True)
    even = Sum(s, (s, 1, half - 1)).doit() + half / 2
    odd = Sum(s, (s, 1, half)).doit()
    text = Derivation().then(
        "chunks over one link, n = 2m", even.factor(),
        "s chunks from those s away, half of those for the device opposite",
    )  # fmt: skip
    text = text.then("chunks over one link, n = 2m + 1", odd.factor(), "no device is opposite")
    summed = floor(n**2 / 4) / 2 * chunk
    text = text.then("for either", summed, "m**2/2 and m (m + 1)/2 are both floor(n**2/4)/2")
    return _finished("AllToAll", "ring", summed, rate, text)


def _pipelined(shape: str, rate: Expr) -> Derived:
    """An array in p pieces, each passed on at once: what the way costs vanishes."""
    pieces = Symbol("p", integer=True, positive=True)
    ways = 2 if shape == "ring" else 1
    piece = v / (ways * pieces)
    text = Derivation().then("bytes at a step", piece, "one piece over every link of the chain")
    steps = pieces + n - 2
    summed = Sum(piece, (s, 1, steps)).doit()
    text = text.then(
        f"summed over {steps} steps", summed.factor(), "the last piece starts at step p"
    )
    whole = limit(summed, pieces, oo)
    text = text.then("for many pieces", whole, "the n - 2 steps of the way cost nothing")
    return _finished("Broadcast", shape, whole, rate, text)


def _finished(kind: str, shape: str, summed: Expr, rate: Expr, text: Derivation) -> Derived:
    time = (summed / rate).factor()
    one = "W_nvlink of one device" if shape == "switch" else "W_ici/2 one way"
    many = _leading(time)
    text = text.then("over the rate of one link", time, one)
    text = text.then("for many devices", many, "its ratio to this tends to 1")
    return Derived(kind, shape, time, many, text)


def _leading(time: Expr) -> Expr:
    """What a time tends to as n grows: a power of n times a constant."""
    smooth = time.replace(floor, lambda inner: inner).replace(ceiling, lambda inner: inner)
    for power in (0, 1):
        found = limit(smooth / n**power, n, oo)
        if found.is_finite or found.is_positive:
            return found * n**power
    return smooth


def latency_bound_below(network: Any, kind: str, axes: tuple[str, ...]) -> Expr:
    """The volume at which hops take as long as bytes: below it a collective is latency-bound.

    Raises:
        HardwareError: for a network that counts no latency.

    >>> from symscale.hardware.networks import ring
    >>> latency_bound_below(ring("latency"), "AllGather", ("X",))
    W_ici*X*t_hop*floor(X/2)/(X - 1)
    """
    amount = Symbol("amount", positive=True)
    whole = network.time(kind, amount, axes).expand()
    fixed = whole.subs(amount, 0)
    if fixed == 0:
        raise HardwareError('the network counts no latency; give it fidelity "latency"')
    return (fixed / ((whole - fixed) / amount)).factor()
