"""Speculative decoding: a cheap draft guesses tokens, and one step of the model checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, S, Symbol, cancel, sympify

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError, SymbolError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import T, b, to_latex
from symscale.algebra.table import Table
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.solve.numeric import numeric
from symscale.studies.serving.acceptance import (
    checked_draft,
    expected_tokens,
    most_tokens,
    tokens_at,
)
from symscale.studies.serving.numbers import Numbers
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.words import ALPHA, DRAFT, DRAFT_OPS, GAMMA, KEPT, LOST, T_STEP

_MOST_DRAFTS = 4096


@dataclass(frozen=True)
class Speculation:
    """Rounds of drafting and checking, symbolic in ``alpha``, ``gamma`` and the cost of a draft.

    Attributes:
        step: seconds of a step with ``T`` queries for each of ``b`` sequences.
        draft: seconds of one step of the draft.
    """

    step: Expr
    draft: Expr

    @property
    def tokens(self) -> Expr:
        """Expected tokens a sequence gains in a round."""
        return expected_tokens()[0]

    @property
    def plain(self) -> Expr:
        """Seconds of a step without a draft: one token a sequence."""
        return self.step.subs(T, 1)

    @property
    def round_time(self) -> Expr:
        """Seconds of a round: so many steps of the draft, and one that checks what they gave."""
        return GAMMA * self.draft + self.step.subs(T, GAMMA + 1)

    @cached_property
    def shorter(self) -> Expr:
        """Seconds of a step over seconds of a round: the speed-up for each token of a round."""
        return cancel(self.plain / self.round_time)

    @property
    def speedup(self) -> Expr:
        """Tokens a second over those without a draft."""
        return self.tokens * self.shorter

    @property
    def work(self) -> Expr:
        """Arithmetic of a round over that of a step: all drafts, and all tokens checked.

        The round itself, where a step takes as long as its queries have arithmetic.

        >>> speculative().work
        c_ops*gamma + gamma + 1
        """
        return Speculation(step=T, draft=DRAFT_OPS).round_time

    @property
    def operations(self) -> Expr:
        """Arithmetic for a token over that without a draft."""
        return self.work / self.tokens

    @property
    def derivation(self) -> Derivation:
        """The steps that lead to the speed-up."""
        steps = expected_tokens()[1]
        steps = steps.then("seconds of a round", self.round_time, "drafts, then one checking step")
        reason = "tokens of a round over its seconds, beside one token a step"
        return steps.then("speed-up", self.speedup, reason)

    def at(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> SpeculationResult:
        """The round with numbers in it.

        Args:
            sources: a chip, a model, other mappings.
            numbers: ``alpha`` (above 0, at most 1), ``gamma``, and what else is left, such as
                ``c_draft`` or ``b``.

        Raises:
            SymbolError: for a number out of its range, or a symbol without one.

        >>> speculative().at(alpha=0.8, gamma=5, c_draft=0.02).speedup
        3.35...
        """
        values = checked_draft(bindings(*sources, **numbers))
        evaluate(ALPHA * GAMMA, values)
        return SpeculationResult(self, values)

    def stops_paying(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> Crossover:
        """The sequences in flight ``b`` for which a round is no slower, token for token.

        Checking ``gamma`` + 1 tokens makes a step compute-bound sooner than generating one, so
        that a large batch has nothing left to gain. Without ``alpha`` and ``gamma`` the answer is
        in ``n_kept`` and ``n_lost``: drafted tokens that an average round keeps, and loses.

        Raises:
            SymbolError: for a number out of its range, or one of the two alone.
            SolveError: when neither side depends on ``b``.

        >>> from symscale.algebra.symbols import B, C, W_hbm
        >>> free = speculative(ServerStep(B / C, 2 / W_hbm), draft=0)
        >>> free.stops_paying(alpha=0.5, gamma=1).threshold
        3*C/(2*W_hbm)
        >>> free.stops_paying().threshold
        2*C*(n_kept + 1)/(W_hbm*(n_kept + n_lost + 1))
        """
        values = checked_draft(bindings(*sources, **numbers))
        if (ALPHA in values) != (GAMMA in values):
            raise SymbolError("give both alpha and gamma, or neither")
        known = ALPHA in values
        tokens = tokens_at(values) if known else 1 + KEPT
        whole = self.round_time if known else self.round_time.subs(GAMMA, KEPT + LOST)
        return crossover((tokens * self.plain).xreplace(values), whole.xreplace(values), b)

    def best_gamma(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> BestDraft:
        """How many tokens to draft for the largest speed-up; none, where drafting never pays.

        All counts are compared up to one from which on even a draft that is always right would be
        slower: a round's tokens stay below what an endless draft gives, while its seconds grow.

        Raises:
            SymbolError: for a symbol without a number, or ``gamma`` given.
            SolveError: when there is no best count: more drafts are always better.

        >>> speculative().best_gamma(alpha=0.8, c_draft=0.02).gamma
        11
        """
        import numpy as np

        values = checked_draft(bindings(*sources, **numbers))
        if GAMMA in values:
            raise SymbolError("gamma is what is sought; leave it out")
        chance = evaluate(ALPHA, values)
        counts = np.arange(_MOST_DRAFTS + 1)
        shorter = numeric(self.shorter.xreplace(values), GAMMA)(counts)
        gains = shorter * numeric(tokens_at(values), GAMMA)(counts)
        best = int(np.argmax(gains))
        limit = shorter * float(most_tokens(chance))
        beaten = np.flatnonzero((limit < gains[best]) & (counts > best))
        if not beaten.size:
            raise SolveError(
                f"no best gamma: up to {_MOST_DRAFTS} drafted tokens, more are better; give the "
                "draft a cost (c_draft), or alpha below one"
            )
        return BestDraft(best, float(gains[best]), int(beaten[0]))

    def __repr__(self) -> str:
        return f"speculative decoding: speed-up {self.speedup}"

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.speedup)}$"

    def to_dict(self) -> dict[str, Any]:
        """The formulas as plain text."""
        return {
            "tokens": str(self.tokens),
            "round_time": str(self.round_time),
            "speedup": str(self.speedup),
            "operations": str(self.operations),
            **self.derivation.to_dict(),
        }


@dataclass(frozen=True, repr=False)
class SpeculationResult(Numbers):
    """A round in numbers: ``tokens``, ``speedup`` and ``operations``."""

    of: Speculation
    values: Mapping[Symbol, Expr]

    @property
    def tokens(self) -> float:
        """Expected tokens a sequence gains in a round."""
        return float(tokens_at(self.values))

    @property
    def speedup(self) -> float:
        """Tokens a second over those without a draft."""
        return self.tokens * float(evaluate(self.of.shorter, self.values))

    @property
    def operations(self) -> float:
        """Arithmetic for a token over that without a draft; the draft's own is 0 unless given."""
        known = {DRAFT_OPS: S.Zero, **self.values}
        return float(evaluate(self.of.work, known)) / self.tokens

    def table(self) -> Table:
        """The numbers."""
        return Table(
            ("", "value"),
            (
                ("tokens a round", self.tokens),
                ("speed-up", self.speedup),
                ("arithmetic for a token, times", self.operations),
            ),
        )

    def to_dict(self) -> dict[str, float]:
        """The numbers, for JSON."""
        return {"tokens": self.tokens, "speedup": self.speedup, "operations": self.operations}


@dataclass(frozen=True)
class BestDraft:
    """The best ``gamma``, its speed-up, and the count from which on none could be better."""

    gamma: int
    speedup: float
    certain_from: int


def speculative(step: Expr | ServerStep = T_STEP, draft: Any = None) -> Speculation:
    """Speculative decoding on a server.

    Args:
        step: seconds of a step, as an expression in ``b`` sequences of ``T`` queries each, or a
            :class:`ServerStep`; unless given, a step that takes as long however many tokens are in
            it, as one bound by memory does.
        draft: seconds of a step of the draft; ``c_draft`` times the model's unless given.

    >>> speculative().speedup
    (1 - alpha**(gamma + 1))/((1 - alpha)*(c_draft*gamma + 1))
    """
    seconds = step.formula if isinstance(step, ServerStep) else step
    own = DRAFT * seconds.subs(T, 1) if draft is None else sympify(draft, strict=True)
    return Speculation(seconds, own)
