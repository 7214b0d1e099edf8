"""Signs of polynomials in positive quantities, and the conditions they hang on.

A sign is a set of possibilities out of +1, 0, -1. A polynomial whose coefficients all have one
sign has that sign. A mixed one is factored; each factor left undecided is a *core*, whose sign
becomes a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from sympy import Eq, Expr, Ge, Gt, Le, Ne, S, sign
from sympy.logic.boolalg import Boolean

from symscale.algebra.errors import SolveError
from symscale.solve.generators import Generators, Poly, common_monomial
from symscale.solve.laurent import coprime, prime

Signs = frozenset[int]
Known = Mapping[Poly, Signs]
Factors = tuple[int, tuple[tuple[Poly, int], ...]]

PLUS: Signs = frozenset({1})
ZERO: Signs = frozenset({0})
MINUS: Signs = frozenset({-1})
ANY: Signs = frozenset({1, 0, -1})

#: Longer polynomials are taken as they are: factoring in many unknowns takes seconds.
MOST_FACTORED = 12
_MOST_EXPONENTS = 72

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
        plain = self.plain_sign(poly)
        if plain is not None:
            return plain, ()
        poly = common_monomial(poly)[2]
        plain = self.plain_sign(poly)
        if plain is not None:
            return plain, ()
        whole = _is_long(poly) or prime(poly)
        if not whole:
            poly = _without_common_factor(poly)
            whole = prime(poly)
        if whole:
            flip = poly.LC < 0
            return (-1, ((-poly, 1),)) if flip else (1, ((poly, 1),))
        lead, parts = poly.factor_list()
        unit = 1 if lead > 0 else -1
        cores: list[tuple[Poly, int]] = []
        for part, times in parts:
            plain = self.plain_sign(part)
            if plain is not None:
                unit *= plain**times
                continue
            flip = part.LC < 0
            unit *= (-1) ** times if flip else 1
            cores.append((-part if flip else part, times))
        return unit, tuple(cores)

    def plain_sign(self, poly: Poly) -> int | None:
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


def _is_long(poly: Poly) -> bool:
    """Whether factoring would take long: by the number of terms, and of unknowns in them."""
    used = sum(1 for place in range(poly.ring.ngens) if any(e[place] for e in poly))
    return len(poly) > MOST_FACTORED or len(poly) * used > _MOST_EXPONENTS


def _without_common_factor(poly: Poly) -> Poly:
    """A mixed polynomial over what its positive and its negative terms have in common.

    Only a divisor whose own terms are all positive is taken out, so the sign stays.
    """
    positive = poly.ring.from_dict({e: c for e, c in poly.items() if c > 0})
    negative = positive - poly
    if coprime(positive, negative) or coprime(negative, positive):
        return poly
    common = positive.gcd(negative)
    return poly.exquo(common) if all(c > 0 for c in common.values()) else poly


def relation(bases: Generators, poly: Poly, signs: Signs) -> Boolean:
    """``positive terms REL negative terms`` for a sign set, the common monomial divided out."""
    if signs == ANY:
        return S.true
    if signs not in _RELATION:
        poly, signs = -poly, frozenset(-s for s in signs)
    rest = common_monomial(poly)[2]
    sides: tuple[dict[Any, Any], dict[Any, Any]] = ({}, {})
    for exponents, coeff in rest.terms():
        sides[coeff < 0][exponents] = abs(coeff)
    left, right = (bases.factored(poly.ring.from_dict(side)) for side in sides)
    return _RELATION[signs](left, right)


@dataclass(frozen=True)
class Order:
    """How ``high - low`` can be signed, and the condition ``low <= high`` (made when asked for)."""

    low: Expr
    high: Expr
    signs: Signs
    reader: SignReader | None = None
    parts: tuple[Poly, ...] = ()

    @property
    def fits(self) -> Boolean:
        """The condition ``low <= high``: true or false where it is decided."""
        if self.signs <= PLUS | ZERO:
            return S.true
        if self.signs == MINUS:
            return S.false
        if self.reader is not None and self.signs == ANY:
            found = [self.reader.factors(part) for part in self.parts]
            cores = [core for _, some in found for core, _ in some]
            if len(cores) == 1:
                unit = prod(unit for unit, _ in found)
                return relation(self.reader.bases, cores[0] * unit, PLUS | ZERO)
        return Le(self.low, self.high)


@lru_cache(maxsize=4096)
def compare(low: Expr, high: Expr) -> Order:
    """The order of two positive expressions, as far as signs tell it.

    >>> from symscale.algebra.symbols import B, D, F
    >>> compare(D, D + F).fits, compare(D, F).fits
    (True, F >= D)
    """
    gap = high - low
    if gap.is_number:
        return Order(low, high, frozenset({int(sign(gap))}))
    try:
        bases = Generators(gap)
        ratio = bases.fraction(gap)
    except SolveError:
        return Order(low, high, ANY)
    reader = SignReader(bases)
    over, under = (reader.signs(part, {}) for part in (ratio.numer, ratio.denom))
    both = frozenset(a * b for a in over for b in under - ZERO or under)
    return Order(low, high, both, reader, (ratio.numer, ratio.denom))
