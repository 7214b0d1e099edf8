"""Geometric programs: posynomials in logarithms, where a stationary point is the global minimum.

With ``m`` monomials in ``k`` independent unknowns the degree of difficulty is ``m - k - 1``. At
degree zero the dual weights follow from a linear system, and with them the minimum and its point.
The largest of several sums is minimised through its epigraph: the smallest bound on all of them.

Source: Duffin, Peterson and Zener, Geometric Programming (1967); Boyd et al., A tutorial on
geometric programming (2007).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sympy import Eq, Expr, Mul, Rational, S, Symbol, factor_terms

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.arms import arms
from symscale.solve.assume import preferred, solve_monomial
from symscale.solve.cone import Vector, rank, solve_linear
from symscale.solve.generators import Generators, Poly

Monomials = dict[Vector, Expr]


@dataclass(frozen=True)
class Program:
    """Arms of monomials ``coefficient * prod(free**exponents)``; the largest arm's sum counts.

    ``bound`` are the unknowns that follow from the free ones. ``constant`` is what no unknown
    moves: a summand, or an arm of its own where ``is_max`` says that the largest arm counts.
    ``caps`` are monomials that must not exceed 1.
    """

    free: tuple[Symbol, ...]
    bound: tuple[tuple[Symbol, Expr], ...]
    arms: tuple[Monomials, ...]
    constant: Expr
    is_max: bool
    caps: Monomials = field(default_factory=dict)

    @property
    def rows(self) -> tuple[Vector, ...]:
        """The exponents of every term of every arm."""
        return tuple(exponents for arm in self.arms for exponents in arm)

    @property
    def coefficients(self) -> tuple[Expr, ...]:
        """The coefficient of every term, in the order of the rows."""
        return tuple(coeff for arm in self.arms for coeff in arm.values())

    @property
    def arm_of(self) -> tuple[int, ...]:
        """The arm that each row belongs to."""
        return tuple(place for place, arm in enumerate(self.arms) for _ in arm)

    @property
    def degree(self) -> int:
        """The degree of difficulty, limits counted as terms."""
        rows = (*self.rows, *self.caps)
        return len(rows) - rank(rows) - 1

    def terms(self) -> Iterator[Expr]:
        """Every term as an expression in the free unknowns."""
        for exponents, coeff in zip(self.rows, self.coefficients, strict=True):
            yield coeff * monomial(self.free, exponents)

    def total(self, value: Expr) -> Expr:
        """The objective, from the part that the unknowns move."""
        if self.constant == 0:
            return value
        return Maximum(self.constant, value) if self.is_max else self.constant + value


def monomial(symbols: tuple[Symbol, ...], exponents: Vector) -> Expr:
    """A product of powers."""
    return Mul(*(v ** rational(e) for v, e in zip(symbols, exponents, strict=True)))


def eliminate(over: tuple[Symbol, ...], constraints: tuple[Eq, ...]) -> dict[Symbol, Expr]:
    """Each constraint solved for one unknown, in terms of those left."""
    swaps: dict[Symbol, Expr] = {}
    for relation in constraints:
        left = relation.lhs.xreplace(swaps), relation.rhs.xreplace(swaps)
        open_ones = [v for v in over if v not in swaps]
        if left[0] == left[1]:
            continue
        old, new = solve_monomial(Eq(*left, evaluate=False), preferred(open_ones))
        swaps = {key: value.xreplace({old: new}) for key, value in swaps.items()} | {old: new}
    return swaps


def program(cost: Expr, over: tuple[Symbol, ...], swaps: Mapping[Symbol, Expr]) -> Program:
    """The geometric program of a sum of monomials, or of a maximum of such sums.

    Raises:
        SolveError: when a part is no posynomial in the unknowns.
    """
    free = tuple(v for v in over if v not in swaps)
    still = (Fraction(0),) * len(free)
    found = [monomials(arm.xreplace(dict(swaps)), free) for arm in arms_of(cost, over)]
    if len(found) == 1:
        constant = found[0].pop(still, S.Zero)
        return Program(free, tuple(swaps.items()), tuple(filter(None, found)), constant, False)
    fixed = [arm[still] for arm in found if set(arm) == {still}]
    moving = _merged([arm for arm in found if set(arm) != {still}])
    constant = Maximum(*fixed) if fixed else S.Zero
    return Program(free, tuple(swaps.items()), moving, constant, True)


def _merged(found: list[Monomials]) -> tuple[Monomials, ...]:
    """Arms that are one monomial with like exponents as one arm, its coefficient the larger."""
    single: Monomials = {}
    sums: list[Monomials] = []
    for arm in found:
        if len(arm) > 1:
            sums += [arm] if arm not in sums else []
            continue
        ((exponents, coeff),) = arm.items()
        single[exponents] = Maximum(single.get(exponents, S.Zero), coeff)
    return (*({key: value} for key, value in single.items()), *sums)


def with_caps(
    made: Program, swaps: Mapping[Symbol, Expr], limits: tuple[tuple[Expr, Expr], ...]
) -> Program:
    """The program under further limits, each a monomial that is at most another.

    Raises:
        SolveError: for a limit that is no inequality of monomials in the unknowns.
    """
    caps: Monomials = {}
    for low, high in limits:
        ratio = (low / high).xreplace(dict(swaps))
        found = monomials(ratio, made.free)
        if len(found) != 1:
            raise SolveError(f"{low} <= {high}: an inequality of two monomials is wanted")
        ((exponents, coeff),) = found.items()
        caps[exponents] = Maximum(caps.get(exponents, S.Zero), coeff)
    return replace(made, caps=caps)


def arms_of(cost: Expr, over: tuple[Symbol, ...]) -> tuple[Expr, ...]:
    """The arms of a cost's maximum over these unknowns; the cost itself where it has none."""
    found: tuple[Expr, ...] = (cost,)
    for v in over:
        found = tuple(dict.fromkeys(arm for part in found for arm in arms(part, v)))
    return found


