"""How an expression is written down: LaTeX displayed or inside a line, and plain text.

SymPy splits ``sqrt(a*b/c)`` of positive symbols into three roots, prints every digit of ``4.59e14``
and stacks fractions even inside a sentence; the printers here do what a person would.
"""

from __future__ import annotations

import re
from typing import Any

from sympy import Expr, Float, Integer, Mul, Pow, Rational, S, Symbol, fraction
from sympy.printing.latex import LatexPrinter
from sympy.printing.str import StrPrinter

_HALF = Rational(1, 2)
_SCIENTIFIC_FROM = 10**7
_FIGURES = 4


def gather_roots(expr: Mul) -> Expr:
    """A product with its square roots of positive factors under one sign, left unevaluated.

    >>> from sympy import sqrt, symbols
    >>> a, b = symbols("a b", positive=True)
    >>> gather_roots(sqrt(a) / sqrt(b)).args
    (a/b, 1/2)
    """
    inside: list[Expr] = []
    outside: list[Expr] = []
    for factor in Mul.make_args(expr):
        base, exponent = factor.as_base_exp()
        if base.is_positive and abs(exponent) == _HALF:
            inside.append(base if exponent > 0 else 1 / base)
        else:
            outside.append(factor)
    if len(inside) < 2:
        return expr
    root = Pow(Mul(*inside), _HALF, evaluate=False)
    return Mul(*outside, root, evaluate=False) if outside else root


def short_integer(value: int) -> tuple[str, int] | None:
    """Mantissa and exponent of a large round integer, or None where all digits should be shown.

    >>> short_integer(459 * 10**12), short_integer(70553706496)
    (('4.59', 14), None)
    """
    digits = str(abs(value))
    kept = digits.rstrip("0")
    if abs(value) < _SCIENTIFIC_FROM or len(kept) > _FIGURES:
        return None
    mantissa = kept[0] + (f".{kept[1:]}" if len(kept) > 1 else "")
    return ("-" if value < 0 else "") + mantissa, len(digits) - 1


def short_float(value: float) -> tuple[str, int | None]:
    """Mantissa and exponent of a float at four significant figures; no exponent near one.

    >>> short_float(0.00092123), short_float(4.59e14)
    (('0.0009212', None), ('4.59', 14))
    """
    text = f"{value:.{_FIGURES}g}"
    if "e" not in text:
        return text, None
    if 1 <= abs(value) < _SCIENTIFIC_FROM:
        return f"{value:.0f}", None
    mantissa, exponent = text.split("e")
    return mantissa, int(exponent)


def _digits(value: int, separator: str) -> str:
    return str(value) if abs(value) < 10**5 else f"{value:,}".replace(",", separator)


