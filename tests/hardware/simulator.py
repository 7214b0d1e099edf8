"""Collectives carried out step by step on single links: the referee of the closed forms.

Devices stand in a row; ``ring`` joins the ends. Each directed link carries one message a step, and
a device may forward only what it held before the step. A message is half a shard, so that a ring
can send one half each way round; times are in steps.
"""

from __future__ import annotations

from fractions import Fraction


def neighbours(n: int, ring: bool) -> list[tuple[int, int, int]]:
    """Directed links as (from, to, direction)."""
    right = [(i, i + 1, 1) for i in range(n - 1)]
    if ring:
        right.append((n - 1, 0, 1))
    return right + [(b, a, -1) for a, b, _ in right]


def all_gather_steps(n: int, ring: bool) -> int:
    """Steps until every device holds both halves of every shard, forwarding the oldest first."""
    held: list[list[tuple[int, int]]] = [[(i, 0), (i, 1)] for i in range(n)]
    links = neighbours(n, ring)
    sent: dict[tuple[int, int, int], set[tuple[int, int]]] = {link: set() for link in links}
    steps = 0
    while any(len(device) < 2 * n for device in held):
        arriving = []
        for link in links:
            start, end, direction = link
            for message in held[start]:
                # On a ring one half goes each way round; on a line every half goes both ways.
                wrong_way = ring and message[1] != (direction < 0)
                if wrong_way or message in sent[link] or message in held[end]:
                    continue
                sent[link].add(message)
                arriving.append((end, message))
                break
        for end, message in arriving:
            if message not in held[end]:
                held[end].append(message)
        steps += 1
    return steps


def reduce_scatter_steps(n: int, ring: bool) -> int:
    """Steps until device i holds the sum of every device's chunk i; checks the sums on the way.

    Chunk values are distinct powers of two, so that a term lost or counted twice shows. A partial
    sum moves on once it has everything from behind it, farthest destination first.
    """
    value = [[Fraction(2) ** (device * n + chunk) for chunk in range(n)] for device in range(n)]
    links = neighbours(n, ring)
    partial = {
        (direction, device, chunk): value[device][chunk]
        for direction in (1, -1) for device in range(n) for chunk in range(n)
    }  # fmt: skip
    done: set[tuple[int, int, int, int]] = set()
    result = [{1: Fraction(0), -1: Fraction(0)} for _ in range(n)]
    steps = 0
    while pending := _pending(n, ring, links, done):
        for link, chunk in pending:
            start, end, direction = link
            carried = partial[direction, start, chunk]
            if end == chunk:
                result[end][direction] += carried
            else:
                partial[direction, end, chunk] += carried
            done.add((*link, chunk))
        steps += 1
    for device in range(n):
        total = sum(value[other][device] for other in range(n))
        halves = result[device]
        if ring:  # each way round carries a half of the chunk of everybody
            assert halves[1] == halves[-1] == total - value[device][device]
        else:
            assert halves[1] + halves[-1] + value[device][device] == total
    return steps if ring else 2 * steps  # on a line a whole chunk is two messages


def _pending(
    n: int, ring: bool, links: list[tuple[int, int, int]], done: set[tuple[int, int, int, int]]
) -> list[tuple[tuple[int, int, int], int]]:
    """What each link can send now: one chunk, the one with the farthest to go."""
    out = []
    for link in links:
        start, _end, direction = link
        best: tuple[int, int] | None = None
        for chunk in range(n):
            distance = (chunk - start) * direction
            distance = distance % n if ring else distance
            if distance <= 0 or (*link, chunk) in done:
                continue
            behind = (start - direction) % n if ring else start - direction
            first = distance == n - 1 if ring else not 0 <= behind < n
            if not first and (behind, start, direction, chunk) not in done:
                continue
            if best is None or distance > best[0]:
                best = (distance, chunk)
        if best is not None:
            out.append((link, best[1]))
    return out


def all_to_all_load(shape: tuple[int, ...], wrap: tuple[bool, ...]) -> Fraction:
    """Chunks over the busiest directed link when each device sends one chunk to every device.

    Routes go axis after axis, the short way round; when both ways are as long, half goes each way.
    Routed one axis at a time, an axis is a row of its own with as many chunks a pair as there are
    devices in the other axes.
    """
    total = 1
    for size in shape:
        total *= size
    return max(
        _row_load(size, ring) * (total // size) for size, ring in zip(shape, wrap, strict=True)
    )


def _row_load(n: int, ring: bool) -> Fraction:
    load: dict[tuple[int, int, int], Fraction] = dict.fromkeys(neighbours(n, ring), Fraction(0))
    for start in range(n):
        for end in range(n):
            for direction, share in _routes(start, end, n, ring):
                at = start
                while at != end:
                    following = (at + direction) % n if ring else at + direction
                    load[at, following, direction] += share
                    at = following
    return max(load.values(), default=Fraction(0))


def _routes(start: int, end: int, n: int, ring: bool) -> list[tuple[int, Fraction]]:
    if not ring:
        return [(1 if end > start else -1, Fraction(1))]
    ahead = (end - start) % n
    if 2 * ahead == n:
        return [(1, Fraction(1, 2)), (-1, Fraction(1, 2))]
    return [(1 if 2 * ahead < n else -1, Fraction(1))]
