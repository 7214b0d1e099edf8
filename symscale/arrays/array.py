"""Arrays: named dims with sizes, a sharding, partial sums, and an element type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sympy import Expr, Integer, Mul, Symbol, divisors

from symscale.algebra.errors import NotationError, ShardingError, SymbolError
from symscale.algebra.substitution import evaluate, exact
from symscale.algebra.symbols import BUILT_IN, axis, check_known, info, symbol
from symscale.arrays.dtype import DEFAULT, DType
from symscale.arrays.mesh import Mesh
from symscale.arrays.notation import ArrayText, DimText, axes_text, parse_array


@dataclass(frozen=True)
class Dim:
    """A named dim: its global size and the mesh axes it is sharded over, major first."""

    name: str
    size: Expr
    axes: tuple[str, ...] = ()

    @property
    def local(self) -> Expr:
        """The size on one device."""
        return self.size / Mul(*(axis(name) for name in self.axes))


@dataclass(frozen=True)
class Array:
    """A sharded array; all sizes symbolic.

    ``unreduced`` lists the mesh axes along which each device holds only a partial sum.

    >>> a = array("In: bf16[B_X, D_Y]")
    >>> a.global_shape, a.local_shape, a.bytes
    ((B, D), (B/X, D/Y), 2*B*D/(X*Y))
    """

    name: str
    dims: tuple[Dim, ...]
    dtype: DType = DEFAULT
    unreduced: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the dims, in order."""
        return tuple(dim.name for dim in self.dims)

    @property
    def global_shape(self) -> tuple[Expr, ...]:
        """The shape of the whole array."""
        return tuple(dim.size for dim in self.dims)

    @property
    def local_shape(self) -> tuple[Expr, ...]:
        """The shape of one device's part."""
        return tuple(dim.local for dim in self.dims)

    @property
    def size(self) -> Expr:
        """The number of elements of the whole array."""
        return Mul(*self.global_shape)

    @property
    def elements(self) -> Expr:
        """The number of elements on one device."""
        return Mul(*self.local_shape)

    @property
    def bytes(self) -> Expr:
        """Bytes on one device."""
        return self.dtype.bytes * self.elements

    @property
    def global_bytes(self) -> Expr:
        """Bytes of the array held once."""
        return self.dtype.bytes * self.size

    def total_bytes(self, mesh: Mesh) -> Expr:
        """Bytes over all devices of a mesh, every replica counted.

        Raises:
            ShardingError: when the array uses an axis that the mesh lacks.

        >>> array("W[D, F_Y]").total_bytes(Mesh("X", "Y"))
        2*D*F*X
        """
        for name in self.axes:
            if name not in mesh:
                raise ShardingError(f"{self} uses mesh axis {name}, which {mesh} does not have")
        sizes = {axis(name): size for name, size in mesh.items()}
        return self.bytes.xreplace(sizes) * mesh.devices

    @property
    def axes(self) -> tuple[str, ...]:
        """All mesh axes in use, those of partial sums last."""
        return tuple(name for dim in self.dims for name in dim.axes) + self.unreduced

    def dim(self, label: str) -> Dim:
        """The dim of this name."""
        for found in self.dims:
            if found.name == label:
                return found
        raise ShardingError(f"{self} has no dim {label}; its dims: {', '.join(self.labels)}")

    def placed(
        self, sharding: Mapping[str, tuple[str, ...]], unreduced: Iterable[str] = ()
    ) -> Array:
        """The same array with another sharding (dims not named become unsharded)."""
        dims = tuple(replace(dim, axes=tuple(sharding.get(dim.name, ()))) for dim in self.dims)
        return replace(self, dims=dims, unreduced=tuple(unreduced))

    @property
    def sharding(self) -> dict[str, tuple[str, ...]]:
        """The mesh axes of each dim, by name."""
        return {dim.name: dim.axes for dim in self.dims}

    @property
    def unsharded(self) -> Array:
        """The whole array on every device."""
        return self.placed({})

    def check(self, values: Mapping[Symbol, Any], shares: frozenset[str] = frozenset()) -> None:
        """Refuse numbers under which a mesh axis does not divide its dim.

        Dims named in ``shares`` are even shares of something else, and need not be whole.

        Raises:
            ShardingError: naming axis, dim and array, and the most ways below that would do.

        >>> from symscale.algebra.symbols import B, X
        >>> array("In[B_X, D]").check({B: 10, X: 4})
        Traceback (most recent call last):
        symscale.algebra.errors.ShardingError: mesh axis X = 4 does not divide B = 10 of \
In[B_X, D]; the next fewer that does is 2
        """
        for dim in self.dims:
            if not dim.axes or dim.name in shares:
                continue
            try:
                size = evaluate(dim.size, values)
                ways = evaluate(Mul(*(axis(name) for name in dim.axes)), values)
            except SymbolError:
                continue
            if not (size / ways).is_integer:
                raise ShardingError(
                    f"mesh axis {axes_text(dim.axes)} = {ways} does not divide "
                    f"{dim.name} = {size} of {self.short}{_instead(size, ways)}"
                )

    @property
    def short(self) -> str:
        """The notation without the element type."""
        return str(replace(_text(self), dtype=None))

    def __str__(self) -> str:
        return self.short if self.dtype == DEFAULT else str(_text(self))

    def __repr__(self) -> str:
        return f"array({str(_text(self))!r})"

    def _repr_latex_(self) -> str:
        dims = ", ".join(
            dim.name.replace("_", r"\_") + (f"_{{{''.join(dim.axes)}}}" if dim.axes else "")
            for dim in self.dims
        )
        tail = rf"\{{U_{{{''.join(self.unreduced)}}}\}}" if self.unreduced else ""
        return rf"$\mathrm{{{self.name}}}[{dims}]{tail}$"

    def to_dict(self) -> dict[str, Any]:
        """Notation, shapes and bytes as plain text."""
        return {
            "array": str(_text(self)),
            "global_shape": [str(size) for size in self.global_shape],
            "local_shape": [str(size) for size in self.local_shape],
            "bytes": str(self.bytes),
        }


