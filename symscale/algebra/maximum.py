"""An unevaluated maximum, and a minimum.

SymPy's own ``Max`` compares its arguments when it is built, which takes seconds for a dozen terms
and is repeated at every substitution. These nodes wait until all their arguments are numbers.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr, Function, Max, Min, S, sympify
from sympy.core.sorting import default_sort_key


class _Extremum(Function):  # type: ignore[misc]
    """Flattened, without repeats, decided once all arguments are numbers."""

    is_extended_real = True
    _word = ""
    _number: Any = None
    _rational: Any = None

    def __new__(cls, *args: Any, **options: Any) -> Expr:
        """Flatten, drop repeats, and decide once all arguments are numbers."""
        flat: set[Expr] = set()
        for arg in (sympify(arg, strict=True) for arg in args):
            flat.update(arg.args if isinstance(arg, cls) else (arg,))
        if not flat:
            raise TypeError(f"{cls.__name__} of nothing")
        if len(flat) == 1:
            return flat.pop()
        if all(arg.is_Rational for arg in flat):
            return cls._rational(flat)
        if all(arg.is_number for arg in flat):
            return cls._number(*flat)
        if S.Zero in flat and all(arg.is_positive for arg in flat if arg is not S.Zero):
            return cls._beside_zero(flat - {S.Zero})
        return super().__new__(cls, *sorted(flat, key=default_sort_key), **options)

    @classmethod
    def _beside_zero(cls, rest: set[Expr]) -> Expr:
        raise TypeError(f"{cls.__name__} is a maximum or a minimum")

    def doit(self, **hints: Any) -> Expr:
        """The arguments done, then SymPy's own node of them."""
        return self._number(*(arg.doit(**hints) for arg in self.args))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = r",\; ".join(printer._print(arg) for arg in self.args)
        tex = rf"\{self._word}\left({body}\right)"
        return tex if exp is None else rf"{tex}^{{{exp}}}"

    def _sympystr(self, printer: Any) -> str:
        return f"{type(self).__name__}({', '.join(printer._print(arg) for arg in self.args)})"

    def _plain(self, printer: Any) -> str:
        return f"{self._word}({', '.join(printer._print(arg) for arg in self.args)})"


class Maximum(_Extremum):
    """The largest of its arguments, decided only once all of them are numbers.

    Nested maxima are flattened and repeated arguments dropped. ``.doit()`` gives SymPy's ``Max``.

    >>> from symscale.algebra.symbols import B, D
    >>> Maximum(B, D, Maximum(B, 2))
    Maximum(2, B, D)
    >>> Maximum(B, D).subs({B: 3, D: 7})
    7
    """

    _word = "max"
    _number = Max
    _rational = max

    @classmethod
    def _beside_zero(cls, rest: set[Expr]) -> Expr:
        return cls(*rest)

    def _eval_is_positive(self) -> bool | None:
        return True if any(arg.is_positive for arg in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if any(arg.is_nonnegative for arg in self.args) else None


class Minimum(_Extremum):
    """The smallest of its arguments, decided only once all of them are numbers.

    >>> from symscale.algebra.symbols import B, D
    >>> Minimum(B, D, Minimum(B, 2)), Minimum(B, D).subs({B: 3, D: 7})
    (Minimum(2, B, D), 3)
    """

    _word = "min"
    _number = Min
    _rational = min

    @classmethod
    def _beside_zero(cls, rest: set[Expr]) -> Expr:
        return S.Zero

    def _eval_is_positive(self) -> bool | None:
        return True if all(arg.is_positive for arg in self.args) else None

    def _eval_is_nonnegative(self) -> bool | None:
        return True if all(arg.is_nonnegative for arg in self.args) else None
