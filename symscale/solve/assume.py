"""Relations among symbols put in before solving; among them that n is the product of mesh axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from sympy import Eq, Expr, Mul, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError, SymbolError, near
from symscale.algebra.symbols import BUILT_IN, check_known, info, n, symbol, to_latex
from symscale.solve.generators import Generators, check_cost

Given: TypeAlias = "Mapping[Symbol, Any] | Eq | Iterable[Eq]"


@dataclass(frozen=True)
class Assumptions:
    """Relations among symbols, put in before a question is solved; iterates over them.

    >>> from symscale.algebra.symbols import D, F, H, N
    >>> given(Eq(N * H, D), F=4 * D)
    given F = 4*D, H*N = D
    """

    relations: tuple[Eq, ...]

    def __iter__(self) -> Iterator[Eq]:
        return iter(self.relations)

    def __len__(self) -> int:
        return len(self.relations)

    def put(self, expr: Any) -> Expr:
        """An expression with the relations in it.

        >>> from symscale.algebra.symbols import D, F
        >>> given(F=4 * D).put(3 * D * F)
        12*D**2
        """
        return put_given(check_cost(expr, "expr"), (), self.relations, ())[0]

    def __repr__(self) -> str:
        return "given " + ", ".join(f"{r.lhs} = {r.rhs}" for r in self.relations)

    def _repr_latex_(self) -> str:
        return "$" + r",\; ".join(to_latex(relation) for relation in self.relations) + "$"

    def to_dict(self) -> dict[str, list[str]]:
        """The relations as plain text, for JSON."""
        return {"given": [f"{r.lhs} = {r.rhs}" for r in self.relations]}


def given(*relations: Eq, **named: Any) -> Assumptions:
    """Relations to assume: ``given(F=4*D)``, ``given(Eq(N*H, D), F=4*D)``.

    Hand them to :func:`crossover`, :func:`regimes` or :func:`minimise` as ``given=``; the answer
    lists them.

    Raises:
        SolveError: for what is no equation of monomials.
        SymbolError: for an unknown or foreign symbol.

    >>> from symscale.algebra.symbols import D, F, N, n
    >>> from symscale.solve.crossover import crossover
    >>> crossover(n, 18 * F / D, n, given(F=4 * D))
    n >= 72, with F = 4*D
    """
    made = []
    for name, value in named.items():
        if name not in BUILT_IN:
            raise SolveError(f"given({name}=...): no such symbol{near(name, sorted(BUILT_IN))}")
        made.append(Eq(symbol(name), check_cost(value, name), evaluate=False))
    for relation in (*made, *relations):
        if not isinstance(relation, Eq):
            raise SolveError(f"given({relation!r}): an equation is wanted, Eq(N*H, D)")
        check_known(relation)
    return Assumptions((*made, *relations))


@dataclass(frozen=True)
class Sides:
    """Two sides after substitution, what was assumed, and the steps so far."""

    a: Expr
    b: Expr
    assuming: tuple[Eq, ...] = ()
    steps: Derivation = field(default_factory=Derivation)

    def put(self, relation: Eq, old: Symbol, new: Expr, reason: str) -> Sides:
        """Both sides with ``old`` replaced, the relation noted."""
        swap = {old: new}
        steps = self.steps.then("put in", Eq(old, new, evaluate=False), reason)
        return Sides(
            self.a.xreplace(swap), self.b.xreplace(swap), (*self.assuming, relation), steps
        )


def with_given(sides: Sides, given: Given | None, v: Symbol) -> Sides:
    """The sides after substituting each given relation.

    A relation is ``symbol: expression``, or an equation of two monomials, solved for one of its
    symbols other than ``v``; a product on the left (``Eq(N*H, D)``) gives way to what it equals.

    Raises:
        SolveError: for a relation that is no equation of monomials, or fixes nothing but ``v``.
    """
    for relation in _relations(given):
        check_known(relation)
        old, new = _solved(relation, v)
        sides = sides.put(relation, old, new, "given")
    return sides


def put_given(
    cost: Expr, relations: Iterable[Eq], given: Given | None, kept: Iterable[Symbol]
) -> tuple[Expr, tuple[Eq, ...], Derivation]:
    """A cost and its constraints after substituting each given relation, and the steps.

    The symbols in ``kept`` stay: a relation is solved for another one.
    """
    made = tuple(relations)
    steps = Derivation()
    for relation in _relations(given):
        check_known(relation)
        old, new = _solved(relation, *kept)
        swap = {old: new}
        cost = cost.xreplace(swap)
        made = tuple(
            Eq(one.lhs.xreplace(swap), one.rhs.xreplace(swap), evaluate=False) for one in made
        )
        steps = steps.then("put in", Eq(old, new, evaluate=False), "given")
    return cost, made, steps


def _relations(given: Given | None) -> list[Eq]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        pairs = [(key, check_cost(value, f"given[{key}]")) for key, value in given.items()]
        return [Eq(key, value, evaluate=False) for key, value in pairs]
    found = [given] if isinstance(given, Eq) else list(given)
    for relation in found:
        if not isinstance(relation, Eq):
            raise SolveError(f"given={relation!r}: write a dict or equations, given={{F: 4*D}}")
    return found


def _solved(relation: Eq, *kept: Symbol) -> tuple[Symbol, Expr]:
    left, right = relation.lhs, relation.rhs
    fixed = {*kept, n}
    if _lone(left, right, fixed):
        return left, right
    if not _lone(right, left, fixed):
        return solve_monomial(relation, preferred(relation.free_symbols - set(kept)))
    if isinstance(left, Mul) and all(isinstance(factor, Symbol) for factor in left.args):
        return solve_monomial(relation, preferred(left.free_symbols - fixed) or [right])
    return right, left


def _lone(side: Expr, other: Expr, fixed: set[Symbol]) -> bool:
    """Whether a side is one symbol that can be replaced by the other side."""
    return isinstance(side, Symbol) and side not in other.free_symbols | fixed


def preferred(symbols: Iterable[Symbol]) -> list[Symbol]:
    """Symbols in the order in which to eliminate them: mesh axes first, the last name first."""
    ordered = sorted(symbols, key=str, reverse=True)
    return sorted(ordered, key=lambda s: not is_axis(s))


def solve_monomial(relation: Eq, candidates: Iterable[Symbol]) -> tuple[Symbol, Expr]:
    """A symbol of an equation of monomials, and what it equals.

    >>> from symscale.algebra.symbols import X, Y
    >>> solve_monomial(Eq(X * Y, n), [Y])
    (Y, n/X)

    Raises:
        SolveError: when a side is no monomial, or none of the candidates occurs.
    """
    bases = Generators(relation.lhs, relation.rhs)
    ratio = bases.fraction(relation.lhs) / bases.fraction(relation.rhs)
    if len(ratio.numer) != 1 or len(ratio.denom) != 1:
        raise SolveError(f"{relation} is no equation of two monomials")
    monomial = bases.ratio(ratio.numer, ratio.denom)
    powers = monomial.as_powers_dict()
    for one in candidates:
        power = powers.get(one, 0)
        if power:
            return one, (one**power / monomial) ** (1 / power)
    raise SolveError(f"{relation} fixes none of {', '.join(map(str, candidates)) or 'the symbols'}")


def with_mesh(sides: Sides, v: Symbol) -> Sides:
    """Both sides in n where one has n and the other only mesh axes, whose product n is."""
    axes = sorted({s for s in (sides.a + sides.b).free_symbols if is_axis(s)}, key=str)
    has_n = [n in side.free_symbols for side in (sides.a, sides.b)]
    if not axes or all(has_n) or not any(has_n):
        return sides
    other = sides.b if has_n[0] else sides.a
    if not any(axis in other.free_symbols for axis in axes):
        return sides
    relation = Eq(Mul(*axes), n, evaluate=False)
    free = [axis for axis in axes if axis != v]
    old, new = solve_monomial(relation, free[::-1] or [n])
    return sides.put(relation, old, new, "n is the number of chips: the product of the mesh's axes")


def is_axis(symbol: Symbol) -> bool:
    """Whether the symbol table lists it as the size of a mesh axis."""
    try:
        return info(symbol).kind == "axis"
    except SymbolError:
        return False
