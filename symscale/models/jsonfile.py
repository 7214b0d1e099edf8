"""JSON from strangers: read within a size limit, checked, and quoted safely in messages."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from symscale.algebra.errors import ModelError

MAX_CONFIG_BYTES = 2**20


def load_object(path: Path, where: str) -> dict[str, Any]:
    """The JSON object in a file; ``where`` names the file in messages.

    Raises:
        ModelError: unreadable, over 1 MiB, not UTF-8, not JSON (with line and column), NaN,
            a negative infinity or a key that occurs twice, or not an object.
        RecursionError: nested too deeply.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ModelError(f"cannot read {where}: {error.strerror or error}") from None
    if len(data) > MAX_CONFIG_BYTES:
        raise ModelError(f"{where} is larger than 1 MiB; a model's config.json is a few KiB")
    try:
        config = json.loads(
            data.decode("utf-8-sig"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise ModelError(f"{where} is not JSON: {error.msg} at {place}") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{where} is not JSON: byte {error.start} is not UTF-8") from None
    except ValueError as error:
        raise ModelError(f"{where} is not a valid config: {one_line(str(error))}") from None
    if not isinstance(config, dict):
        raise ModelError(f"{where} holds {kind(config)}; a config is a JSON object")
    return config


def _no_constant(token: str) -> float:
    # Published configurations of state-space models write it for a limit that no count depends on;
    # where a size is read it is refused there.
    if token == "Infinity":
        return math.inf
    raise ValueError(f"{token} is not a JSON number")


def _finite(token: str) -> float:
    value = float(token)
    if not math.isfinite(value):
        raise ValueError(f"{one_line(token)} is out of range")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {show(twice)} occurs twice")
    return made


def kind(value: object) -> str:
    """What JSON calls a value of this type.

    >>> kind(True), kind([1])
    ('a boolean', 'an array')
    """
    names = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    names |= {type(None): "null", int: "a number"}
    if isinstance(value, float):
        return "a number with a decimal point"
    return names.get(type(value), type(value).__name__)


def show(value: object) -> str:
    r"""A value as short one-line JSON, fit for a message.

    >>> show("two\nlines")
    '"two\\nlines"'
    """
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(type(value))
    return one_line(text)


def one_line(text: str) -> str:
    r"""The text without control characters, cut to 60.

    >>> one_line("a\tb")
    'a b'
    """
    flat = "".join(c if c.isprintable() else " " for c in text)
    return flat if len(flat) <= 60 else flat[:57] + "..."


def plain_copy(value: Any) -> Any:
    """A deep copy in dicts and lists, whatever mappings and tuples it was given in.

    >>> plain_copy({"a": (1, 2)})
    {'a': [1, 2]}
    """
    if isinstance(value, Mapping):
        return {key: plain_copy(item) for key, item in value.items()}
    return [plain_copy(item) for item in value] if isinstance(value, list | tuple) else value
