"""The partitioner: from shardings of arrays to local computations and the movements they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sympy import Expr, Symbol

from symscale.arrays.array import Array
from symscale.arrays.dtype import dtype
from symscale.programs.collectives import AllReduce, Collective, Move
from symscale.programs.layout import Axes, Layout, layout
from symscale.programs.ops import Einsum, Op, Pointwise
from symscale.programs.phase import AddGradients, Compute, Step
from symscale.programs.reshard import reshard
from symscale.programs.routing import Routed, SlotOrder, routed_layout
from symscale.programs.shift import edge_moves, shift_layout
from symscale.programs.ways import cheapest, other_layouts


@dataclass
class Partitioner:
    """Builds one pass.

    ``copies`` holds, by name, the shardings an array is at hand in (its own first), so that what
    was gathered once is found again. ``sizes``, where given, decide what no rule for any sizes can;
    ``orders`` say how slots of experts lie where not as their tokens.
    """

    wanted: Mapping[str, Array]
    hidable: frozenset[str]
    weights: frozenset[str]
    sizes: Mapping[Symbol, Expr] | None = None
    orders: Mapping[str, SlotOrder] = field(default_factory=dict)
    copies: dict[str, list[Array]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def hold(self, array: Array) -> None:
        """Note that an array is at hand in this sharding."""
        held = self.copies.setdefault(array.name, [])
        if array not in held:
            held.append(array)

    def run(self, op: Op) -> Array:
        """Partition one op and bring its result into the sharding it should have."""
        return self.settle(self.compute(op))

    def compute(self, op: Op) -> Array:
        """Fetch the operands as the op needs them and compute: the result as it comes out."""
        lying = tuple(self.copies[array.name][0] for array in op.inputs)
        target = self.wanted.get(op.output.name)
        where = self.place(op, lying, target)
        if isinstance(op, Pointwise) and op.function.shifts:
            where = shift_layout(op, where, lying[0])
        kept = partial_through(op, lying, target, where)
        operands = tuple(self.fetch(array, where, kept) for array in lying)
        stat_axes = self.collect_statistics(op, where, operands)
        operands += self.pass_edge(op, operands[0])
        partial = tuple(a for label in op.summed for a in where.get(label, ())) + kept
        result = op.output.placed(where, partial)
        self.steps.append(Compute(op, operands, result, stat_axes))
        return self.reduce_maximum(op, result)

    def place(self, op: Op, lying: tuple[Array, ...], target: Array | None) -> Layout:
        """Where the op computes: by rule, and by what the ways cost where sizes are known."""
        if isinstance(op, Routed):
            return self.place_routed(op, lying[1])
        wanted = target.sharding if target else None
        usual = layout(op, lying, wanted, self.weights)
        if self.sizes is None or not isinstance(op, Einsum):
            return usual
        ways = (usual, *other_layouts(op, usual, lying, wanted))
        return cheapest(op, ways, self.moves_to, target, self.sizes)

    def place_routed(self, op: Routed, rows: Array) -> Layout:
        """Where tokens are sorted; a part of a gradient goes straight to where the sum will lie."""
        target = self.wanted.get(op.output.name.partition("(")[0])
        order = self.orders.get(op.slots, SlotOrder())
        if target is None:
            return routed_layout(op, rows, None, order=order)
        return routed_layout(op, rows, target.sharding, target.unreduced, order)

    def moves_to(self, array: Array, where: Layout, kept: Axes = ()) -> tuple[Move, ...]:
        """What brings an array under an op's layout, from the copy at hand nearest to it."""
        target = _under(array, where, kept)
        critical = array.name not in self.hidable
        # Partial sums that are to stay are not in a copy that was reduced.
        copies = (c for c in self.copies[array.name] if set(target.unreduced) <= set(c.unreduced))
        return min((reshard(copy, target, critical) for copy in copies), key=_effort)

    def fetch(self, array: Array, where: Layout, kept: Axes = ()) -> Array:
        """The array under the op's layout, moved there; partial sums along ``kept`` stay."""
        self.follow(self.moves_to(array, where, kept))
        return _under(array, where, kept)

    def follow(self, moves: tuple[Move, ...]) -> None:
        """Carry out moves, keeping every fully reduced copy they pass through."""
        for move in moves:
            self.steps.append(move)
            if not move.after.unreduced:
                self.hold(move.after)

    def settle(self, result: Array) -> Array:
        """Bring a computed array into its wanted sharding (reduced where it is, if none is set)."""
        name = result.name
        target = self.wanted.get(name, result.placed(result.sharding))
        moves = reshard(result, target, name not in self.hidable)
        self.copies[name] = [target]
        if not result.unreduced:
            self.hold(result)
        self.follow(moves)
        return target

    def settle_sum(self, name: str, parts: list[Array]) -> Array:
        """Add gradients of one array: those that lie alike before they are reduced."""
        groups: dict[tuple[object, ...], list[Array]] = {}
        for part in parts:
            groups.setdefault((part.dims, frozenset(part.unreduced)), []).append(part)
        sums = [self.add(name, group, len(groups) == 1) for group in groups.values()]
        if len(sums) == 1:
            return self.settle(sums[0])
        goal = self.wanted.get(name, sums[0])
        shared = tuple(a for a in goal.unreduced if all(a in part.unreduced for part in sums))
        settled = [
            self.settle_part(part, part.placed(goal.sharding, shared), name) for part in sums
        ]
        return self.settle(self.add(name, settled, True))

    def add(self, name: str, parts: list[Array], last: bool) -> Array:
        """Add arrays that lie alike; a single one keeps its name unless it is the last."""
        if len(parts) == 1 and parts[0].name == name:
            return parts[0]
        if len(parts) == 1 and not last:
            return parts[0]
        label = name if last else f"{parts[0].name}+"
        made = Array(label, parts[0].dims, parts[0].dtype, parts[0].unreduced)
        op = AddGradients(tuple(p.unsharded for p in parts), made.unsharded)
        self.steps.append(Compute(op, tuple(parts), made))
        return made

    def settle_part(self, part: Array, goal: Array, name: str) -> Array:
        """One of several differently lying parts of a gradient, brought to the common sharding."""
        self.steps.extend(reshard(part, goal, name not in self.hidable))
        return goal

    def collect_statistics(
        self, op: Op, where: Layout, operands: tuple[Array, ...]
    ) -> tuple[str, ...]:
        """The sums a function along sharded dims needs from all devices, one f32 a row each."""
        if not isinstance(op, Pointwise) or op.function.reduces or op.function.shifts:
            return ()
        axes = tuple(a for label in op.over for a in where.get(label, ()))
        if axes:
            main = operands[0]
            dims = tuple(d for d in main.dims if d.name not in op.over)
            row = Array(f"{op.output.name}.stat", dims, dtype("f32"))
            before = Array(row.name, dims, row.dtype, axes)
            move = AllReduce(before, row, axes, True, True)
            self.steps.extend([move] * op.stats)
        return axes

    def pass_edge(self, op: Op, operand: Array) -> tuple[Array, ...]:
        """What a shift along a sharded dim needs besides its operand: the neighbour's edge row."""
        if not (isinstance(op, Pointwise) and op.function.shifts):
            return ()
        found = edge_moves(op, operand, operand.name not in self.hidable)
        if found is None:
            return ()
        edge, move = found
        self.steps += [Compute(edge, (operand,), move.before), move]
        return (move.after,)

    def reduce_maximum(self, op: Op, result: Array) -> Array:
        """A maximum over a sharded dim cannot be left as a partial sum."""
        if not (isinstance(op, Pointwise) and op.function.reduces == "max" and result.unreduced):
            return result
        if op.reverse:
            return result
        whole = result.placed(result.sharding)
        self.steps.append(AllReduce(result, whole, result.unreduced, True, reduction="max"))
        return whole


