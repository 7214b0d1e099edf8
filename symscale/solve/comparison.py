"""``a >= b`` for two plain sides: cleared denominators, coefficients by sign, roots.

Every step is recorded while it is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from sympy import Add, Expr, Ge, Mul, Pow, S, Symbol
from sympy.functions.elementary.integers import RoundFunction

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.cases import Case, merge
from symscale.solve.generators import Generators, Poly, Ratio, common_monomial
from symscale.solve.roots import ALWAYS, Branch, RootFinder, Unknown, join, polynomial_in
from symscale.solve.signs import ANY, MINUS, MOST_FACTORED, PLUS, ZERO, SignReader, Signs

Multiplier = tuple[Poly, int, bool]  # a factor, its multiplicity, whether it is in the denominator
MOST_ARMS = 64
_WORDS = {PLUS: "positive", MINUS: "negative"}


@dataclass(frozen=True)
class Comparison:
    """The cases in which ``a >= b`` and where, with the steps common to all of them."""

    cases: list[Case]
    steps: Derivation
    identical: bool = False


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
    gap = bases.fraction(a) - bases.fraction(b)
    if not gap:
        return Comparison([], Derivation(), identical=True)
    return _solve(bases, gap, v)


def _hidden(base: Expr, v: Symbol) -> str:
    if base.has(RoundFunction):
        return (
            f"{v} stands inside a rounding, {base}; drop the rounding to get the smooth crossover"
        )
    if base.has(Maximum):
        return f"{v} stands inside a maximum that cannot be drawn out, {base}; ask for each arm"
    where = "under a root of" if base.is_Add else "inside"
    return f"{v} stands {where} {base}; sums of powers and roots of {v} alone can be solved"


def _solve(bases: Generators, gap: Ratio, v: Symbol) -> Comparison:
    reader = SignReader(bases)
    multiplier, core = _separate(reader, gap, v)
    coeffs, power = bases.collect(core, v)
    unknown = Unknown(v, power)
    finder = RootFinder(reader, unknown)
    found: list[Branch] = []
    for known, sign in _multiplier_cases(reader, multiplier):
        if sign == 0:
            found.append(Branch(tuple(known.items()), ALWAYS, "both sides are equal"))
            continue
        oriented = [c if sign > 0 else -c for c in coeffs]
        found += finder.branches(oriented, known)
    cases = merge([_case(reader, branch) for branch in join(found)])
    return Comparison(cases, _steps(reader, multiplier, coeffs, unknown))


def _separate(reader: SignReader, gap: Ratio, v: Symbol) -> tuple[list[Multiplier], Poly]:
    """The gap's sign as that of factors free of the unknown times a polynomial in it.

    A denominator counts like a factor of the numerator: both have the quotient's sign.
    """
    place = reader.bases.bases.index(v)
    common, numerator = _content(reader, common_monomial(gap.numer)[2], v)
    multiplier, core = [], gap.numer.ring.one
    for poly, below in ((common, False), (numerator, False), (gap.denom, True)):
        plain = reader.plain_sign(poly) if below else None
        unit, parts = (plain, ()) if plain is not None else _factors(reader, poly, place)
        core = core * unit
        for part, times in parts:
            if any(exponents[place] for exponents in part):
                core = core * part**times
            else:
                multiplier.append((part, times, below))
    return multiplier, core


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

    A denominator of zero makes a side infinite; it is listed with the positive ones.
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
        return ((ANY, 1),) if below else ((PLUS | MINUS, 1), (ZERO, 0))
    plus, minus = (PLUS, MINUS) if unit > 0 else (MINUS, PLUS)
    if below:
        return ((plus | ZERO, 1), (minus, -1))
    return ((plus, 1), (minus, -1), (ZERO, 0))


def _case(reader: SignReader, branch: Branch) -> Case:
    conditions = tuple(reader.relation(core, signs) for core, signs in branch.known)
    return Case(tuple(c for c in conditions if c != S.true), branch.intervals, branch.why)


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


def arms(expr: Expr, v: Symbol) -> tuple[Expr, ...]:
    """The plain expressions whose maximum this is: maxima over ``v`` drawn out of sums, products.

    >>> from symscale.algebra.symbols import B, D
    >>> arms(2 * Maximum(B, D) + 1, B)
    (2*B + 1, 2*D + 1)

    Raises:
        SolveError: when there are too many combinations to compare.
    """
    return tuple(dict.fromkeys(_arms(expr, v)))


def _arms(expr: Expr, v: Symbol) -> list[Expr]:
    if not any(v in node.free_symbols for node in expr.atoms(Maximum)):
        return [expr]
    if isinstance(expr, Maximum):
        return [arm for arg in expr.args for arm in _arms(arg, v)]
    if isinstance(expr, Add) or (
        isinstance(expr, Mul) and all(arg.is_nonnegative for arg in expr.args)
    ):
        return _combined(expr.func, [_arms(arg, v) for arg in expr.args])
    if isinstance(expr, Pow) and expr.exp.is_positive and expr.base.is_nonnegative:
        return [arm**expr.exp for arm in _arms(expr.base, v)]
    return [expr]


def _combined(join: type[Expr], lists: list[list[Expr]]) -> list[Expr]:
    out: list[list[Expr]] = [[]]
    for found in lists:
        out = [[*left, right] for left in out for right in found]
        if len(out) > MOST_ARMS:
            raise SolveError(
                f"more than {MOST_ARMS} combinations of maxima; compare stage by stage"
            )
    return [join(*parts) for parts in out]
