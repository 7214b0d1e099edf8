"""Replica groups as HLO writes them, in each of the four spellings, as lists of partition ids."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from symscale.xla.hlo_error import HloError, excerpt

Groups = tuple[tuple[int, ...], ...]

_INTEGERS = r"\d{1,9}(?:,\d{1,9})*"
_LISTED = re.compile(rf"\{{(?:\{{(?:{_INTEGERS})?\}}(?:,\{{(?:{_INTEGERS})?\}})*)?\}}")
_LIST = re.compile(r"\{([\d,]*)\}")
_IOTA = re.compile(rf"\[({_INTEGERS})\]<=\[({_INTEGERS})\](?:T\(({_INTEGERS})\))?")
_MESH = re.compile(
    r"mesh\[(?P<axes>[^\[\]]*)\](?:,device_ids=\((?P<ids>[^{}]*)\))?\{(?P<names>[^{}]*)\}"
)
_AXIS = re.compile(r"'?([^'=,]+)'?=(\d{1,9})")
_ORDER = re.compile(rf"\[({_INTEGERS})\](?:T\(({_INTEGERS})\))?")
_SUB_AXIS = re.compile(r"'?([^':,]+)'?(?::\((\d{1,9})\)(\d{1,9}))?")


@lru_cache(maxsize=4096)
def parse_groups(text: str, devices: int) -> Groups:
    """The groups of an attribute ``replica_groups`` over partition ids 0 to ``devices`` - 1.

    Raises ``HloError`` for an unknown spelling, and for ids that are not of the mesh.

    >>> parse_groups("[2,4]<=[4,2]T(1,0)", 8)
    ((0, 2, 4, 6), (1, 3, 5, 7))
    >>> parse_groups("mesh['axis_0'=4,'axis_1'=2] {'axis_0':(2)2}", 8)
    ((0, 2), (1, 3), (4, 6), (5, 7))
    >>> parse_groups("{}", 4)
    ((0, 1, 2, 3),)
    """
    compact = "".join(text.split())
    if _LISTED.fullmatch(compact):
        groups = _listed(compact, devices)
    elif found := _IOTA.fullmatch(compact):
        groups = _iota(found, devices)
    elif found := _MESH.fullmatch(compact):
        groups = _mesh_axes(found, devices)
    else:
        raise HloError(f"replica_groups {excerpt(text)} has an unknown form")
    ids = [device for group in groups for device in group]
    if len(set(ids)) != len(ids) or any(device >= devices for device in ids):
        raise HloError(
            f"replica_groups {excerpt(text)} names a device twice or one beyond {devices - 1}"
        )
    return groups


@lru_cache(maxsize=4096)
def parse_pairs(text: str, devices: int) -> Groups:
    """Pairs (from, to) of an attribute ``source_target_pairs``, a device's own left out.

    >>> parse_pairs("{{0,0},{1,2},{2,1}}", 4)
    ((1, 2), (2, 1))
    """
    compact = "".join(text.split())
    if not _LISTED.fullmatch(compact):
        raise HloError(f"source_target_pairs {excerpt(text)} has an unknown form")
    pairs = tuple(_numbers(part) for part in _LIST.findall(compact))
    if any(len(pair) != 2 or max(pair) >= devices for pair in pairs):
        raise HloError(
            f"source_target_pairs {excerpt(text)} are not pairs of devices below {devices}"
        )
    return tuple(pair for pair in pairs if pair[0] != pair[1])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part)


def _listed(text: str, devices: int) -> Groups:
    if text in ("{}", "{{}}"):
        return (tuple(range(devices)),)
    return tuple(_numbers(part) for part in _LIST.findall(text))


def _iota(found: re.Match[str], devices: int) -> Groups:
    shape, reshape = _numbers(found[1]), _numbers(found[2])
    if math.prod(shape) != devices:
        raise HloError(f"replica_groups {found[0]!r} are not over {devices} devices")
    ids = arranged(reshape, _numbers(found[3] or ""), devices, found[0])
    size = shape[-1]
    if len(shape) != 2 or size == 0:
        raise HloError(f"replica_groups {found[0]!r} is not of the form [groups,size]<=[...]")
    return tuple(tuple(ids[i : i + size]) for i in range(0, devices, size))


def arranged(
    dims: tuple[int, ...], order: tuple[int, ...], devices: int, text: str
) -> tuple[int, ...]:
    """Ids 0, 1, ... laid out row by row over ``dims``, then read with the dims in ``order``.

    >>> arranged((4, 2), (1, 0), 8, "")
    (0, 2, 4, 6, 1, 3, 5, 7)
    """
    order = order or tuple(range(len(dims)))
    if math.prod(dims) != devices or sorted(order) != list(range(len(dims))):
        raise HloError(f"device order {excerpt(text)} is not one of {devices} devices")
    strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
    ids = [0]
    for dim in order:
        ids = [base + step * strides[dim] for base in ids for step in range(dims[dim])]
    return tuple(ids)


def _mesh_axes(found: re.Match[str], devices: int) -> Groups:
    text = found[0]
    sizes = {name: int(size) for name, size in _AXIS.findall(found["axes"])}
    if math.prod(sizes.values()) != devices or len(sizes) != found["axes"].count("="):
        raise HloError(f"replica_groups {excerpt(text)} are not over {devices} devices")
    ids = _device_ids(found["ids"], devices, text)
    digits, grouped = _digits(sizes, _sub_axes(found["names"], sizes, text), text)
    rest = [place for place in range(len(digits)) if place not in grouped]
    reading = arranged(tuple(digits), tuple(rest + grouped), devices, text)
    size = math.prod(digits[place] for place in grouped)
    ordered = [ids[place] for place in reading]
    return tuple(tuple(ordered[i : i + size]) for i in range(0, devices, size))


def _device_ids(text: str | None, devices: int, whole: str) -> tuple[int, ...]:
    if not text:
        return tuple(range(devices))
    if found := _ORDER.fullmatch(text):
        return arranged(_numbers(found[1]), _numbers(found[2] or ""), devices, text)
    ids = _numbers(text) if re.fullmatch(_INTEGERS, text) else ()
    if sorted(ids) != list(range(devices)):
        raise HloError(f"device_ids of {excerpt(whole)} are not an order of {devices} devices")
    return ids


def _sub_axes(text: str, sizes: dict[str, int], whole: str) -> list[tuple[str, int, int]]:
    """Each named axis with the product of the sizes before its part, and the part's size."""
    parts = []
    for piece in text.split(",") if text else []:
        found = _SUB_AXIS.fullmatch(piece)
        if found is None or found[1] not in sizes:
            raise HloError(f"replica_groups {excerpt(whole)} names an axis that its mesh has not")
        size = sizes[found[1]]
        parts.append((found[1], int(found[2] or 1), int(found[3] or size)))
    return parts


def _digits(
    sizes: dict[str, int], parts: list[tuple[str, int, int]], whole: str
) -> tuple[list[int], list[int]]:
    """Mesh sizes split where parts of axes are named, and the places of the named parts."""
    digits: list[int] = []
    places: dict[tuple[str, int], int] = {}
    for name, full in sizes.items():
        done = 1
        for before, size in sorted((b, s) for n, b, s in parts if n == name):
            if min(before, size) < 1 or before % done or full % (before * size):
                raise HloError(f"replica_groups {excerpt(whole)} cut an axis unevenly")
            digits += [before // done, size]
            places[name, before] = len(digits) - 1
            done = before * size
        digits.append(full // done)
    return digits, [places[name, before] for name, before, _ in parts]
