"""Paths through a pipeline step as counts of work: max-plus algebra with symbolic counts.

A step cannot end before any chain of work has been done in which each item waits for the one before
(because it needs it, or because it is the same device's next). The longest such chain is the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sympy import Add, Expr, S, cancel, factor

from symscale.algebra.maximum import Maximum
from symscale.parallel.schedules.work import Kind

#: A kind of work, or a forward and a backward overlapped.
Counted: TypeAlias = Kind | Literal["FB"]


@dataclass(frozen=True)
class Leg:
    """``count`` pieces of work of one kind, one after another.

    ``through`` says that the leg goes through all stages, once each; otherwise it stays on one
    stage, or goes to and fro, and the slowest stage may hold all of it.
    """

    kind: Counted
    count: Expr
    why: str
    through: bool = False


@dataclass(frozen=True)
class Walk:
    """Legs one after another; ``lead`` forwards of them pass before the last device's own first."""

    legs: tuple[Leg, ...]
    lead: Expr = S.Zero

    def length(self, times: Mapping[Counted, Expr], through: Mapping[Counted, Expr]) -> Expr:
        """Its time, where legs that go through all stages take their own (mean) times."""
        parts = (leg.count * (through if leg.through else times)[leg.kind] for leg in self.legs)
        return Add(*parts)


def largest(arms: Iterable[Expr]) -> Expr:
    """The maximum of expressions, each factored; those that cannot be the largest left out.

    >>> from symscale.algebra.symbols import m, p, t_F
    >>> largest([m * t_F, (m + p - 1) * t_F])
    t_F*(m + p - 1)
    """
    made = [arm.expand() for arm in arms]
    kept: list[Expr] = []
    for arm in made:
        if any(_never_less(other, arm) for other in kept):
            continue
        kept = [*(other for other in kept if not _never_less(arm, other)), arm]
    return Maximum(*(factor(arm) for arm in kept))


def _never_less(left: Expr, right: Expr) -> bool:
    """Whether one side can be seen to reach the other: factors of the difference have signs."""
    return bool(factor(left - right).is_nonnegative)


def ratio(top: Expr, bottom: Expr) -> Expr:
    """A quotient in lowest terms; one with a maximum in it as it stands.

    >>> from symscale.algebra.symbols import m, p, t_F
    >>> ratio((p - 1) * t_F, (m + p - 1) * t_F)
    (p - 1)/(m + p - 1)
    """
    quotient = top / bottom
    return quotient if quotient.has(Maximum) else factor(cancel(quotient))
