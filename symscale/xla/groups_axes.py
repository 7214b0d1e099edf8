"""From groups of partition ids back to the mesh axes that they run over.

A partition id is the row-major index into the mesh. A group over some axes holds exactly the
ids that agree in all other coordinates, so the group of device 0 names its axes: it holds the id
of coordinate 1 along each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from symscale.xla.groups import Groups

# Ways to split an axis, and a mesh, into primes that are tried before giving up.
_MAX_ORDERS = 20
_MAX_SPLITS = 64


@dataclass(frozen=True)
class Axes:
    """Mesh axes in the mesh's order; of an axis used in part, the parts by index (``"X:0"``).

    ``note`` says what the names alone do not.
    """

    names: tuple[str, ...]
    note: str = ""


def axes_of_groups(groups: Groups, mesh: Mapping[str, int]) -> Axes:
    """The axes that groups of partition ids run over; no names, and a note, if there are none.

    >>> axes_of_groups(((0, 2), (1, 3)), {"X": 2, "Y": 2})
    Axes(names=('X',), note='')
    >>> axes_of_groups(((0, 2), (1, 3)), {"X": 4})
    Axes(names=('X:0',), note='X:0 is the major 2 of X=4')
    """
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or sizes == {0}:
        return Axes((), "groups of unequal size match no mesh axes")
    if sum(map(len, groups)) != math.prod(mesh.values()):
        return Axes((), "groups leave out devices, so match no mesh axes")
    for split in _splits(mesh):
        digits = [(name, i, size) for name, parts in split.items() for i, size in enumerate(parts)]
        chosen = _chosen(groups, [size for _, _, size in digits])
        if chosen is not None:
            return _named(split, [digits[place] for place in chosen], groups)
    return Axes((), "groups match no mesh axes nor parts of them")


def axes_of_pairs(pairs: Groups, mesh: Mapping[str, int]) -> Axes:
    """The axes along which the ids of a CollectivePermute change.

    >>> axes_of_pairs(((0, 1), (1, 0), (2, 3), (3, 2)), {"X": 2, "Y": 2})
    Axes(names=('Y',), note='')
    """
    sizes = list(mesh.values())
    moved: set[int] = set()
    for source, target in pairs:
        coordinates = zip(_coordinates(source, sizes), _coordinates(target, sizes), strict=True)
        moved |= {place for place, (a, b) in enumerate(coordinates) if a != b}
    devices = math.prod(sizes)
    note = f"{len(pairs)} of {devices} devices send" if 0 < len(pairs) < devices else ""
    return Axes(tuple(name for place, name in enumerate(mesh) if place in moved), note)


def _splits(mesh: Mapping[str, int]) -> Iterator[dict[str, tuple[int, ...]]]:
    """The mesh whole, then with its axes split into primes, in every order of the primes."""
    yield {name: (size,) for name, size in mesh.items()}
    orders = [islice(_orders(tuple(primes(size))), _MAX_ORDERS) for size in mesh.values()]
    for chosen in islice(product(*orders), _MAX_SPLITS):
        yield dict(zip(mesh, chosen, strict=True))


def _orders(factors: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The different orders of factors, ascending first."""
    if not factors:
        yield ()
    for first in sorted(set(factors)):
        place = factors.index(first)
        for rest in _orders(factors[:place] + factors[place + 1 :]):
            yield (first, *rest)


def primes(number: int) -> list[int]:
    """Prime factors in ascending order, 1 for 1.

    >>> primes(12)
    [2, 2, 3]
    """
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return [*found, number] if number > 1 or not found else found


def _chosen(groups: Groups, sizes: list[int]) -> list[int] | None:
    """Places of the digits that the groups run over, if they run over digits at all."""
    strides = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
    if math.prod(sizes) != sum(map(len, groups)):
        return None
    first = set(next((group for group in groups if 0 in group), ()))
    places = [i for i, size in enumerate(sizes) if size > 1 and strides[i] in first]
    if math.prod(sizes[i] for i in places) != len(first):
        return None
    steps = {
        sum(s) for s in product(*(range(0, sizes[i] * strides[i], strides[i]) for i in places))
    }
    for group in groups:
        base = min(group)
        if {device - base for device in group} != steps:
            return None
        if any(base // strides[i] % sizes[i] for i in places):
            return None
    return places


def _named(
    split: Mapping[str, tuple[int, ...]], chosen: list[tuple[str, int, int]], groups: Groups
) -> Axes:
    names: list[str] = []
    notes: list[str] = []
    for name, parts in split.items():
        used = [part for owner, part, _ in chosen if owner == name]
        if len(used) == len([size for size in parts if size > 1]) and used:
            names.append(name)
            continue
        for part in used:
            names.append(f"{name}:{part}")
            notes.append(_part_note(name, parts, part))
    if not notes and (order := _listed_order(split, names, groups)) != names:
        notes.append(f"listed with {', '.join(order)} from major to minor")
    return Axes(tuple(names), "; ".join(notes))


def _part_note(name: str, parts: tuple[int, ...], part: int) -> str:
    place = "major" if part == 0 else "minor" if part == len(parts) - 1 else "middle"
    return f"{name}:{part} is the {place} {parts[part]} of {name}={math.prod(parts)}"


def _listed_order(
    split: Mapping[str, tuple[int, ...]], names: list[str], groups: Groups
) -> list[str]:
    """Axes by how far apart in the listing the ids lie that differ along them, farthest first."""
    sizes = {name: math.prod(parts) for name, parts in split.items()}
    order = list(sizes)
    place = {device: number for number, device in enumerate(groups[0])}
    base = min(groups[0])
    strides = {n: math.prod(sizes[m] for m in order[i + 1 :]) for i, n in enumerate(order)}
    apart = {name: place[base + strides[name]] - place[base] for name in names}
    return sorted(names, key=lambda name: -apart[name])


def _coordinates(device: int, sizes: list[int]) -> list[int]:
    found = []
    for size in reversed(sizes):
        device, rest = divmod(device, size)
        found.append(rest)
    return found[::-1]
