"""The functions a program line may name: what each costs and how its reverse behaves.

Work on the vector unit is counted apart from matrix FLOPs, one for each elementary operation on an
element (an exponential counts one); the published FLOP counts of models leave it out.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Reduction = Literal["sum", "mean", "max"]


@dataclass(frozen=True)
class Function:
    """An elementwise function or a reduction.

    ``flops`` and ``reverse_flops`` count vector operations for an element of the largest operand.
    ``stats`` and ``reverse_stats`` are how many f32 numbers a row needs from all devices when the
    dims worked along are sharded (a softmax needs its maximum and its sum).
    ``saves_output`` says that the reverse needs the result and not the operands; ``linear`` that it
    needs neither, ``product`` that for each operand it needs the other one. ``shifts`` moves every
    row on by one along a single dim.
    """

    name: str
    arity: int
    flops: int
    reverse_flops: int = 1
    stats: int = 0
    reverse_stats: int = 0
    along: bool = False
    linear: bool = False
    product: bool = False
    saves_output: bool = False
    reduces: Reduction | None = None
    shifts: bool = False


FUNCTIONS = MappingProxyType(
    {
        made.name: made
        for made in (
            Function("copy", 1, 0, 0, linear=True),
            Function("add", 2, 1, 0, linear=True),
            Function("mul", 2, 1, 1, product=True),
            Function("relu", 1, 1, 1),
            Function("gelu", 1, 8, 12),
            Function("silu", 1, 4, 6),
            Function("swiglu", 2, 5, 8),
            Function("geglu", 2, 9, 14),
            Function("rope", 1, 3, 3, linear=True),
            Function("shift", 1, 0, 0, along=True, linear=True, shifts=True),
            Function("softmax", 1, 5, 4, 2, 1, along=True, saves_output=True),
            Function("rmsnorm", 2, 4, 8, 1, 1, along=True),
            Function("layernorm", 3, 7, 11, 2, 2, along=True),
            Function("sum", 1, 1, 0, along=True, linear=True, reduces="sum"),
            Function("mean", 1, 1, 1, along=True, linear=True, reduces="mean"),
            Function("max", 1, 1, 1, along=True, reduces="max"),
        )
    }
)
