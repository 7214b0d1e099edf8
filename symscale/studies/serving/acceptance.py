"""How many tokens a round of drafting and checking gives, when each guess is as likely as the last.

Drafted tokens are accepted one after another, each with chance ``alpha``, until the first that is
not; the checking step itself always adds one token. (Leviathan, Kalman and Matias 2022,
arXiv 2211.17192, make the same assumptions.)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sympy import Expr, Integer, Piecewise, S, Sum, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SymbolError
from symscale.studies.serving.words import ALPHA, GAMMA

_INDEX = Symbol("i", integer=True, nonnegative=True)


@cache
def expected_tokens() -> tuple[Expr, Derivation]:
    """Tokens that a round gives on average, and how they are summed.

    >>> expected_tokens()[0]
    (1 - alpha**(gamma + 1))/(1 - alpha)
    """
    reached = ALPHA**_INDEX
    total = Sum(reached, (_INDEX, 0, GAMMA))
    closed = _below_one(total.doit())
    steps = Derivation().then(
        "chance that a round reaches its token i", reached, "all i tokens before it were accepted"
    )
    steps = steps.then(
        "expected tokens of a round", total, "each token counts as often as it is reached"
    )
    return closed, steps.then("summed", closed, "a geometric sum, for a chance below one")


def tokens_at(values: Mapping[Symbol, Expr]) -> Expr:
    """Expected tokens of a round at a chance, and perhaps a count of drafted tokens.

    >>> tokens_at({ALPHA: S.One}), tokens_at({ALPHA: S.Half, GAMMA: Integer(2)})
    (gamma + 1, 7/4)
    """
    known = {key: values[key] for key in (ALPHA, GAMMA) if key in values}
    closed = expected_tokens()[0]
    if known.get(ALPHA) == 1:
        closed = Sum(S.One, (_INDEX, 0, GAMMA)).doit()
    return closed.xreplace(known)


def most_tokens(chance: Expr) -> Expr:
    """What a round's tokens stay below, however many are drafted; infinite where all are accepted.

    >>> most_tokens(S.Half)
    2
    """
    return _below_one(Sum(chance**_INDEX, (_INDEX, 0, S.Infinity)).doit())


def checked_draft(values: dict[Symbol, Expr]) -> dict[Symbol, Expr]:
    """The same numbers, once a chance is at most one and a count of drafts whole.

    Raises:
        SymbolError: where they are not.
    """
    if values.get(ALPHA, Integer(1)) > 1:
        raise SymbolError(f"alpha = {float(values[ALPHA]):g}: a chance is at most 1")
    if not values.get(GAMMA, Integer(1)).is_Integer:
        raise SymbolError(f"gamma = {float(values[GAMMA]):g}: drafted tokens are a whole number")
    return values


def _below_one(total: Expr) -> Expr:
    """The branch of a sum over chances that holds below one."""
    if not isinstance(total, Piecewise):
        return total
    return next(value for value, where in total.args if where.subs(ALPHA, S.Half) == S.true)