def partial_through(
    op: Op, operands: tuple[Array, ...], target: Array | None, where: Layout
) -> Axes:
    """The axes along which partial sums of one operand become those of the result.

    They do where the op is linear in that operand, and the result is to stay a partial sum, or is
    smaller than the operand (a sum over a dim), so that it is cheaper to reduce.
    """
    if not (isinstance(op, Pointwise) and _is_linear(op)):
        return ()
    stays = target.unreduced if target else ()
    used = {axis for axes in where.values() for axis in axes}
    return tuple(
        axis
        for axis in dict.fromkeys(axis for array in operands for axis in array.unreduced)
        if sum(axis in array.unreduced for array in operands) == 1
        and axis not in used
        and (axis in stays or op.summed)
    )


def _is_linear(op: Pointwise) -> bool:
    """Linear in each operand for itself; a maximum, or a sum with something else, is not."""
    alone = op.function.linear and len(op.inputs) == 1
    return (alone or op.function.product) and not op.function.shifts


def _under(array: Array, where: Layout, kept: Axes) -> Array:
    """An array under an op's layout."""
    partial = tuple(axis for axis in array.unreduced if axis in kept)
    return array.placed({label: where.get(label, ()) for label in array.labels}, partial)


def _effort(moves: tuple[Move, ...]) -> tuple[int, int]:
    """Fewer collectives first, then fewer moves."""
    return sum(isinstance(move, Collective) for move in moves), len(moves)
