"""Machines of links that carry one piece a step, and collectives carried out on them.

The referee of the closed forms: nothing here knows a formula. A piece is forwarded only after it
has arrived as a whole; a link that has several pieces waiting sends first the one with the farthest
to go. ``Run.steps`` counts until everything has arrived, ``Run.load`` is what the busiest link
carried over its width, in steps; filling and draining the machine costs the difference.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, product

Node = Hashable
Link = tuple[Node, Node]


@dataclass(frozen=True)
class Piece:
    """A piece on its way: the nodes still to visit, in order; ``drops`` leaves a copy at each."""

    what: Hashable
    way: tuple[Node, ...]
    drops: bool = False


Onward = Callable[[Node, Piece], Iterable[Piece]]


@dataclass
class Run:
    """How long a machine took, what its busiest link carried, and what every node has now."""

    steps: int
    load: Fraction
    arrived: dict[Node, Counter[Hashable]]


def run(
    start: Iterable[tuple[Node, Piece]],
    onward: Onward = lambda node, piece: (),
    width: Callable[[Link], int] = lambda link: 1,
) -> Run:
    """Move pieces until none is left; ``onward`` may send more from a node where one is left."""
    waiting: dict[Link, list[tuple[int, int, Piece]]] = defaultdict(list)
    carried: Counter[Link] = Counter()
    arrived: dict[Node, Counter[Hashable]] = defaultdict(Counter)
    order = count()

    def put(node: Node, piece: Piece) -> None:
        if piece.way:
            link = (node, piece.way[0])
            heapq.heappush(waiting[link], (-len(piece.way), next(order), piece))

    for node, piece in start:
        put(node, piece)
    steps = 0
    while any(waiting.values()):
        moved = [
            (link, heapq.heappop(queue)[2])
            for link, queue in waiting.items()
            for _ in range(min(width(link), len(queue)))
        ]
        for link, piece in moved:
            carried[link] += 1
            node, rest = link[1], Piece(piece.what, piece.way[1:], piece.drops)
            put(node, rest)
            if piece.drops or not rest.way:
                arrived[node][piece.what] += 1
                for more in onward(node, rest):
                    put(node, more)
        steps += 1
    load = max(Fraction(number, width(link)) for link, number in carried.items())
    return Run(steps, load, dict(arrived))


# Rows of devices: rings, rings that send one way, lines.


def wires(n: int, ring: bool, both: bool = True) -> Callable[[Link], int]:
    """One link each way between neighbours; two devices in a ring are joined at both ends."""
    return lambda link: 2 if n == 2 and ring and both else 1


def both_ends(n: int, i: int, ring: bool, both: bool = True) -> list[tuple[Node, ...]]:
    """The ways on which something from device i passes all others."""
    if ring:
        right = tuple((i + j) % n for j in range(1, n))
        left = tuple((i - j) % n for j in range(1, n))
        return [right, left] if both else [right]
    return [way for way in (tuple(range(i + 1, n)), tuple(range(i - 1, -1, -1))) if way]


def shortest(n: int, i: int, j: int, ring: bool, both: bool = True) -> list[tuple[Node, ...]]:
    """The shortest ways from i to j: one, or two of the same length."""
    ahead = (j - i) % n
    right = tuple((i + step) % n for step in range(1, ahead + 1))
    left = tuple((i - step) % n for step in range(1, n - ahead + 1))
    if not ring:
        return [right if j > i else left]
    if not both or 2 * ahead < n:
        return [right]
    return [left] if 2 * ahead > n else [right, left]


def row_gather(n: int, ring: bool, both: bool = True) -> Run:
    """AllGather; a shard is two pieces, and on a ring one goes each way round."""
    start = []
    for i in range(n):
        for side, way in enumerate(both_ends(n, i, ring, both)):
            halves = (side,) if ring and both else (0, 1)
            start += [(i, Piece((i, half), way, drops=True)) for half in halves]
    done = run(start, width=wires(n, ring, both))
    everything = {(i, half) for i in range(n) for half in (0, 1)}
    for i in range(n):
        assert set(done.arrived[i]) == everything - {(i, 0), (i, 1)}
        assert set(done.arrived[i].values()) == {1}
    return done


def row_exchange(n: int, ring: bool, both: bool = True) -> Run:
    """AllToAll; a chunk is two pieces, which part if two ways are as short."""
    start = []
    for i, j in product(range(n), repeat=2):
        if i != j:
            ways = shortest(n, i, j, ring, both)
            start += [(i, Piece((i, j, half), ways[half % len(ways)])) for half in (0, 1)]
    return run(start, width=wires(n, ring, both))


def row_broadcast(n: int, ring: bool, pieces: int) -> Run:
    """Broadcast from the device at the end, in pieces that follow one another closely."""
    ways = both_ends(n, 0, ring)
    start = [(0, Piece(piece, ways[piece % len(ways)], drops=True)) for piece in range(pieces)]
    return run(start, width=wires(n, ring))


def row_collect(n: int, ring: bool) -> Run:
    """Gather to the device at the end; a shard is two pieces."""
    start = []
    for i in range(1, n):
        ways = shortest(n, i, 0, ring)
        start += [(i, Piece((i, half), ways[half % len(ways)])) for half in (0, 1)]
    return run(start, width=wires(n, ring))


def row_shift(n: int, ring: bool, pieces: int) -> Run:
    """CollectivePermute by one place, the same way round for all."""
    return run(
        (i, Piece((i, piece), shortest(n, i, (i + 1) % n, ring)[0]))
        for i in range(n)
        for piece in range(pieces)
    )


# A torus.


def torus_gather(n: int) -> Run:
    """AllGather over a square torus; a shard is eight pieces: which axis first, and both ways."""

    def row(node: tuple[int, int], along: int, way: int) -> tuple[Node, ...]:
        step = (way, 0) if along == 0 else (0, way)
        return tuple(
            ((node[0] + step[0] * j) % n, (node[1] + step[1] * j) % n) for j in range(1, n)
        )

    def onward(node: Node, piece: Piece) -> Iterable[Piece]:
        origin, first, phase, one, two = piece.what  # type: ignore[misc]
        if phase == 1:
            return []
        what = (origin, first, 1, one, two)
        return [Piece(what, row(node, 1 - first, two), drops=True)]  # type: ignore[arg-type]

    start: list[tuple[Node, Piece]] = []
    for node in product(range(n), repeat=2):
        for first, one, two in product((0, 1), (1, -1), (1, -1)):
            start.append((node, Piece((node, first, 0, one, two), row(node, first, one), True)))
            what = (node, first, 1, one, two)
            start.append((node, Piece(what, row(node, 1 - first, two), True)))
    done = run(start, onward, wires(n, True))
    assert all(sum(found.values()) == 8 * (n * n - 1) for found in done.arrived.values())
    return done


# A switch.


def switch_exchange(n: int) -> Run:
    """AllToAll, or a direct AllGather or ReduceScatter: a chunk from each to each."""
    return run(
        (i, Piece((i, j), ("switch", j)))
        for away in range(1, n)
        for i in range(n)
        for j in [(i + away) % n]
    )


# Nodes of m devices behind a switch of their own, k of them on a network.


def two_level_gather(m: int, k: int, fast: int, pieces: int) -> Run:
    """AllGather: from the counterparts in other nodes over the network, then around the node.

    A link inside a node carries ``fast`` pieces a step, one into the network one.
    """

    def width(link: Link) -> int:
        return 1 if "network" in link else fast

    def spread(node: tuple[int, int], what: Hashable) -> list[Piece]:
        here, place = node
        peers = [(here, (place + j) % m) for j in range(1, m)]
        return [Piece((what, "local"), (("node", here), peer)) for peer in peers]

    def onward(node: Node, piece: Piece) -> Iterable[Piece]:
        what, kind = piece.what  # type: ignore[misc]
        return spread(node, what) if kind == "far" else []  # type: ignore[arg-type]

    start: list[tuple[Node, Piece]] = []
    for node in product(range(k), range(m)):
        for piece in range(pieces):
            what = (node, piece)
            for j in range(1, k):
                other = ((node[0] + j) % k, node[1])
                start.append((node, Piece((what, "far"), ("network", other))))
            start += [(node, local) for local in spread(node, what)]
    done = run(start, onward, width)
    for node in product(range(k), range(m)):
        assert sum(done.arrived[node].values()) == pieces * (m * k - 1)
    return done


def two_level_scatter(m: int, k: int, fast: int, pieces: int) -> Run:
    """ReduceScatter: sums inside the node first, then one sum for each counterpart outside."""

    def width(link: Link) -> int:
        return 1 if "network" in link else fast

    heard: Counter[Hashable] = Counter()

    def onward(node: Node, piece: Piece) -> Iterable[Piece]:
        end, number, kind = piece.what  # type: ignore[misc]
        if kind == "far":
            return []
        heard[node, end, number] += 1
        if heard[node, end, number] < m - 1 or end == node:
            return []
        return [Piece((end, number, "far"), ("network", end))]

    start: list[tuple[Node, Piece]] = []
    for here, place in product(range(k), range(m)):
        for number, away in product(range(pieces), range(k)):
            for j in range(1, m):
                peer = (here, (place + j) % m)
                end = ((here + away + 1) % k, peer[1])
                start.append(((here, place), Piece((end, number, "near"), (("node", here), peer))))
    return run(start, onward, width)


def two_level_exchange(m: int, k: int, fast: int, pieces: int) -> Run:
    """AllToAll: to the own node over its switch, to every other over the network."""

    def width(link: Link) -> int:
        return 1 if "network" in link else fast

    start: list[tuple[Node, Piece]] = []
    for node, far, near, piece in product(
        product(range(k), range(m)), range(k), range(m), range(pieces)
    ):
        other = ((node[0] + far) % k, (node[1] + near) % m)
        if other != node:
            hub = "network" if far else ("node", node[0])
            start.append((node, Piece((node, other, piece), (hub, other))))
    return run(start, width=width)
