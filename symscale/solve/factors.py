"""Where a product of polynomials in one unknown is at least zero, factor by factor.

A cubic or quartic that factors over the rationals is solved by its linear and quadratic factors,
whose roots are read with ease.
"""

from __future__ import annotations

from sympy import S, Symbol

from symscale.algebra.derivation import Derivation
from symscale.solve.cases import Case, all_of, any_of, converse, merge
from symscale.solve.generators import Poly
from symscale.solve.roots import ALWAYS, NEVER, RootFinder, Unknown, join, polynomial_in
from symscale.solve.signs import SignReader


def factored_cases(
    reader: SignReader, parts: list[tuple[Poly, int]], v: Symbol
) -> tuple[list[Case], Derivation]:
    """The cases of ``product >= 0``: an even number of factors is below zero.

    A factor to an even power plays no part; where it alone vanishes, the sides only touch.
    """
    held = [Case((), ALWAYS)]
    steps = Derivation()
    for part, times in parts:
        if times % 2 == 0:
            continue
        cases, told = _one(reader, part, v)
        steps = steps + told
        both = all_of([held, cases])
        neither = all_of([converse(held), converse(cases)])
        held = any_of([both, neither])
    return held, steps


def _one(reader: SignReader, part: Poly, v: Symbol) -> tuple[list[Case], Derivation]:
    plain = reader.plain_sign(part)
    if plain is not None:
        return [Case((), ALWAYS if plain > 0 else NEVER)], Derivation()
    coeffs, power = reader.bases.collect(part, v)
    unknown = Unknown(v, power)
    branches = join(RootFinder(reader, unknown).branches(coeffs, {}))
    made = [
        Case(
            tuple(c for c in (reader.relation(*known) for known in branch.known) if c != S.true),
            branch.intervals,
            branch.why,
        )
        for branch in branches
    ]
    written = polynomial_in(reader.bases, coeffs, unknown)
    return merge(made), Derivation().then("a factor", written, "solved by itself")
