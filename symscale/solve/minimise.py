"""The smallest value of a cost over some unknowns, with the point and a certificate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sympy import Eq, Expr, Mul, Rational, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import check_known, to_latex
from symscale.solve.generators import check_cost
from symscale.solve.geometric import (
    Program,
    dual_value,
    dual_weights,
    eliminate,
    parts_of,
    primal_point,
    program,
)
from symscale.solve.newton import descend


@dataclass(frozen=True)
class Optimum(Mapping[Symbol, Expr]):
    """A global minimum: a mapping from each unknown to where it lies.

    ``value`` is the cost there, ``certificate`` says why no point is better, ``weights`` are the
    dual's: each term's share of the value (or of the multipliers, for a maximum).
    """

    expr: Expr
    point: Mapping[Symbol, Expr]
    value: Expr
    certificate: str
    constraint: tuple[Eq, ...] = ()
    weights: tuple[Expr, ...] = ()
    derivation: Derivation = field(default_factory=Derivation)

    def __getitem__(self, key: Symbol) -> Expr:
        return self.point[key]

    def __iter__(self) -> Iterator[Symbol]:
        return iter(self.point)

    def __len__(self) -> int:
        return len(self.point)

    def __hash__(self) -> int:
        return hash((self.expr, frozenset(self.point.items()), self.value, self.constraint))

    def __repr__(self) -> str:
        rows = [f"  {key} = {value}" for key, value in self.point.items()]
        return "\n".join([f"minimum {self.value} at", *rows, f"  ({self.certificate})"])

    def _repr_latex_(self) -> str:
        rows = [rf"{to_latex(key)} &= {to_latex(value)}" for key, value in self.point.items()]
        rows.append(rf"\min &= {to_latex(self.value)}")
        return r"$\begin{aligned}" + r" \\ ".join(rows) + r"\end{aligned}$"

    def to_dict(self) -> dict[str, Any]:
        """The optimum as plain text, for JSON."""
        return {
            "expression": str(self.expr),
            "point": {str(key): str(value) for key, value in self.point.items()},
            "value": str(self.value),
            "certificate": self.certificate,
            "constraint": [str(relation) for relation in self.constraint],
            "weights": [str(weight) for weight in self.weights],
            **self.derivation.to_dict(),
        }


def minimise(
    expr: Any, over: Symbol | Iterable[Symbol], subject_to: Eq | Iterable[Eq] = ()
) -> Optimum:
    """The global minimum of a sum of monomials, or of a maximum of them, over positive unknowns.

    Constraints are equations of two monomials. In closed form when the degree of difficulty is
    zero; for a sum of higher degree with numbers for all other symbols, by Newton's method in
    logarithms with the duality gap in the certificate.

    Raises:
        SolveError: when no minimum is attained, the cost is no posynomial, or no closed form
            exists.

    >>> from symscale.algebra.symbols import X, Y, n
    >>> best = minimise(1 / X + 4 / Y, over=(X, Y), subject_to=Eq(X * Y, n))
    >>> best[X], best[Y], best.value
    (sqrt(n)/2, 2*sqrt(n), 4/sqrt(n))
    """
    cost = check_cost(expr, "expr")
    check_known(cost)
    unknowns = _unknowns(cost, over)
    constraints = _constraints(subject_to)
    swaps = eliminate(unknowns, constraints)
    parts, is_max = parts_of(cost, unknowns)
    made = program(parts, unknowns, swaps, is_max)
    steps = _opening(cost, made)
    if not made.terms:
        return _fixed(cost, made, unknowns, constraints, steps)
    if made.degree > 0:
        return _numeric(cost, made, constraints, steps)
    weights = dual_weights(made)
    value = dual_value(made, weights)
    point = primal_point(made, weights, value)
    ordered = MappingProxyType({v: point[v] for v in unknowns})
    shares = tuple(Rational(w.numerator, w.denominator) for w in weights)
    steps = _closing(steps, made, shares, value, ordered)
    certificate = f"geometric program{' (epigraph)' if is_max else ''}, degree of difficulty 0"
    return Optimum(cost, ordered, made.total(value), certificate, constraints, shares, steps)


def _fixed(
    cost: Expr,
    made: Program,
    unknowns: tuple[Symbol, ...],
    constraints: tuple[Eq, ...],
    steps: Derivation,
) -> Optimum:
    """The one feasible point, or the one value at all of them."""
    if made.free:
        left = ", ".join(map(str, made.free))
        raise SolveError(f"under the constraint the cost is {made.constant} whatever {left} is")
    point = dict(made.bound)
    ordered = MappingProxyType({v: point[v] for v in unknowns})
    return Optimum(cost, ordered, made.constant, "fixed by the constraints", constraints, (), steps)


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


def _constraints(subject_to: Eq | Iterable[Eq]) -> tuple[Eq, ...]:
    listed = isinstance(subject_to, Iterable) and not isinstance(subject_to, Expr)
    found = tuple(subject_to) if listed else (subject_to,)
    for relation in found:
        if not isinstance(relation, Eq):
            raise SolveError(
                f"subject_to={relation!r}: equations of monomials are wanted, Eq(X*Y, n)"
            )
        check_known(relation)
    return found


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
    for exponents, coeff in made.terms.items():
        powers = zip(made.free, exponents, strict=True)
        steps = steps.then("a term", coeff * Mul(*(v**e for v, e in powers)), "")
    kind = "largest term" if made.is_max else "sum"
    count = f"terms {len(made.terms)}, unknowns {len(made.free)}, degree {made.degree}"
    return steps.then(f"a geometric program for the {kind}", None, f"convex in logarithms; {count}")


def _closing(
    steps: Derivation,
    made: Program,
    shares: tuple[Expr, ...],
    value: Expr,
    point: Mapping[Symbol, Expr],
) -> Derivation:
    listed = ", ".join(map(str, shares))
    steps = steps.then(
        f"dual weights {listed}", None, "the only ones with sum 1 under which all exponents cancel"
    )
    share = "all terms are equal" if made.is_max else "each term is its weight's share of the value"
    steps = steps.then("the smallest value", value, "duality: no point gives less")
    for v, where in point.items():
        steps = steps.then("reached at", Eq(v, where, evaluate=False), share)
    if made.constant != 0:
        steps = steps.then("with what was set aside", made.total(value), "")
    return steps


def _numeric(cost: Expr, made: Program, constraints: tuple[Eq, ...], steps: Derivation) -> Optimum:
    """The minimum by Newton's method, once everything but the unknowns is a number."""
    others = sorted(map(str, {s for c in made.terms.values() for s in c.free_symbols}))
    why = f"degree of difficulty {made.degree}: no closed form"
    if made.is_max:
        raise SolveError(f"{why} for a maximum of so many terms; minimise their sum, or drop some")
    if others:
        raise SolveError(
            f"{why}; substitute numbers for {', '.join(others)} to have it numerically"
        )
    found = descend(made)
    value = made.total(found.value)
    gap = f"numeric, relative gap {found.gap:.1e}"
    steps = steps.then("Newton's method in logarithms", value, f"{gap}, bounded by the dual")
    point = dict(found.point)
    for old, new in made.bound:
        point[old] = new.xreplace(point).evalf()
    ordered = MappingProxyType(point)
    return Optimum(cost, ordered, value, gap, constraints, found.weights, steps)
