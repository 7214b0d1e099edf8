"""Costs that jump: ``Piecewise`` sides, cut at their walls into cells that are compared one by one.

Intervals of an answer are closed. At a wall one branch holds and its neighbour only tends to it, so
an answer that would hold up to a wall and not at it is refused; its converse can be asked for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cmp_to_key

from sympy import Expr, Ge, Gt, Le, Lt, Piecewise, S, Symbol, oo
from sympy.core.relational import Relational
from sympy.logic.boolalg import Boolean

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.solve.cases import MOST_CASES, Case, all_of, merge
from symscale.solve.comparison import Comparison
from symscale.solve.roots import ALWAYS
from symscale.solve.signs import MINUS, PLUS, compare

_HOLDS: dict[type, Callable[[int, int], bool]] = {
    Lt: operator.lt, Le: operator.le, Gt: operator.gt, Ge: operator.ge,
}  # fmt: skip
_NOT_NEGATIVE = frozenset({0, 1})


def jumps(expr: Expr, v: Symbol) -> bool:
    """Whether ``v`` stands in a ``Piecewise`` of the expression.

    >>> from symscale.algebra.symbols import C, D
    >>> jumps(D * Piecewise((1, C < D), (3, True)), C), jumps(C, C)
    (True, False)
    """
    return any(v in node.free_symbols for node in expr.atoms(Piecewise))


@dataclass(frozen=True)
class _Line:
    """The half-line of ``v`` with ordered walls: cell i lies at place 2i, wall i at 2i + 1."""

    v: Symbol
    walls: tuple[Expr, ...]

    def at(self, expr: Expr, place: int) -> Expr:
        """The expression with the branches that hold at this place."""
        while jumps(expr, self.v):
            nodes = [n for n in expr.atoms(Piecewise) if self.v in n.free_symbols]
            expr = expr.xreplace({node: self._branch(node, place) for node in nodes})
        return expr

    def _branch(self, node: Piecewise, place: int) -> Expr:
        for value, condition in node.args:
            known = {rel: S(self._true(rel, place)) for rel in condition.atoms(Relational)}
            if condition.xreplace(known) == S.true:
                return value
        raise SolveError(f"{node} has no branch for some {self.v}; end it with (value, True)")

    def _true(self, relation: Relational, place: int) -> bool:
        plain = _plain(relation, self.v)
        return _HOLDS[plain.func](place, 2 * self.walls.index(plain.rhs) + 1)

    def ends(self, cell: int) -> tuple[Expr, Expr]:
        """Where a cell begins and ends."""
        ends = (S.Zero, *self.walls, oo)
        return ends[cell], ends[cell + 1]


def compare_jumps(
    a: Expr, b: Expr, v: Symbol, compare_cell: Callable[[Expr, Expr, Symbol], Comparison]
) -> Comparison:
    """Where ``a >= b``: each cell by ``compare_cell``, joined.

    Raises:
        SolveError: for a condition that does not compare ``v`` with a positive expression, walls
            whose order is not known, no branch somewhere, or an answer with an open end.

    >>> from symscale.solve.crossover import crossover
    >>> from symscale.algebra.symbols import C, D
    >>> crossover(Piecewise((1, C < D), (3, True)), 2, C).condition
    C >= D
    """
    line = _Line(v, _walls(a, b, v))
    cells, told = [], Derivation()
    poles: dict[Boolean, None] = {}
    for cell in range(len(line.walls) + 1):
        low, high = line.ends(cell)
        left, right = line.at(a, 2 * cell), line.at(b, 2 * cell)
        made = compare_cell(left, right, v)
        words = f"the branches for {v} between {low} and {high}"
        told = told.then("compare in a cell", Ge(left, right, evaluate=False), words) + made.steps
        poles |= dict.fromkeys(made.undefined)
        inside = [Case((), ALWAYS)] if made.identical else made.cases
        cells.append(all_of([[Case((), ((low, high),))], inside]))
    for index in range(len(line.walls)):
        _check_closed(line, a - b, index)
    told = told.then("join the cells", None, "each answer holds within its cell")
    return Comparison(_side_by_side(cells), told, undefined=tuple(poles), jumps=True)


def _side_by_side(cells: list[list[Case]]) -> list[Case]:
    """The answers of ordered cells as one; their intervals follow one another."""
    found = [Case((), ())]
    for cases in cells:
        found = merge([_followed(left, right) for left in found for right in cases])
        if len(found) > MOST_CASES:
            raise SolveError(
                "undecided signs make too many cases; substitute numbers for some symbols"
            )
    return [case for case in found if case.requires != S.false]


def _followed(left: Case, right: Case) -> Case:
    """Two cases at once; an interval that begins where the last one ends continues it."""
    intervals = list(left.intervals)
    for low, high in right.intervals:
        start = intervals.pop()[0] if intervals and intervals[-1][1] == low else low
        intervals.append((start, high))
    conditions = tuple(dict.fromkeys((*left.conditions, *right.conditions)))
    why = "; ".join(dict.fromkeys(text for text in (left.why, right.why) if text))
    return Case(conditions, tuple(intervals), why)


def _plain(relation: Relational, v: Symbol) -> Relational:
    """The relation with ``v`` on its left."""
    turned = relation if relation.lhs == v else relation.reversed
    if type(turned) not in _HOLDS or turned.lhs != v or not turned.rhs.is_positive:
        raise SolveError(
            f"the condition {relation} of a piecewise cost does not compare {v} with a positive "
            f"expression; write it as {v} < wall"
        )
    return turned


def _walls(a: Expr, b: Expr, v: Symbol) -> tuple[Expr, ...]:
    nodes = [node for node in a.atoms(Piecewise) | b.atoms(Piecewise) if v in node.free_symbols]
    relations = {rel for node in nodes for _, cond in node.args for rel in cond.atoms(Relational)}
    found = {_plain(relation, v).rhs for relation in relations}
    return tuple(sorted(sorted(found, key=str), key=cmp_to_key(_order)))


def _order(one: Expr, other: Expr) -> int:
    signs = compare(other, one).signs
    if signs not in (PLUS, MINUS):
        raise SolveError(
            f"whether a piecewise cost changes at {one} or at {other} first is not known; "
            "substitute numbers"
        )
    return 1 if signs == PLUS else -1


def _check_closed(line: _Line, gap: Expr, index: int) -> None:
    """Refuse an answer that holds in a cell up to this wall, and not at the wall."""
    wall = line.walls[index]
    own, before, after = (
        line.at(gap, 2 * index + 1 + step).subs(line.v, wall) for step in (0, -1, 1)
    )
    for other in (before, after):
        holds_too = (compare(S.Zero, own - other), compare(S.Zero, own))
        if any(found.signs <= _NOT_NEGATIVE for found in holds_too):
            continue
        if not compare(S.Zero, other).signs <= MINUS:
            raise SolveError(
                f"at {line.v} = {wall} the sides jump, and the answer may lose that end; ask for "
                "the converse (the sides exchanged), or substitute numbers"
            )
