"""Shapes as HLO prints them: ``bf16[16,96]{1,0:T(8,128)}``, or a tuple of such."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache

from symscale.xla.hlo_error import HloError, excerpt

# Names such as f8e4m3fn or s4 carry their width; these do not.
_WIDTHS = {"pred": 8, "c64": 64, "c128": 128, "token": 0, "opaque": 0}
_WIDTH = re.compile(r"(?:bf|f|s|u)(\d+)(?:e\d+m\d+\w*)?")
# A type with its dims; a layout in braces behind it holds no square bracket.
_LEAF = re.compile(r"([a-z][a-z0-9]*)\[([^\[\]]*)\]")
# XLA's own cap is far below; a product of this size is no array of any machine.
_MAX_DIM = 2**48


@dataclass(frozen=True)
class Shape:
    """One array: element type and dims, as they are on one device.

    >>> Shape("bf16", (16, 96)).bytes
    3072
    >>> Shape("s4", (3,)).bytes
    2
    """

    dtype: str
    dims: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements; 1 for a scalar."""
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        """Bytes, types of less than a byte packed."""
        return -(-self.elements * width(self.dtype) // 8)


def width(dtype: str) -> int:
    """Bits of one element; raises ``HloError`` for an unknown type.

    >>> width("f8e4m3fn"), width("bf16"), width("pred")
    (8, 16, 8)
    """
    if dtype in _WIDTHS:
        return _WIDTHS[dtype]
    found = _WIDTH.fullmatch(dtype)
    if found is None or len(found[1]) > 3:
        raise HloError(
            f"HLO element type {excerpt(dtype)} is unknown; known are bf16, f32, s8, ..."
        )
    return int(found[1])


@lru_cache(maxsize=4096)
def parse_shapes(text: str) -> tuple[Shape, ...]:
    """All arrays of a shape, tuples flattened.

    >>> parse_shapes("(s32[], /*index=1*/bf16[16,48]{1,0:T(8,128)(2,1)})")
    (Shape(dtype='s32', dims=()), Shape(dtype='bf16', dims=(16, 48)))
    """
    return tuple(Shape(found[1], _dims(found[2], text)) for found in _LEAF.finditer(text))


def parse_shape(text: str) -> Shape:
    """The one array of a shape; raises ``HloError`` for a tuple or no shape.

    >>> parse_shape("f32[<=8,2]{1,0}")
    Shape(dtype='f32', dims=(8, 2))
    """
    shapes = parse_shapes(text)
    if len(shapes) != 1:
        raise HloError(f"HLO shape {excerpt(text)} has {len(shapes)} arrays where one was expected")
    return shapes[0]


def _dims(text: str, whole: str) -> tuple[int, ...]:
    # A dynamic dim prints its bound behind <=.
    parts = [part.strip().removeprefix("<=") for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise HloError(f"HLO shape {excerpt(whole)} has a dim that is no number")
    dims = tuple(int(part) for part in parts)
    if any(dim > _MAX_DIM for dim in dims):
        raise HloError(f"HLO shape {excerpt(whole)} has a dim above {_MAX_DIM}")
    return dims
