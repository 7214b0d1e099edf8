"""Which term of a maximum binds where, as one unknown grows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import Any, overload

from sympy import Expr, S, Symbol, oo

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import check_known, to_latex
from symscale.solve.assume import Given, Sides, with_given
from symscale.solve.generators import check_cost
from symscale.solve.plane import Plane, Sums, plane
from symscale.solve.tiling import Regime, stages_of, tile


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
        rows, steps = tile(stages_of(self.time, self.variable).put(values), self.variable)
        start = self.derivation.then("put in numbers", None, str(values))
        return Regimes(self.time.xreplace(values), self.variable, rows, start + steps)

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


@overload
def regimes(time: Any, v: Symbol, w: None = None, given: Given | None = None) -> Regimes: ...
@overload
def regimes(
    time: Any, v: Symbol, w: Symbol, given: Given | None = None, sums: Sums = "refuse"
) -> Plane: ...
def regimes(
    time: Any,
    v: Symbol,
    w: Symbol | None = None,
    given: Given | None = None,
    sums: Sums = "refuse",
) -> Regimes | Plane:
    """Which arm of a maximum is the largest, between which walls of ``v``.

    With a second variable ``w`` the answer is a :class:`Plane` of cells (see :func:`plane`).

    Sums and positive multiples of maxima count as the maximum of their combinations. Walls and
    conditions come from the exact crossovers of each two arms.

    Raises:
        SolveError: when nothing is a maximum over ``v``, or two arms have no closed crossover.

    >>> from symscale.algebra.maximum import Maximum
    >>> from symscale.algebra.symbols import B, C, W_hbm
    >>> print(regimes(Maximum(2 * B / C, 2 / W_hbm), B))
    regimes of B, by the largest term:
      2/W_hbm for B from 0 to C/W_hbm
      2*B/C for B from C/W_hbm to oo
    """
    if w is not None:
        return plane(time, v, w, given, sums)
    made = check_cost(time, "time")
    if not isinstance(v, Symbol):
        raise SolveError(f"v = {v!r} is not a symbol")
    for item in (made, v):
        check_known(item)
    if v not in made.free_symbols:
        raise SolveError(f"{v} is not in {made}")
    start = Derivation().then("which term is the largest", made, f"as {v} grows from 0")
    sides = with_given(Sides(made, S.Zero, (), start), given, v)
    rows, steps = tile(stages_of(sides.a, v), v)
    return Regimes(sides.a, v, rows, sides.steps + steps)


def _line(regime: Regime, v: Symbol) -> str:
    text = f"  {regime.term} for {v} from {regime.lower} to {regime.upper}"
    return text if regime.requires == S.true else f"{text}, if {regime.requires}"


def _cell(part: Any) -> str:
    return "" if part == S.true else f"${escape(to_latex(part))}$"
