"""Reads the network of a chip's file."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, get_args

from symscale.algebra.errors import HardwareError
from symscale.hardware.fabric import Fabric, FabricKind, LevelFigure
from symscale.hardware.figure import RATES, Figure
from symscale.hardware.layout import TorusShape
from symscale.hardware.reading import need, typed


def read_fabric(network: Mapping[str, Any]) -> Fabric:
    """The network under ``network`` of a file.

    Raises:
        HardwareError: naming the key, what is wrong, and what would be right.

    >>> read_fabric({"kind": "switch", "rate": "W_nvlink"}).place
    'node'
    """
    kind = need(network, "kind", str, "network")
    known = get_args(FabricKind)
    if kind not in known:
        raise HardwareError(f"'network.kind' is {kind!r}; {' or '.join(known)} is wanted")
    levels = tuple(
        _level(typed(entry, dict, f"network.levels[{place}]"), f"network.levels[{place}]")
        for place, entry in enumerate(typed(network.get("levels", []), list, "network.levels"))
    )
    if kind == "torus":
        return Fabric("torus", _torus(network), levels=levels)
    return Fabric(kind, rate=_rate(network, "network"), levels=levels)


def _rate(data: Mapping[str, Any], path: str) -> str:
    rate = need(data, "rate", str, path)
    if rate not in RATES:
        raise HardwareError(f"'{path}.rate' is {rate!r}; one of {', '.join(RATES)} is wanted")
    return str(rate)


def _level(data: Mapping[str, Any], path: str) -> LevelFigure:
    size = need(data, "size", int, path)
    taper = typed(data.get("taper", 1), int, f"{path}.taper")
    if size < 1 or taper < 1:
        raise HardwareError(f"'{path}.size' and '{path}.taper' must be above zero")
    return LevelFigure(need(data, "name", str, path), size, _rate(data, path), taper)


def _torus(network: Mapping[str, Any]) -> TorusShape:
    shape = need(network, "shape", list, "network")
    edges = tuple(typed(edge, int, "network.shape") for edge in shape)
    wrap = need(network, "wrap", dict, "network")
    rule = need(wrap, "rule", str, "network.wrap")
    if rule not in ("axis", "cube"):
        raise HardwareError(f"'network.wrap.rule' is {rule!r}; axis or cube is wanted")
    size = need(wrap, "size", int, "network.wrap")
    if not edges or min(*edges, size, size) < 1:
        raise HardwareError("'network.shape' and 'network.wrap.size' must be above zero")
    return TorusShape(edges, rule, size)


def check_pod(fabric: Fabric, entries: tuple[Figure, ...]) -> None:
    """Refuse a pod that is not as large as its torus.

    Raises:
        HardwareError: with both numbers.

    >>> check_pod(Fabric("switch", rate="W_nvlink"), ())
    """
    pod = next((entry.value for entry in entries if entry.name == "pod"), None)
    torus = fabric.torus
    if torus is not None and not fabric.levels and pod is not None and pod != prod(torus.shape):
        shape = "x".join(map(str, torus.shape))
        raise HardwareError(f"pod = {pod}, but 'network.shape' {shape} has {torus.chips} chips")
