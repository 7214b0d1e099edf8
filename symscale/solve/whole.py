"""The best whole point: divisors or powers of two, by exact search over all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from types import MappingProxyType
from typing import Any, Literal, get_args

from sympy import Eq, Expr, Integer, Symbol, divisors

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError, near
from symscale.algebra.symbols import to_latex
from symscale.solve.generators import Generators
from symscale.solve.numeric import numeric
from symscale.solve.optimum import Optimum

Kind = Literal["divisors", "powers of two"]
MOST_POINTS = 2_000_000
_CLOSE = 1e-9


@dataclass(frozen=True)
class WholeOptimum(Mapping[Symbol, Expr]):
    """The best point with whole unknowns, of ``points`` that were tried.

    ``loss`` is how much worse it is than the continuous optimum ``smooth``, as a fraction of that
    one (None where the cost has no closed or numeric continuous optimum).
    """

    expr: Expr
    point: Mapping[Symbol, Expr]
    value: Expr
    points: int
    kind: Kind
    smooth: Optimum | None = None
    derivation: Derivation = field(default_factory=Derivation)
    word: str = "minimum"

    @property
    def loss(self) -> float | None:
        """Distance to the continuous optimum, relative."""
        if self.smooth is None:
            return None
        ratio = float(self.value) / float(self.smooth.value)
        return (ratio - 1) if self.word == "minimum" else (1 - ratio)

    @property
    def certificate(self) -> str:
        """Why no whole point is better, and what wholeness costs."""
        said = f"by search of {self.points} points"
        if self.loss is None:
            return said
        side = "above" if self.word == "minimum" else "below"
        return f"{said}; {100 * self.loss:.2g} % {side} the continuous optimum"

    def __getitem__(self, key: Symbol) -> Expr:
        return self.point[key]

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self.point)

    def __len__(self) -> int:
        return len(self.point)

    def __hash__(self) -> int:
        return hash((self.expr, frozenset(self.point.items()), self.kind))

    def inverted(self, expr: Expr) -> WholeOptimum:
        """The same point as the largest value of the reciprocal."""
        smooth = self.smooth and replace(
            self.smooth, expr=expr, value=1 / self.smooth.value, word="maximum"
        )
        return replace(self, expr=expr, value=1 / self.value, smooth=smooth, word="maximum")

    def __repr__(self) -> str:
        where = ", ".join(f"{v} = {value}" for v, value in self.point.items())
        return f"{self.word} {self.value} at {where}, {self.certificate}"

    def _repr_latex_(self) -> str:
        rows = [rf"{to_latex(v)} &= {value}" for v, value in self.point.items()]
        word = r"\min" if self.word == "minimum" else r"\max"
        rows.append(rf"{word} &= {to_latex(self.value)}")
        return r"$\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$"

    def to_dict(self) -> dict[str, Any]:
        """The point, its value and its loss, for JSON."""
        return {
            "kind": f"{self.word} over {self.kind}",
            "expression": str(self.expr),
            "point": {str(v): int(value) for v, value in self.point.items()},
            "value": str(self.value),
            "points": self.points,
            "loss": self.loss,
            "certificate": self.certificate,
            **self.derivation.to_dict(),
        }


def search(
    cost: Expr,
    unknowns: tuple[Symbol, ...],
    constraints: tuple[Eq, ...],
    kind: Kind,
    dividing: Mapping[Symbol, int],
    smooth: Optimum | None,
) -> WholeOptimum:
    """The best of all whole points: in float64 first, ties and near misses decided exactly.

    Raises:
        SolveError: for another kind, an unknown that nothing bounds, a symbol without a number, or
            constraints that no whole point meets.
    """
    if kind not in get_args(Kind):
        hint = near(str(kind), get_args(Kind))
        raise SolveError(f"integer={kind!r}: 'divisors' or 'powers of two'{hint}")
    _check_numbers(cost, unknowns, constraints)
    found = list(_points(unknowns, [_equation(c, unknowns) for c in constraints], kind, dividing))
    if not found:
        raise SolveError(f"no {kind} of {', '.join(map(str, unknowns))} meet the constraints")
    best = _best(cost, unknowns, found)
    point = MappingProxyType(dict(zip(unknowns, map(Integer, best), strict=True)))
    value = cost.xreplace(dict(point))
    steps = Derivation().then("search the whole points", cost, f"{len(found)} of them: all {kind}")
    steps = steps.then("the smallest value", value, "each point was tried")
    if smooth is not None:
        steps = steps.then("the continuous optimum", smooth.value, smooth.certificate)
    return WholeOptimum(cost, point, value, len(found), kind, smooth, steps)


def _check_numbers(cost: Expr, unknowns: tuple[Symbol, ...], constraints: tuple[Eq, ...]) -> None:
    free = set().union(cost.free_symbols, *(c.free_symbols for c in constraints)) - set(unknowns)
    if free:
        names = ", ".join(sorted(map(str, free)))
        raise SolveError(f"a search needs numbers: substitute them for {names}")


def _equation(relation: Eq, unknowns: tuple[Symbol, ...]) -> tuple[tuple[int, ...], int]:
    """A constraint as exponents of the unknowns and the whole number that their product is."""
    bases = Generators(relation.lhs, relation.rhs, *unknowns)
    ratio = bases.fraction(relation.lhs) / bases.fraction(relation.rhs)
    if len(ratio.numer) != 1 or len(ratio.denom) != 1:
        raise SolveError(f"{relation} is no equation of two monomials")
    (over, top), (under, bottom) = ratio.numer.terms()[0], ratio.denom.terms()[0]
    places = [bases.bases.index(v) for v in unknowns]
    powers = tuple(over[p] - under[p] for p in places)
    number = bottom / top
    if all(power <= 0 for power in powers):
        powers, number = tuple(-power for power in powers), 1 / number
    if any(power < 0 for power in powers) or number.denominator != 1:
        raise SolveError(f"{relation}: a product of the unknowns equal to a whole number is wanted")
    return powers, int(number.numerator)


def _points(
    unknowns: tuple[Symbol, ...],
    equations: list[tuple[tuple[int, ...], int]],
    kind: Kind,
    dividing: Mapping[Symbol, int],
) -> Iterator[tuple[int, ...]]:
    """All whole points, one unknown after another, each a divisor of what is left for it."""
    tried = 0

    def extend(done: tuple[int, ...], left: list[int]) -> Iterator[tuple[int, ...]]:
        nonlocal tried
        place = len(done)
        if place == len(unknowns):
            if all(rest == 1 for rest in left):
                yield done
            return
        for value in _choices(unknowns[place], place, equations, left, kind, dividing):
            tried += 1
            if tried > MOST_POINTS:
                raise SolveError(f"more than {MOST_POINTS} whole points; bound the unknowns")
            pairs = zip(left, equations, strict=True)
            rest = [amount // value ** powers[place] for amount, (powers, _) in pairs]
            yield from extend((*done, value), rest)

    yield from extend((), [number for _, number in equations])


def _choices(
    v: Symbol,
    place: int,
    equations: list[tuple[tuple[int, ...], int]],
    left: list[int],
    kind: Kind,
    dividing: Mapping[Symbol, int],
) -> list[int]:
    """The values an unknown may have, given what its equations leave."""
    pairs = zip(equations, left, strict=True)
    uses = [(powers, rest) for (powers, _), rest in pairs if powers[place]]
    limit = dividing.get(v, 0)
    for _, rest in uses:
        limit = gcd(limit, rest)
    if limit == 0:
        raise SolveError(
            f"nothing bounds {v}: give a constraint on a product, or dividing={{{v}: ...}}"
        )
    every = divisors(limit) if kind == "divisors" else _powers_of_two(limit)
    chosen = [
        value for value in every if all(rest % value ** powers[place] == 0 for powers, rest in uses)
    ]
    closing = [(powers[place], rest) for powers, rest in uses if not any(powers[place + 1 :])]
    return [value for value in chosen if all(value**power == rest for power, rest in closing)]


def _powers_of_two(limit: int) -> list[int]:
    lowest = limit & -limit
    return [2**i for i in range(lowest.bit_length())]


def _best(
    cost: Expr, unknowns: tuple[Symbol, ...], found: list[tuple[int, ...]]
) -> tuple[int, ...]:
    """The point of the smallest cost; those within rounding of it are compared exactly."""
    import numpy as np

    used = [i for i, v in enumerate(unknowns) if v in cost.free_symbols]
    columns = np.array(found, dtype=np.float64).T
    values = numeric(cost, *(unknowns[i] for i in used))(*(columns[i] for i in used))
    lowest = np.asarray(values).min()
    close = [found[i] for i in np.flatnonzero(values <= lowest * (1 + _CLOSE))]

    def exactly(point: tuple[int, ...]) -> Expr:
        return cost.xreplace(dict(zip(unknowns, map(Integer, point), strict=True)))

    return min(close, key=exactly) if len(close) > 1 else close[0]
