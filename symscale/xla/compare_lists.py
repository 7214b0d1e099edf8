"""The derived list of collectives under numbers, ready to be held against an emitted one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from symscale.programs.collectives import Collective, Slice
from symscale.programs.ops import Pointwise
from symscale.programs.phase import AddGradients, Compute, Phase
from symscale.xla.emit_setting import Setting
from symscale.xla.readings import Emitted

Key = tuple[str, frozenset[str], int]


@dataclass(frozen=True)
class Derived:
    """One derived collective: its kind, the mesh axes it runs over, bytes on one device.

    ``dims`` are the local dims of its operand; none said fits any. ``statistic`` marks the small
    sums of norms and softmaxes, ``added`` the reduction of a sum of gradients that lie as partial
    sums. ``sliced``: into how many parts the array was cut just before; ``shifted``: what is moved
    is shifted along a dim next.
    """

    kind: str
    axes: tuple[str, ...]
    volume: int
    dtype: str
    array: str
    statistic: bool = False
    added: bool = False
    dims: tuple[int, ...] = ()
    sliced: int = 1
    shifted: bool = False

    @property
    def key(self) -> Key:
        """What must be equal for two collectives to be the same."""
        return self.kind, frozenset(self.axes), self.volume

    def to_dict(self) -> dict[str, Any]:
        """All of it, as plain values."""
        return {
            "kind": self.kind, "axes": list(self.axes), "volume": self.volume,
            "dtype": self.dtype, "array": self.array, "statistic": self.statistic,
        }  # fmt: skip


def derived(phases: Iterable[Phase], setting: Setting) -> tuple[Derived, ...]:
    """The collectives of passes, mesh axes of one device left out.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> phase = two_matmul_layer().shard("In[B_X, D]", "Win[D_X, F]").forward
    >>> [d.volume for d in derived([phase], Setting({"X": 4}, {"B": 16, "D": 32, "F": 64}))]
    [4096]
    """
    out = []
    for phase in phases:
        sums = {s.output for s in phase.computes if isinstance(s.op, AddGradients)}
        cut = {s.after: setting.ways(s.axes) for s in phase.steps if isinstance(s, Slice)}
        shifted = {a for s in phase.computes if _shifts(s) for a in s.inputs}
        for move in phase.collectives:
            axes = tuple(name for name in move.axes if setting.mesh[name] > 1)
            if axes:
                one = _derived(move, axes, setting)
                one = replace(one, added=move.before in sums, sliced=cut.get(move.before, 1))
                out.append(replace(one, shifted=move.after in shifted))
    return tuple(out)


def _shifts(step: Compute) -> bool:
    return isinstance(step.op, Pointwise) and step.op.function.shifts


def _derived(move: Collective, axes: tuple[str, ...], setting: Setting) -> Derived:
    return Derived(
        move.kind,
        axes,
        setting.number(move.volume),
        move.before.dtype.name,
        f"{move.before.short} -> {move.after.short}",
        move.statistic,
        dims=setting.local(move.before),
    )


def emitted_key(found: Emitted) -> Key:
    """An emitted collective as the same triple."""
    return found.kind, frozenset(found.axes), found.volume


def same(own: Derived, other: Emitted) -> bool:
    """Whether both are one collective: kind, mesh axes, bytes, and an operand cut along the same
    dims. XLA may reorder an operand's dims, split them or merge them.
    """
    if own.key != emitted_key(other):
        return False
    return not own.dims or not other.dims or _one_block(own.dims, other.dims)


def _one_block(left: Sequence[int], right: Sequence[int]) -> bool:
    a, b = sorted(d for d in left if d > 1), sorted(d for d in right if d > 1)
    return a == b or _merges(a, b) or _merges(b, a)


def _merges(many: Sequence[int], few: Sequence[int]) -> bool:
    """Whether every dim of the few is a product of some of the many, all of them used once.

    >>> _merges([2, 3, 5], [5, 6]), _merges([4, 9], [6, 6])
    (True, False)
    """
    if not few:
        return not many
    for chosen in product((False, True), repeat=len(many)):
        if prod(d for d, used in zip(many, chosen, strict=True) if used) == few[0]:
            rest = [d for d, used in zip(many, chosen, strict=True) if not used]
            if _merges(rest, few[1:]):
                return True
    return False


def all_same(derived: Sequence[Derived], emitted: Sequence[Emitted]) -> bool:
    """Whether both sides are the same collectives, in any order."""
    waiting = list(emitted)
    for own in derived:
        found = next((other for other in waiting if same(own, other)), None)
        if found is None:
            return False
        waiting.remove(found)
    return not waiting


def once_each(found: Sequence[Emitted]) -> tuple[Emitted, ...]:
    """Collectives inside loops, each as often as it runs."""
    return tuple(one for one in found for _ in range(one.times))
