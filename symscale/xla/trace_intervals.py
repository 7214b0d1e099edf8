"""Arithmetic of time intervals: what is covered, and what of it something else leaves bare."""

from __future__ import annotations

from collections.abc import Iterable

# Start and end, start <= end.
Interval = tuple[float, float]


def union(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """The same time as disjoint intervals in order.

    >>> union([(4, 6), (0, 2), (1, 3), (3, 3)])
    ((0, 3), (4, 6))
    """
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > start:
            found.append((start, end))
    return tuple(found)


def length(intervals: Iterable[Interval]) -> float:
    """Total time of disjoint intervals.

    >>> length([(0, 3), (4, 6)])
    5
    """
    return sum(end - start for start, end in intervals)


def minus(first: Iterable[Interval], second: Iterable[Interval]) -> tuple[Interval, ...]:
    """The time of the first that the second does not cover.

    >>> minus([(0, 10)], [(2, 3), (5, 7)])
    ((0, 2), (3, 5), (7, 10))
    """
    covers = union(second)
    found: list[Interval] = []
    place = 0
    for start, end in union(first):
        while place < len(covers) and covers[place][1] <= start:
            place += 1
        here = place
        while here < len(covers) and covers[here][0] < end:
            if covers[here][0] > start:
                found.append((start, covers[here][0]))
            start = covers[here][1]
            here += 1
        if start < end:
            found.append((start, end))
    return tuple(found)
