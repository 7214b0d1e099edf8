"""A whole training run: days, chip-hours and cost, from a step and a number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symscale.algebra.errors import HardwareError, SymbolError
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import B, C
from symscale.algebra.table import Table
from symscale.studies.result import StepResult

_DAY = 86_400


@dataclass(frozen=True)
class TrainingRun:
    """So many tokens at a step's pace, or at a given model FLOP/s utilisation.

    ``mfu`` is useful matrix FLOPs over the chips' peak: of the step's lower bound unless it was
    given. ``cost_usd`` is None for a chip without a price on file.
    """

    result: StepResult
    tokens: int
    assumed_mfu: float | None = None

    @property
    def peak_seconds(self) -> float:
        """Seconds of a step if every chip did useful matrix FLOPs at its peak."""
        return self.result.useful_math

    @property
    def mfu(self) -> float:
        """Model FLOP/s utilisation."""
        return self.assumed_mfu or self.peak_seconds / self.result.time

    @property
    def step_seconds(self) -> float:
        """Seconds of a step at that utilisation."""
        return self.peak_seconds / self.mfu

    @property
    def steps(self) -> float:
        """The number of steps: tokens over the batch."""
        return self.tokens / float(self.result.values[B])

    @property
    def days(self) -> float:
        """Days of the whole run."""
        return self.steps * self.step_seconds / _DAY

    @property
    def chip_hours(self) -> float:
        """Hours of one chip that all chips together take."""
        return self.days * 24 * self.result.chips

    @property
    def cost_usd(self) -> float | None:
        """Chip-hours at the price on file, in US dollars."""
        try:
            price = float(self.result.chip.price.value)
        except HardwareError:
            return None
        return self.chip_hours * price

    @property
    def flops(self) -> float:
        """Useful matrix FLOPs of the run."""
        return self.peak_seconds * self.result.chips * float(self.result.chip[C]) * self.steps

    def table(self) -> Table:
        """The headline numbers."""
        cost = self.cost_usd
        rows: tuple[tuple[str, str | float | int], ...] = (
            ("tokens", self.tokens),
            ("FLOPs", f"{self.flops:.4g}"),
            ("MFU", self.mfu),
            ("seconds a step", self.step_seconds),
            ("days", self.days),
            ("chip-hours", round(self.chip_hours)),
            ("cost, USD", "no price on file" if cost is None else round(cost)),
        )
        return Table(("run", "value"), rows)

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "tokens": self.tokens,
            "flops": self.flops,
            "mfu": self.mfu,
            "days": self.days,
            "chip_hours": self.chip_hours,
            "cost_usd": self.cost_usd,
        }


def training_run(result: StepResult, tokens: int, mfu: float | None = None) -> TrainingRun:
    """A run over so many tokens at the step's lower bound, or at a given utilisation.

    Raises:
        SymbolError: for tokens that are no whole number above zero, or a utilisation not in (0, 1].

    >>> from symscale.studies.training import training
    >>> step = training("llama-3-70b", "fsdp+tp").at("tpu-v5p", B=2**22, X=2048, Y=4)
    >>> round(training_run(step, 15 * 10**12, mfu=0.4).days, 1)
    55.6
    """
    if not exact(tokens, "tokens").is_integer:
        raise SymbolError(f"tokens = {tokens}: a whole number is wanted")
    if mfu is not None and not 0 < mfu <= 1:
        raise SymbolError(f"mfu = {mfu}: a share above 0 and at most 1 is wanted")
    return TrainingRun(result, int(tokens), mfu)
