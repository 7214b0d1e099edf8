"""The catalogue: sharded programs on which the partitioner is held against XLA's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType

from symscale.programs.program import Program, program
from symscale.xla.catalogue_case import MESH_X, MESH_XY, MESH_XYZ, Case
from symscale.xla.catalogue_layers import layers
from symscale.xla.check_lines import split_lines

__all__ = ["Case", "catalogue", "every_reshard"]

#: Sizes of the dims of single products: all different, divided by every mesh here.
PRODUCT_SIZES = MappingProxyType({"I": 7168, "J": 1536, "K": 5120, "E": 64})


@cache
def catalogue() -> tuple[Case, ...]:
    """All cases.

    >>> cases = catalogue()
    >>> len(cases) >= 60, len({case.name for case in cases}) == len(cases)
    (True, True)
    """
    return (*_stated_too(_products()), *_reshards(), *_stated_too(layers()))


def _stated_too(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Every program and pass with its arrays' shardings alone; pinned, where that says more."""
    free, pinned = [], []
    for case in cases:
        stated = replace(case, pinned=True)
        more = case.which == "joint" or stated.subject().written().text != _text(case)
        free.append(replace(case, complete=not more))
        if more and case.which != "joint":
            pinned.append(stated)
    return (*free, *pinned)


def _text(case: Case) -> str:
    return case.subject().written().text


def every_reshard() -> tuple[Case, ...]:
    """Every way from one sharding of a matrix over two mesh axes to another.

    >>> len(every_reshard())
    110
    """
    whole, sizes = _matrix()
    places = [text for number in range(9) for text in _placements(*divmod(number, 3))]
    return tuple(
        Case("reshard", f"A{before} -> {after}", whole, (f"A{before}", f"C{after}"), MESH_XY,
             sizes=sizes)
        for before in places for after in places if before != after
    )  # fmt: skip


def _placements(x: int, y: int) -> Iterator[str]:
    """X and Y each on the first dim, on the second or on none (2); both orders on a shared dim."""
    for order in ("XY", "YX") if x == y < 2 else ("XY",):
        axes = ["".join(a for a in order if (x if a == "X" else y) == dim) for dim in range(2)]
        parts = [f"{name}_{own}" if own else name for name, own in zip("IJ", axes, strict=True)]
        yield f"[{', '.join(parts)}]"


_PRODUCTS = (
    (
        MESH_XY,
        (
            "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]",
            "A[I_XY, J] * B[J, K] -> C[I_XY, K]",
            "A[I_X, J_Y] * B[J, K] -> C[I_X, K]",
            "A[I, J_X] * B[J, K_Y] -> C[I, K_Y]",
            "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]",
            "A[I_X, J_Y] * B[J_Y, K] -> C[I_XY, K]",
            "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K_Y]",
            "A[I, J_XY] * B[J_XY, K] -> C[I, K]",
            "A[I, J_XY] * B[J_XY, K] -> C[I_XY, K]",
            "A[I, J_XY] * B[J_XY, K] -> C[I_X, K]",
            "A[I, J_XY] * B[J_XY, K] -> C[I_X, K_Y]",
            "A[I, J_XY] * B[J_X, K] -> C[I, K]",
            "A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K]",
            "A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K_Y]",
            "A[I_X, J] * B[J_Y, K_X] -> C[I_X, K_Y]",
            "A[E_X, I, J_Y] * B[E_X, J_Y, K] -> C[E_X, I, K]",
            "A[E_X, I_Y, J] * B[E_X, J, K] -> C[E_X, I_Y, K]",
            "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]",
            "A[I_X, J] * B[J_XY, K] -> C[I_X, K]",
            "A[I_XY, J] * B[J_X, K] -> C[I_XY, K]",
            "A[I_X, J] * B[J, K_Y] -> C[I, K_Y]",
            "A[I_X, J] * B[J, K_Y] -> C[I_X, K]",
            "A[I, J_Y] * B[J_Y, K_X] -> C[I, K_X]",
            "A[I, J_Y] * B[J_Y, K_X] -> C[I, K_XY]",
            "A[I, J_XY] * B[J_XY, K] -> C[I, K_XY]",
        ),
    ),
    (
        MESH_XYZ,
        (
            "A[I_X, J_Z] * B[J_Z, K_Y] -> C[I_X, K_Y]",
            "A[I_X, J_Z] * B[J_Z, K_Y] -> C[I_X, K_YZ]",
            "A[I_XYZ, J] * B[J, K] -> C[I_XYZ, K]",
            "A[I_X, J_YZ] * B[J_YZ, K] -> C[I_X, K]",
            "A[I_X, J_YZ] * B[J_YZ, K] -> C[I_X, K_YZ]",
            "A[I, J_XYZ] * B[J_XYZ, K] -> C[I_XYZ, K]",
            "A[I_XZ, J] * B[J_X, K_Y] -> C[I_XZ, K_Y]",
            "A[E_Z, I_X, J] * B[E_Z, J_X, K_Y] -> C[E_Z, I_X, K_Y]",
            "A[E_X, I_Y, J_Z] * B[E_X, J_Z, K] -> C[E_X, I_Y, K]",
            "A[E_X, I_Y, J_Z] * B[E_X, J_Z, K] -> C[E_X, I_Y, K_Z]",
            "A[I_X, J_Y] * B[J_Y, K_Z] -> C[I_XY, K_Z]",
            "A[I_X, J_YZ] * B[J_YZ, K] -> C[I_XYZ, K]",
            "A[I_XY, J_Z] * B[J_Z, K] -> C[I_XY, K_Z]",
            "A[I, J_XYZ] * B[J_XYZ, K] -> C[I, K]",
        ),
    ),
)

