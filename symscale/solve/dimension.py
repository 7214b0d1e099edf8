"""Units of the two sides of a question: a time is not compared with a count.

FLOPs and bytes are counts in a formula (``2*B*D*F``, ``2*D*F``), so of the symbols' units only
seconds can be read off: a rate has one in its denominator, a latency one in its numerator. Amounts
that carry their dimension (:class:`Quantity`) are checked in full.
"""

from __future__ import annotations

from typing import Any

from sympy import Add, Expr, Mul, Pow, Symbol

from symscale.algebra.errors import SymbolError, UnitError
from symscale.algebra.maximum import Maximum, Minimum
from symscale.algebra.symbols import info
from symscale.algebra.units import Quantity, check_addable

_SECONDS = {"rate": -1, "time": 1}
_WORDS = {0: "a count or a ratio", 1: "a time", -1: "a rate"}

#: A number above this (or below its reciprocal) may be a rate or a time that was put in.
PLAIN = 10**6


def check_sides(a: Any, b: Any) -> tuple[Any, Any]:
    """Both sides as they are, amounts as their expressions.

    Raises:
        UnitError: for sides of different dimension, scope or span, or a time against a count.

    >>> from symscale.algebra.symbols import B, C, D, W_hbm
    >>> check_sides(B * D / C, D / W_hbm)
    (B*D/C, D/W_hbm)
    >>> check_sides(B * D, D / W_hbm)
    Traceback (most recent call last):
    symscale.algebra.errors.UnitError: a = B*D is a count or a ratio, b = D/W_hbm is a time; \
divide FLOPs by C, or bytes by a bandwidth, on both sides or on neither
    """
    if isinstance(a, Quantity) and isinstance(b, Quantity):
        check_addable(a, b)
        return a.expr, b.expr
    a, b = (side.expr if isinstance(side, Quantity) else side for side in (a, b))
    if isinstance(a, Expr) and isinstance(b, Expr):
        _check_seconds(a, b)
    return a, b


def _check_seconds(a: Expr, b: Expr) -> None:
    left, right = seconds(a, "a"), seconds(b, "b")
    if left is None or right is None or left == right:
        return
    if any(_large(side) for side in (a, b)):
        return
    said = [_WORDS.get(power, f"in s^{power}") for power in (left, right)]
    raise UnitError(
        f"a = {a} is {said[0]}, b = {b} is {said[1]}; divide FLOPs by C, or bytes by a bandwidth, "
        "on both sides or on neither"
    )


def _large(side: Expr) -> bool:
    """Whether a number in it may stand for a rate or a time."""
    numbers = (number for number in side.atoms() if number.is_number and number.is_positive)
    return side.is_number or any(n > PLAIN or n * PLAIN < 1 for n in numbers)


def seconds(expr: Expr, name: str = "the expression") -> int | None:
    """The power of seconds in a sum of products; None where a symbol or a root leaves it open.

    Raises:
        UnitError: for a sum of unlike terms.
    """
    if isinstance(expr, Symbol):
        try:
            return _SECONDS.get(info(expr).kind, 0)
        except SymbolError:
            return None
    if expr.is_number:
        return 0
    if isinstance(expr, Pow):
        inner = seconds(expr.base, name)
        power = None if inner is None else inner * expr.exp
        return int(power) if power is not None and power.is_Integer else None
    if isinstance(expr, Mul):
        found = [seconds(factor, name) for factor in expr.args]
        return None if None in found else sum(power for power in found if power is not None)
    if isinstance(expr, Add | Maximum | Minimum):
        return _alike(expr, name)
    return None


def _alike(expr: Expr, name: str) -> int | None:
    powers = {term: seconds(term, name) for term in expr.args if not term.is_number}
    if None in powers.values() or not powers:
        return None
    if len(set(powers.values())) > 1:
        if _large(expr):
            return None
        one = next(iter(powers))
        two = next(term for term in powers if powers[term] != powers[one])
        said = [_WORDS.get(powers[term] or 0, "another amount") for term in (one, two)]
        raise UnitError(f"{name} puts {one}, {said[0]}, beside {two}, {said[1]}")
    return next(iter(powers.values()))
