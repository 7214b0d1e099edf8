"""An unevaluated minimum, the counterpart of :class:`~symscale.algebra.maximum.Maximum`."""

from __future__ import annotations

from typing import Any

from sympy import Expr, Function, Min, sympify
from sympy.core.sorting import default_sort_key


class Minimum(Function):  # type: ignore[misc]
    """The smallest of its arguments, decided only once all of them are numbers.

    >>> from symscale.algebra.symbols import B, D
    >>> Minimum(B, D).subs({B: 3, D: 7})
    3
    >>> Minimum(B, Minimum(B, D))
    Minimum(B, D)
    """

    is_extended_real = True

    def __new__(cls, *args: Any, **options: Any) -> Expr:
        """Flatten, drop repeats, and decide once all arguments are numbers."""
        flat: set[Expr] = set()
        for arg in (sympify(arg, strict=True) for arg in args):
            flat.update(arg.args if isinstance(arg, Minimum) else (arg,))
        if not flat:
            raise TypeError("Minimum of nothing")
        if len(flat) == 1:
            return flat.pop()
        if all(arg.is_number for arg in flat):
            return Min(*flat)
        return super().__new__(cls, *sorted(flat, key=default_sort_key), **options)

    def _eval_is_positive(self) -> bool | None:
        return True if all(arg.is_positive for arg in self.args) else None

    def doit(self, **hints: Any) -> Expr:
        """The arguments done, then SymPy's ``Min`` of them."""
        return Min(*(arg.doit(**hints) for arg in self.args))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = r",\; ".join(printer._print(arg) for arg in self.args)
        tex = rf"\min\left({body}\right)"
        return tex if exp is None else rf"{tex}^{{{exp}}}"

    def _sympystr(self, printer: Any) -> str:
        return f"Minimum({', '.join(printer._print(arg) for arg in self.args)})"
