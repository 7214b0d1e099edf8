"""The frontier of latency against throughput: points that no other point beats in both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symscale.algebra.errors import SymbolError
from symscale.algebra.table import Table
from symscale.studies.serving.sweep import Point, Sweep

_NOISE = 1e-12


class NothingFits(SymbolError):
    """No point of a sweep fits, so that it has no frontier."""


@dataclass(frozen=True)
class Frontier:
    """Points from the shortest step to the highest throughput for each chip; both rise.

    A point is on it if every other one takes longer for a token or gives fewer tokens a second for
    each chip; of points that are equal in both, one stands for all.
    """

    points: tuple[Point, ...]
    context: int

    def __len__(self) -> int:
        return len(self.points)

    @property
    def options(self) -> tuple[str, ...]:
        """The options on it, each once, from the shortest step on."""
        return tuple(dict.fromkeys(point.option.name for point in self.points))

    def within(self, seconds: float) -> Point | None:
        """The point with most tokens a second for each chip whose step is no longer.

        None where even the shortest step takes longer.
        """
        allowed = [point for point in self.points if point.step_time <= seconds]
        return allowed[-1] if allowed else None

    def stretches(self) -> tuple[tuple[Point, Point], ...]:
        """First and last point of every stretch of one option, from the shortest step on."""
        found: list[tuple[Point, Point]] = []
        for point in self.points:
            if found and found[-1][1].option == point.option:
                found[-1] = (found[-1][0], point)
            else:
                found.append((point, point))
        return tuple(found)

    def table(self) -> Table:
        """Every stretch of one option: its batches, and what they give."""
        rows = tuple(
            (
                first.option.name,
                first.batch,
                last.batch,
                first.step_time,
                last.step_time,
                first.per_chip,
                last.per_chip,
            )
            for first, last in self.stretches()
        )
        head = ("option", "batch", "to", "s a token", "to", "tokens/s a chip", "to")
        return Table(head, rows)

    def __repr__(self) -> str:
        head = f"{len(self)} points that no other beats, at a context of {self.context:,} tokens"
        return f"{head}\n{self.table()}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The points, for JSON."""
        return {"context": self.context, "points": [point.to_dict() for point in self.points]}


def pareto(found: Sweep, context: int | None = None) -> Frontier:
    """The frontier of a sweep at one context, of points that fit.

    Args:
        found: a sweep.
        context: one of its contexts; need not be said where there is one.

    Raises:
        SymbolError: for a context that was not swept, or none said where there are several.
        NothingFits: where nothing fits.
    """
    import numpy as np

    if context is None:
        if len(found.context) > 1:
            raise SymbolError("several contexts were swept; say which, context=...")
        context = int(found.context[0])
    column = int(np.flatnonzero(found.context == found.known_context(context))[0])
    places = np.arange(len(found)).reshape(found.shape)[:, :, column].ravel()
    fitting = places[found.fits.ravel()[places]]
    if not fitting.size:
        raise NothingFits(
            f"no option fits a context of {context} at any batch swept; the smallest is "
            f"{int(found.batch.min())}: give more chips or narrower types"
        )
    kept = undominated(found.step_time.ravel()[fitting], found.per_chip.ravel()[fitting])
    return Frontier(tuple(found.point(int(fitting[i])) for i in kept), context)


def undominated(latency: Any, throughput: Any) -> Any:
    """Places of points that no other beats: lower latency and no less throughput, or the reverse.

    In the order of rising latency; of equal points the first. Throughputs that only rounding tells
    apart are equal.

    >>> undominated([3, 1, 2, 2, 5], [9, 1, 1, 4, 9]).tolist()
    [1, 3, 0]
    """
    import numpy as np

    slow, fast = np.asarray(latency, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    order = np.lexsort((-fast, slow))
    ahead = np.maximum.accumulate(fast[order])
    before = np.concatenate((ahead[:1] - 1, ahead[:-1]))
    return order[fast[order] > before + _NOISE * np.abs(before)]
