"""Convex Newton methods for geometric programs in numbers, each with its optimality gap.

In ``y = log x`` the logarithm of a posynomial is convex. One sum is minimised as it is; the largest
of several by following the central path of its epigraph. The weights found, projected to where all
exponents cancel, bound the minimum from below by the dual, up to float64's rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Expr, Float, Symbol

from symscale.algebra.errors import SolveError
from symscale.solve.geometric import Program, unattained

MOST_STEPS = 200
_GAP = 1e-12

#: Keeps a search for any point within limits from running off to infinity.
_SOFT = 1e-3

#: Logarithms beyond this are looked at for an infimum that no point attains.
_FAR = 12.0

#: An arm with a smaller multiplier does not bind.
_BINDING = 1e-6


@dataclass(frozen=True)
class Descent:
    """A numeric minimum, and how far above the true one it can be (relative)."""

    point: Mapping[Symbol, Expr]
    value: Expr
    weights: tuple[Expr, ...]
    gap: float


@dataclass(frozen=True)
class _Arms:
    """Exponents and logarithms of coefficients of all terms, and the arm of each.

    ``fixed`` marks the arms that are limits: their logarithm stays below 0, not below the bound.
    ``soft`` is the weight of a pull towards the origin.
    """

    powers: Any
    logs: Any
    arm: Any
    count: int
    fixed: Any
    soft: float = 0.0

    def values(self, place: Any) -> Any:
        """The logarithm of each arm's sum, and each term's share of its arm."""
        import numpy as np

        terms = self.powers @ place + self.logs
        sums = np.array([np.logaddexp.reduce(terms[self.arm == i]) for i in range(self.count)])
        return sums, np.exp(terms - sums[self.arm])

    def slopes(self, shares: Any) -> Any:
        """The gradient of each arm's logarithm."""
        import numpy as np

        rows = shares[:, None] * self.powers
        return np.array([rows[self.arm == i].sum(axis=0) for i in range(self.count)])


def descend(made: Program) -> Descent:
    """The minimum of the largest arm, where all coefficients are numbers.

    Raises:
        SolveError: when it does not settle: the infimum is not attained, or an unknown is left
            open.
    """
    import numpy as np

    rows = (*made.rows, *made.caps)
    powers = np.array([[float(e) for e in exponents] for exponents in rows])
    if np.linalg.matrix_rank(powers) < powers.shape[1]:
        raise SolveError(f"the cost does not fix each of {', '.join(map(str, made.free))}")
    coefficients = (*made.coefficients, *made.caps.values())
    logs = np.log([float(coeff.evalf()) for coeff in coefficients])
    count = len(made.arms)
    arm = np.array([*made.arm_of, *range(count, count + len(made.caps))])
    fixed = np.arange(count + len(made.caps)) >= count
    data = _Arms(powers, logs, arm, len(fixed), fixed)
    # A search that runs off to infinity overflows on its way; it is refused below.
    with np.errstate(over="ignore", invalid="ignore"):
        place, weights = _newton(data) if data.count == 1 else _central(data, _start(data))
    high = float(data.values(place)[0][~fixed].max())
    _check_attained(data, place, high, made)
    low, weights = _dual(data, weights)
    gap = float(np.expm1(high - low))
    if not gap < 1e-6:
        raise SolveError(unattained(made.free))
    point = {v: Float(float(np.exp(y))) for v, y in zip(made.free, place, strict=True)}
    shares = tuple(Float(float(w)) for w in weights)
    return Descent(point, Float(float(np.exp(high))), shares, max(gap, 0.0))


def _check_attained(data: _Arms, place: Any, high: float, made: Program) -> None:
    """Refuse a point far out beyond which the cost does not rise: its infimum is at no point.

    Raises:
        SolveError: naming the unknowns.
    """
    import numpy as np

    far = float(np.abs(place).max())
    if not np.isfinite(place).all():
        raise SolveError(unattained(made.free))
    if far > _FAR:
        beyond = data.values(place * (1 + 3 / far))[0][~data.fixed].max()
        if beyond <= high + 1e-9:
            raise SolveError(unattained(made.free))


