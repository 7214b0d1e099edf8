"""The answer to "when does a overtake b?": kind, thresholds, conditions, converse, steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from sympy import And, Eq, Expr, Ge, Gt, Le, Lt, Or, S, Symbol, oo
from sympy.logic.boolalg import Boolean

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import SolveError
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import to_latex
from symscale.solve.cases import Case, kind_of
from symscale.solve.roots import Intervals, complement

#: The last step of a derivation, by the shape of the answer.
_CLOSING: Mapping[str, str] = MappingProxyType(
    {
        "always": "so it always holds",
        "never": "so it never holds",
        "above": "so it holds from",
        "below": "so it holds up to",
        "between": "so it holds between",
        "outside": "so it holds outside of",
        "pieces": "so it holds on",
    }
)


@dataclass(frozen=True)
class Crossover:
    """Where ``a >= b``: on ``intervals`` of ``variable``, provided ``requires``.

    Where ``requires`` fails, ``otherwise`` (another answer, with its own requirement) says what
    holds. ``kind`` is one of always, never, above, below, between, outside, pieces. ``undefined``
    are equations under which a side is infinite: nothing is said there.
    """

    variable: Symbol
    intervals: Intervals
    requires: Boolean = S.true
    otherwise: Crossover | None = None
    assuming: tuple[Eq, ...] = ()
    derivation: Derivation = field(default_factory=Derivation)
    undefined: tuple[Boolean, ...] = ()

    @property
    def kind(self) -> str:
        """The shape of the answer, in a word."""
        return kind_of(self.intervals)

    @property
    def thresholds(self) -> tuple[Expr, ...]:
        """Every wall, from the smallest up."""
        ends = (end for pair in self.intervals for end in pair if end not in (0, oo))
        return tuple(dict.fromkeys(ends))

    @property
    def threshold(self) -> Expr | None:
        """The wall, when there is exactly one."""
        return self.thresholds[0] if len(self.thresholds) == 1 else None

    @property
    def condition(self) -> Boolean:
        """The relation on the variable under which ``a >= b``, given ``requires``."""
        return inside(self.variable, self.intervals)

    @property
    def converse(self) -> Boolean:
        """The relation under which ``a < b``, given ``requires``."""
        return inside(self.variable, complement(self.intervals), strict=True)

    def at(self, *sources: Mapping[Symbol, Any], **named: Any) -> Crossover:
        """The answer with numbers put in, and the case that then applies if they decide it.

        Raises:
            SymbolError: for a value that is no positive number.

        >>> from symscale.algebra.symbols import B, C, W_hbm
        >>> answer = Crossover(B, ((C / W_hbm, oo),))
        >>> answer.at({C: 197 * 10**12, W_hbm: 81 * 10**10}).threshold
        19700/81
        """
        return self._with_numbers(self._complete(bindings(*sources, **named)))

    def _with_numbers(self, values: Mapping[Symbol, Expr]) -> Crossover:
        requires = _settled(self.requires, values)
        rest = self.otherwise
        if requires == S.false and rest is not None:
            return rest._with_numbers(values)
        ends = tuple((_put(low, values), _put(high, values)) for low, high in self.intervals)
        kept = None if requires == S.true or rest is None else rest._with_numbers(values)
        steps = self.derivation.then("put in numbers", None, _listed(values))
        return replace(self, intervals=ends, requires=requires, otherwise=kept, derivation=steps)

    def holds(self, *sources: Mapping[Symbol, Any], **named: Any) -> bool:
        """Whether ``a >= b`` at these numbers, decided by the thresholds.

        Raises:
            SymbolError: naming every symbol that has no value.
        SolveError: where a side is infinite at these numbers.
        """
        values = self._complete(bindings(*sources, **named))
        if self.variable not in values:
            evaluate(self.variable, values)
        answer: Crossover | None = self
        while answer is not None and answer.otherwise is not None:
            if _true_at(answer.requires, values):
                break
            answer = answer.otherwise
        assert answer is not None
        for pole in self.undefined:
            if pole.free_symbols <= set(values) and pole.xreplace(dict(values)) == S.true:
                raise SolveError(f"a side is infinite at these numbers, where {pole}")
        value = values[self.variable]
        return any(
            bool(_end(low, values) <= value) and bool(value <= _end(high, values))
            for low, high in answer.intervals
        )

    def _complete(self, values: dict[Symbol, Expr]) -> dict[Symbol, Expr]:
        """The values, with a symbol that an assumed relation defines from the others."""
        for relation in self.assuming:
            for old, new in ((relation.lhs, relation.rhs), (relation.rhs, relation.lhs)):
                if (
                    isinstance(old, Symbol)
                    and old not in values
                    and new.free_symbols <= set(values)
                ):
                    values[old] = evaluate(new, values)
        return values

    def __repr__(self) -> str:
        rows, answer = [], self
        while True:
            rows.append(answer._line())
            if answer.otherwise is None:
                break
            answer = answer.otherwise
        if self.assuming:
            rows[0] += f", with {', '.join(f'{r.lhs} = {r.rhs}' for r in self.assuming)}"
        return "\n  otherwise ".join(rows)

    def _line(self) -> str:
        said = self.kind if self.kind in ("always", "never") else str(self.condition)
        return said if self.requires == S.true else f"{said}, if {self.requires}"

    def _repr_latex_(self) -> str:
        rows, answer = [], self
        while True:
            word = rf"\text{{{answer.kind}}}" if answer.kind in ("always", "never") else None
            said = word or to_latex(answer.condition)
            need = "" if answer.requires == S.true else rf" & {to_latex(answer.requires)}"
            rows.append(said + need)
            if answer.otherwise is None:
                break
            answer = answer.otherwise
        if len(rows) == 1:
            return f"${rows[0].replace(' & ', chr(92) + 'quad ')}$"
        return r"$\begin{cases}" + r" \\ ".join(rows) + r"\end{cases}$"

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain text, for JSON."""
        return {
            "variable": str(self.variable),
            "kind": self.kind,
            "thresholds": [str(wall) for wall in self.thresholds],
            "condition": str(self.condition),
            "requires": str(self.requires),
            "otherwise": None if self.otherwise is None else self.otherwise.to_dict(),
            "converse": str(self.converse),
            "assuming": [str(relation) for relation in self.assuming],
            "undefined": [str(relation) for relation in self.undefined],
            **self.derivation.to_dict(),
        }


