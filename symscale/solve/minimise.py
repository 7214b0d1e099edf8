"""The smallest or largest value of a cost over some unknowns, with the point and a certificate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, overload

from sympy import Eq, Expr, Ge, Gt, Le, Lt, Symbol, Tuple
from sympy.core.relational import Relational

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import check_known
from symscale.solve.assume import Given, put_given
from symscale.solve.generators import check_cost
from symscale.solve.geometric import (
    Program,
    dual_value,
    dual_weights,
    eliminate,
    monomial,
    primal_point,
    program,
    rational,
    with_caps,
)
from symscale.solve.newton import descend
from symscale.solve.optimum import Optimum
from symscale.solve.vertices import largest_value, pieces
from symscale.solve.whole import Kind, WholeOptimum, search


@overload
def minimise(
    expr: Any,
    over: Symbol | Iterable[Symbol],
    subject_to: Relational | Iterable[Relational] = (),
    *,
    given: Given | None = None,
    integer: None = None,
    dividing: Mapping[Symbol, int] | None = None,
) -> Optimum: ...
@overload
def minimise(
    expr: Any,
    over: Symbol | Iterable[Symbol],
    subject_to: Relational | Iterable[Relational] = (),
    *,
    given: Given | None = None,
    integer: Kind,
    dividing: Mapping[Symbol, int] | None = None,
) -> WholeOptimum: ...
def minimise(
    expr: Any,
    over: Symbol | Iterable[Symbol],
    subject_to: Relational | Iterable[Relational] = (),
    *,
    given: Given | None = None,
    integer: Kind | None = None,
    dividing: Mapping[Symbol, int] | None = None,
) -> Optimum | WholeOptimum:
    """The global minimum of a sum of monomials, or of the largest of such, over positive unknowns.

    Constraints are equations or inequalities of two monomials. In closed form when the degree of
    difficulty is zero, and for a maximum of monomials of any degree (in pieces, where it depends on
    the other symbols which terms decide). Otherwise, with numbers for all other symbols, by
    Newton's method in logarithms, with the optimality gap in the certificate.

    Args:
        expr: the cost.
        over: the unknowns.
        subject_to: relations of monomials, such as ``Eq(X*Y, n)`` or ``Le(Y, 8)``.
        given: relations that are put in first.
        integer: ``"divisors"`` or ``"powers of two"``: whole unknowns only, found by exact search
            (:class:`WholeOptimum`, with the loss against the continuous optimum); everything else
            must be a number.
        dividing: with ``integer``, numbers that single unknowns have to divide.

    Raises:
        SolveError: when no minimum is attained, the cost is no posynomial, or no closed form
            exists.

    >>> from symscale.algebra.symbols import X, Y, n
    >>> best = minimise(1 / X + 4 / Y, over=(X, Y), subject_to=Eq(X * Y, n))
    >>> best[X], best[Y], best.value
    (sqrt(n)/2, 2*sqrt(n), 4/sqrt(n))
    >>> minimise(1 / X + 3 / Y, (X, Y), Eq(X * Y, 64), integer="divisors")
    minimum 7/16 at X = 4, Y = 16, by search of 7 points; 1 % above the continuous optimum
    """
    cost = check_cost(expr, "expr")
    check_known(cost)
    unknowns = _unknowns(cost, over)
    constraints, limits = _constraints(subject_to)
    cost, constraints, start = put_given(cost, constraints, given, unknowns)
    if integer is not None:
        if limits:
            raise SolveError("integer=: a search takes equations; bound unknowns with dividing=")
        return whole(cost, unknowns, constraints, integer, dividing or {})
    if dividing:
        raise SolveError("dividing= says what whole unknowns divide: ask with integer=")
    swaps = eliminate(unknowns, constraints)
    made = with_caps(program(cost, unknowns, swaps), swaps, limits)
    found = _solved(cost, made, start + _opening(cost, made))
    ordered = {v: found.point[v] for v in unknowns if v in found.point}
    return replace(found, point=MappingProxyType(ordered), constraint=constraints)


@overload
def maximise(
    expr: Any,
    over: Symbol | Iterable[Symbol],
    subject_to: Relational | Iterable[Relational] = (),
    *,
    given: Given | None = None,
    integer: None = None,
    dividing: Mapping[Symbol, int] | None = None,
) -> Optimum: ...
@overload
def maximise(
    expr: Any,
    over: Symbol | Iterable[Symbol],
    subject_to: Relational | Iterable[Relational] = (),
    *,
    given: Given | None = None,
    integer: Kind,
    dividing: Mapping[Symbol, int] | None = None,
) -> WholeOptimum: ...
def maximise(
    expr: Any,
    over: Symbol | Iterable[Symbol],
    subject_to: Relational | Iterable[Relational] = (),
    *,
    given: Given | None = None,
    integer: Kind | None = None,
    dividing: Mapping[Symbol, int] | None = None,
) -> Optimum | WholeOptimum:
    """The global maximum: the reciprocal of the smallest reciprocal, which must be a posynomial.

    Arguments and errors are those of :func:`minimise`.

    >>> from symscale.algebra.maximum import Minimum
    >>> from symscale.algebra.symbols import D, F, X
    >>> best = maximise(Minimum(D * X, F / X), over=X)
    >>> best[X], best.value
    (sqrt(F)/sqrt(D), sqrt(D)*sqrt(F))
    """
    cost = check_cost(expr, "expr")
    if integer is not None:
        best = minimise(1 / cost, over, subject_to, given=given, integer=integer, dividing=dividing)
        return best.inverted(cost)
    found = minimise(1 / cost, over, subject_to, given=given, dividing=dividing)
    start = Derivation().then("maximise", cost, "as its reciprocal is minimised")
    steps = (start + found.derivation).then("the largest value", 1 / found.value, "the reciprocal")
    return replace(found, expr=cost, value=1 / found.value, derivation=steps, word="maximum")


def whole(
    cost: Expr,
    unknowns: tuple[Symbol, ...],
    constraints: tuple[Eq, ...],
    kind: Kind,
    dividing: Mapping[Symbol, int],
) -> WholeOptimum:
    """The best whole point, beside the continuous optimum where the cost has one."""
    try:
        smooth = minimise(cost, unknowns, constraints)
    except SolveError:
        smooth = None
    return search(cost, unknowns, constraints, kind, dividing, smooth)


def _solved(cost: Expr, made: Program, steps: Derivation) -> Optimum:
    if not made.arms:
        return _fixed(cost, made, steps)
    if (made.is_max or made.caps) and all(len(arm) == 1 for arm in made.arms):
        return _cornered(cost, made, steps)
    if made.degree > 0 or made.caps:
        return _numeric(cost, made, steps)
    weights = dual_weights(made)
    value = dual_value(made, weights)
    point = primal_point(made, weights, value)
    parts = tuple(map(rational, weights))
    steps = _closing(steps, made, parts, value, point)
    certificate = f"geometric program{' (epigraph)' if made.is_max else ''}, degree of difficulty 0"
    return Optimum(cost, point, made.total(value), certificate, (), parts, steps)


def _fixed(cost: Expr, made: Program, steps: Derivation) -> Optimum:
    """The one feasible point, or the one value at all of them."""
    if made.free:
        left = ", ".join(map(str, made.free))
        raise SolveError(f"under the constraint the cost is {made.constant} whatever {left} is")
    point = dict(made.bound)
    return Optimum(cost, point, made.constant, "fixed by the constraints", (), (), steps)


def _cornered(cost: Expr, made: Program, steps: Derivation) -> Optimum:
    """The smallest maximum of monomials: corners of a linear program in logarithms."""
    found = pieces(made)
    value = largest_value(found)
    certificate = f"geometric program (epigraph), degree of difficulty {made.degree}"
    if len(found) == 1:
        parts = tuple(map(rational, found[0].weights))
        steps = _closing(steps, made, parts, value, found[0].point)
        return Optimum(cost, found[0].point, made.total(value), certificate, (), parts, steps)
    for piece in found:
        reason = "a corner: dual weights not below zero"
        steps = steps.then("where these terms are equal", piece.value, reason)
        steps = steps.then("this needs", piece.requires, "no other term is larger there")
    steps = steps.then("the smallest value", value, "the largest corner of the dual, by duality")
    total = made.total(value)
    return Optimum(cost, {}, total, certificate, (), (), steps, found)


def _numeric(cost: Expr, made: Program, steps: Derivation) -> Optimum:
    """The minimum by Newton's method, once everything but the unknowns is a number."""
    coefficients = (*made.coefficients, *made.caps.values())
    others = sorted(map(str, {s for c in coefficients for s in c.free_symbols}))
    if others:
        why = "limits on a sum" if made.caps else f"degree of difficulty {made.degree}"
        raise SolveError(
            f"{why}: no closed form; substitute numbers for {', '.join(others)} to have it "
            "numerically"
        )
    found = descend(made)
    value = made.total(found.value)
    gap = f"numeric, relative gap {found.gap:.1e}"
    steps = steps.then("Newton's method in logarithms", value, f"{gap}, bounded by the dual")
    point = dict(found.point)
    for old, new in made.bound:
        point[old] = new.xreplace(point).evalf()
    return Optimum(cost, point, value, gap, (), found.weights, steps)


