"""What ``symscale chips NAME`` shows: the chip, its roofs, or a mesh on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

from symscale.algebra.errors import HardwareError
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.placement import Placement
from symscale.hardware.roofline import Roofline
from symscale.hardware.roofline import roofline as roofs_of


def shown(
    name: str,
    *,
    edition: str | None = None,
    changes: Iterable[str] = (),
    roofline: str | None = None,
    mesh: Mapping[str, int] | None = None,
    layout: str | None = None,
) -> Chip | Roofline | Placement:
    """A chip with other numbers, its roofline for a dtype, or the placement of a mesh.

    Raises:
        HardwareError: for an unknown chip, edition, figure or dtype, or a mesh that does not fit.

    >>> shown("h100", mesh={"X": 4, "Y": 8}).axes[0].binding
    'leaf'
    >>> str(shown("tpu-v5e", changes=["W_hbm=8e11"])["W_hbm"])
    '800000000000'
    """
    found = changed(find_chip(name, edition), changes)
    if mesh is not None:
        return found.placement(tuple(mesh), mesh, layout=layout)
    if layout is not None:
        raise HardwareError("a layout places the axes of a mesh: give the mesh, too, as X=4,Y=8")
    return found if roofline is None else roofs_of(found, roofline)


def changed(found: Chip, changes: Iterable[str]) -> Chip:
    """A chip with other numbers, each written as ``FIGURE=NUMBER``.

    Raises:
        HardwareError: for text that is not of this form, or no figure of a chip.
    """
    numbers = dict(_change(text) for text in changes)
    return found.override(**numbers) if numbers else found


def _change(text: str) -> tuple[str, Fraction]:
    figure, equals, number = (part.strip() for part in text.partition("="))
    try:
        value = Fraction(number) if equals else None
    except (ValueError, ZeroDivisionError):
        value = None
    if value is None:
        raise HardwareError(f"{text!r}: write FIGURE=NUMBER, as in W_hbm=8e11")
    return figure, value
