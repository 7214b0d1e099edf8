"""A mesh: named axes with sizes, symbolic or numeric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sympy import Expr, Mul

from symscale.algebra.errors import ShardingError
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import BUILT_IN, axis, info


class Mesh(Mapping[str, Expr]):
    """Named mesh axes with their sizes, in order from major to minor.

    Axes given by name alone are symbolic; ``Mesh(X=4, Y=2)`` has numbers.

    Raises:
        ShardingError: for an axis named twice, one with the name of another symbol, or a size that
            is not whole.
        SymbolError: for a size that is no number above zero.

    >>> Mesh("X", "Y").devices
    X*Y
    >>> Mesh(X=4, Y=2).devices
    8
    """

    def __init__(self, *names: str, **sizes: int | Expr) -> None:
        made: dict[str, Expr] = {name: axis(name) for name in names}
        if len(made) < len(names) or set(made) & set(sizes):
            raise ShardingError(f"mesh axes {', '.join((*names, *sizes))}: a name occurs twice")
        for name in (*names, *sizes):
            if name in BUILT_IN and info(name).kind != "axis":
                raise ShardingError(
                    f"mesh axis {name!r} is the symbol of something else ({info(name).meaning}); "
                    "rename the axis"
                )
        for name, size in sizes.items():
            made[name] = _size(name, size)
        self._axes = MappingProxyType(made)

    def __getitem__(self, name: str) -> Expr:
        return self._axes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._axes)

    def __len__(self) -> int:
        return len(self._axes)

    def __hash__(self) -> int:
        return hash(tuple(self._axes.items()))

    @property
    def devices(self) -> Expr:
        """The number of devices: the product of all axes."""
        return Mul(*self._axes.values())

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={size}" for name, size in self._axes.items())
        return f"Mesh({inside})"

    def to_dict(self) -> dict[str, Any]:
        """Axis sizes as plain numbers or text."""
        return {name: int(v) if v.is_Integer else str(v) for name, v in self._axes.items()}


def _size(name: str, size: int | Expr) -> Expr:
    if isinstance(size, Expr) and size.free_symbols:
        return size
    number = exact(size, f"mesh axis {name}")
    if not number.is_integer:
        raise ShardingError(f"mesh axis {name} = {size}: a whole number is wanted")
    return number
