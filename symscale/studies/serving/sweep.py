"""Every option at every batch and context at once, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from symscale.algebra.errors import SymbolError
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b
from symscale.algebra.table import Table
from symscale.solve.numeric import numeric
from symscale.studies.serving.options import Option

_NOISE = 1e-12

#: Called with the points done and all of them.
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Point:
    """One option at one batch and context."""

    option: Option
    batch: int
    context: int
    step_time: float
    fits: bool

    @property
    def tokens_per_second(self) -> float:
        """Tokens a second of all sequences."""
        return self.batch / self.step_time

    @property
    def per_chip(self) -> float:
        """Tokens a second for each chip."""
        return self.tokens_per_second / self.option.chips

    @property
    def usd_per_million(self) -> float | None:
        """US dollars for a million tokens; None without a price on file."""
        price = self.option.usd_per_hour
        return None if price is None else price / 3600 / self.per_chip * 1e6

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "option": self.option.name,
            "chips": self.option.chips,
            "batch": self.batch,
            "context": self.context,
            "step_time_s": self.step_time,
            "tokens_per_s": self.tokens_per_second,
            "tokens_per_s_per_chip": self.per_chip,
            "usd_per_million_tokens": self.usd_per_million,
            "fits": self.fits,
        }


@dataclass(frozen=True, eq=False)
class Sweep:
    """Seconds of a step and whether it fits, by option, batch and context, in this order.

    ``step_time`` and ``fits`` are arrays of three dims; ``tokens_per_second`` and ``per_chip`` have
    the same shape.
    """

    options: tuple[Option, ...]
    batch: Any
    context: Any
    step_time: Any
    fits: Any

    @property
    def shape(self) -> tuple[int, int, int]:
        """Options, batches, contexts."""
        return len(self.options), len(self.batch), len(self.context)

    def __len__(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def tokens_per_second(self) -> Any:
        """Tokens a second of all sequences."""
        return self.batch[None, :, None] / self.step_time

    @cached_property
    def per_chip(self) -> Any:
        """Tokens a second for each chip."""
        import numpy as np

        chips = np.array([option.chips for option in self.options], dtype=np.float64)
        return self.tokens_per_second / chips[:, None, None]

    def point(self, place: int) -> Point:
        """A point by its place in the flattened arrays."""
        import numpy as np

        option, batch, context = (int(i) for i in np.unravel_index(place, self.shape))
        where = (option, batch, context)
        return Point(
            self.options[option],
            int(self.batch[batch]),
            int(self.context[context]),
            float(self.step_time[where]),
            bool(self.fits[where]),
        )

    def points(self) -> Iterator[Point]:
        """All points, one after another."""
        return (self.point(place) for place in range(len(self)))

    def best(self, within: float = math.inf, context: int | None = None) -> Point | None:
        """The point with most tokens a second for each chip, among those that fit.

        Args:
            within: seconds that a step may take.
            context: only points of this context.

        Returns None where no point qualifies.
        """
        chosen = self.fits & (self.step_time <= within)
        if context is not None:
            chosen = chosen & (self.context == self.known_context(context))[None, None, :]
        if not chosen.any():
            return None
        return self.point(_soonest(self.per_chip, self.step_time, chosen))

    def known_context(self, context: int) -> int:
        """The same context, if it was swept.

        Raises:
            SymbolError: for one that was not.
        """
        if context not in self.context:
            swept = ", ".join(str(int(c)) for c in self.context[:8])
            raise SymbolError(f"context {context} was not swept; contexts are {swept}")
        return context

    def table(self) -> Table:
        """For every option, the best point that fits, by tokens a second for each chip."""
        rows: list[tuple[str | float | int, ...]] = []
        for place, option in enumerate(self.options):
            fits = self.fits[place]
            if not fits.any():
                rows.append((option.name, option.chips, "none fits", "", "", ""))
                continue
            best = _soonest(self.per_chip[place], self.step_time[place], fits)
            found = self.point(place * fits.size + best)
            where = (found.batch, found.context, found.step_time, found.per_chip)
            rows.append((option.name, option.chips, *where))
        head = ("option", "chips", "batch", "context", "s a step", "tokens/s a chip")
        return Table(head, tuple(rows))

    def __repr__(self) -> str:
        counts = " x ".join(map(str, self.shape))
        head = f"sweep of {len(self):,} points (options x batches x contexts: {counts})"
        return f"{head}\n{self.table()}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The best points, for JSON."""
        return {
            "points": len(self),
            "options": [option.name for option in self.options],
            "best": self.table().to_dict(),
        }


def sweep_options(
    options: Sequence[Option],
    batch: Sequence[int] | Any,
    context: Sequence[int] | Any,
    progress: Progress | None = None,
) -> Sweep:
    """Every option at every batch and context.

    Args:
        options: what is compared (see :func:`options`).
        batch: sequences in flight.
        context: tokens that each has cached.
        progress: called after every block of points.

    A batch that is no multiple of what the option's ways need does not fit.

    Raises:
        SymbolError: for nothing to sweep, or a number that is not whole and above zero.

    >>> from sympy import Integer
    >>> made = sweep_options([Option("a", 2, b + KEYS, b * KEYS, 50)], [1, 2, 4], [10, 20])
    >>> made.step_time[0].tolist()
    [[11.0, 21.0], [12.0, 22.0], [14.0, 24.0]]
    >>> made.best().batch, made.best(within=11.5).batch
    (4, 1)
    """
    import numpy as np

    if not options:
        raise SymbolError("no option to sweep")
    batches, contexts = _counts(batch, "batch"), _counts(context, "context")
    shape = (len(options), len(batches), len(contexts))
    seconds, fits = np.empty(shape), np.empty(shape, dtype=bool)
    grid = batches[:, None], contexts[None, :]
    for place, option in enumerate(options):
        known = option.values
        seconds[place] = numeric(option.seconds, b, KEYS)(*grid, known)
        fits[place] = numeric(option.bytes, b, KEYS)(*grid, known) <= option.room
        fits[place] &= grid[0] % option.multiple == 0
        if progress is not None:
            progress((place + 1) * math.prod(shape[1:]), math.prod(shape))
    return Sweep(tuple(options), batches, contexts, seconds, fits)


def _soonest(throughput: Any, step_time: Any, chosen: Any) -> int:
    """The place of most throughput; of those that only rounding tells apart, of the least time."""
    import numpy as np

    most = np.where(chosen, throughput, -np.inf)
    equal = most >= most.max() * (1 - _NOISE)
    return int(np.argmin(np.where(equal, step_time, np.inf)))


def _counts(values: Any, name: str) -> Any:
    """Whole numbers above zero as float64."""
    import numpy as np

    try:
        made = np.atleast_1d(np.asarray(values, dtype=np.float64))
    except (TypeError, ValueError):
        raise SymbolError(f"{name} = {values!r}: whole numbers are wanted") from None
    if made.ndim != 1 or not made.size:
        raise SymbolError(f"{name}: a list of whole numbers is wanted")
    wrong = made[~(made >= 1) | (made != np.rint(made))]
    if wrong.size:
        raise SymbolError(f"{name} = {wrong[0]:g}: a whole number above zero is wanted")
    return made
