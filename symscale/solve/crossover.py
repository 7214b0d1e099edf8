"""Where one cost overtakes another: a condition, its converse, and the steps that lead there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sympy import Expr, Ge, S, Symbol

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError, near
from symscale.algebra.symbols import check_known
from symscale.solve.answer import Crossover, chain
from symscale.solve.assume import Given, Sides, with_given, with_mesh
from symscale.solve.cases import Case, all_of, any_of
from symscale.solve.comparison import arms, compare_sides
from symscale.solve.generators import check_cost
from symscale.solve.roots import ALWAYS


def crossover(a: Any, b: Any, v: Symbol, given: Given | None = None) -> Crossover:
    """Where is ``a >= b``, as the positive ``v`` grows?

    Both sides are rational in powers and roots of ``v`` with positive symbols, or maxima of such.
    Where a sign depends on other symbols the answer is split: the first case under ``requires``,
    the next in ``otherwise``. ``given`` (a dict, or equations) is put in first. When one side has
    ``n`` and the other only mesh axes, ``n`` is their product.

    Raises:
        SolveError: when the question has no such answer; the message says why and what to do.
        SymbolError: for a symbol that shares its name with one of the table.

    >>> from symscale.algebra.symbols import B, C, D, F, W_hbm
    >>> crossover(2 * B * D * F / C, 2 * D * F / W_hbm, B).threshold
    C/W_hbm
    >>> crossover(B**2, F * B + D, B).kind
    'above'
    """
    a, b = check_cost(a, "a"), check_cost(b, "b")
    if not isinstance(v, Symbol):
        raise SolveError(f"v = {v!r} is not a symbol")
    for side in (a, b, v):
        check_known(side)
    _check_present(a, b, v)
    start = Derivation().then("where is", Ge(a, b, evaluate=False), f"asked for {v} > 0")
    sides = with_mesh(with_given(Sides(a, b, (), start), given, v), v)
    cases, steps, same = compare_arms(arms(sides.a, v), arms(sides.b, v), v)
    if same:
        raise SolveError(f"both sides are the same, {a}: they cross everywhere and nowhere")
    return chain(cases, v, sides.assuming, sides.steps + steps)


def compare_arms(
    left: Iterable[Expr], right: Iterable[Expr], v: Symbol
) -> tuple[list[Case], Derivation, bool]:
    """The cases of ``max(left) >= max(right)``: every right arm below some left arm.

    The last item says that the sides are one and the same.
    """
    left, right = tuple(left), tuple(right)
    if len(left) == len(right) == 1:
        plain = compare_sides(left[0], right[0], v)
        return plain.cases, plain.steps, plain.identical
    steps = Derivation()
    rows: list[list[Case]] = []
    for low in right:
        found: list[list[Case]] = []
        for high in left:
            made = compare_sides(high, low, v)
            found.append([Case((), ALWAYS)] if made.identical else made.cases)
            steps = steps.then("compare two arms", Ge(high, low, evaluate=False)) + made.steps
        rows.append(found[0] if len(found) == 1 else any_of(found))
    steps = steps.then(
        "join the arms",
        None,
        "the left maximum is larger where some left arm is above each right arm",
    )
    same = set(left) == set(right)
    return all_of(rows), steps, same


def _check_present(a: Expr, b: Expr, v: Symbol) -> None:
    names = sorted(map(str, a.free_symbols | b.free_symbols))
    if v not in a.free_symbols | b.free_symbols:
        has = f"they have {', '.join(names)}" if names else "they are numbers"
        raise SolveError(f"{v} is in neither side; {has}{near(str(v), names)}")
    if (a - b) is S.Zero:
        raise SolveError(f"both sides are the same, {a}: they cross everywhere and nowhere")
