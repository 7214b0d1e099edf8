"""``a >= b`` for two plain sides: cleared denominators, coefficients by sign, roots.

Every step is recorded while it is made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import mul

from sympy import Expr, Ge, S, Symbol
from sympy.functions.elementary.integers import RoundFunction
from sympy.logic.boolalg import Boolean

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum, Minimum
from symscale.solve.cases import Case, converse, merge
from symscale.solve.factors import factored_cases
from symscale.solve.generators import Generators, Poly, Ratio, common_monomial
from symscale.solve.roots import ALWAYS, Branch, RootFinder, Unknown, join, polynomial_in
from symscale.solve.signs import MINUS, MOST_FACTORED, PLUS, ZERO, SignReader, Signs

Multiplier = tuple[Poly, int, bool]  # a factor, its multiplicity, whether it is in the denominator
_WORDS = {PLUS: "positive", MINUS: "negative"}


@dataclass(frozen=True)
class Comparison:
    """The cases in which ``a >= b`` and where, with the steps common to all of them.

    ``undefined`` are the equations under which a side is infinite; ``jumps`` says that a side has
    walls, at which it may pass the other without being equal.
    """

    cases: list[Case]
    steps: Derivation
    identical: bool = False
    undefined: tuple[Boolean, ...] = ()
    jumps: bool = False


def compare_sides(a: Expr, b: Expr, v: Symbol) -> Comparison:
    """Where ``a >= b`` in ``v > 0``, for sides that are rational in powers and roots of ``v``.

    Raises:
        SolveError: when ``v`` stands inside a rounding or a root of a sum, a base is not
            positive, or no closed form is offered.
    """
    bases = Generators(a, b, v)
    hidden = bases.opaque_over(v)
    if hidden is not None:
        raise SolveError(_hidden(hidden, v))
    return compare_ratios(SignReader(bases), bases.fraction(a), bases.fraction(b), v)


def compare_ratios(reader: SignReader, left: Ratio, right: Ratio, v: Symbol) -> Comparison:
    """Where one ratio of polynomials is at least another, both over the reader's bases."""
    gap = left - right
    if not gap:
        return Comparison([], Derivation(), identical=True)
    return _solve(reader, gap, v, (left.denom, right.denom))


def _hidden(base: Expr, v: Symbol) -> str:
    if base.has(RoundFunction):
        return (
            f"{v} stands inside a rounding, {base}; drop the rounding to get the smooth crossover"
        )
    if base.has(Maximum, Minimum):
        return f"{v} stands inside a maximum that cannot be drawn out, {base}; ask for each arm"
    where = "under a root of" if base.is_Add else "inside"
    return f"{v} stands {where} {base}; sums of powers and roots of {v} alone can be solved"


def _solve(reader: SignReader, gap: Ratio, v: Symbol, denoms: tuple[Poly, ...]) -> Comparison:
    bases = reader.bases
    multiplier, parts = _separate(reader, gap, v)
    core = reduce(mul, (part**times for part, times in parts), gap.numer.ring.one)
    coeffs, power = bases.collect(core, v)
    unknown = Unknown(v, power)
    steps = _steps(reader, multiplier, coeffs, unknown)
    open_ones = sum(1 for part, _ in parts if reader.plain_sign(part) is None)
    if open_ones == 2 and not all(map(bases.is_numeric, coeffs)):
        cases, told = factored_cases(reader, parts, v)
        cases = [
            case for known, sign in _multiplier_cases(reader, multiplier)
            for case in _under(_conditions(reader, known.items()), cases, sign)
        ]  # fmt: skip
        steps = steps + told
    else:
        finder = RootFinder(reader, unknown)
        found = [
            branch for known, sign in _multiplier_cases(reader, multiplier)
            for branch in _branches(finder, coeffs, known, sign)
        ]  # fmt: skip
        cases = [_case(reader, branch) for branch in join(found)]
    return Comparison(merge(cases), steps, undefined=_poles(reader, denoms))


def _branches(
    finder: RootFinder, coeffs: list[Poly], known: dict[Poly, Signs], sign: int
) -> list[Branch]:
    if sign == 0:
        return [Branch(tuple(known.items()), ALWAYS, "both sides are equal")]
    return finder.branches([c if sign > 0 else -c for c in coeffs], known)


def _under(conditions: tuple[Boolean, ...], cases: list[Case], sign: int) -> list[Case]:
    """The cases of a polynomial times a factor of this sign, which these conditions give it."""
    if sign == 0:
        return [Case(conditions, ALWAYS, "both sides are equal")]
    turned = cases if sign > 0 else converse(cases)
    return [Case((*conditions, *case.conditions), case.intervals, case.why) for case in turned]


def _poles(reader: SignReader, denoms: tuple[Poly, ...]) -> tuple[Boolean, ...]:
    """Where a denominator vanishes, if it can: there a side is infinite."""
    cores = (core for poly in denoms for core, _ in reader.factors(poly)[1])
    return tuple(reader.relation(core, ZERO) for core in dict.fromkeys(cores))


