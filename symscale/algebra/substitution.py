"""The one door through which numbers enter: by name, exact, and refusing what does not fit."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from numbers import Rational as RationalNumber
from typing import Any

from sympy import Expr, Float, Integer, Rational, Symbol, sympify

from symscale.algebra.errors import SymbolError
from symscale.algebra.symbols import check_known, info, symbol

Number = int | float | Fraction | Expr


def exact(value: Any, name: str) -> Expr:
    """A positive number as an exact rational; ``name`` is for the error.

    Raises:
        SymbolError: for a value that is no number, or not above zero.

    >>> exact(0.5, "x"), exact(2**22, "B")
    (1/2, 4194304)
    >>> exact(-1, "X")
    Traceback (most recent call last):
    symscale.algebra.errors.SymbolError: X = -1: a size or rate must be above zero
    """
    made = _rational(value, name)
    if not made > 0:
        raise SymbolError(f"{name} = {value}: a size or rate must be above zero")
    return made


def _rational(value: Any, name: str) -> Expr:
    if isinstance(value, bool | str):
        raise SymbolError(f"{name} = {value!r}: a number is wanted")
    if isinstance(value, Expr):
        if value.is_number and value.is_real:
            return Rational(str(value)) if isinstance(value, Float) else value
        raise SymbolError(f"{name} = {value}: a number is wanted")
    if isinstance(value, RationalNumber):
        return Rational(int(value.numerator), int(value.denominator))
    try:
        return Rational(str(float(value)))
    except (TypeError, ValueError):
        raise SymbolError(f"{name} = {value!r}: a finite number is wanted") from None


def bindings(*sources: Mapping[Symbol, Any], **named: Any) -> dict[Symbol, Expr]:
    """Exact values by symbol from mappings (a chip, a model) and ``NAME=number`` arguments.

    Later sources win. A size must be whole.

    Raises:
        SymbolError: for a key that is no symbol of the table, a value that is no positive number,
            or a fraction where a size is wanted.

    >>> from symscale.algebra.symbols import B, D
    >>> bindings({D: 8192}, B=4)
    {D: 8192, B: 4}
    """
    out: dict[Symbol, Expr] = {}
    for source in sources:
        for key, value in source.items():
            out[key] = _checked(key, value)
    for name, value in named.items():
        out[symbol(name)] = _checked(symbol(name), value)
    return out


def _checked(key: Symbol, value: Any) -> Expr:
    if not isinstance(key, Symbol):
        raise SymbolError(f"{key!r} is not a symbol; give it as {key}=..., or import the symbol")
    check_known(key)
    number = exact(value, key.name)
    if key.is_integer and not isinstance(number, Integer):
        raise SymbolError(f"{key.name} = {value}: {info(key).meaning} must be a whole number")
    return number


def evaluate(expr: Any, values: Mapping[Symbol, Any]) -> Expr:
    """The number an expression comes to, exact where it can be.

    Raises:
        SymbolError: naming every symbol that has no value, with its meaning.

    >>> from symscale.algebra.symbols import B, D
    >>> evaluate(2 * B * D, {B: 3, D: 4})
    24
    >>> evaluate(B * D, {B: 3})
    Traceback (most recent call last):
    symscale.algebra.errors.SymbolError: no value for D (model width (d_model)); give it by name
    """
    made = sympify(expr, strict=True)
    check_known(made)
    left = sorted(made.free_symbols - set(values), key=str)
    if left:
        names = ", ".join(f"{s.name} ({info(s).meaning})" for s in left)
        raise SymbolError(f"no value for {names}; give it by name")
    return made.xreplace({key: sympify(value, strict=True) for key, value in values.items()}).doit()
