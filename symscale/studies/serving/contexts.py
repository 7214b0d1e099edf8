"""The mean over an answer: every token is generated at a context one longer than the last."""

from __future__ import annotations

from functools import cache

from sympy import Expr, Sum, Symbol, expand

from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import S as KEYS
from symscale.studies.serving.words import S_IN, S_OUT

_INDEX = Symbol("i", integer=True, nonnegative=True)


@cache
def mean_over_answer(expr: Expr) -> Expr:
    """The mean of what depends on the context ``S``, over all tokens of an answer.

    The first token of an answer is generated with ``S_in`` tokens cached, the next with one more.

    Raises:
        SolveError: for a cost that is not a polynomial in ``S``, such as that of a window.

    >>> mean_over_answer(2 * KEYS)
    2*S_in + S_out - 1
    """
    if KEYS not in expr.free_symbols:
        return expr
    fixed, moving = expand(expr).as_independent(KEYS, as_Add=True)
    if not moving.is_polynomial(KEYS):
        raise SolveError(
            f"{moving} is no polynomial in S, so that its mean has no closed form; put a context "
            "in for S, such as that of the last token, S_in + S_out"
        )
    total = Sum(moving.subs(KEYS, S_IN + _INDEX), (_INDEX, 0, S_OUT - 1)).doit()
    return expand(fixed + expand(total / S_OUT))
