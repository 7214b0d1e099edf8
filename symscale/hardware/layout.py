"""How mesh axes lie on a network: over how many physical axes, and which of them wrap around."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from math import prod
from types import MappingProxyType
from typing import Any, Literal

from sympy import Integer, Symbol

from symscale.algebra.errors import HardwareError
from symscale.algebra.symbols import links
from symscale.hardware.edges import Edge, balanced

WrapRule = Literal["axis", "cube"]


@dataclass(frozen=True)
class Layout(Mapping[str, int]):
    """Mesh axis to the number of physical axes it is laid over.

    >>> layout = Layout((("X", 2), ("Y", 1)))
    >>> layout["X"], layout.bindings[links("X")]
    (2, 2)
    """

    pairs: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        return dict(self.pairs)[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.pairs))

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def bindings(self) -> Mapping[Symbol, Integer]:
        """The same by symbol: ``{M_X: 2, M_Y: 1}``, ready to be substituted."""
        return MappingProxyType({links(name): Integer(count) for name, count in self.pairs})

    def to_dict(self) -> dict[str, int]:
        """Physical axes by mesh axis, for JSON."""
        return dict(self.pairs)


@dataclass(frozen=True)
class TorusShape:
    """The torus of a whole pod and when a slice of it keeps its wraparound links.

    Rule ``axis``: a physical axis wraps around when it has exactly ``wrap_size`` chips (TPU v5e,
    v6e). Rule ``cube``: all axes of a slice do when it is made of full cubes with that edge,
    because only those reach the optical switches (TPU v4p, v5p); a 2x2x4 slice has none.

    Source: How To Scale Your Model, "TPU Networking".

    >>> TorusShape((16, 16), "axis", 16).axes
    2
    """

    shape: tuple[int, ...]
    rule: WrapRule
    wrap_size: int

    @property
    def axes(self) -> int:
        """The number of physical axes."""
        return len(self.shape)

    @property
    def chips(self) -> int:
        """The number of chips of the whole torus."""
        return prod(self.shape)

    def wraps(self, sizes: Mapping[str, int], layout: Mapping[str, int]) -> dict[str, bool]:
        """Which mesh axes wrap around, when each is split evenly over its physical axes.

        A mesh axis laid over M physical axes wraps when its size can be split into M factors that
        all do.

        >>> v5e = TorusShape((16, 16), "axis", 16)
        >>> v5e.wraps({"X": 8, "Y": 16}, {"X": 1, "Y": 1})
        {'X': False, 'Y': True}
        >>> v5p = TorusShape((16, 20, 28), "cube", 4)
        >>> v5p.wraps({"X": 2048, "Y": 4}, {"X": 2, "Y": 1})
        {'X': True, 'Y': True}
        >>> v5p.wraps({"X": 2, "Y": 2, "Z": 4}, {"X": 1, "Y": 1, "Z": 1})
        {'X': False, 'Y': False, 'Z': False}
        """
        edges = {name: self.wrap_size ** layout[name] for name in sizes}
        if self.rule == "axis":
            return {name: size == edges[name] for name, size in sizes.items()}
        # A physical axis that no mesh axis covers is one chip long: no full cube.
        covered = sum(layout[name] for name in sizes) == self.axes
        full = covered and all(size % edges[name] == 0 for name, size in sizes.items())
        return dict.fromkeys(sizes, full)

    def edges(
        self, sizes: Mapping[str, int], layout: Mapping[str, int]
    ) -> dict[str, tuple[Edge, ...]]:
        """The physical axes under each mesh axis, as equal as can be.

        Rule ``cube`` lets a slice have any shape of whole cubes, or within one, that its pod has
        the chips for; rule ``axis`` keeps to the edges of the torus.

        Raises:
            HardwareError: for a mesh axis that does not fit.

        >>> v5e = TorusShape((16, 16), "axis", 16)
        >>> [edge.size for edge in v5e.edges({"X": 128}, {"X": 2})["X"]]
        [8, 16]
        """
        ones = {name: (Edge(1, True),) for name, size in sizes.items() if size == 1}
        wide = {name: size for name, size in sizes.items() if size > 1}
        if self.rule == "cube":
            full = all(self.wraps(wide, layout).values())
            cut = {
                name: balanced(size, None, layout[name], self.wrap_size)
                for name, size in wide.items()
            }
            for name, found in cut.items():
                self._check_cubes(name, wide[name], found)
            return {**ones, **{n: tuple(Edge(e, full) for e in cut[n]) for n in cut}}
        cut = self._cut(wide, layout)
        return {
            **ones,
            **{n: tuple(Edge(e, e == self.wrap_size) for e in cut[n]) for n in cut},
        }

    def _check_cubes(self, name: str, size: int, edges: tuple[int, ...]) -> None:
        """Refuse an edge that neither lies in a cube nor is made of whole ones."""
        for edge in edges:
            if edge > self.wrap_size and edge % self.wrap_size:
                raise HardwareError(
                    f"mesh axis {name} = {size} does not fit the torus: an edge of {edge} chips is "
                    f"neither within a cube of {self.wrap_size} nor a multiple of {self.wrap_size}"
                )

    def _cut(
        self, sizes: Mapping[str, int], layout: Mapping[str, int]
    ) -> dict[str, tuple[int, ...]]:
        """Mesh axes over the torus's own edges, in the first order in which all of them fit."""
        found: dict[str, tuple[int, ...]] = {}
        for order in dict.fromkeys(permutations(self.shape)):
            start, found = 0, {}
            for name, size in sizes.items():
                limits = tuple(sorted(order[start : start + layout[name]]))
                start += layout[name]
                found[name] = balanced(size, limits, len(limits), 1) if limits else ()
            if all(found.values()):
                return found
        name = next(name for name, cut in found.items() if not cut)
        whole = "x".join(map(str, self.shape))
        raise HardwareError(
            f"mesh axis {name} = {sizes[name]} does not fit {layout[name]} of the axes of a torus "
            f"of {whole} chips; split it, or lay it over more of them"
        )

    def spread(self, axes: tuple[str, ...]) -> Layout:
        """Lay mesh axes over all physical axes: the first takes what the others leave.

        Raises:
            HardwareError: for more mesh axes than physical ones.

        >>> dict(TorusShape((16, 20, 28), "cube", 4).spread(("X", "Y")))
        {'X': 2, 'Y': 1}
        """
        spare = self.axes - len(axes)
        if spare < 0:
            raise HardwareError(
                f"{len(axes)} mesh axes ({', '.join(axes)}) on a torus with {self.axes} physical "
                f"axes: merge some, or use at most {self.axes}"
            )
        return Layout(tuple((name, 1 + spare * (place == 0)) for place, name in enumerate(axes)))

    def to_dict(self) -> dict[str, Any]:
        """The shape and its wraparound rule, for JSON."""
        return {"shape": list(self.shape), "wrap": {"rule": self.rule, "size": self.wrap_size}}


