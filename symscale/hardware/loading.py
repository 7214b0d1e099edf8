"""Reads a chip from its JSON file and checks it: a wrong file is one clear line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from math import prod
from typing import Any

from symscale.algebra.errors import HardwareError
from symscale.hardware.chip import Chip
from symscale.hardware.figure import (
    RATES,
    Figure,
    Reading,
    Source,
    check_name,
    checked_value,
    unit,
)
from symscale.hardware.layout import TorusShape

_TYPES: Mapping[type, str] = {str: "text", dict: "an object", list: "a list", int: "a whole number"}


def parse(text: str, where: str) -> Chip:
    """A chip from the text of its file; ``where`` names the file in errors.

    Raises:
        HardwareError: naming the file, the key, what is wrong, and what would be right.

    >>> parse("[]", "my.json")
    Traceback (most recent call last):
    symscale.algebra.errors.HardwareError: my.json: the file must hold an object, not a list
    """
    data = _read(text, where)
    try:
        return _chip(data, where)
    except HardwareError as wrong:
        raise HardwareError(f"{where}: {wrong}") from None


def _read(text: str, where: str) -> dict[str, Any]:
    try:
        data = json.loads(
            text,
            parse_float=_exact_float,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique,
        )
    except HardwareError as wrong:
        raise HardwareError(f"{where}: {wrong}") from None
    except (ValueError, RecursionError) as wrong:
        raise HardwareError(f"{where}: not JSON: {wrong}") from None
    if not isinstance(data, dict):
        found = _TYPES.get(type(data), "a value")
        raise HardwareError(f"{where}: the file must hold an object, not {found}")
    return data


def _exact_float(digits: str) -> Fraction:
    number = Decimal(digits)
    if abs(number.adjusted()) > 99:
        raise HardwareError(f"{digits} is out of range for a figure")
    return Fraction(number)


def _refuse_constant(word: str) -> None:
    raise HardwareError(f"{word} is no number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            raise HardwareError(f"key {key!r} occurs twice in one object")
        out[key] = value
    return out


def _need(data: Mapping[str, Any], key: str, kind: type, path: str = "") -> Any:
    full = f"{path}.{key}" if path else key
    if key not in data:
        raise HardwareError(f"no {full!r}; {_TYPES[kind]} is wanted there")
    return _typed(data[key], kind, full)


def _typed(value: Any, kind: type, full: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise HardwareError(f"{full!r} must be {_TYPES[kind]}, not {value!r}")
    return value


def _chip(data: dict[str, Any], where: str) -> Chip:
    sources = {
        key: _source(key, _typed(entry, dict, f"sources.{key}"))
        for key, entry in _need(data, "sources", dict).items()
    }
    entries = tuple(
        _figure(name, _typed(entry, dict, f"figures.{name}"), sources)
        for name, entry in _need(data, "figures", dict).items()
    )
    network = _need(data, "network", dict)
    torus = _torus(network) if _network_kind(network) == "torus" else None
    _check_pod(torus, entries)
    return Chip(
        name=_need(data, "name", str),
        title=_need(data, "title", str),
        vendor=_need(data, "vendor", str),
        entries=entries,
        torus=torus,
        switch_rate=None if torus else _switch_rate(network),
        aliases=_texts(data, "aliases"),
        traps=_texts(data, "traps"),
        file=where,
    )


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    listed = _typed(data.get(key, []), list, key)
    return tuple(_typed(item, str, f"{key}[{place}]") for place, item in enumerate(listed))


def _source(key: str, data: Mapping[str, Any]) -> Source:
    path = f"sources.{key}"
    return Source(
        key,
        _need(data, "text", str, path),
        _typed(data.get("url", ""), str, f"{path}.url"),
        _need(data, "as_of", str, path),
    )


def _figure(name: str, data: Mapping[str, Any], sources: Mapping[str, Source]) -> Figure:
    check_name(name)
    path = f"figures.{name}"
    _check_unit(name, _need(data, "unit", str, path))
    listed = _typed(data.get("alternatives", {}), dict, f"{path}.alternatives")
    others = []
    for edition, entry in listed.items():
        full = f"{path}.alternatives.{edition}"
        others.append((edition, _value(name, _typed(entry, dict, full), full, sources)))
    return Figure(name, _value(name, data, path, sources), tuple(others))


def _value(name: str, data: Mapping[str, Any], path: str, sources: Mapping[str, Source]) -> Reading:
    if "value" not in data:
        raise HardwareError(f"no '{path}.value'; a number is wanted there")
    key = _need(data, "source", str, path)
    if key not in sources:
        raise HardwareError(f"'{path}.source' is {key!r}, which is not among 'sources'")
    note = _typed(data.get("note", ""), str, f"{path}.note")
    return Reading(checked_value(name, data["value"]), sources[key], note)


def _check_unit(name: str, given: str) -> None:
    wanted = unit(name)
    if given == wanted:
        return
    bits = wanted == "byte/s" and "bit" in given.lower()
    hint = " (a network rate in bits: divide by 8)" if bits else ""
    raise HardwareError(f"{name} is given in {given!r}; {wanted} is wanted{hint}")


def _network_kind(network: Mapping[str, Any]) -> str:
    kind = _need(network, "kind", str, "network")
    if kind not in ("torus", "switch"):
        raise HardwareError(f"'network.kind' is {kind!r}; torus or switch is wanted")
    return str(kind)


def _switch_rate(network: Mapping[str, Any]) -> str:
    rate = _need(network, "rate", str, "network")
    if rate not in RATES:
        raise HardwareError(f"'network.rate' is {rate!r}; one of {', '.join(RATES)} is wanted")
    return str(rate)


def _torus(network: Mapping[str, Any]) -> TorusShape:
    shape = _need(network, "shape", list, "network")
    edges = tuple(_typed(edge, int, "network.shape") for edge in shape)
    wrap = _need(network, "wrap", dict, "network")
    rule = _need(wrap, "rule", str, "network.wrap")
    if rule not in ("axis", "cube"):
        raise HardwareError(f"'network.wrap.rule' is {rule!r}; axis or cube is wanted")
    size = _need(wrap, "size", int, "network.wrap")
    if not edges or min(*edges, size, size) < 1:
        raise HardwareError("'network.shape' and 'network.wrap.size' must be above zero")
    return TorusShape(edges, rule, size)


def _check_pod(torus: TorusShape | None, entries: tuple[Figure, ...]) -> None:
    pod = next((entry.value for entry in entries if entry.name == "pod"), None)
    if torus is not None and pod is not None and pod != prod(torus.shape):
        shape = "x".join(map(str, torus.shape))
        raise HardwareError(f"pod = {pod}, but 'network.shape' {shape} has {torus.chips} chips")
