"""Plot axes: ranges, ticks and where a value falls, shared by every renderer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, log10

from symscale.report.numbers import Figure, Power, number

_MOST_STEPS = 8
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Tick:
    """A labelled position on an axis."""

    value: float
    label: Figure


@dataclass(frozen=True)
class Axis:
    """The range of one axis and whether it is logarithmic.

    >>> axis = Axis(1.0, 1000.0, log=True)
    >>> round(axis.place(10.0), 3), [str(tick.label) for tick in axis.ticks]
    (0.333, ['1', '10', '100', '1,000'])
    """

    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, values: Iterable[float], log: bool, pad: float = 0.0) -> Axis:
        """An axis that holds these values, with ``pad`` of its length added at both ends."""
        found = list(values)
        low, high = min(found), max(found)
        if log:
            a, b = log10(low), log10(high)
            spare = (b - a) * pad if b > a else 0.5
            return cls(10 ** (a - spare), 10 ** (b + spare), True)
        spare = (high - low) * pad if high > low else abs(high) / 2 or 1.0
        start = 0.0 if 0 <= low < spare else low - spare
        return cls(start, high + spare)

    def place(self, value: float) -> float:
        """Where a value falls: 0 at the low end, 1 at the high end."""
        if self.log:
            return (log10(value) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def holds(self, value: float) -> bool:
        """Whether a value lies on the axis."""
        return -_ROUNDING <= self.place(value) <= 1 + _ROUNDING

    @cached_property
    def ticks(self) -> tuple[Tick, ...]:
        """Labelled ticks: decades (with 2 and 5 between when there are few), or round steps."""
        values = list(self._decades() if self.log else self._steps())
        scientific = self.log and any(not 1e-3 < v < 1e5 for v in values)
        return tuple(Tick(v, _label(v, scientific)) for v in values)

    @cached_property
    def minor(self) -> tuple[float, ...]:
        """Unlabelled ticks of a logarithmic axis, 2 to 9 in each decade."""
        if not self.log or log10(self.high / self.low) > 6:
            return ()
        shown = {tick.value for tick in self.ticks}
        every = (m * 10.0**d for d in self._exponents() for m in range(2, 10))
        return tuple(v for v in every if self.holds(v) and v not in shown)

    def _exponents(self) -> range:
        return range(floor(log10(self.low) + _ROUNDING), ceil(log10(self.high) - _ROUNDING) + 1)

    def _decades(self) -> Iterator[float]:
        span = log10(self.high / self.low)
        multiples = (1, 2, 5) if span < 2.2 else (1,)
        stride = max(1, ceil(span / 8))
        for exponent in self._exponents():
            for multiple in multiples:
                value = multiple * 10.0**exponent
                if exponent % stride == 0 and self.holds(value):
                    yield value

    def _steps(self) -> Iterator[float]:
        raw = (self.high - self.low) / _MOST_STEPS
        unit = 10.0 ** floor(log10(raw))
        step = next(unit * m for m in (1, 2, 5, 10) if unit * m >= raw * (1 - _ROUNDING))
        first = ceil(self.low / step - _ROUNDING)
        last = floor(self.high / step + _ROUNDING)
        for index in range(first, last + 1):
            yield float(f"{index * step:.12g}")


def _label(value: float, scientific: bool) -> Figure:
    if not scientific:
        return number(value)
    mantissa, exponent = f"{value:.0e}".split("e")
    power = Power(int(exponent))
    return Figure((power,)) if mantissa == "1" else Figure((mantissa, power))
