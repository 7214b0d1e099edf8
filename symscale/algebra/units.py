"""Dimensions and the amounts that carry them.

An amount knows its dimension (FLOP, byte, second, token), whether it is counted per device or in
total, and over what span (an op, a layer, a step). Only like amounts add.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from sympy import Expr, Rational, sympify

from symscale.algebra.errors import UnitError


@dataclass(frozen=True)
class Dimension:
    """Powers of the four base dimensions.

    >>> str(FLOP / SECOND)
    'FLOP/s'
    """

    flop: int = 0
    byte: int = 0
    second: int = 0
    token: int = 0

    def __mul__(self, other: Dimension) -> Dimension:
        return Dimension(
            self.flop + other.flop,
            self.byte + other.byte,
            self.second + other.second,
            self.token + other.token,
        )

    def __truediv__(self, other: Dimension) -> Dimension:
        return self * Dimension(-other.flop, -other.byte, -other.second, -other.token)

    def __str__(self) -> str:
        powers = {"FLOP": self.flop, "byte": self.byte, "s": self.second, "token": self.token}
        over = [_power(name, p) for name, p in powers.items() if p > 0]
        under = [_power(name, -p) for name, p in powers.items() if p < 0]
        top = "*".join(over) or "1"
        return f"{top}/{'/'.join(under)}" if under else top


def _power(name: str, exponent: int) -> str:
    return name if exponent == 1 else f"{name}^{exponent}"


ONE = Dimension()
FLOP = Dimension(flop=1)
BYTE = Dimension(byte=1)
SECOND = Dimension(second=1)
TOKEN = Dimension(token=1)


class Scope(Enum):
    """Whether an amount is one device's or all devices'."""

    PER_DEVICE = "per device"
    TOTAL = "total"


class Span(Enum):
    """What an amount is counted over."""

    OP = "per op"
    LAYER = "per layer"
    STEP = "per step"


@dataclass(frozen=True)
class Quantity:
    """An expression with its dimension, scope and span.

    Raises:
        UnitError: on adding amounts that differ in any of the three.

    >>> Quantity(sympify(2), FLOP) + Quantity(sympify(3), BYTE)
    Traceback (most recent call last):
    symscale.algebra.errors.UnitError: cannot add byte to FLOP
    """

    expr: Expr
    dimension: Dimension
    scope: Scope = Scope.PER_DEVICE
    span: Span = Span.OP

    def __add__(self, other: Quantity) -> Quantity:
        check_addable(self, other)
        return replace(self, expr=self.expr + other.expr)

    def __mul__(self, factor: Expr | int | Rational) -> Quantity:
        return replace(self, expr=self.expr * sympify(factor, strict=True))

    __rmul__ = __mul__

    def __truediv__(self, rate: Quantity) -> Quantity:
        return replace(self, expr=self.expr / rate.expr, dimension=self.dimension / rate.dimension)

    def __str__(self) -> str:
        return f"{self.expr} {self.dimension}, {self.scope.value}, {self.span.value}"


def check_addable(left: Quantity, right: Quantity) -> None:
    """Refuse amounts that do not add, saying which of dimension, scope or span differs."""
    if left.dimension != right.dimension:
        raise UnitError(f"cannot add {right.dimension} to {left.dimension}")
    check_same_count(left.scope, left.span, right.scope, right.span)


def check_same_count(scope: Scope, span: Span, other_scope: Scope, other_span: Span) -> None:
    """Refuse amounts that are counted differently."""
    if scope is not other_scope:
        raise UnitError(f"cannot add an amount {other_scope.value} to one {scope.value}")
    if span is not other_span:
        raise UnitError(f"cannot add an amount {other_span.value} to one {span.value}")
