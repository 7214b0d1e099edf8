"""Reads a chip from its JSON file and checks it: a wrong file is one clear line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from symscale.algebra.errors import HardwareError
from symscale.hardware.chip import Chip
from symscale.hardware.figure import (
    Figure,
    Reading,
    Source,
    check_name,
    checked_value,
    unit,
)
from symscale.hardware.loading_fabric import check_pod, read_fabric
from symscale.hardware.reading import TYPES, need, typed


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
        found = TYPES.get(type(data), "a value")
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


def _chip(data: dict[str, Any], where: str) -> Chip:
    sources = {
        key: _source(key, typed(entry, dict, f"sources.{key}"))
        for key, entry in need(data, "sources", dict).items()
    }
    entries = tuple(
        _figure(name, typed(entry, dict, f"figures.{name}"), sources)
        for name, entry in need(data, "figures", dict).items()
    )
    fabric = read_fabric(need(data, "network", dict))
    check_pod(fabric, entries)
    return Chip(
        name=need(data, "name", str),
        title=need(data, "title", str),
        vendor=need(data, "vendor", str),
        entries=entries,
        fabric=fabric,
        aliases=_texts(data, "aliases"),
        traps=_texts(data, "traps"),
        file=where,
    )


def _texts(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    listed = typed(data.get(key, []), list, key)
    return tuple(typed(item, str, f"{key}[{place}]") for place, item in enumerate(listed))


def _source(key: str, data: Mapping[str, Any]) -> Source:
    path = f"sources.{key}"
    return Source(
        key,
        need(data, "text", str, path),
        typed(data.get("url", ""), str, f"{path}.url"),
        need(data, "as_of", str, path),
    )


def _figure(name: str, data: Mapping[str, Any], sources: Mapping[str, Source]) -> Figure:
    check_name(name)
    path = f"figures.{name}"
    _check_unit(name, need(data, "unit", str, path))
    listed = typed(data.get("alternatives", {}), dict, f"{path}.alternatives")
    others = []
    for edition, entry in listed.items():
        full = f"{path}.alternatives.{edition}"
        others.append((edition, _value(name, typed(entry, dict, full), full, sources)))
    return Figure(name, _value(name, data, path, sources), tuple(others))


def _value(name: str, data: Mapping[str, Any], path: str, sources: Mapping[str, Source]) -> Reading:
    if "value" not in data:
        raise HardwareError(f"no '{path}.value'; a number is wanted there")
    key = need(data, "source", str, path)
    if key not in sources:
        raise HardwareError(f"'{path}.source' is {key!r}, which is not among 'sources'")
    note = typed(data.get("note", ""), str, f"{path}.note")
    return Reading(checked_value(name, data["value"]), sources[key], note)


def _check_unit(name: str, given: str) -> None:
    wanted = unit(name)
    if given == wanted:
        return
    small = given.lower()
    bits = wanted == "byte/s" and ("bit" in small or (small.endswith("bps") and "B" not in given))
    hint = " (a network rate in bits: divide by 8)" if bits else ""
    raise HardwareError(f"{name} is given in {given!r}; {wanted} is wanted{hint}")