def _instead(size: Expr, ways: Expr) -> str:
    """The most ways below these that divide a size, in words."""
    if not (size.is_Integer and ways.is_Integer):
        return ""
    return f"; the next fewer that does is {max(d for d in divisors(size) if d <= ways)}"


def _text(array: Array) -> ArrayText:
    dims = tuple(DimText(dim.name, dim.axes) for dim in array.dims)
    return ArrayText(array.name, dims, array.dtype, array.unreduced)


def dim_size(name: str, sizes: Mapping[str, Expr] | None = None) -> Expr:
    """The size of a dim: as given, else the number it is written as, else the symbol of its name.

    Raises:
        NotationError: when the name is a rate's or a time's, or the number zero.
    """
    if sizes and name in sizes:
        return sizes[name]
    if name.isdigit():
        if int(name) == 0:
            raise NotationError(f"dim {name!r}: a size must be above zero")
        return Integer(int(name))
    made = symbol(name)
    if name in BUILT_IN and info(made).kind not in ("dim", "count"):
        raise NotationError(
            f"dim {name!r} is the symbol of something else ({info(made).meaning}); rename the dim"
        )
    return made


def given_sizes(sizes: Mapping[str, Expr | int] | None) -> dict[str, Expr]:
    """Sizes given by hand, as expressions.

    Raises:
        SymbolError: for a size that is text, or not above zero.
        NotationError: for one that is not whole.

    >>> given_sizes({"b": "B/T"})
    Traceback (most recent call last):
    symscale.algebra.errors.SymbolError: size of dim b = 'B/T': a number is wanted
    """
    return {name: _given_size(name, size) for name, size in (sizes or {}).items()}


def _given_size(name: str, size: Any) -> Expr:
    if isinstance(size, Expr) and size.free_symbols:
        check_known(size)
        return size
    number = exact(size, f"size of dim {name}")
    if not number.is_integer:
        raise NotationError(f"size of dim {name} = {size}: a whole number is wanted")
    return number


def check_axes(text: ArrayText, dims: Iterable[str] = ()) -> None:
    """Refuse a mesh axis that has the name of another symbol or of a dim.

    Raises:
        NotationError: naming the axis and what the name stands for.
    """
    used = [name for dim in text.dims for name in dim.axes]
    taken = {*dims, *(dim.name for dim in text.dims)}
    for name in (*used, *text.unreduced):
        if name in BUILT_IN and info(name).kind != "axis":
            raise NotationError(
                f"mesh axis {name!r} of {text} is the symbol of something else "
                f"({info(name).meaning}); rename the axis"
            )
        if name in taken:
            raise NotationError(f"mesh axis {name!r} of {text} has the name of a dim; rename one")


def from_text(
    text: ArrayText, sizes: Mapping[str, Expr] | None = None, default: DType = DEFAULT
) -> Array:
    """The array that a parsed notation describes.

    Raises:
        NotationError: when a dim or a mesh axis has the name of a rate, or of one another.
    """
    check_axes(text)
    dims = tuple(Dim(d.name, dim_size(d.name, sizes), d.axes) for d in text.dims)
    return Array(text.name, dims, text.dtype or default, text.unreduced)


def array(text: str, sizes: Mapping[str, Expr | int] | None = None) -> Array:
    """An array from the notation.

    ``sizes`` gives a dim another size than the symbol of its name.

    Raises:
        NotationError: pointing at the character.

    >>> array("KV: int8[B, S_X, K, H]").bytes
    B*H*K*S/X
    >>> array("In[B_X, D]{U_Y}")
    array('In: bf16[B_X, D]{U_Y}')
    """
    return from_text(parse_array(text), given_sizes(sizes), DEFAULT)
