"""What a run takes, as formulas and numbers: days, chip-hours, money, energy and carbon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import bindings, evaluate, exact
from symscale.algebra.symbols import C, n, quantity, to_latex
from symscale.algebra.table import Table
from symscale.algebra.units import FLOP, SECOND, Quantity, Scope
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover

N_TOK = quantity("N_tok", r"N_{\mathrm{tok}}", "tokens of the whole run", "token")
F_TOK = quantity("f_tok", r"f_{\mathrm{tok}}", "useful FLOPs of a token", "FLOP/token")
MFU = quantity("MFU", r"\eta_{\mathrm{MFU}}", "share of the peak that is useful work")
C_GOT = quantity("C_got", r"C_{\mathrm{got}}", "useful FLOP/s measured on a chip", "FLOP/s")
R_TOK = quantity(
    "r_tok", r"r_{\mathrm{tok}}", "tokens a second that a chip gets through", "token/s"
)
T_STEP = quantity("t_step", r"t_{\mathrm{step}}", "seconds of one step", "s")
PRICE = quantity("c_chip", r"c_{\mathrm{chip}}", "price of one chip", "USD/(chip h)")
POWER = quantity("P_chip", r"P_{\mathrm{chip}}", "power of one chip and its share of the host", "W")
PUE = quantity("PUE", r"\pi_{\mathrm{PUE}}", "power of the building over that of its machines")
CARBON = quantity("g_grid", r"g_{\mathrm{grid}}", "carbon dioxide of a kilowatt-hour", "kg/kWh")

DAY = 86_400
_HOUR = 3600
_PETA = 10**15

#: What a budget lists: the unit of each.
UNITS: Mapping[str, str] = MappingProxyType(
    {
        "flops": "FLOP",
        "pf_days": "PFLOP/s day",
        "seconds": "s",
        "days": "day",
        "chip_hours": "chip h",
        "cost_usd": "USD",
        "energy_kwh": "kWh",
        "carbon_kg": "kg",
        "achieved": "FLOP/s",
        "mfu": "1",
    }
)


@dataclass(frozen=True)
class Budget:
    """A run as formulas and numbers.

    ``work`` is its useful FLOPs over all chips, ``time`` its seconds, both formulas; ``values`` the
    numbers at hand. Everything else follows: work over rate, hours times price, hours times
    power. A property is a number, and refuses a missing input by name; ``formulas`` needs none.
    """

    work: Expr
    time: Expr
    values: Mapping[Symbol, Expr] = field(default_factory=dict)
    conventions: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def formulas(self) -> Mapping[str, Expr]:
        """Each amount as a formula, by the names of :data:`UNITS`."""
        work, time = Quantity(self.work, FLOP, Scope.TOTAL), Quantity(self.time, SECOND)
        rate = work / (time * n)
        hours = self.time * n / _HOUR
        energy = hours * POWER * PUE / 1000
        return MappingProxyType(
            {
                "flops": self.work,
                "pf_days": self.work / (_PETA * DAY),
                "seconds": self.time,
                "days": self.time / DAY,
                "chip_hours": hours,
                "cost_usd": hours * PRICE,
                "energy_kwh": energy,
                "carbon_kg": energy * CARBON,
                "achieved": rate.expr,
                "mfu": rate.expr / C,
            }
        )

    def value(self, name: str) -> float:
        """One amount as a number.

        Raises:
            SymbolError: naming what it needs and was not given.
        """
        return float(evaluate(self._formula(name), self.values))

    def _formula(self, name: str) -> Expr:
        if name not in self.formulas:
            raise SymbolError(f"a budget has no {name!r}; it has {', '.join(self.formulas)}")
        return self.formulas[name]

    @property
    def flops(self) -> float:
        """Useful FLOPs of the run."""
        return self.value("flops")

    @property
    def pf_days(self) -> float:
        """Days of a machine that does 1e15 useful FLOP/s."""
        return self.value("pf_days")

    @property
    def seconds(self) -> float:
        """Seconds of the run."""
        return self.value("seconds")

    @property
    def days(self) -> float:
        """Days of the run."""
        return self.value("days")

    @property
    def chip_hours(self) -> float:
        """Hours of one chip that all chips together take."""
        return self.value("chip_hours")

    @property
    def cost_usd(self) -> float:
        """Chip-hours at the price, in US dollars."""
        return self.value("cost_usd")

    @property
    def energy_kwh(self) -> float:
        """Kilowatt-hours at the power of a chip, cooling and losses (PUE) included."""
        return self.value("energy_kwh")

    @property
    def carbon_kg(self) -> float:
        """Kilograms of carbon dioxide at the grid's intensity."""
        return self.value("carbon_kg")

    @property
    def achieved(self) -> float:
        """Useful FLOP/s of one chip."""
        return self.value("achieved")

    @property
    def mfu(self) -> float:
        """Useful FLOP/s over the chip's peak."""
        return self.value("mfu")

    def get(self, name: str) -> float | None:
        """One amount, or None where an input of it was not given."""
        left = self._formula(name).free_symbols - set(self.values)
        return None if left else self.value(name)

    def at(self, *sources: Mapping[Symbol, Any], **named: Any) -> Budget:
        """The same run with other numbers, or more of them.

        Raises:
            SymbolError: for a value that is no positive number.
        """
        return Budget(
            self.work, self.time, {**self.values, **bindings(*sources, **named)},
            self.conventions,
        )  # fmt: skip

    def wall(self, v: Symbol, **limit: Any) -> Crossover:
        """Where an amount passes a limit as ``v`` grows, every other number put in.

        Raises:
            SymbolError: for an amount that a budget does not have, or not exactly one of them.
            SolveError: for a ``v`` that the amount does not depend on.

        >>> from symscale.algebra.symbols import n
        >>> from symscale.studies.budget import budget
        >>> run = budget("llama-3-70b", 15 * 10**12, chip="h100", mfu=0.4)
        >>> run.wall(n, days=60).condition
        n <= ...
        """
        if len(limit) != 1:
            raise SymbolError(f"one limit is wanted, such as days=30; given were {len(limit)}")
        [(name, most)] = limit.items()
        known = {key: value for key, value in self.values.items() if key != v}
        return crossover(self._formula(name).xreplace(known), exact(most, name), v)

    @property
    def derivation(self) -> Derivation:
        """How the numbers follow from one another."""
        told = "; ".join(f"{key}: {text}" for key, text in self.conventions.items())
        reasons = {
            "flops": told,
            "seconds": "work over rate",
            "chip_hours": "all chips for so long",
            "cost_usd": "chip-hours at the price",
            "energy_kwh": "chip-hours at the power of a chip and of what cools it",
            "carbon_kg": "energy at the grid's intensity",
        }
        made = Derivation()
        for name, reason in reasons.items():
            made = made.then(f"{name}, {UNITS[name]}", self.formulas[name], reason)
        return made

    def table(self) -> Table:
        """The amounts that there are numbers for."""
        rows = [
            (name, _shown(value), UNITS[name])
            for name in UNITS
            if (value := self.get(name)) is not None
        ]
        return Table(("run", "value", "unit"), tuple(rows))

    def __repr__(self) -> str:
        said = [f"  {name}: {text}" for name, text in self.conventions.items()]
        return "\n".join([str(self.table()), *said])

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Numbers (None where an input is missing), formulas, and conventions."""
        return {
            **{name: self.get(name) for name in UNITS},
            "formulas": {name: str(expr) for name, expr in self.formulas.items()},
            "latex": {name: to_latex(expr) for name, expr in self.formulas.items()},
            "conventions": dict(self.conventions),
        }


def _shown(value: float) -> str:
    return f"{value:,.2f}" if 0.01 <= abs(value) < 10**9 else f"{value:.4g}"
