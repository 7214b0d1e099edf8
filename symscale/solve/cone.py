"""Exact linear algebra over the rationals, small enough to write out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

Vector = tuple[Fraction, ...]


def solve_linear(columns: Sequence[Vector], target: Vector) -> list[Fraction] | None:
    """The unique weights with ``sum(weight * column) == target``; None without one.

    None also when the columns depend on each other.

    >>> one, two = Fraction(1), Fraction(2)
    >>> [str(w) for w in solve_linear([(one, one), (one, two)], (two, two)) or []]
    ['2', '0']
    """
    count = len(columns)
    rows = [[*(column[i] for column in columns), value] for i, value in enumerate(target)]
    for place in range(count):
        pivot = next((i for i in range(place, len(rows)) if rows[i][place]), None)
        if pivot is None:
            return None
        rows[place], rows[pivot] = rows[pivot], rows[place]
        head = [value / rows[place][place] for value in rows[place]]
        rows[place] = head
        for i, row in enumerate(rows):
            if i != place and row[place]:
                rows[i] = [x - row[place] * y for x, y in zip(row, head, strict=True)]
    if any(row[count] for row in rows[count:]):
        return None
    return [row[count] for row in rows[:count]]


def rank(columns: Sequence[Vector]) -> int:
    """How many of the columns are independent."""
    held: list[Vector] = []
    for column in columns:
        if any(column) and solve_linear([*held, column], (Fraction(0),) * len(column)) is not None:
            held.append(column)
    return len(held)


def in_cone(target: Vector, rays: Sequence[Vector]) -> bool:
    """Whether the target is a sum of the rays with weights not below zero.

    By Caratheodory's theorem independent rays suffice, so every independent subset is tried.

    >>> one = Fraction(1)
    >>> in_cone((one, 2 * one), [(one, 0 * one), (one, one)])
    False
    """
    return next(cone_weights(target, rays), None) is not None


def cone_weights(target: Vector, rays: Sequence[Vector]) -> Iterator[tuple[Fraction, ...]]:
    """Every way to write the target as a sum of independent rays, weights not below zero.

    One weight a ray, zero for those not used.
    """
    none = (Fraction(0),) * len(rays)
    if not any(target):
        yield none
        return
    used = [place for place, ray in enumerate(rays) if any(ray)]
    for size in range(1, min(len(used), len(target)) + 1):
        for chosen in combinations(used, size):
            weights = solve_linear([rays[place] for place in chosen], target)
            if weights is not None and all(weight > 0 for weight in weights):
                held = dict(zip(chosen, weights, strict=True))
                yield tuple(held.get(place, Fraction(0)) for place in range(len(rays)))
