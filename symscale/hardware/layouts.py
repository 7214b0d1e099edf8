"""A layout as one types it: the order of mesh axes, and where some of them lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from symscale.algebra.errors import HardwareError
from symscale.hardware.layout import mesh_axes

_OUTSIDE = "dcn"


@dataclass(frozen=True)
class LayoutChoice:
    """What a user says about a layout; all of it may be left to the chip.

    ``order`` lists mesh axes from the outermost to the innermost, ``links`` the physical axes under
    some, ``outside`` the axes that run between pods (or nodes) only.
    """

    order: tuple[str, ...] = ()
    links: Mapping[str, int] = field(default_factory=dict)
    outside: frozenset[str] = frozenset()

    def ordered(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """The axes in this order: those between pods, those not named, then those named.

        Raises:
            HardwareError: for an axis that the mesh does not have.

        >>> layout_choice("Y,X").ordered(("X", "Y"))
        ('Y', 'X')
        """
        for name in (*self.order, *self.links, *self.outside):
            if name not in axes:
                raise HardwareError(
                    f"layout names {name}, which is no axis of the mesh ({', '.join(axes)})"
                )
        every = (*(name for name in axes if name not in self.order), *self.order)
        return (
            *(name for name in every if name in self.outside),
            *(name for name in every if name not in self.outside),
        )

    def to_dict(self) -> dict[str, Any]:
        """The choice for JSON."""
        return {
            "order": list(self.order),
            "links": dict(self.links),
            "outside": sorted(self.outside),
        }


def layout_choice(text: str | LayoutChoice | None) -> LayoutChoice:
    """A layout from its text.

    ``Y,X`` lays X innermost (neighbours along it are closest); ``X=2,Y=1`` lays X over two physical
    axes of a torus; ``Z=dcn`` lays Z between pods. Both forms mix.

    Raises:
        HardwareError: for anything else.

    >>> layout_choice("X=2,Y=1").links["X"], sorted(layout_choice("Z=dcn").outside)
    (2, ['Z'])
    >>> layout_choice("X=two")
    Traceback (most recent call last):
    symscale.algebra.errors.HardwareError: layout 'X=two': write an order (X,Y), a number of \
physical axes (X=2) or X=dcn
    """
    if text is None:
        return LayoutChoice()
    if isinstance(text, LayoutChoice):
        return text
    if not isinstance(text, str):
        raise HardwareError(f"layout {text!r}: write an order (X,Y), or physical axes (X=2)")
    order: list[str] = []
    links: dict[str, int] = {}
    outside: set[str] = set()
    for item in text.split(","):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not name.isidentifier() or (equals and not (value.isdigit() or value == _OUTSIDE)):
            raise HardwareError(
                f"layout {text!r}: write an order (X,Y), a number of physical axes (X=2) or X=dcn"
            )
        if not equals:
            order.append(name)
        elif value == _OUTSIDE:
            outside.add(name)
        else:
            links[name] = int(value)
    if order:
        mesh_axes(order)
    return LayoutChoice(tuple(order), links, frozenset(outside))
