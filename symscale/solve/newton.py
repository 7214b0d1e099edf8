"""A small convex Newton method for sums of monomials in logarithms, with its duality gap.

In ``y = log x`` the logarithm of a posynomial is convex. The weights at any point, projected to
where all exponents cancel, bound the minimum from below by the dual of the geometric program, up
to float64's rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr, Float, Symbol

from symscale.algebra.errors import SolveError
from symscale.solve.geometric import Program

MOST_STEPS = 200


@dataclass(frozen=True)
class Descent:
    """A numeric minimum, and how far above the true one it can be (relative)."""

    point: Mapping[Symbol, Expr]
    value: Expr
    weights: tuple[Expr, ...]
    gap: float


def descend(made: Program) -> Descent:
    """The minimum of a posynomial whose coefficients are numbers.

    Raises:
        SolveError: when it does not settle: the infimum is not attained, or an unknown is left
            open.
    """
    import numpy as np

    powers = np.array([[float(e) for e in exponents] for exponents in made.terms])
    logs = np.array([float(coeff.evalf()) for coeff in made.terms.values()])
    if np.linalg.matrix_rank(powers) < powers.shape[1]:
        raise SolveError(f"the cost does not fix each of {', '.join(map(str, made.free))}")
    logs = np.log(logs)
    place, weights = _newton(powers, logs)
    low = _dual(powers, logs, weights)
    high = _value(powers, logs, place)
    gap = float(np.expm1(high - low))
    if not gap < 1e-6:
        raise SolveError("no minimum is attained: some direction lowers the cost without end")
    point = {v: Float(float(np.exp(y))) for v, y in zip(made.free, place, strict=True)}
    shares = tuple(Float(float(w)) for w in weights)
    return Descent(point, Float(float(np.exp(high))), shares, max(gap, 0.0))


def _value(powers: Any, logs: Any, place: Any) -> float:
    """The logarithm of the sum at ``place``."""
    import numpy as np

    return float(np.logaddexp.reduce(powers @ place + logs))


def _newton(powers: Any, logs: Any) -> tuple[Any, Any]:
    import numpy as np

    place = np.zeros(powers.shape[1])
    weights = np.zeros(len(logs))
    for _ in range(MOST_STEPS):
        here = _value(powers, logs, place)
        weights = np.exp(powers @ place + logs - here)
        slope = powers.T @ weights
        bend = powers.T @ (weights[:, None] * powers) - np.outer(slope, slope)
        move = np.linalg.lstsq(bend, -slope, rcond=None)[0]
        fall = float(slope @ move)
        if fall > -1e-18:
            break
        length = 1.0
        while _value(powers, logs, place + length * move) > here + 0.25 * length * fall:
            length /= 2
            if length < 1e-12:
                return place, weights
        place = place + length * move
    return place, weights


def _dual(powers: Any, logs: Any, weights: Any) -> float:
    """A lower bound: the dual at the nearest weights under which all exponents cancel."""
    import numpy as np

    rows = np.vstack([powers.T, np.ones(len(logs))])
    target = np.zeros(len(rows))
    target[-1] = 1.0
    feasible = weights + np.linalg.pinv(rows) @ (target - rows @ weights)
    if (feasible < 0).any():
        return -np.inf
    used = feasible > 0
    return float(feasible[used] @ (logs[used] - np.log(feasible[used])))
