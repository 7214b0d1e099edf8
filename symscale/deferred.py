"""Functions that load their module when first used, so that ``from symscale import *`` is quick."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any


def _load(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return found


class Deferred:
    """Stands for a function of a module that is not loaded yet; calling it loads and calls it.

    Its documentation, signature and name are the function's own.

    >>> Deferred("symscale.algebra.errors", "near")("tpu", ["tpus"])
    '; did you mean tpus?'
    """

    def __init__(self, module: str, name: str) -> None:
        self._module = module
        self.__name__ = self.__qualname__ = name

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return _load(self._module, self.__name__)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__)

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.__wrapped__.__doc__

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Load the function and call it."""
        return self.__wrapped__(*args, **named)

    def __reduce__(self) -> tuple[Any, ...]:
        return _load, (self._module, self.__name__)

    def __repr__(self) -> str:
        return f"<function {self._module}.{self.__name__}>"