def mesh_axes(axes: Iterable[str]) -> tuple[str, ...]:
    """Mesh axes as a tuple of distinct names.

    Raises:
        HardwareError: for none, for one named twice, or for a bare string.

    >>> mesh_axes(["X", "Y"])
    ('X', 'Y')
    """
    if isinstance(axes, str):
        raise HardwareError(f"mesh axes {axes!r}: give a sequence of names, such as {(axes,)!r}")
    names = tuple(axes)
    if not names:
        raise HardwareError("no mesh axes given: name at least one, such as ('X',)")
    twice = sorted({str(name) for name in names if names.count(name) > 1})
    if twice:
        raise HardwareError(f"mesh axis {twice[0]} is given twice")
    for name in names:
        if not isinstance(name, str):
            raise HardwareError(f"mesh axis {name!r}: a name is wanted, such as 'X'")
    return names


def mesh_sizes(axes: tuple[str, ...], sizes: Mapping[Any, int]) -> dict[str, int]:
    """The sizes of these mesh axes as positive ints; keys may be names or symbols.

    Raises:
        HardwareError: for an axis without a size, a size that is no positive whole number, or an
            unknown axis.

    >>> mesh_sizes(("X",), {"X": 4})
    {'X': 4}
    """
    given = {str(key): value for key, value in sizes.items()}
    for name, value in given.items():
        if name not in axes:
            raise HardwareError(f"size given for {name}, which is no axis of ({', '.join(axes)})")
        if isinstance(value, bool) or int(value) != value or value < 1:
            raise HardwareError(f"mesh axis {name} = {value}: a positive whole number is wanted")
    missing = [name for name in axes if name not in given]
    if missing:
        raise HardwareError(f"no size given for mesh axis {missing[0]}")
    return {name: int(given[name]) for name in axes}


def mesh_text(sizes: Mapping[str, int]) -> str:
    """Axes and sizes as one writes them.

    >>> mesh_text({"X": 4, "Y": 2})
    'X=4, Y=2'
    """
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
