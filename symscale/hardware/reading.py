"""Typed reading of a JSON object, with the path of what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from symscale.algebra.errors import HardwareError

TYPES: Mapping[type, str] = {str: "text", dict: "an object", list: "a list", int: "a whole number"}


def need(data: Mapping[str, Any], key: str, kind: type, path: str = "") -> Any:
    """What stands under a key, of the type wanted.

    Raises:
        HardwareError: when it is not there, or is something else.

    >>> need({"name": "mine"}, "name", str)
    'mine'
    """
    full = f"{path}.{key}" if path else key
    if key not in data:
        raise HardwareError(f"no {full!r}; {TYPES[kind]} is wanted there")
    return typed(data[key], kind, full)


def typed(value: Any, kind: type, full: str) -> Any:
    """A value, if it is of the type wanted.

    Raises:
        HardwareError: when it is something else.

    >>> typed([1], list, "traps")
    [1]
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise HardwareError(f"{full!r} must be {TYPES[kind]}, not {value!r}")
    return value