def _unknowns(cost: Expr, over: Symbol | Iterable[Symbol]) -> tuple[Symbol, ...]:
    found = (over,) if isinstance(over, Symbol) else tuple(over)
    if not found or not all(isinstance(v, Symbol) for v in found):
        raise SolveError(f"over={over!r}: name the symbols to choose")
    for v in found:
        check_known(v)
    missing = [str(v) for v in found if v not in cost.free_symbols]
    if len(missing) == len(found):
        raise SolveError(f"{cost} has none of {', '.join(missing)}")
    return found


def _constraints(
    subject_to: Relational | Iterable[Relational],
) -> tuple[tuple[Eq, ...], tuple[tuple[Expr, Expr], ...]]:
    """The equations, and the limits as pairs of which the first is at most the second."""
    listed = isinstance(subject_to, Iterable) and not isinstance(subject_to, Expr)
    equations: list[Eq] = []
    limits: list[tuple[Expr, Expr]] = []
    for relation in tuple(subject_to) if listed else (subject_to,):
        if isinstance(relation, Eq):
            equations.append(relation)
        elif isinstance(relation, Ge | Gt | Le | Lt):
            limits.append((relation.lts, relation.gts))
        else:
            raise SolveError(
                f"subject_to={relation!r}: equations of monomials are wanted, Eq(X*Y, n), or "
                "inequalities, Le(Y, 8)"
            )
        check_known(relation)
    return tuple(equations), tuple(limits)


