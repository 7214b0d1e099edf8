"""Up to which number one cost stays above another: solved where it can be, else looked up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy import Expr, Integer, S, Symbol

from symscale.algebra.errors import SolveError
from symscale.solve.crossover import crossover
from symscale.solve.numeric import numeric

#: Whole numbers that are looked through where there is no closed form.
MOST = 2**17


def up_to(high: Expr, low: Expr, v: Symbol, values: Mapping[Symbol, Any]) -> Expr | None:
    """The largest ``v`` up to which ``high >= low`` holds.

    In closed form where the solver has one. The experts that a batch meets are a power of the
    batch: then all whole numbers up to 2**17 are compared, and the answer is the last of them.

    Returns 0 where it never holds, infinity where it always does (or further than was looked), and
    None where it holds again later, or does not hold at first.

    >>> from symscale.algebra.symbols import B, D
    >>> up_to(D, 2 * B, B, {D: 9}), up_to(D, 2 * B, B, {})
    (9/2, D/2)
    >>> up_to(8 - 3**-B, B, B, {})
    7
    """
    try:
        found = crossover(high.xreplace(dict(values)), low.xreplace(dict(values)), v)
    except SolveError:
        return _looked_up(high, low, v, values)
    if found.otherwise is not None:
        raise SolveError(f"whether {high} stays above {low} depends on {found.requires}")
    plain = {"always": S.Infinity, "never": S.Zero, "below": found.threshold}
    return plain.get(found.kind)


def _looked_up(high: Expr, low: Expr, v: Symbol, values: Mapping[Symbol, Any]) -> Expr | None:
    import numpy as np

    numbers = np.arange(1, MOST + 1)
    left, right = (numeric(side.xreplace(dict(values)), v)(numbers) for side in (high, low))
    holds = np.broadcast_to(left >= right, numbers.shape)
    if holds.all():
        return S.Infinity
    first = int(np.argmin(holds))
    return None if holds[first:].any() else Integer(first)
