"""The numbers under which a program is written out: a mesh and the sizes of the dims."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from types import MappingProxyType
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.errors import ShardingError, SymscaleError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import BUILT_IN, info
from symscale.arrays.array import Array, Dim
from symscale.programs.program import Program

_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59)


class XlaError(SymscaleError):
    """A program that cannot be held against XLA, or an XLA that is not there."""


@dataclass(frozen=True)
class Setting:
    """A mesh with numbers, major axis first, and a number for every other symbol.

    >>> from symscale.arrays.array import array
    >>> setting = Setting({"X": 4, "Y": 2}, {"B": 64, "D": 32})
    >>> setting.shape(array("In[B_X, D]")), setting.local(array("In[B_X, D]"))
    ((64, 32), (16, 32))
    """

    mesh: Mapping[str, int]
    sizes: Mapping[str, int]
    _values: Mapping[Symbol, Expr] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_mesh(self.mesh)
        both = sorted(set(self.mesh) & set(self.sizes))
        if both:
            raise XlaError(f"{both[0]} is an axis of the mesh and the size of a dim; rename one")
        object.__setattr__(self, "mesh", MappingProxyType(dict(self.mesh)))
        object.__setattr__(self, "sizes", MappingProxyType(dict(self.sizes)))
        object.__setattr__(self, "_values", bindings(**self.mesh, **self.sizes))

    @property
    def devices(self) -> int:
        """The number of devices of the mesh."""
        return prod(self.mesh.values())

    def number(self, expr: Expr) -> int:
        """An expression's value, which must be whole.

        Raises:
            SymbolError: for a symbol without a number.
            XlaError: for a value that is not whole.
        """
        value = evaluate(expr, self._values)
        if not value.is_integer:
            raise XlaError(f"{expr} = {value} under these sizes: a whole number is wanted")
        return int(value)

    def shape(self, array: Array) -> tuple[int, ...]:
        """The whole array's shape."""
        return tuple(self.number(dim.size) for dim in array.dims)

    def ways(self, axes: Iterable[str]) -> int:
        """Over how many devices these mesh axes go."""
        return prod(self.mesh[name] for name in axes)

    def local(self, array: Array) -> tuple[int, ...]:
        """The shape of one device's part.

        Raises:
            ShardingError: for an axis that the mesh lacks or that does not divide its dim.
        """
        for name in array.axes:
            if name not in self.mesh:
                have = ", ".join(self.mesh)
                raise ShardingError(f"{array.short}: the mesh has no axis {name}; it has {have}")
        array.check(self._values)
        return tuple(self.number(dim.size) // self.ways(dim.axes) for dim in array.dims)

    def to_dict(self) -> dict[str, Any]:
        """Mesh and sizes."""
        return {"mesh": dict(self.mesh), "sizes": dict(self.sizes)}


def _check_mesh(mesh: Mapping[str, int]) -> None:
    for name, size in mesh.items():
        if name in BUILT_IN and info(name).kind != "axis":
            raise ShardingError(
                f"mesh axis {name!r} is the symbol of something else ({info(name).meaning}); "
                "rename the axis"
            )
        if size < 1:
            raise ShardingError(f"mesh axis {name} = {size}: a size above zero is wanted")
    if prod(mesh.values()) < 2:
        raise XlaError("a mesh of one device has nothing to hold against XLA")


def default_sizes(
    program: Program, mesh: Mapping[str, int], given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Sizes that every mesh axis divides, each with a prime of its own, so that no two arrays that
    differ in a dim have the same bytes. A dim that is a quotient (sequences, B/T) is whole too.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> default_sizes(two_matmul_layer(), {"X": 4})
    {'B': 12, 'D': 20, 'F': 28}
    """
    dims = {dim.name: dim for array in program.arrays.values() for dim in array.dims}
    symbols = sorted({s for dim in dims.values() for s in dim.size.free_symbols}, key=str)
    step, out = prod(mesh.values()), dict(given or {})
    over = _divisors(dims.values())
    primes = iter(_PRIMES * (1 + len(symbols) // len(_PRIMES)))
    for name in sorted((s.name for s in symbols), key=lambda n: len(over.get(n, ()))):
        prime = next(primes)
        if name not in out:
            out[name] = step * prime * prod(out[below] for below in over.get(name, ()))
    return {name: out[name] for name in sorted(out)}


def _divisors(dims: Iterable[Dim]) -> dict[str, tuple[str, ...]]:
    """Which symbols must divide which: B is a multiple of T where a dim has the size B/T."""
    out: dict[str, tuple[str, ...]] = {}
    for dim in dims:
        above, below = dim.size.as_numer_denom()
        for symbol in above.free_symbols if below.free_symbols else ():
            names = tuple(sorted(s.name for s in below.free_symbols))
            out[symbol.name] = tuple(dict.fromkeys((*out.get(symbol.name, ()), *names)))
    return out