def _newton(data: _Arms) -> tuple[Any, Any]:
    """Damped Newton steps for one arm."""
    import numpy as np

    place = np.zeros(data.powers.shape[1])
    shares = np.zeros(len(data.logs))
    for _ in range(MOST_STEPS):
        (here,), shares = data.values(place)
        slope = data.powers.T @ shares
        bend = data.powers.T @ (shares[:, None] * data.powers) - np.outer(slope, slope)
        move = np.linalg.lstsq(bend, -slope, rcond=None)[0]
        fall = float(slope @ move)
        if fall > -1e-18:
            break
        length = 1.0
        while data.values(place + length * move)[0][0] > here + 0.25 * length * fall:
            length /= 2
            if length < 1e-12:
                return place, shares
        place = place + length * move
    return place, shares


def _start(data: _Arms) -> Any:
    """A point strictly within all limits.

    Raises:
        SolveError: when no point is.
    """
    import numpy as np

    place = np.zeros(data.powers.shape[1])
    if not data.fixed.any() or data.values(place)[0][data.fixed].max() < -1e-3:
        return place
    inside = data.fixed[data.arm]
    powers, logs, arm = data.powers[inside], data.logs[inside], data.arm[inside]
    _, arm = np.unique(arm, return_inverse=True)
    alone = _Arms(powers, logs, arm, arm.max() + 1, np.zeros(arm.max() + 1, dtype=bool), _SOFT)
    place, _ = _path(alone, place, until=-1.0)
    if alone.values(place)[0].max() >= 0:
        raise SolveError("no point is within all limits")
    return place


def _central(data: _Arms, place: Any) -> tuple[Any, Any]:
    """The smallest bound on all arms, and the multipliers of all terms there."""
    import numpy as np

    place, bound = _path(data, place)
    sums, _ = data.values(place)
    slack = np.maximum(_limits(data, bound) - sums, 1e-300)
    weights = (1 / slack) / (1 / slack)[~data.fixed].sum()
    place, weights = polished(data, place, weights)
    return place, weights[data.arm] * data.values(place)[1]


def _path(data: _Arms, place: Any, until: float = float("-inf")) -> tuple[Any, float]:
    """The central path of the epigraph: ever closer to the smallest bound on all arms.

    It ends where the bound is below ``until``.
    """
    import numpy as np

    bound = float(data.values(place)[0].max()) + 1.0
    sharp = 1.0
    while data.count / sharp > _GAP:
        sharp *= 8.0
        place, bound = _centred(data, place, bound, sharp)
        if not np.isfinite(bound) or abs(bound) > 1e6 or bound < until:
            break
    return place, bound


def polished(data: _Arms, place: Any, weights: Any) -> tuple[Any, Any]:
    """Newton steps on the KKT equations of the arms that bind; as before where they lead away."""
    import numpy as np

    tight = np.flatnonzero(weights > _BINDING)
    size = len(place)
    best = (place, weights, float("inf"))
    highest = data.values(place)[0][~data.fixed].max()
    unknown = np.concatenate([place, [highest], weights[tight]])
    counted = np.where(data.fixed, 0.0, 1.0)
    for _ in range(12):
        here, multipliers = unknown[:size], unknown[size + 1 :]
        sums, shares = data.values(here)
        slopes = data.slopes(shares)[tight]
        miss = np.concatenate(
            [
                multipliers @ slopes,
                [1 - multipliers @ counted[tight]],
                sums[tight] - _limits(data, unknown[size])[tight],
            ]
        )
        error = float(np.abs(miss).max())
        inside = (sums <= _limits(data, unknown[size]) + 1e-9).all()
        if multipliers.min() >= 0 and inside and error < best[2]:
            full = np.zeros(data.count)
            full[tight] = multipliers
            best = (here, full, error)
        bend = _bend(data, shares, tight, multipliers, slopes)
        system = _kkt(bend, slopes, counted[tight])
        unknown = unknown + np.linalg.lstsq(system, -miss, rcond=None)[0]
        if not np.isfinite(unknown).all():
            break
    return best[0], best[1]


