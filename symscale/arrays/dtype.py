"""Element types: their size in bytes (half bytes exact) and the matrix rate they run at."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from sympy import Rational, Symbol

from symscale.algebra import symbols
from symscale.algebra.errors import NotationError, near


@dataclass(frozen=True)
class DType:
    """An element type.

    ``bytes`` is exact (an int4 is half a byte); ``rate`` is the symbol of the chip's matrix rate
    for products in this type; ``width`` is its bits.
    """

    name: str
    bytes: Rational
    rate: Symbol
    width: int

    def __str__(self) -> str:
        return self.name


def _made(name: str, bits: int, rate: Symbol) -> tuple[str, DType]:
    return name, DType(name, Rational(bits, 8), rate, bits)


DTYPES = MappingProxyType(
    dict(
        (
            _made("f32", 32, symbols.C_f32),
            _made("bf16", 16, symbols.C),
            _made("f16", 16, symbols.C),
            _made("fp8", 8, symbols.C_fp8),
            _made("fp4", 4, symbols.C_fp4),
            _made("int32", 32, symbols.C_f32),
            _made("int8", 8, symbols.C_int8),
            _made("int4", 4, symbols.C_int4),
            _made("bool", 8, symbols.C_int8),
        )
    )
)
_ALIASES = MappingProxyType(
    {"fp32": "f32", "float32": "f32", "bfloat16": "bf16", "fp16": "f16", "float16": "f16"}
)
DEFAULT = DTYPES["bf16"]


def dtype(name: str | DType) -> DType:
    """The element type of this name.

    Raises:
        NotationError: for an unknown name, with the nearest known ones.

    >>> dtype("int4").bytes
    1/2
    >>> dtype("bf8")
    Traceback (most recent call last):
    symscale.algebra.errors.NotationError: unknown dtype 'bf8'; known: f32, bf16, f16, fp8, fp4, \
int32, int8, int4, bool; did you mean fp8 or bf16?
    """
    if isinstance(name, DType):
        return name
    if not isinstance(name, str):
        raise NotationError(f"dtype {name!r}: a name is wanted, such as 'bf16'")
    key = _ALIASES.get(name, name)
    if key not in DTYPES:
        raise NotationError(
            f"unknown dtype {name!r}; known: {', '.join(DTYPES)}{near(name, DTYPES)}"
        )
    return DTYPES[key]


def product_dtype(left: DType, right: DType) -> DType:
    """The type a matrix product of two types runs in: the wider one, a float before an integer.

    >>> product_dtype(dtype("bf16"), dtype("int8")).name
    'bf16'
    """
    return max(left, right, key=lambda kind: (kind.width, not kind.name.startswith("int")))
