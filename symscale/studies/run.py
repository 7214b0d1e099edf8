"""A whole training run: days, chip-hours, cost and energy, from a step and a number of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import B, C
from symscale.algebra.table import Table
from symscale.studies.budget import budget
from symscale.studies.result import StepResult
from symscale.studies.spending import N_TOK, Budget


@dataclass(frozen=True)
class TrainingRun:
    """So many tokens at a step's pace, or at a given utilisation, rate, or step time.

    ``budget`` has the formulas. ``mfu`` is useful matrix FLOPs over the chips' peak: of the step's
    lower bound unless a pace was given. ``cost_usd`` is None for a chip without a price,
    ``energy_kwh`` for one without a power, ``carbon_kg`` without an intensity.
    """

    result: StepResult
    budget: Budget

    @property
    def tokens(self) -> int:
        """Tokens of the run."""
        return int(self.budget.values[N_TOK])

    @property
    def mfu(self) -> float:
        """Model FLOP/s utilisation."""
        return self.budget.mfu

    @property
    def step_seconds(self) -> float:
        """Seconds of a step at that utilisation."""
        return self.budget.value("seconds") / self.steps

    @property
    def steps(self) -> float:
        """The number of steps: tokens over the batch."""
        return self.tokens / float(self.result.values[B])

    @property
    def days(self) -> float:
        """Days of the whole run."""
        return self.budget.days

    @property
    def chip_hours(self) -> float:
        """Hours of one chip that all chips together take."""
        return self.budget.chip_hours

    @property
    def cost_usd(self) -> float | None:
        """Chip-hours at the price given or on file, in US dollars."""
        return self.budget.get("cost_usd")

    @property
    def energy_kwh(self) -> float | None:
        """Kilowatt-hours at the power given, or the chip's TDP."""
        return self.budget.get("energy_kwh")

    @property
    def carbon_kg(self) -> float | None:
        """Kilograms of carbon dioxide at the grid's intensity."""
        return self.budget.get("carbon_kg")

    @property
    def flops(self) -> float:
        """Useful matrix FLOPs of the run."""
        return self.budget.flops

    def table(self) -> Table:
        """The headline numbers."""
        rows: list[tuple[str, str | float | int]] = [
            ("tokens", self.tokens),
            ("FLOPs", f"{self.flops:.4g}"),
            ("MFU", self.mfu),
            ("seconds a step", self.step_seconds),
            ("days", self.days),
            ("chip-hours", round(self.chip_hours)),
            ("cost, USD", _whole(self.cost_usd, "no price on file; give --price")),
            ("energy, kWh", _whole(self.energy_kwh, "no power on file; give --power")),
        ]
        if self.carbon_kg is not None:
            rows.append(("carbon dioxide, kg", round(self.carbon_kg)))
        return Table(("run", "value"), tuple(rows))

    def __repr__(self) -> str:
        said = (f"{key}: {text}" for key, text in self.budget.conventions.items())
        return "\n".join([str(self.table()), *said])

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
            "energy_kwh": self.energy_kwh,
            "carbon_kg": self.carbon_kg,
            "pf_days": self.budget.pf_days,
            "formulas": {name: str(expr) for name, expr in self.budget.formulas.items()},
            "conventions": dict(self.budget.conventions),
        }


def _whole(value: float | None, missing: str) -> int | str:
    return missing if value is None else round(value)


def training_run(
    result: StepResult,
    tokens: int,
    mfu: float | None = None,
    *,
    achieved: Any = None,
    throughput: Any = None,
    step_time: Any = None,
    price: Any = None,
    power: Any = None,
    pue: Any = 1,
    carbon: Any = None,
) -> TrainingRun:
    """A run over so many tokens at the step's lower bound, or at a pace that is given.

    Args:
        result: the step, with its chips and its batch.
        tokens: of the whole run.
        mfu: the pace as a share of the peak,
        achieved: or as useful FLOP/s of one chip,
        throughput: or as measured tokens a second of one chip,
        step_time: or as measured seconds of a step.
        price, power, pue, carbon: see :func:`budget`; the chip's own price and TDP unless given.

    Raises:
        SymbolError: for tokens that are no whole number above zero, two paces, or one above the
            peak.

    >>> from symscale.studies.training import training
    >>> step = training("llama-3-70b", "fsdp+tp").at("tpu-v5p", B=2**22, X=2048, Y=4)
    >>> round(training_run(step, 15 * 10**12, mfu=0.4).days, 1)
    55.6
    """
    if not exact(tokens, "tokens").is_integer:
        raise SymbolError(f"tokens = {tokens}: a whole number is wanted")
    if mfu is achieved is throughput is step_time is None:
        step_time = result.time
    batch = result.values[B]
    made = budget(
        result.useful_math * result.chips * float(result.values[C]) / float(batch),
        int(tokens),
        chips=result.chips,
        chip=result.chip,
        mfu=mfu,
        achieved=achieved,
        throughput=throughput,
        step_time=step_time,
        batch=batch,
        price=price,
        power=power,
        pue=pue,
        carbon=carbon,
    )
    return TrainingRun(result, made)
