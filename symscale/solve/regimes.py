"""Which term of a maximum binds where, as one unknown grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any

from sympy import Expr, S, Symbol, oo
from sympy.logic.boolalg import Boolean

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import check_known, to_latex
from symscale.solve.assume import Given, Sides, with_given
from symscale.solve.cases import Case, all_of, converse
from symscale.solve.comparison import arms, compare_sides
from symscale.solve.generators import Generators, check_cost


@dataclass(frozen=True)
class Regime:
    """``term`` is the largest for ``lower <= v < upper``, provided ``requires``."""

    term: Expr
    lower: Expr
    upper: Expr
    requires: Boolean = S.true

    def to_dict(self) -> dict[str, str]:
        """The regime as plain text, for JSON."""
        return {name: str(getattr(self, name)) for name in ("term", "lower", "upper", "requires")}


@dataclass(frozen=True)
class Regimes:
    """The regimes of a maximum in one variable, from small to large; iterates over them.

    Where all signs are decided they tile the half-line in order. Otherwise each stands under its
    own condition, and with numbers in (:meth:`at`) they tile it.
    """

    time: Expr
    variable: Symbol
    regimes: tuple[Regime, ...]
    derivation: Derivation = field(default_factory=Derivation)

    def __iter__(self) -> Iterator[Regime]:
        return iter(self.regimes)

    def __len__(self) -> int:
        return len(self.regimes)

    def __getitem__(self, place: int) -> Regime:
        return self.regimes[place]

    @property
    def walls(self) -> tuple[Expr, ...]:
        """Every wall between regimes, each once, in the order of the regimes."""
        ends = (end for regime in self for end in (regime.lower, regime.upper))
        return tuple(dict.fromkeys(end for end in ends if end not in (0, oo)))

    def at(self, *sources: Mapping[Symbol, Any], **named: Any) -> Regimes:
        """The regimes with numbers in for other symbols than the variable.

        Raises:
            SymbolError: for a value that is no positive number.
        """
        values = bindings(*sources, **named)
        values.pop(self.variable, None)
        found = (arm.xreplace(values) for arm in arms_of(self.time, self.variable))
        start = self.derivation.then("put in numbers", None, str(values))
        return _tile(self.time.xreplace(values), tuple(found), self.variable, start)

    def binding(self, value: Any) -> Regime:
        """The regime in which the variable has this value, once every wall is a number.

        Raises:
            SolveError: when a wall or a condition still has symbols.
        """
        number = bindings({self.variable: value})[self.variable]
        for regime in self:
            if regime.lower.free_symbols | regime.upper.free_symbols | regime.requires.free_symbols:
                raise SolveError("the walls still have symbols; put numbers in with .at(...) first")
            if bool(regime.lower <= number) and bool(number < regime.upper):
                return regime
        raise SolveError(f"{self.variable} = {value} lies in no regime")

    def __repr__(self) -> str:
        rows = [_line(regime, self.variable) for regime in self]
        return "\n".join([f"regimes of {self.variable}, by the largest term:", *rows])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{name}</th>" for name in ("largest term", "from", "to", "when"))
        rows = (
            "".join(f"<td>{_cell(part)}</td>" for part in (r.term, r.lower, r.upper, r.requires))
            for r in self
        )
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def to_dict(self) -> dict[str, Any]:
        """The table as plain text, for JSON."""
        return {
            "time": str(self.time),
            "variable": str(self.variable),
            "regimes": [regime.to_dict() for regime in self],
            "walls": [str(wall) for wall in self.walls],
            **self.derivation.to_dict(),
        }


def regimes(time: Any, v: Symbol, given: Given | None = None) -> Regimes:
    """Which arm of a maximum is the largest, between which walls of ``v``.

    Sums and positive multiples of maxima count as the maximum of their combinations. Walls and
    conditions come from the exact crossovers of each two arms.

    Raises:
        SolveError: when nothing is a maximum over ``v``, or two arms have no closed crossover.

    >>> from symscale.algebra.symbols import B, C, D, W_hbm
    >>> print(regimes(Maximum(2 * B / C, 2 / W_hbm), B))
    regimes of B, by the largest term:
      2/W_hbm for B from 0 to C/W_hbm
      2*B/C for B from C/W_hbm to oo
    """
    made = check_cost(time, "time")
    if not isinstance(v, Symbol):
        raise SolveError(f"v = {v!r} is not a symbol")
    for item in (made, v):
        check_known(item)
    if v not in made.free_symbols:
        raise SolveError(f"{v} is not in {made}")
    start = Derivation().then("which term is the largest", made, f"as {v} grows from 0")
    made = with_given(Sides(made, S.Zero, (), start), given, v).a
    return _tile(made, arms_of(made, v), v, start)


def _tile(time: Expr, terms: tuple[Expr, ...], v: Symbol, start: Derivation) -> Regimes:
    """The regimes of the largest of these terms."""
    found = _distinct(terms, v)
    table, steps = _pairs(found, v)
    rows: list[Regime] = []
    for place, arm in enumerate(found):
        cases = all_of(table[place, other] for other in range(len(found)) if other != place)
        rows += _rows(arm, cases)
    steps = steps.then("a term is the largest where it is above each other", None, "walls joined")
    return Regimes(time, v, tuple(_ordered(rows, found)), start + steps)


def arms_of(time: Expr, v: Symbol) -> tuple[Expr, ...]:
    """The arms of a time that is a maximum.

    Raises:
        SolveError: for a time that is no maximum over ``v``.
    """
    if isinstance(time, Maximum):
        nested = [inner for arg in time.args for inner in arms(arg, v)]
        return tuple(dict.fromkeys(nested))
    found = arms(time, v)
    if not time.has(Maximum):
        raise SolveError(
            f"{time} is no maximum: it has one regime; take .lower of a time, or Maximum(...)"
        )
    return found


def _distinct(found: tuple[Expr, ...], v: Symbol) -> list[Expr]:
    """The arms without those that are mathematically the same, slowest growth first."""
    bases = Generators(*found, v)
    fractions = {bases.fraction(arm): arm for arm in reversed(found)}
    place = bases.bases.index(v)

    def growth(fraction: Any) -> tuple[int, int, str]:
        over = [exponents[place] for exponents in fraction.numer]
        under = [exponents[place] for exponents in fraction.denom]
        return max(over) - max(under), min(over) - min(under), str(fractions[fraction])

    return [fractions[fraction] for fraction in sorted(fractions, key=growth)]


def _pairs(found: list[Expr], v: Symbol) -> tuple[dict[tuple[int, int], list[Case]], Derivation]:
    """Where each arm is above each other, one crossover for every two."""
    table: dict[tuple[int, int], list[Case]] = {}
    steps = Derivation()
    for high in range(len(found)):
        for low in range(high):
            made = compare_sides(found[high], found[low], v)
            table[high, low] = made.cases
            table[low, high] = converse(made.cases)
            for case in made.cases:
                walls = [end for pair in case.intervals for end in pair if end not in (0, oo)]
                text = f"{found[high]} against {found[low]}: {case.kind}"
                steps = steps.then(text, Maximum(*walls) if walls else None, case.why)
    return table, steps


def _rows(arm: Expr, cases: list[Case]) -> list[Regime]:
    """The arm's regimes; one that has shrunk to a point is left out."""
    return [
        Regime(arm, low, high, case.requires)
        for case in cases
        for low, high in case.intervals
        if low != high
    ]


def _ordered(rows: list[Regime], found: list[Expr]) -> list[Regime]:
    """By lower wall where all are numbers, else chained end to start, else by growth."""
    if all(row.lower.is_number and row.upper.is_number for row in rows):
        return sorted(rows, key=lambda row: (row.lower, row.upper))
    starts = {row.lower: row for row in rows}
    if len(starts) == len(rows) and S.Zero in starts:
        chained = [starts[S.Zero]]
        while chained[-1].upper in starts and len(chained) <= len(rows):
            chained.append(starts[chained[-1].upper])
        if len(chained) == len(rows):
            return chained
    return sorted(rows, key=lambda row: (found.index(row.term), row.lower != 0))


def _line(regime: Regime, v: Symbol) -> str:
    text = f"  {regime.term} for {v} from {regime.lower} to {regime.upper}"
    return text if regime.requires == S.true else f"{text}, if {regime.requires}"


def _cell(part: Any) -> str:
    return "" if part == S.true else f"${escape(to_latex(part))}$"