class MathPrinter(LatexPrinter):  # type: ignore[misc]
    """SymPy's LaTeX printer with gathered roots, short numbers and, inside a line, slashes."""

    def __init__(self, names: dict[Any, str], inline: bool = False) -> None:
        super().__init__({"symbol_names": names, "root_notation": True, "fold_frac_powers": True})
        self._inline = inline

    def _print_Mul(self, expr: Expr) -> str:
        if expr.could_extract_minus_sign() and not (-expr).is_Add:
            return f"- {self._print(-expr)}"
        gathered = gather_roots(expr)
        if not isinstance(gathered, Mul) and gathered is not expr:
            return str(self._print(gathered))
        if self._inline:
            numer, denom = fraction(gathered, exact=True)
            if denom is not S.One:
                return f"{self._over(numer, denom=False)} / {self._over(denom, denom=True)}"
        return self._tall(gathered) or str(super()._print_Mul(gathered))

    def _tall(self, product: Mul) -> str:
        """``k/d (a/b + c)`` for a quotient whose top holds fractions; empty when there is none.

        A fraction inside a fraction is set in a size nobody can read.
        """
        numer, denom = fraction(product, exact=True)
        if denom is S.One or self._inline:
            return ""
        factors = Mul.make_args(numer)
        inner = [self._print(f) for f in factors]
        tall = [rf"\left({t}\right)" if f.is_Add else t for f, t in zip(factors, inner, strict=True)
                if r"\frac" in t]  # fmt: skip
        if not tall:
            return ""
        flat = [f for f, t in zip(factors, inner, strict=True) if r"\frac" not in t]
        scale = Mul(*flat, evaluate=False) if flat else S.One
        over = rf"\frac{{{self._print(scale)}}}{{{self._print(denom)}}}"
        return " ".join([over, *tall])

    def doprint(self, expr: Any) -> str:
        """The LaTeX; brackets inside a line need not grow."""
        tex = str(super().doprint(expr))
        return tex.replace(r"\left(", "(").replace(r"\right)", ")") if self._inline else tex

    def _over(self, part: Expr, denom: bool) -> str:
        tex = str(self._print(part))
        loose = part.is_Add or (denom and (part.is_Mul or r"\times" in tex))
        return f"({tex})" if loose else tex

    def _print_Symbol(self, expr: Symbol, style: str = "plain") -> str:
        known = expr in self._settings["symbol_names"]
        word = re.fullmatch(r"[A-Za-z]_\w{2,}", expr.name)
        plain = re.fullmatch(r"[A-Za-z0-9_']+", expr.name)  # else it might be a TeX command
        if not known and (word or not plain):
            return name_to_latex(expr.name)
        return str(super()._print_Symbol(expr, style))

    def _print_LogOp(self, args: Any, char: str) -> str:
        return str(super()._print_LogOp(args, rf"\;{char}\;"))

    def _print_Integer(self, expr: Integer) -> str:
        short = short_integer(int(expr))
        if short is None:
            return _digits(int(expr), "{,}")
        return rf"{short[0]} \times 10^{{{short[1]}}}"

    def _print_Rational(self, expr: Rational) -> str:
        sign = "- " if expr < 0 else ""
        top, below = Integer(abs(expr.p)), Integer(expr.q)
        if self._inline:
            return f"{sign}{self._over(top, denom=False)} / {self._over(below, denom=True)}"
        return rf"{sign}\frac{{{self._print(top)}}}{{{self._print(below)}}}"

    def _print_Float(self, expr: Float) -> str:
        mantissa, exponent = short_float(float(expr))
        return mantissa if exponent is None else rf"{mantissa} \times 10^{{{exponent}}}"

    def _print_Pow(self, expr: Pow) -> str:
        tex = str(self._print(expr.base)) if expr.base.is_Number else ""
        if r"\times" in tex and not (expr.exp.is_Rational and expr.exp.q == 2):
            return rf"\left({tex}\right)^{{{self._print(expr.exp)}}}"
        if expr.base.is_Float and not expr.exp.is_Rational:
            # In braces a decimal would not be seen as a number, to be kept apart from another.
            return f"{tex}^{{{self._print(expr.exp)}}}"
        return str(super()._print_Pow(expr))


class PlainPrinter(StrPrinter):  # type: ignore[misc]
    """SymPy's text printer with gathered roots and short numbers."""

    printmethod = "_plain"

    def _print_Mul(self, expr: Expr) -> str:
        if expr.could_extract_minus_sign() and not (-expr).is_Add:
            return f"-{self._print(-expr)}"
        gathered = gather_roots(expr)
        if not isinstance(gathered, Mul) and gathered is not expr:
            return str(self._print(gathered))
        return str(super()._print_Mul(gathered))

    def _print_Integer(self, expr: Integer) -> str:
        short = short_integer(int(expr))
        return str(int(expr)) if short is None else f"{short[0]}e{short[1]}"

    def _print_Float(self, expr: Float) -> str:
        mantissa, exponent = short_float(float(expr))
        return mantissa if exponent is None else f"{mantissa}e{exponent}"

    def _print_Pow(self, expr: Pow, rational: bool = False) -> str:
        return str(super()._print_Pow(expr, rational)).replace("**", "^")

    def _print_Relational(self, expr: Any) -> str:
        sign = {"==": "=", "!=": "!="}.get(expr.rel_op, expr.rel_op)
        return f"{self._print(expr.lhs)} {sign} {self._print(expr.rhs)}"

    def _print_Maximum(self, expr: Expr) -> str:
        return f"max({', '.join(self._print(arg) for arg in expr.args)})"


def to_plain(expr: Any) -> str:
    """An expression as a line of text.

    >>> from symscale.algebra.symbols import B, F, M_X, n
    >>> from sympy import sqrt
    >>> to_plain(sqrt(B * n * M_X / F))
    'sqrt(B*M_X*n/F)'
    """
    return str(PlainPrinter().doprint(expr))


def name_to_latex(name: str) -> str:
    r"""The LaTeX of a name such as ``T_math``: its head in italics, the rest an upright index.

    Only letters, digits and underscores of the name are kept.

    >>> name_to_latex("T_math")
    'T_{\\mathrm{math}}'
    """
    name = re.sub(r"[^A-Za-z0-9_]", "", name) or "?"
    head, _, tail = name.partition("_")
    words = [part if len(part) == 1 else rf"\mathrm{{{part}}}" for part in (head, *tail.split("_"))]
    words = [word for word in words if word != r"\mathrm{}"] or [r"\_"]
    return words[0] + (f"_{{{','.join(words[1:])}}}" if len(words) > 1 else "")
