"""The plain expressions of which a maximum or a minimum is made, drawn out of sums and products."""

from __future__ import annotations

from sympy import Add, Expr, Mul, Pow, Symbol

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum, Minimum

Extremum = type[Maximum] | type[Minimum]
MOST_ARMS = 64


def arms(expr: Expr, v: Symbol, kind: Extremum = Maximum) -> tuple[Expr, ...]:
    """The expressions whose maximum (or minimum) over ``v`` this is.

    >>> from symscale.algebra.symbols import B, D
    >>> arms(2 * Maximum(B, D) + 1, B)
    (2*B + 1, 2*D + 1)

    Raises:
        SolveError: when there are too many combinations to compare.
    """
    return tuple(dict.fromkeys(_arms(expr, v, kind)))


def _arms(expr: Expr, v: Symbol, kind: Extremum) -> list[Expr]:
    if not any(v in node.free_symbols for node in expr.atoms(Maximum, Minimum)):
        return [expr]
    if isinstance(expr, kind):
        return [arm for arg in expr.args for arm in _arms(arg, v, kind)]
    if isinstance(expr, Add) or (
        isinstance(expr, Mul) and all(arg.is_nonnegative for arg in expr.args)
    ):
        return _combined(expr.func, [_arms(arg, v, kind) for arg in expr.args])
    if isinstance(expr, Pow) and expr.exp.is_positive and expr.base.is_nonnegative:
        return [arm**expr.exp for arm in _arms(expr.base, v, kind)]
    if isinstance(expr, Pow) and expr.exp.is_negative and expr.base.is_positive:
        other = Minimum if kind is Maximum else Maximum
        return [arm**expr.exp for arm in _arms(expr.base, v, other)]
    return [expr]


def _combined(join: type[Expr], lists: list[list[Expr]]) -> list[Expr]:
    out: list[list[Expr]] = [[]]
    for found in lists:
        out = [[*left, right] for left in out for right in found]
        if len(out) > MOST_ARMS:
            raise SolveError(
                f"more than {MOST_ARMS} combinations of maxima; compare stage by stage"
            )
    return [join(*parts) for parts in out]
