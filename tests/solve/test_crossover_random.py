"""Random posynomials: the condition against plain arithmetic on both sides of every threshold."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import assume, given, settings
from sympy import Rational, Symbol

from symscale.algebra.errors import SolveError
from symscale.algebra.maximum import Maximum
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from tests.solve.posynomials import VALUES, Posynomial, V, posynomials, probes, to_expr, value


def ask(a: Posynomial, b: Posynomial) -> Crossover:
    left, right = to_expr(a), to_expr(b)
    assume(V in left.free_symbols | right.free_symbols)
    try:
        return crossover(left, right, V)
    except SolveError as error:
        assume("both sides are the same" not in str(error))
        raise


def agree(found: Crossover, a: Posynomial, b: Posynomial, values: dict[Symbol, int]) -> None:
    numbers = found.at(values)
    for v in probes(numbers.thresholds):
        left, right = value(a, v, values), value(b, v, values)
        if isinstance(left - right, float) and abs(left - right) < 1e-9 * (left + right):
            continue
        at = {V: Rational(v.numerator, v.denominator)}
        assert found.holds(values, at) == (left >= right)
        assert numbers.holds(at) == (left >= right)


@settings(max_examples=60)
@given(posynomials(0, 1), posynomials(0, 1), VALUES)
def test_linear(a: Posynomial, b: Posynomial, values: dict[Symbol, int]) -> None:
    agree(ask(a, b), a, b, values)


@settings(max_examples=40)
@given(posynomials(0, 1, 2), posynomials(0, 1, 2), VALUES)
def test_quadratic(a: Posynomial, b: Posynomial, values: dict[Symbol, int]) -> None:
    agree(ask(a, b), a, b, values)


@settings(max_examples=40)
@given(
    posynomials(0, Fraction(1, 2), 1, most=2), posynomials(Fraction(1, 2), -1, 0, most=1), VALUES
)
def test_roots_and_reciprocals(a: Posynomial, b: Posynomial, values: dict[Symbol, int]) -> None:
    try:
        found = ask(a, b)
    except SolveError as error:
        if "substitute numbers" not in str(error):
            raise
        return
    agree(found, a, b, values)


@settings(max_examples=40)
@given(posynomials(0, 1, 2, 3, 5), posynomials(0, 1, 3, 4), VALUES)
def test_numbers_of_any_degree(a: Posynomial, b: Posynomial, values: dict[Symbol, int]) -> None:
    left, right = to_expr(a).subs(values), to_expr(b).subs(values)
    assume(V in left.free_symbols | right.free_symbols and left - right != 0)
    agree(crossover(left, right, V), a, b, values)


@settings(max_examples=25)
@given(posynomials(0, 1, most=1), posynomials(0, 1, most=1), posynomials(0, 1, most=2), VALUES)
def test_maxima(a: Posynomial, b: Posynomial, c: Posynomial, values: dict[Symbol, int]) -> None:
    left, right = Maximum(to_expr(a), to_expr(b)), to_expr(c)
    assume(V in left.free_symbols | right.free_symbols)
    for turned in (False, True):
        sides = (right, left) if turned else (left, right)
        try:
            found = crossover(*sides, V)
        except SolveError as error:
            if "the same" not in str(error):
                raise
            continue
        for v in probes(found.at(values).thresholds):
            top, plain = max(value(a, v, values), value(b, v, values)), value(c, v, values)
            holds = plain >= top if turned else top >= plain
            assert found.holds(values, {V: Rational(v.numerator, v.denominator)}) == holds
