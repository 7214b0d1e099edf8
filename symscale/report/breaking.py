"""Long formulas over several lines, broken where a person would: at relations, then at terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce

from sympy import Add, And, Basic, Mul, Or, Pow, S, fraction
from sympy.core.relational import Relational

from symscale.algebra.maximum import Maximum
from symscale.report.rich import Equation, Formula, Math, Side, side_latex, typeset
from symscale.report.texwidth import tex_width

_INDENT = 2.0
_RELATION = 1.4
_SIGN = {"==": "=", ">=": r"\geq", "<=": r"\leq", "!=": r"\neq"}


@dataclass(frozen=True)
class Row:
    """One line of a broken formula: what stands left and right of the alignment point."""

    left: str
    right: str

    @property
    def latex(self) -> str:
        """Both sides together."""
        return f"{self.left} {self.right}".strip()


def rows(formula: Formula, room: float, inline: bool = False) -> tuple[Row, ...]:
    r"""A formula as lines no wider than ``room`` em, as far as it can be broken.

    >>> from symscale.algebra.symbols import B, C, D, F
    >>> [row.latex for row in rows(Math(B / C + D / F), room=5.5, inline=True)]
    ['B / C', '\\quad {} + D / F']
    """
    whole = formula.latex(inline)
    if tex_width(whole) <= room:
        return (Row("", whole),)
    if isinstance(formula, Equation):
        return _chain([(s, formula.relation) for s in formula.sides], room, inline)
    if isinstance(formula.value, str):
        return (Row("", whole),)
    return _relation_rows(formula.value, room, inline)


def _relation_rows(expr: Basic, room: float, inline: bool) -> tuple[Row, ...]:
    if isinstance(expr, And | Or):
        sign = r"\wedge" if isinstance(expr, And) else r"\vee"
        parts = [rows(Math(arg), room - _RELATION, inline) for arg in expr.args]
        joined = list(parts[0])
        for part in parts[1:]:
            joined += [Row(part[0].left, rf"{sign}\; {part[0].right}"), *part[1:]]
        return tuple(joined)
    if isinstance(expr, Relational):
        sign = _SIGN.get(expr.rel_op, expr.rel_op)
        return _chain([(expr.lhs, sign), (expr.rhs, sign)], room, inline)
    return tuple(Row("", line) for line in _lines(expr, room, inline))


def _chain(sides: list[tuple[Side, str]], room: float, inline: bool) -> tuple[Row, ...]:
    """A chain of relations: the first side on the left, every other on lines of its own."""
    first = sides[0][0]
    head = side_latex(first, inline)
    made: list[Row] = []
    if tex_width(head) > room / 3:
        made = [Row("", line) for line in _side_lines(first, room, inline)]
        head = ""
    rest = room - tex_width(head) - _RELATION
    for side, sign in sides[1:]:
        lines = _side_lines(side, rest, inline)
        made.append(Row(head, f"{{}} {sign} {lines[0]}"))
        made += [Row("", line) for line in lines[1:]]
        head = ""
    return tuple(made)


def _side_lines(side: Side, room: float, inline: bool) -> list[str]:
    if isinstance(side, Math) and isinstance(side.value, Basic):
        side = side.value
    return _lines(side, room, inline) if isinstance(side, Basic) else [side_latex(side, inline)]


def _lines(expr: Basic, room: float, inline: bool) -> list[str]:
    """Greedy filling of lines with the pieces of an expression."""
    lines: list[str] = []
    for piece in _pieces(expr, room - _INDENT, inline):
        if lines and tex_width(f"{lines[-1]} {piece}") <= room - _INDENT:
            lines[-1] = f"{lines[-1]} {piece}"
        else:
            lines.append(piece)
    return [lines[0], *(rf"\quad {_continued(line)}" for line in lines[1:])]


def _continued(line: str) -> str:
    return f"{{}} {line}" if line[:1] in "+-" else line


def _pieces(expr: Basic, room: float, inline: bool) -> list[str]:
    """Parts between which a line may be broken; one where none may."""
    whole = typeset(expr, inline)
    if tex_width(whole) <= room:
        return [whole]
    kinds: tuple[tuple[type, Callable[[Basic, float, bool], list[str]]], ...] = (
        (Add, _sum_pieces),
        (Mul, _product_pieces),
        (Maximum, _maximum_pieces),
        (Pow, _power_pieces),
    )
    for kind, split in kinds:
        if isinstance(expr, kind):
            return split(expr, room, inline) or [whole]
    return [whole]


def _sum_pieces(expr: Basic, room: float, inline: bool) -> list[str]:
    made: list[str] = []
    for term in expr.as_ordered_terms():
        minus = term.could_extract_minus_sign()
        first, *more = _pieces(-term if minus else term, room, inline)
        sign = "- " if minus else "+ " if made else ""
        made += [sign + first, *more]
    return made


def _product_pieces(expr: Basic, room: float, inline: bool) -> list[str]:
    """``k/d * (a + b + ...)`` with the sum broken; the widest sum or maximum is the one opened."""
    if expr.could_extract_minus_sign():
        first, *more = _pieces(-expr, room, inline)
        return [f"- {first}", *more]
    numer, denom = fraction(expr, exact=True)
    factors = list(Mul.make_args(numer))
    opened = [f for f in factors if isinstance(f, Add | Maximum)]
    if opened:
        core = max(opened, key=lambda f: tex_width(typeset(f, inline)))
        others = [f for f in factors if f is not core]
        scale = reduce(lambda a, b: a * b, others, S.One) / denom
        # A slash before a bracket would be ambiguous, so the fraction is stacked.
        front = "" if scale == 1 else _factor(scale, inline=False)
        if tex_width(front) <= room / 2:
            inner = _pieces(core, room - tex_width(front), inline)
            if isinstance(core, Maximum):
                return [f"{front} {inner[0]}", *inner[1:]]
            return _enclosed(f"{front} ", inner, "")
    if denom is not S.One:
        above, below = (_pieces(part, room, inline) for part in (numer, denom))
        if len(above) == len(below) == 1 and not inline:
            return []
        top = _enclosed("", above, "") if numer.is_Add or len(above) > 1 else above
        return [*top, *_enclosed(r"\big/ ", below, "")]
    return [_factor(f, inline) for f in factors]


def _factor(expr: Basic, inline: bool) -> str:
    tex = typeset(expr, inline)
    return rf"\left({tex}\right)" if expr.is_Add or " / " in tex else tex


def _maximum_pieces(expr: Basic, room: float, inline: bool) -> list[str]:
    groups = [_pieces(arg, room - 4.0, inline) for arg in expr.args]
    inner: list[str] = []
    for index, group in enumerate(groups):
        last = index == len(groups) - 1
        inner += [*group[:-1], group[-1] if last else group[-1] + r",\;"]
    return _enclosed(r"\max", inner, "")


def _power_pieces(expr: Basic, room: float, inline: bool) -> list[str]:
    base, exponent = expr.as_base_exp()
    if exponent.is_negative:
        return _enclosed(r"1 \big/ ", _pieces(1 / expr, room, inline), "")
    if not (isinstance(base, Add) and exponent.is_Rational):
        return []
    # A root over several lines is written as a power.
    return _enclosed("", _pieces(base, room, inline), f"^{{{typeset(exponent, True)}}}")


def _enclosed(before: str, inner: Iterable[str], after: str) -> list[str]:
    body = list(inner)
    size = "bigg" if any(r"\frac" in piece for piece in body) else "big"
    body[0] = rf"{before}\{size}l( {body[0]}"
    body[-1] = rf"{body[-1]} \{size}r){after}"
    return body
