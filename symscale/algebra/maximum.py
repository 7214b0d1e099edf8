"""An unevaluated maximum.

SymPy's own ``Max`` compares its arguments when it is built, which takes seconds for a dozen terms
and is repeated at every substitution. This node waits until all its arguments are numbers.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr, Function, Max, S, sympify
from sympy.core.sorting import default_sort_key


class Maximum(Function):  # type: ignore[misc]
    """The largest of its arguments, decided only once all of them are numbers.

    Nested maxima are flattened and repeated arguments dropped. ``.doit()`` gives SymPy's ``Max``.

    >>> from symscale.algebra.symbols import B, D
    >>> Maximum(B, D, Maximum(B, 2))
    Maximum(2, B, D)
    >>> Maximum(B, D).subs({B: 3, D: 7})
    7
    """

    is_extended_real = True

    def __new__(cls, *args: Any, **options: Any) -> Expr:
        """Flatten, drop repeats, and decide once all arguments are numbers."""
        flat: set[Expr] = set()
        for arg in (sympify(arg, strict=True) for arg in args):
            flat.update(arg.args if isinstance(arg, Maximum) else (arg,))
        if not flat:
            raise TypeError("Maximum of nothing")
        if len(flat) == 1:
            return flat.pop()
        if all(arg.is_number for arg in flat):
            return Max(*flat)
        if S.Zero in flat and all(arg.is_positive for arg in flat if arg is not S.Zero):
            flat.discard(S.Zero)
            return cls(*flat, **options)
        return super().__new__(cls, *sorted(flat, key=default_sort_key), **options)

    def _eval_is_positive(self) -> bool | None:
        return True if any(arg.is_positive for arg in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(arg.is_nonnegative for arg in self.args) else None

    def doit(self, **hints: Any) -> Expr:
        """The arguments done, then SymPy's ``Max`` of them."""
        return Max(*(arg.doit(**hints) for arg in self.args))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = r",\; ".join(printer._print(arg) for arg in self.args)
        tex = rf"\max\left({body}\right)"
        return tex if exp is None else rf"{tex}^{{{exp}}}"

    def _sympystr(self, printer: Any) -> str:
        return f"Maximum({', '.join(printer._print(arg) for arg in self.args)})"
