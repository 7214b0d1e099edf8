"""The pieces of running text: strings, mathematics, code, emphasis, figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from sympy import Basic

from symscale.algebra.printing import name_to_latex, to_plain
from symscale.algebra.symbols import to_latex
from symscale.report.numbers import Figure

#: :func:`to_latex` remembered: LaTeX, HTML and width estimates ask for the same formulas.
typeset = lru_cache(maxsize=8192)(to_latex)


@dataclass(frozen=True)
class Math:
    r"""An expression or relation; or LaTeX written by the program, never taken from a user.

    ``words`` is what a terminal shows for LaTeX.

    >>> from symscale.algebra.symbols import C, W_hbm
    >>> Math(C / W_hbm).latex(), Math(C / W_hbm).latex(inline=True), Math(C / W_hbm).text
    ('\\frac{C}{W_{\\mathrm{hbm}}}', 'C / W_{\\mathrm{hbm}}', 'C/W_hbm')
    """

    value: Basic | str
    words: str = ""

    @classmethod
    def name(cls, name: str) -> Math:
        r"""A quantity's name such as ``T_math``, its index upright.

        >>> Math.name("T_math").latex()
        'T_{\\mathrm{math}}'
        """
        return cls(name_to_latex(name), name)

    def latex(self, inline: bool = False) -> str:
        """The LaTeX, fractions stacked or (``inline``) with a slash."""
        return self.value if isinstance(self.value, str) else typeset(self.value, inline)

    @property
    def text(self) -> str:
        """The formula for a terminal."""
        if self.words:
            return self.words
        return self.value if isinstance(self.value, str) else to_plain(self.value)

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"


Side: TypeAlias = Basic | Math | Figure


@dataclass(frozen=True)
class Equation:
    """Sides joined by a relation: a quantity, its formula, its value."""

    sides: tuple[Side, ...]
    relation: str = "="

    def latex(self, inline: bool = False) -> str:
        """All sides on one line."""
        return f" {self.relation} ".join(side_latex(side, inline) for side in self.sides)

    @property
    def text(self) -> str:
        """The chain for a terminal."""
        sign = _SIGNS.get(self.relation, self.relation)
        return f" {sign} ".join(
            to_plain(side) if isinstance(side, Basic) else side.text for side in self.sides
        )

    def _repr_latex_(self) -> str:
        return f"${self.latex()}$"


_SIGNS = {r"\approx": "~", r"\le": "<=", r"\ge": ">=", r"\leq": "<=", r"\geq": ">="}


def side_latex(side: Side, inline: bool = False) -> str:
    """The LaTeX of one side of an equation."""
    if isinstance(side, Basic):
        return typeset(side, inline)
    return side.latex(inline) if isinstance(side, Math) else side.latex


@dataclass(frozen=True)
class Code:
    """A name or notation in a monospaced face."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Emphasised text."""

    text: str


Formula: TypeAlias = Math | Equation
Part: TypeAlias = str | Math | Equation | Code | Strong | Figure
Parts: TypeAlias = tuple[Part, ...]


def plain(parts: Parts) -> str:
    """Parts as a line of text.

    >>> plain(("see ", Code("B_X")))
    'see B_X'
    """
    return "".join(one if isinstance(one, str) else one.text for one in parts)