_RESHARDS = (
    (
        MESH_X,
        (
            "A[I_X, J] -> [I, J]",
            "A[I, J_X] -> [I, J]",
            "A[I, J] -> [I_X, J]",
            "A[I_X, J] -> [I, J_X]",
            "A[I, J_X] -> [I_X, J]",
        ),
    ),
    (
        MESH_XY,
        (
            "A[I_X, J_Y] -> [I_X, J]",
            "A[I_X, J_Y] -> [I, J]",
            "A[I_XY, J] -> [I, J]",
            "A[I_XY, J] -> [I_X, J]",
            "A[I_XY, J] -> [I_Y, J]",
            "A[I_YX, J] -> [I_Y, J]",
            "A[I_XY, J] -> [I_YX, J]",
            "A[I_X, J] -> [I_X, J_Y]",
            "A[I_X, J] -> [I_Y, J_X]",
            "A[I_XY, J] -> [I_X, J_Y]",
            "A[I_XY, J] -> [I, J_XY]",
            "A[I_XY, J] -> [I_Y, J_X]",
            "A[I_X, J_Y] -> [I_XY, J]",
            "A[I_X, J_Y] -> [I_Y, J_X]",
        ),
    ),
    (
        MESH_XYZ,
        (
            "A[I_XYZ, J] -> [I_X, J]",
            "A[I_XYZ, J] -> [I_XY, J_Z]",
            "A[I_XYZ, J] -> [I_X, J_YZ]",
            "A[I_XY, J_Z] -> [I_X, J_YZ]",
            "A[I_XY, J_Z] -> [I, J_Z]",
        ),
    ),
)


#: At these sizes the result is smaller than the operand that would be gathered.
_SMALL_RESULT = MappingProxyType({"I": 3072, "J": 5120, "K": 7168})


def _products() -> Iterator[Case]:
    for text in _one_axis_products():
        yield _product(text, MESH_X)
    for mesh, statements in _PRODUCTS:
        for text in statements:
            yield _product(text, mesh)
    yield _product("A[I, J] * B[J_X, K] -> C[I, K]", MESH_X, _SMALL_RESULT, "small result: ")
    yield _product("A[I, J_X] * B[J, K_Y] -> C[I, K_Y]", MESH_XY, _SMALL_RESULT, "small result: ")


def _one_axis_products() -> Iterator[str]:
    """Every way to lay one mesh axis on the arrays of a product, and on a batching dim."""
    for left in ("I, J", "I_X, J", "I, J_X"):
        for right in ("J, K", "J_X, K", "J, K_X"):
            for out in ("I, K", "I_X, K", "I, K_X"):
                yield f"A[{left}] * B[{right}] -> C[{out}]"
    yield "A[E_X, I, J] * B[E_X, J, K] -> C[E_X, I, K]"


def _product(
    text: str, mesh: Mapping[str, int], sizes: Mapping[str, int] = PRODUCT_SIZES, note: str = ""
) -> Case:
    plain, shards = split_lines((text,))
    whole = program(*plain, inputs=("A", "B"))
    chosen = {name: sizes[name] for name in _dims(whole)}
    title = note + text.replace(" * ", " · ")
    stated = shards or _whole(whole)
    return Case("product", title, whole, stated, mesh, sizes=chosen, by_size=True)


def _whole(whole: Program) -> tuple[str, ...]:
    return tuple(array.unsharded.short for array in whole.arrays.values())


def _dims(whole: Program) -> tuple[str, ...]:
    return tuple(dict.fromkeys(d.name for array in whole.arrays.values() for d in array.dims))


def _reshards() -> Iterator[Case]:
    whole, sizes = _matrix()
    for mesh, statements in _RESHARDS:
        for text in statements:
            before, _, after = text.partition(" -> ")
            yield Case("reshard", text, whole, (before, f"C{after}"), mesh, sizes=sizes)


def _matrix() -> tuple[Program, dict[str, int]]:
    sizes = {name: PRODUCT_SIZES[name] for name in ("I", "J")}
    return program("copy(A[I, J]) -> C[I, J]"), sizes