def _separate(
    reader: SignReader, gap: Ratio, v: Symbol
) -> tuple[list[Multiplier], list[tuple[Poly, int]]]:
    """The gap's sign as that of factors free of the unknown times polynomials in it.

    A denominator counts like a factor of the numerator: both have the quotient's sign.
    """
    place = reader.bases.bases.index(v)
    common, numerator = _content(reader, common_monomial(gap.numer)[2], v)
    multiplier: list[Multiplier] = []
    with_v: list[tuple[Poly, int]] = []
    for poly, below in ((common, False), (numerator, False), (gap.denom, True)):
        plain = reader.plain_sign(poly) if below else None
        unit, parts = (plain, ()) if plain is not None else _factors(reader, poly, place)
        if unit == -1:
            with_v.append((gap.numer.ring(-1), 1))
        for part, times in parts:
            if any(exponents[place] for exponents in part):
                with_v.append((part, times))
            else:
                multiplier.append((part, times, below))
    return multiplier, with_v


def _content(reader: SignReader, poly: Poly, v: Symbol) -> tuple[Poly, Poly]:
    """A factor of either sign that all coefficients in ``v`` share, and the rest."""
    coeffs = [c for c in reader.bases.collect(poly, v)[0] if c]
    if any(reader.plain_sign(c) is not None for c in coeffs):
        return poly.ring.one, poly
    common = reduce(lambda left, right: left.gcd(right), coeffs)
    return common, poly.exquo(common)


def _factors(
    reader: SignReader, poly: Poly, place: int
) -> tuple[int, tuple[tuple[Poly, int], ...]]:
    """A unit sign and the factors whose sign is open; what is linear in the unknown stays whole."""
    degree = poly.degree(place)
    if degree <= 0:
        return reader.factors(poly)
    if degree == 1 or len(poly) > MOST_FACTORED:
        return 1, ((poly, 1),)
    lead, parts = poly.factor_list()
    unit = 1 if lead > 0 else -1
    signs = [(part, times, reader.plain_sign(part)) for part, times in parts]
    for _, times, plain in signs:
        unit *= 1 if plain is None else plain**times
    return unit, tuple((part, times) for part, times, plain in signs if plain is None)


def _multiplier_cases(
    reader: SignReader, multiplier: list[Multiplier]
) -> list[tuple[dict[Poly, Signs], int]]:
    """Each sign that the factors free of the unknown can have, and the condition behind it.

    A denominator of zero makes a side infinite, and nothing is said of it.
    """
    cases: list[tuple[dict[Poly, Signs], int]] = [({}, 1)]
    for part, times, below in multiplier:
        unit, ((core, _),) = reader.factors(part)
        split = _sign_split(unit, times, below)
        cases = [({**known, core: s}, sign * t) for known, sign in cases for s, t in split]
    return cases


def _sign_split(unit: int, times: int, below: bool) -> tuple[tuple[Signs, int], ...]:
    """The signs of a core grouped by the sign of ``(unit * core)**times``."""
    if times % 2 == 0:
        return ((PLUS | MINUS, 1),) if below else ((PLUS | MINUS, 1), (ZERO, 0))
    plus, minus = (PLUS, MINUS) if unit > 0 else (MINUS, PLUS)
    if below:
        return ((plus, 1), (minus, -1))
    return ((plus, 1), (minus, -1), (ZERO, 0))


def _case(reader: SignReader, branch: Branch) -> Case:
    return Case(_conditions(reader, branch.known), branch.intervals, branch.why)


def _conditions(reader: SignReader, known: Iterable[tuple[Poly, Signs]]) -> tuple[Boolean, ...]:
    made = (reader.relation(core, signs) for core, signs in known)
    return tuple(condition for condition in made if condition != S.true)


def _steps(
    reader: SignReader, multiplier: list[Multiplier], coeffs: list[Poly], unknown: Unknown
) -> Derivation:
    bases, v = reader.bases, unknown.v
    cleared = Ge(polynomial_in(bases, coeffs, unknown), 0, evaluate=False)
    out = Derivation().then(
        "clear denominators and positive factors, collect", cleared, f"all symbols positive; in {v}"
    )
    for part, _, below in multiplier:
        where = "denominator" if below else "difference"
        statement = f"a factor of the {where} that may have either sign"
        out = out.then(statement, bases.expr(part), "the answer is split by it")
    for place, coeff in reversed(list(enumerate(coeffs))):
        if not coeff:
            continue
        signs = reader.signs(coeff, {})
        term = bases.expr(coeff) * v ** (unknown.power * place)
        word = _WORDS.get(signs, "of either sign, by the other symbols")
        out = out.then(f"a term in {v}" if place else "the constant term", term, word)
    return out