def _opening(cost: Expr, made: Program) -> Derivation:
    steps = Derivation().then(
        "minimise", cost, f"over positive {', '.join(map(str, (*made.free, *dict(made.bound))))}"
    )
    for old, new in made.bound:
        steps = steps.then(
            "the constraint gives", Eq(old, new, evaluate=False), "one unknown fewer"
        )
    if made.constant != 0:
        steps = steps.then("no unknown moves", made.constant, "set aside until the end")
    for term in made.terms():
        steps = steps.then("a term", term, "")
    for exponents, coeff in made.caps.items():
        limit = Le(coeff * monomial(made.free, exponents), 1, evaluate=False)
        steps = steps.then("a limit", limit, "")
    kind = "largest term" if made.is_max else "sum"
    count = f"terms {len(made.rows)}, unknowns {len(made.free)}, degree {made.degree}"
    return steps.then(f"a geometric program for the {kind}", None, f"convex in logarithms; {count}")


def _closing(
    steps: Derivation,
    made: Program,
    weights: tuple[Expr, ...],
    value: Expr,
    point: Mapping[Symbol, Expr],
) -> Derivation:
    steps = steps.then(
        "the dual weights", Tuple(*weights), "with sum 1, and all exponents cancel under them"
    )
    share = "all terms are equal" if made.is_max else "each term is its weight's share of the value"
    steps = steps.then("the smallest value", value, "duality: no point gives less")
    for v, where in point.items():
        steps = steps.then("reached at", Eq(v, where, evaluate=False), share)
    if made.constant != 0:
        steps = steps.then("with what was set aside", made.total(value), "")
    return steps
