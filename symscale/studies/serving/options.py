"""One way to serve a model on so many chips: what a sweep compares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b, info, n
from symscale.studies.serving.step import ServerStep


@dataclass(frozen=True)
class Option:
    """A number of chips, a mesh and types, timed.

    Attributes:
        name: what tells it from the others, such as ``"int8, 8 chips"``.
        chips: how many it takes.
        seconds: of a step, in ``b`` sequences of ``S`` tokens and the symbols of ``values``.
        bytes: on one chip, in the same.
        room: bytes of one chip that may be used.
        multiple: what a batch must be a multiple of, where chips share it out.
        usd_per_hour: price of one chip; None where it is not on file.
        values: numbers for the other symbols; options of one formula differ in them alone.

    Raises:
        SymbolError: for an expression with another symbol left, or no chips.
    """

    name: str
    chips: int
    seconds: Expr
    bytes: Expr
    room: float
    multiple: int = 1
    usd_per_hour: float | None = None
    values: Mapping[Symbol, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        exact(self.chips, "chips")
        left = (self.seconds.free_symbols | self.bytes.free_symbols) - {b, KEYS, *self.values}
        if left:
            named = ", ".join(f"{s.name} ({info(s).meaning})" for s in sorted(left, key=str))
            raise SymbolError(f"option {self.name!r} still has {named}; put a number in")


def options(
    steps: Mapping[str, ServerStep],
    chips: tuple[int, ...],
    hbm_bytes: Any,
    rates: Mapping[Symbol, Any],
) -> tuple[Option, ...]:
    """Every step on every number of chips.

    Args:
        steps: by the name of their types, such as ``"int8"``.
        chips: the numbers of chips to compare.
        hbm_bytes: bytes of one chip.
        rates: a chip, or numbers for what else is in the steps.

    >>> from sympy import Integer
    >>> from symscale.algebra.symbols import B, C, W_hbm
    >>> step = ServerStep(B / (n * C), 8 / (n * W_hbm), weight_bytes=Integer(8))
    >>> [o.name for o in options({"int8": step}, (1, 2), 10, {C: 1, W_hbm: 1})]
    ['int8, 1 chip', 'int8, 2 chips']
    """
    made = []
    for name, step in steps.items():
        seconds, each = step.seconds(), step.memory / n
        for count in chips:
            shown = f"{name}, {count} chip{'s' * (count != 1)}"
            known = MappingProxyType({**rates, n: count})
            made.append(Option(shown, count, seconds, each, float(hbm_bytes), values=known))
    return tuple(made)
