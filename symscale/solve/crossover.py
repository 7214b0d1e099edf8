"""Where one cost overtakes another: a condition, its converse, and the steps that lead there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from sympy import Expr, Ge, S, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError, near
from symscale.algebra.maximum import Maximum, Minimum
from symscale.algebra.symbols import check_known
from symscale.solve.answer import Crossover, chain
from symscale.solve.arms import arms
from symscale.solve.assume import Given, Sides, with_given, with_mesh
from symscale.solve.cases import Case, all_of, any_of
from symscale.solve.comparison import Comparison, compare_sides
from symscale.solve.dimension import check_sides
from symscale.solve.generators import check_cost
from symscale.solve.roots import ALWAYS
from symscale.solve.stepwise import compare_jumps, jumps


def crossover(a: Any, b: Any, v: Symbol, given: Given | None = None) -> Crossover:
    """Where is ``a >= b``, as the positive ``v`` grows?

    Both sides are rational in powers and roots of ``v`` with positive symbols, maxima of such, or
    ``Piecewise`` with walls in ``v``.
    Where a sign depends on other symbols the answer is split: the first case under ``requires``,
    the next in ``otherwise``. ``given`` (a dict, or equations) is put in first. When one side has
    ``n`` and the other only mesh axes, ``n`` is their product.

    Raises:
        SolveError: when the question has no such answer; the message says why and what to do.
        SymbolError: for a symbol that shares its name with one of the table.
        UnitError: for sides of different units, such as a time against a count of FLOPs.

    >>> from symscale.algebra.symbols import B, C, D, F, W_hbm
    >>> crossover(2 * B * D * F / C, 2 * D * F / W_hbm, B).threshold
    C/W_hbm
    >>> crossover(B**2, F * B + D, B).kind
    'above'
    """
    a, b = check_sides(a, b)
    a, b = check_cost(a, "a"), check_cost(b, "b")
    if not isinstance(v, Symbol):
        raise SolveError(f"v = {v!r} is not a symbol")
    for side in (a, b, v):
        check_known(side)
    _check_present(a, b, v)
    start = Derivation().then(
        "where does this hold", Ge(a, b, evaluate=False), f"asked for {v} > 0"
    )
    sides = with_mesh(with_given(Sides(a, b, (), start), given, v), v)
    made = compare_all(sides.a, sides.b, v)
    if made.identical:
        raise SolveError(f"both sides are the same, {a}: they cross everywhere and nowhere")
    found = chain(made.cases, v, sides.assuming, sides.steps + made.steps, made.jumps)
    return replace(found, undefined=made.undefined)


def compare_all(a: Expr, b: Expr, v: Symbol) -> Comparison:
    """The comparison of two sides: cell by cell where they jump, by arms where they are extrema."""
    if jumps(a, v) or jumps(b, v):
        return compare_jumps(a, b, v, compare_all)
    if not any(v in node.free_symbols for node in (a + b).atoms(Maximum, Minimum)):
        return compare_sides(a, b, v)
    if set(arms(a, v)) == set(arms(b, v)):
        return Comparison([], Derivation(), identical=True)
    made = compare_arms(a, b, v)
    reason = "a maximum is larger where some arm is, and above another where it is above each arm"
    return replace(made, steps=made.steps.then("join the arms", None, reason))


def compare_arms(a: Expr, b: Expr, v: Symbol) -> Comparison:
    """The cases of ``a >= b`` where either may be made of maxima and minima.

    ``max >= b`` where some arm is above; ``a >= max`` where ``a`` is above each arm; for minima the
    other way round.
    """
    for side, kind, join in (
        (1, Maximum, all_of), (0, Maximum, any_of), (0, Minimum, all_of), (1, Minimum, any_of),
    ):  # fmt: skip
        found = arms((a, b)[side], v, kind)
        if len(found) > 1:
            pairs = [(a, arm) if side else (arm, b) for arm in found]
            return _joined([compare_arms(*pair, v) for pair in pairs], join)
    made = compare_sides(a, b, v)
    start = Derivation().then("compare two arms", Ge(a, b, evaluate=False))
    return replace(made, steps=start + made.steps)


def _joined(
    made: list[Comparison], join: Callable[[Iterable[list[Case]]], list[Case]]
) -> Comparison:
    """Several comparisons as one; two arms that are the same hold anywhere."""
    lists = [[Case((), ALWAYS)] if one.identical else one.cases for one in made]
    undefined = tuple(dict.fromkeys(pole for one in made for pole in one.undefined))
    steps = sum((one.steps for one in made), Derivation())
    same = all(one.identical for one in made)
    return Comparison(join(lists), steps, same, undefined)


def _check_present(a: Expr, b: Expr, v: Symbol) -> None:
    names = sorted(map(str, a.free_symbols | b.free_symbols))
    if v not in a.free_symbols | b.free_symbols:
        has = f"they have {', '.join(names)}" if names else "they are numbers"
        raise SolveError(f"{v} is in neither side; {has}{near(str(v), names)}")
    if (a - b) is S.Zero:
        raise SolveError(f"both sides are the same, {a}: they cross everywhere and nowhere")
