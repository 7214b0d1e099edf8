"""Expressions as fast NumPy functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from sympy import Expr, Symbol, lambdify

from symscale.algebra.errors import SolveError, SymbolError
from symscale.algebra.symbols import check_known, info
from symscale.solve.generators import check_cost

NumericFunction = Callable[..., Any]


def numeric(expr: Any, *variables: Symbol) -> NumericFunction:
    """The expression as a function of these symbols, in float64, over scalars or arrays.

    Arguments broadcast, and are cast to float64 first: products of 64-bit integers overflow in
    silence. Roundings take a value within a few units of the last place of a whole number as that
    number. Built once for each expression and order of variables.

    Symbols of the expression that are no variable take their values when the function is called,
    from mappings after the variables' values: ``f(2**22, 2048, 4, chip("tpu-v5p"), {T: 8192})``.

    Raises:
        SolveError: for what is no expression of numbers.
        SymbolError: for a variable given twice; at a call, naming each symbol without a value.

    >>> from symscale.algebra.symbols import B, D
    >>> f = numeric(6 * B * D, B, D)
    >>> float(f(405 * 10**9, 156 * 10**11))
    3.7908e+25
    """
    made = check_cost(expr, "expr")
    for item in (made, *variables):
        if not isinstance(item, Expr):
            raise SolveError(f"{item!r} is not a symbol")
        check_known(item)
    if len(set(variables)) < len(variables):
        raise SymbolError(f"a variable is given twice: {', '.join(map(str, variables))}")
    return _compiled(made, variables)


@cache
def _compiled(expr: Expr, variables: tuple[Symbol, ...]) -> NumericFunction:
    import numpy as np

    modules = [
        {"Maximum": _maximum, "Minimum": _minimum, "ceiling": _ceil, "floor": _floor},
        "numpy",
    ]
    others = tuple(sorted(expr.free_symbols - set(variables), key=str))
    names = (*variables, *others)
    inner = lambdify(names, expr, modules=modules, cse=True, printer=_printer())

    def function(*values: Any) -> Any:
        plain = [value for value in values if not isinstance(value, Mapping)]
        if len(plain) != len(variables):
            wanted = ", ".join(map(str, variables))
            raise SolveError(f"{len(plain)} values for {len(variables)} variables: {wanted}")
        given = [value for value in values if isinstance(value, Mapping)]
        plain += _values_of(others, given)
        cast = [np.asarray(value, dtype=np.float64) for value in plain]
        shape = np.broadcast_shapes(*(value.shape for value in cast))
        out = np.asarray(inner(*cast), dtype=np.float64)
        return out[()] if out.shape == shape else np.broadcast_to(out, shape).copy()[()]

    function.__doc__ = f"{expr} as a function of {', '.join(map(str, variables))}, in float64."
    return function


def _values_of(symbols: tuple[Symbol, ...], given: list[Mapping[Any, Any]]) -> list[float]:
    """Each symbol's value from the last mapping that has it."""
    known = {key: value for mapping in given for key, value in mapping.items()}
    left = [f"{s} ({_meaning(s)})" for s in symbols if s not in known]
    if left:
        raise SymbolError(
            f"left without a value: {', '.join(left)}; name it as a variable, or give a mapping "
            "with it after the variables' values"
        )
    return [float(known[s]) for s in symbols]


def _printer() -> Any:
    """NumPy's printer, with roundings and maxima left to the functions below."""
    from sympy.printing.numpy import NumPyPrinter

    names = {name: name for name in ("Maximum", "Minimum", "ceiling", "floor")}
    settings = {"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": True}
    return NumPyPrinter({**settings, "user_functions": names})


def _maximum(*values: Any) -> Any:
    from functools import reduce

    import numpy as np

    return reduce(np.maximum, values)


def _minimum(*values: Any) -> Any:
    from functools import reduce

    import numpy as np

    return reduce(np.minimum, values)


def _ceil(value: Any) -> Any:
    import numpy as np

    return np.ceil(_snapped(value))


def _floor(value: Any) -> Any:
    import numpy as np

    return np.floor(_snapped(value))


def _snapped(value: Any) -> Any:
    """The nearest whole number where rounding error alone can explain the distance to it."""
    import numpy as np

    whole = np.rint(value)
    return np.where(np.abs(value - whole) <= 1e-12 * np.maximum(np.abs(whole), 1.0), whole, value)


def _meaning(symbol: Symbol) -> str:
    try:
        return info(symbol).meaning
    except SymbolError:
        return "not in the symbol table"
