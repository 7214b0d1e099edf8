"""The way from one sharding of an array to another: slices, reductions, AllToAlls, gathers.

The order of axes on a dim matters. Taking the last (minor) axis off ``I_XY`` is one AllGather;
taking off the first leaves the blocks in the wrong order, so a CollectivePermute comes before it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from symscale.algebra.errors import ShardingError
from symscale.arrays.array import Array
from symscale.programs.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    Move,
    ReduceScatter,
    Slice,
)

Axes = tuple[str, ...]


def reshard(source: Array, target: Array, critical: bool = True) -> tuple[Move, ...]:
    """The moves that turn one sharding of an array into another, cheapest kinds first.

    Free slices come first, then reductions (scattered where the target is sharded on the axis of a
    partial sum), then axes that change dims, then gathers.

    Raises:
        ShardingError: when the target asks for partial sums that the source does not have.

    >>> from symscale.arrays.array import array
    >>> [m.name for m in reshard(array("O[B_X, D]{U_Y}"), array("O[B_X, D_Y]"))]
    ['ReduceScatter_Y']
    >>> [m.name for m in reshard(array("I[I_XY, J]"), array("I[I_Y, J]"))]
    ['CollectivePermute_XY', 'AllGather_X']
    >>> [m.name for m in reshard(array("I[I_YX, J]"), array("I[I_Y, J]"))]
    ['AllGather_X']
    """
    extra = [name for name in target.unreduced if name not in source.unreduced]
    if extra:
        raise ShardingError(
            f"{target.short} holds partial sums along {', '.join(extra)}, "
            f"but {source.short} does not"
        )
    route = _Route(source, target, critical)
    route.slice_free()
    route.scatter_partials()
    route.reduce_partials()
    while route.leaving():
        route.put_leavers_last()
        route.take_off()
    route.fix_order()
    return tuple(route.moves)


@dataclass
class _Route:
    """A walk from source to target, one move at a time."""

    now: Array
    target: Array
    critical: bool
    moves: list[Move] = field(default_factory=list)

    def wanted(self, label: str) -> Axes:
        return self.target.dim(label).axes

    def go(self, move: Move) -> None:
        self.moves.append(move)
        self.now = move.after

    def with_dim(self, label: str, axes: Axes, unreduced: Axes | None = None) -> Array:
        left = self.now.unreduced if unreduced is None else unreduced
        return self.now.placed({**self.now.sharding, label: axes}, left)

    def slice_free(self) -> None:
        for dim in self.target.dims:
            held = self.now.dim(dim.name).axes
            fresh = tuple(name for name in dim.axes if name not in self.now.axes)
            if fresh:
                self.go(Slice(self.now, self.with_dim(dim.name, held + fresh), fresh))

    def scatter_partials(self) -> None:
        for dim in self.target.dims:
            axes = tuple(name for name in dim.axes if name in self.now.unreduced)
            if axes:
                left = tuple(name for name in self.now.unreduced if name not in axes)
                after = self.with_dim(dim.name, self.now.dim(dim.name).axes + axes, left)
                self.go(ReduceScatter(self.now, after, axes, self.critical, dim=dim.name))

    def reduce_partials(self) -> None:
        axes = tuple(name for name in self.now.unreduced if name not in self.target.unreduced)
        if axes:
            kept = tuple(name for name in self.now.unreduced if name not in axes)
            after = self.now.placed(self.now.sharding, kept)
            self.go(AllReduce(self.now, after, axes, self.critical))

    def leavers(self, label: str) -> Axes:
        wanted = self.wanted(label)
        return tuple(name for name in self.now.dim(label).axes if name not in wanted)

    def leaving(self) -> tuple[str, ...]:
        """The dims that still hold an axis which the target does not want there."""
        return tuple(label for label in self.now.labels if self.leavers(label))

    def home(self, name: str) -> str | None:
        """The dim that the target wants this axis on."""
        return next((d.name for d in self.target.dims if name in d.axes), None)

    def put_leavers_last(self) -> None:
        """One permute that brings every axis about to leave its dim to the minor end."""
        order: dict[str, Axes] = {}
        for label in self.leaving():
            held = self.now.dim(label).axes
            kept = tuple(name for name in self.wanted(label) if name in held)
            if held[: len(kept)] != kept:
                movers_last = sorted(self.leavers(label), key=lambda name: bool(self.home(name)))
                order[label] = kept + tuple(movers_last)
        self.permute(order)

    def permute(self, order: dict[str, Axes]) -> None:
        if not order:
            return
        after = self.now.placed({**self.now.sharding, **order}, self.now.unreduced)
        axes = tuple(name for label in order for name in self.now.dim(label).axes)
        self.go(CollectivePermute(self.now, after, axes, self.critical))

    def take_off(self) -> None:
        """One step that takes minor axes off a dim; those that change dims go before gathers."""
        for label in self.leaving():
            home = self.home(self.leavers(label)[-1])
            if home:
                self.all_to_all(label, home)
                return
        self.gather(self.leaving()[-1])

    def minor_run(self, label: str) -> Axes:
        """The axes at the minor end that leave a dim for the same place."""
        leaving = self.leavers(label)
        home = self.home(leaving[-1])
        count = 1
        while count < len(leaving) and self.home(leaving[-1 - count]) == home:
            count += 1
        return leaving[-count:]

    def all_to_all(self, source: str, target: str) -> None:
        moving = self.minor_run(source)
        held = self.now.dim(source).axes
        placed = {
            **self.now.sharding,
            source: held[: len(held) - len(moving)],
            target: self.now.dim(target).axes + moving,
        }
        after = self.now.placed(placed, self.now.unreduced)
        self.go(AllToAll(self.now, after, moving, self.critical, source=source, target=target))

    def gather(self, label: str) -> None:
        axes = self.minor_run(label)
        held = self.now.dim(label).axes
        after = self.with_dim(label, held[: len(held) - len(axes)])
        self.go(AllGather(self.now, after, axes, self.critical, dim=label))

    def fix_order(self) -> None:
        self.permute(
            {d.name: d.axes for d in self.target.dims if self.now.dim(d.name).axes != d.axes}
        )
