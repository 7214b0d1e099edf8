"""Lays mesh axes on a chip's network: what fits, at which level, over which links."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

from symscale.algebra.errors import HardwareError
from symscale.algebra.links import Network
from symscale.algebra.symbols import symbol
from symscale.hardware.edges import Edge
from symscale.hardware.fidelity import Fidelity
from symscale.hardware.layout import Layout, mesh_text
from symscale.hardware.layouts import LayoutChoice
from symscale.hardware.levels import Lay, Level, pack
from symscale.hardware.placement import Placement
from symscale.hardware.switch import Switch
from symscale.hardware.torus import Torus

if TYPE_CHECKING:
    from symscale.hardware.chip import Chip


def unsized(chip: Chip, fidelity: Fidelity, reduces: frozenset[str]) -> Network:
    """The network inside one node or pod, for axes whose sizes are not known yet.

    Of a full mesh it counts all links, as a collective over the whole node uses them; with sizes, a
    group has its own links only.
    """
    fabric = chip.fabric
    if fabric.torus is not None:
        return Torus(fidelity)
    return Switch(fidelity, fabric.egress, "switch" if fabric.place in reduces else "devices")


def placed(
    chip: Chip,
    axes: tuple[str, ...],
    sizes: Mapping[str, int],
    links: Mapping[str, int],
    choice: LayoutChoice,
) -> Placement:
    """Mesh axes of these sizes on a chip's network.

    Raises:
        HardwareError: for a mesh that is larger than the network, or an axis that does not fit.
    """
    order = choice.ordered(axes)
    ordered = {name: sizes[name] for name in order}
    inside = {name: size for name, size in ordered.items() if name not in choice.outside}
    room = _room(chip, prod(sizes.values()))
    levels = _levels(chip, inside, choice, room)
    rooms = (room, *(level.size for level in levels))
    _check_room(chip, ordered, inside, rooms)
    try:
        lays = pack(ordered, rooms, choice.outside)
    except HardwareError:
        raise HardwareError(
            f"mesh {mesh_text(ordered)} does not fit {_whole(chip)}: axes that do not divide a "
            f"{chip.fabric.place} of {rooms[0]} leave chips idle"
        ) from None
    layout, edges, wrap = _on_torus(chip, axes, lays, {**choice.links, **links})
    return Placement(
        chip.name, order, ordered, lays, layout, edges, wrap, chip.fabric, levels, room, dict(chip),
    )  # fmt: skip


def reach(chip: Chip) -> int:
    """The most chips that one mesh can have on this network."""
    found = chip.figures.get("pod")
    if chip.fabric.kind == "host" and "chips_per_host" not in chip.figures:
        return 1
    below = [_room(chip), *(level.size or 1 for level in chip.fabric.levels)]
    if found is not None:
        return max(int(found.value), _room(chip))
    flat = not chip.fabric.levels and chip.torus is None and "W_dcn" in chip.figures
    return 10**9 if flat else prod(below)


def _room(chip: Chip, count: int = 2) -> int:
    """Chips of one node, pod or host; a single chip needs no other."""
    fabric = chip.fabric
    if fabric.kind == "host":
        return 1 if count == 1 else int(chip.figure("chips_per_host").value)
    if fabric.torus is not None and fabric.levels:
        return fabric.torus.chips
    return chip.domain


def _levels(
    chip: Chip, inside: Mapping[str, int], choice: LayoutChoice, room: int
) -> tuple[Level, ...]:
    """The levels above a node that the mesh may cross; none when it fits one node or pod."""
    if not choice.outside and prod(inside.values()) <= room:
        return ()
    if chip.torus is not None and not chip.fabric.levels:
        if not choice.outside:
            return ()
        chip.figure("W_dcn")
        return (Level("dcn", None, symbol("W_dcn")),)
    if not chip.fabric.levels:
        chip.figure("W_dcn")
        return (Level("network", None, symbol("W_dcn")),)
    made = [level.level for level in chip.fabric.levels]
    for level in chip.fabric.levels:
        chip.figure(level.rate)
    below = room * prod(level.size or 1 for level in made[:-1])
    last = made[-1]
    made[-1] = Level(last.name, max(last.size or 1, reach(chip) // below), last.rate)
    return tuple(made)


def _check_room(
    chip: Chip,
    sizes: Mapping[str, int],
    inside: Mapping[str, int],
    rooms: tuple[int | None, ...],
) -> None:
    dcn = chip.torus is not None and not chip.fabric.levels
    counted = inside if dcn else sizes
    count = prod(counted.values())
    limit = rooms[0] if dcn else (None if None in rooms else reach(chip))
    if limit is None or count <= limit:
        return
    hint = (
        f"; {next(iter(sizes))}=dcn in the layout lays an axis between pods"
        if dcn
        else f"; .override(pod={count}) for a larger one"
    )
    raise HardwareError(
        f"mesh {mesh_text(counted)} has {count} chips; {_whole(chip)} has {limit}{hint}"
    )


def _whole(chip: Chip) -> str:
    levels = chip.fabric.levels or chip.torus is not None
    return f"one {chip.name} {'pod' if levels else chip.fabric.place}"


def _on_torus(
    chip: Chip, axes: tuple[str, ...], lays: Mapping[str, Lay], links: Mapping[str, int]
) -> tuple[Layout, dict[str, tuple[Edge, ...]], dict[str, bool]]:
    """Physical axes, their edges and wraparound, of what lies inside a pod."""
    part = {name: int(lays[name].inside[0]) for name in axes}
    own = chip.layout(axes, part)
    layout = Layout(tuple((name, links.get(name, own[name])) for name in axes))
    if chip.torus is None:
        _check_no_links(chip, links)
        return layout, {}, {}
    wide = {name: size for name, size in part.items() if size > 1}
    _check_links(chip, chip.torus.axes, {name: layout[name] for name in wide})
    return layout, chip.torus.edges(part, layout), chip.torus.wraps(wide, layout)


def _check_no_links(chip: Chip, links: Mapping[str, int]) -> None:
    """Refuse physical axes on a network that has none."""
    for name, count in links.items():
        raise HardwareError(
            f"{name} over {count} physical axes: {chip.name} has no torus to lay mesh axes over"
        )


def _check_links(chip: Chip, most: int, links: Mapping[str, int]) -> None:
    """Refuse mesh axes over more physical axes than the torus has, or over none."""
    for name, count in links.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise HardwareError(f"mesh axis {name} over {count!r} physical axes: at least 1")
    if sum(links.values()) > most:
        said = ", ".join(f"{name} over {count}" for name, count in links.items())
        left = most - len(links) + 1
        raise HardwareError(
            f"{said} of the physical axes of a torus: {chip.name} has {most}, "
            f"so that one of {len(links)} mesh axes can lie over at most {left}"
        )