def monomials(expr: Expr, free: tuple[Symbol, ...]) -> Monomials:
    """Coefficients by exponents of the unknowns.

    Raises:
        SolveError: for an expression that is no sum of monomials in them, positive as they are.
    """
    bases = Generators(expr, *free)
    for v in free:
        hidden = bases.opaque_over(v)
        if hidden is not None:
            raise SolveError(f"{v} stands inside {hidden}; a sum of monomials is wanted")
    fraction = bases.fraction(expr)
    places = [bases.bases.index(v) for v in free]
    if any(e[p] != f[p] for p in places for e in fraction.denom for f in fraction.denom):
        raise SolveError(f"{expr} is no sum of monomials in {', '.join(map(str, free))}")
    shift = next(iter(fraction.denom))
    grouped: dict[Vector, dict[tuple[int, ...], Poly]] = {}
    for exponents, coeff in fraction.numer.terms():
        key = tuple(Fraction(exponents[p] - shift[p], bases.roots[p]) for p in places)
        rest = tuple(0 if i in places else e for i, e in enumerate(exponents))
        grouped.setdefault(key, {})[rest] = coeff
    ring = fraction.numer.ring
    below = {
        tuple(0 if i in places else e for i, e in enumerate(x)): c
        for x, c in fraction.denom.terms()
    }
    out = {
        key: bases.ratio(ring.from_dict(part), ring.from_dict(below))
        for key, part in grouped.items()
    }
    _check_positive(out, expr)
    return out


def _check_positive(terms: Monomials, expr: Expr) -> None:
    for coeff in terms.values():
        if coeff.is_positive is not True:
            raise SolveError(
                f"{expr} has the coefficient {coeff}, which is not known to be positive"
            )


def dual_weights(made: Program) -> list[Fraction]:
    """The weights with sum one under which all exponents cancel; all positive, or no minimum.

    Raises:
        SolveError: when the infimum is not attained.
    """
    one = Fraction(1)
    columns = [(*exponents, one) for exponents in made.rows]
    target = (*(Fraction(0) for _ in made.free), one)
    weights = solve_linear(columns, target)
    if weights is None or any(weight <= 0 for weight in weights):
        raise SolveError(unattained(made.free))
    return weights


def unattained(free: tuple[Symbol, ...]) -> str:
    """What to say where a cost falls without end."""
    names = ", ".join(map(str, free))
    return (
        f"no minimum is attained: some direction in {names} lowers the cost without end; "
        "bound it with a constraint, or add the term that grows there"
    )


def shares(made: Program, weights: list[Fraction]) -> list[Fraction]:
    """Each term's part of its arm: its weight over that of the whole arm."""
    totals = [Fraction(0)] * len(made.arms)
    for place, weight in zip(made.arm_of, weights, strict=True):
        totals[place] += weight
    pairs = zip(made.arm_of, weights, strict=True)
    return [weight / totals[place] for place, weight in pairs]


def dual_value(made: Program, weights: list[Fraction]) -> Expr:
    """``prod((c/share)**w)``: for a sum ``prod((c/w)**w)``, for a maximum ``prod(c**w)``."""
    parts = zip(made.coefficients, shares(made, weights), weights, strict=True)
    return Mul(*(power(coeff / rational(share), rational(w)) for coeff, share, w in parts))


def primal_point(made: Program, weights: list[Fraction], value: Expr) -> dict[Symbol, Expr]:
    """The unknowns at which each term has its share of the value.

    Raises:
        SolveError: when the cost leaves an unknown open.
    """
    rows = made.rows
    if rank(rows) < len(made.free):
        names = ", ".join(map(str, made.free))
        raise SolveError(f"the cost does not fix each of {names}: only a product of them")
    parts = shares(made, weights)
    point: dict[Symbol, Expr] = {}
    for place, v in enumerate(made.free):
        unit = tuple(Fraction(int(i == place)) for i in range(len(made.free)))
        mix = _combination(rows, unit)
        factors = [
            power(rational(share) * value / coeff, rational(m))
            for coeff, share, m in zip(made.coefficients, parts, mix, strict=True)
        ]
        point[v] = Mul(*factors)
    return with_bound(made, point)


def with_bound(made: Program, point: Mapping[Symbol, Expr]) -> dict[Symbol, Expr]:
    """The point with the unknowns that follow from it."""
    out = dict(point)
    for old, new in made.bound:
        out[old] = spread(new.xreplace(dict(point)))
    return out


def _combination(rows: tuple[Vector, ...], target: Vector) -> list[Fraction]:
    """Weights over independent rows that add up to the target; others get zero."""
    chosen: list[int] = []
    for i, row in enumerate(rows):
        if rank([*(rows[j] for j in chosen), row]) > len(chosen):
            chosen.append(i)
    found = solve_linear([rows[i] for i in chosen], target)
    assert found is not None
    out = [Fraction(0)] * len(rows)
    for i, weight in zip(chosen, found, strict=True):
        out[i] = weight
    return out


def power(base: Expr, exponent: Rational) -> Expr:
    """A positive expression to a power, spread over its factors."""
    return spread(factor_terms(base) ** exponent)


def spread(expr: Expr) -> Expr:
    """Powers of products as products of powers; all bases are positive."""
    return expr.expand(power_base=True, power_exp=False, mul=False, multinomial=False, log=False)


def rational(value: Fraction) -> Rational:
    """The fraction as SymPy's."""
    return Rational(value.numerator, value.denominator)