def _bend(data: _Arms, shares: Any, tight: Any, multipliers: Any, slopes: Any) -> Any:
    """The curvature of the binding arms, by their multipliers."""
    import numpy as np

    full = np.zeros(data.count)
    full[tight] = multipliers
    rows = (full[data.arm] * shares)[:, None] * data.powers
    return data.powers.T @ rows - slopes.T @ (multipliers[:, None] * slopes)


def _kkt(bend: Any, slopes: Any, counted: Any) -> Any:
    """The Jacobian in the place, the bound and the multipliers."""
    import numpy as np

    count, size = slopes.shape
    out = np.zeros((size + 1 + count, size + 1 + count))
    out[:size, :size] = bend
    out[:size, size + 1 :] = slopes.T
    out[size, size + 1 :] = -counted
    out[size + 1 :, :size] = slopes
    out[size + 1 :, size] = -counted
    return out


def _centred(data: _Arms, place: Any, bound: float, sharp: float) -> tuple[Any, float]:
    """Newton steps for ``sharp*bound - sum(log(bound - arms))``."""
    import numpy as np

    for _ in range(60):
        slope, bend = _barrier(data, place, bound, sharp)
        move = np.linalg.lstsq(bend, -slope, rcond=None)[0]
        fall = float(slope @ move)
        if fall > -1e-10:
            break
        length, here = 1.0, _height(data, place, bound, sharp)
        while True:
            there = _height(data, place + length * move[:-1], bound + length * move[-1], sharp)
            if there <= here + 0.1 * length * fall or length < 1e-10:
                break
            length /= 2
        if length < 1e-10:
            break
        place, bound = place + length * move[:-1], bound + length * float(move[-1])
    return place, bound


def _limits(data: _Arms, bound: float) -> Any:
    """What each arm stays below: the bound, or 0 for a limit."""
    import numpy as np

    return np.where(data.fixed, 0.0, bound)


def _height(data: _Arms, place: Any, bound: float, sharp: float) -> float:
    import numpy as np

    slack = _limits(data, bound) - data.values(place)[0]
    if (slack <= 0).any():
        return float("inf")
    return float(sharp * bound - np.log(slack).sum() + data.soft / 2 * (place @ place + bound**2))


def _barrier(data: _Arms, place: Any, bound: float, sharp: float) -> tuple[Any, Any]:
    """Gradient and curvature in the unknowns and the bound."""
    import numpy as np

    sums, shares = data.values(place)
    slopes = data.slopes(shares)
    inverse = 1 / (_limits(data, bound) - sums)
    edge = np.hstack([slopes, np.where(data.fixed, 0.0, -1.0)[:, None]])
    slope = edge.T @ inverse
    slope[-1] += sharp
    weighted = (inverse[data.arm] * shares)[:, None] * data.powers
    bend = edge.T @ (inverse[:, None] ** 2 * edge)
    slope += data.soft * np.append(place, bound)
    bend += data.soft * np.eye(len(bend))
    bend[:-1, :-1] += data.powers.T @ weighted - slopes.T @ (inverse[:, None] * slopes)
    return slope, bend


def _dual(data: _Arms, weights: Any) -> tuple[float, Any]:
    """A lower bound, and the nearest weights under which all exponents cancel, which give it."""
    import numpy as np

    rows = np.vstack([data.powers.T, np.where(data.fixed[data.arm], 0.0, 1.0)])
    target = np.zeros(len(rows))
    target[-1] = 1.0
    weights = np.where(weights > 1e-15, weights, 0.0)
    held = np.sqrt(weights)
    change = np.linalg.lstsq(rows * held, target - rows @ weights, rcond=None)[0]
    feasible = weights + held * change
    if (feasible < 0).any() or np.abs(rows @ feasible - target).max() > 1e-9:
        return float("-inf"), weights
    totals = np.array([feasible[data.arm == i].sum() for i in range(data.count)])
    used = feasible > 0
    shares = feasible[used] / totals[data.arm][used]
    return float(feasible[used] @ (data.logs[used] - np.log(shares))), feasible
