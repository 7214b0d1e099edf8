"""Signs of polynomials in positive quantities, and the conditions they hang on.

A sign is a set of possibilities out of +1, 0, -1. A polynomial whose coefficients all have one
sign has that sign. A mixed one is factored; each factor left undecided is a *core*, whose sign
becomes a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy import Eq, Expr, Ge, Gt, Le, Ne, S, factor_terms, sign
from sympy.logic.boolalg import Boolean

from symscale.algebra.errors import SolveError
from symscale.solve.generators import Generators, Poly

Signs = frozenset[int]
Known = Mapping[Poly, Signs]
Factors = tuple[int, tuple[tuple[Poly, int], ...]]

PLUS: Signs = frozenset({1})
ZERO: Signs = frozenset({0})
MINUS: Signs = frozenset({-1})
ANY: Signs = frozenset({1, 0, -1})

_RELATION = {PLUS: Gt, PLUS | ZERO: Ge, ZERO: Eq, PLUS | MINUS: Ne}


class SignReader:
    """Reads signs over one set of generators; remembers factorisations."""

    def __init__(self, bases: Generators) -> None:
        self.bases = bases
        self._seen: dict[Poly, Factors] = {}

    def signs(self, poly: Poly, known: Known) -> Signs:
        """The signs a polynomial can have when some cores' signs are known."""
        unit, cores = self.factors(poly)
        out: Signs = frozenset({unit})
        for core, times in cores:
            powers = {s**times for s in known.get(core, ANY)}
            out = frozenset(a * b for a in out for b in powers)
        return out

    def undecided(self, poly: Poly, known: Known) -> Poly | None:
        """The first core whose sign the polynomial's sign still hangs on."""
        _, cores = self.factors(poly)
        open_cores = (core for core, _ in cores if len(known.get(core, ANY)) > 1)
        return next(open_cores, None)

    def factors(self, poly: Poly) -> Factors:
        """A unit sign and the cores, each with its multiplicity."""
        if poly not in self._seen:
            self._seen[poly] = self._factor(poly)
        return self._seen[poly]

    def _factor(self, poly: Poly) -> Factors:
        plain = self._plain_sign(poly)
        if plain is not None:
            return plain, ()
        lead, parts = poly.factor_list()
        unit = 1 if lead > 0 else -1
        cores: list[tuple[Poly, int]] = []
        for part, times in parts:
            plain = self._plain_sign(part)
            if plain is not None:
                unit *= plain**times
                continue
            flip = part.LC < 0
            unit *= (-1) ** times if flip else 1
            cores.append((-part if flip else part, times))
        return unit, tuple(cores)

    def _plain_sign(self, poly: Poly) -> int | None:
        """The sign, if all coefficients agree or the polynomial is a number."""
        if not poly:
            return 0
        if all(c > 0 for c in poly.values()):
            return 1
        if all(c < 0 for c in poly.values()):
            return -1
        return int(sign(self.bases.expr(poly))) if self.bases.is_numeric(poly) else None

    def relation(self, core: Poly, signs: Signs) -> Boolean:
        """The condition that a core has one of these signs, its terms sorted to both sides."""
        return relation(self.bases, core, signs)


def relation(bases: Generators, poly: Poly, signs: Signs) -> Boolean:
    """``positive terms REL negative terms`` for a sign set, the common monomial divided out."""
    if signs == ANY:
        return S.true
    if signs not in _RELATION:
        poly, signs = -poly, frozenset(-s for s in signs)
    common = tuple(map(min, zip(*poly, strict=True)))
    ring, content = poly.ring, poly.content()
    sides: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for exponents, coeff in poly.terms():
        rest = tuple(e - low for e, low in zip(exponents, common, strict=True))
        sides[coeff < 0][rest] = abs(coeff / content)
    left, right = (factor_terms(bases.expr(ring.from_dict(side))) for side in sides)
    return _RELATION[signs](left, right)


def compare(low: Expr, high: Expr) -> tuple[Signs, Boolean]:
    """The signs that ``high - low`` can have, and the condition ``low <= high``.

    >>> from symscale.algebra.symbols import B, D, F
    >>> compare(D, D + F)[1], compare(D, F)[1]
    (True, F >= D)
    """
    gap = high - low
    if gap.is_number:
        signs: Signs = frozenset({int(sign(gap))})
        return signs, S.true if signs <= PLUS | ZERO else S.false
    try:
        bases = Generators(gap)
        ratio = bases.fraction(gap)
    except SolveError:
        return ANY, Le(low, high)
    reader = SignReader(bases)
    product = ratio.numer * ratio.denom
    signs = reader.signs(product, {})
    if signs <= PLUS | ZERO or signs == MINUS:
        return signs, S.true if signs != MINUS else S.false
    unit, cores = reader.factors(product)
    if signs == ANY and len(cores) == 1:
        return signs, relation(bases, cores[0][0] * unit, PLUS | ZERO)
    return signs, Le(low, high)