_AT_WALL = {False: "the sides are equal at", True: "the answer changes at"}


def chain(
    cases: list[Case],
    v: Symbol,
    assuming: tuple[Eq, ...],
    steps: Derivation,
    jumps: bool = False,
) -> Crossover:
    """The cases as one answer, each the next one's ``otherwise``.

    Sides that jump pass each other without being equal; the steps then say so.

    Raises:
        SolveError: when there is no case at all.
    """
    if not cases:
        raise SolveError("no case is possible: the conditions contradict each other")
    out: Crossover | None = None
    for case in reversed(_fold(cases)):
        made = Crossover(v, case.intervals, case.requires, out, assuming)
        own = steps if made.thresholds else steps.then(f"no root in {v}", None, case.why)
        for wall in made.thresholds:
            own = own.then(_AT_WALL[jumps], Eq(v, wall, evaluate=False), case.why)
        if case.requires != S.true:
            own = own.then("this needs", case.requires, "the signs that this case rests on")
        own = own.then(_CLOSING[made.kind], made.condition, "")
        out = replace(made, derivation=own)
    assert out is not None
    return out


def _fold(cases: list[Case]) -> list[Case]:
    """Cases with one answer joined by "or"; a rest of one answer is the negation of the first."""
    by_answer: dict[Intervals, list[Case]] = {}
    for case in cases:
        by_answer.setdefault(case.intervals, []).append(case)
    joined = [
        Case((Or(*(case.requires for case in group)),), intervals, group[0].why)
        for intervals, group in by_answer.items()
    ]
    if len(joined) == 2:
        negated = _negation(joined[0].requires)
        joined[1] = replace(joined[1], conditions=(negated,))
    return joined


def _negation(condition: Boolean) -> Boolean:
    if isinstance(condition, And):
        return Or(*(_negation(part) for part in condition.args))
    if isinstance(condition, Or):
        return And(*(_negation(part) for part in condition.args))
    return ~condition


def inside(v: Symbol, intervals: Intervals, strict: bool = False) -> Boolean:
    """``v`` in one of the intervals; relations are kept as written, also where v is whole."""
    over, under = (Gt, Lt) if strict else (Ge, Le)
    pieces = []
    for low, high in intervals:
        parts = []
        if low != 0:
            parts.append(over(v, low, evaluate=False))
        if high != oo:
            parts.append(under(v, high, evaluate=False))
        pieces.append(And(*parts) if len(parts) != 1 else parts[0])
    return Or(*pieces) if len(pieces) != 1 else pieces[0]


def _put(end: Expr, values: Mapping[Symbol, Expr]) -> Expr:
    return end.xreplace(dict(values)) if end.free_symbols else end


def _end(end: Expr, values: Mapping[Symbol, Expr]) -> Expr:
    return evaluate(end, values) if end.free_symbols else end


def _settled(condition: Boolean, values: Mapping[Symbol, Expr]) -> Boolean:
    """The condition with numbers in, decided where it can be.

    Where a guard beside it fails, a wall inside it may be infinite; the guard decides then.
    """
    if isinstance(condition, And | Or):
        return condition.func(*(_settled(part, values) for part in condition.args))
    try:
        return condition.xreplace(dict(values))
    except TypeError:
        return S.false


def _true_at(condition: Boolean, values: Mapping[Symbol, Expr]) -> bool:
    for symbol in condition.free_symbols:
        evaluate(symbol, values)
    return bool(_settled(condition, values))


def _listed(values: Mapping[Symbol, Expr]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in sorted(values.items(), key=str))
