"""A derived pass as JAX's shard_map: one device's program with every collective written out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import prod

from symscale.arrays.array import Array
from symscale.programs.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    Collective,
    CollectivePermute,
    Move,
    ReduceScatter,
    Slice,
)
from symscale.programs.ops import Edge
from symscale.programs.phase import Compute, Phase
from symscale.programs.sharded import ShardedProgram
from symscale.programs.shift import ShiftPermute
from symscale.xla.emit import Pass, kept_array
from symscale.xla.emit_module import Module, Written, function_source, tuple_source
from symscale.xla.emit_names import axes_source
from symscale.xla.emit_ops import Writer, kept_rows
from symscale.xla.emit_setting import Setting, XlaError


def explicit(sharded: ShardedProgram, setting: Setting, which: Pass = "forward") -> Written:
    """A pass of a sharded program as one device runs it, under ``jax.shard_map``.

    The lines follow the derived pass step by step; partial sums stay in ordinary variables.

    Raises:
        XlaError: for a joint pass, which has no steps of its own.
        ShardingError: for an axis that the mesh lacks or that does not divide a dim.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> sharded = two_matmul_layer().shard("In[B_X, D]", "Win[D_X, F]")
    >>> written = explicit(sharded, Setting({"X": 4}, {"B": 16, "D": 32, "F": 64}))
    >>> [line.strip() for line in written.text.splitlines() if "gather" in line]
    ['Win_D_F = lax.all_gather(Win_D_X_F, "X", axis=0, tiled=True)']
    """
    if which == "joint":
        raise XlaError("the explicit version has a forward and a backward pass, no joint one")
    phase = sharded.forward if which == "forward" else sharded.backward
    return _Explicit(sharded, phase, setting).written()


_PROGRAM = """jax.jit(
    jax.shard_map(
        local,
        mesh=MESH,
        in_specs=tuple(argument.sharding.spec for argument in ARGUMENTS),
        out_specs=tuple(SPECS[name] for name in RESULTS),
        check_vma=False,
    )
)"""


@dataclass
class _Explicit:
    sharded: ShardedProgram
    phase: Phase
    setting: Setting
    module: Module = field(init=False)
    writer: Writer = field(init=False)
    at_hand: dict[Array, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.module = Module(self.setting)
        self.writer = Writer(self.setting, local=True)

    def written(self) -> Written:
        for step in self.phase.steps:
            if isinstance(step, Compute):
                self._compute(step)
            elif not (isinstance(step, Collective) and step.statistic):
                self._move(step)
        results = self._results()
        keys = [self.module.spec(array.short, array) for array in results]
        variables = [self._variable(array) for array in results]
        self.module.lines.append(f"return {tuple_source(variables)}")
        body = function_source("local", self.module.parameters, self.module.lines)
        title = f"{self.phase.name.capitalize()} pass on one device, collectives written out."
        text = self.module.text(title, self.writer.called, body, _PROGRAM, keys)
        return Written(self.phase.name, text, self.setting)

    def _results(self) -> list[Array]:
        """The last form of everything that lines of the program (or its reverse) make."""
        last: dict[str, Array] = {}
        made = {s.output.name for s in self.phase.computes if not isinstance(s.op, Edge)}
        for step in self.phase.steps:
            if isinstance(step, Compute):
                last[step.output.name] = step.output
            elif step.before == last.get(step.before.name) and self._settles(step):
                last[step.after.name] = step.after
        return [array for name, array in last.items() if name in made and "(" not in name]

    def _settles(self, move: Move) -> bool:
        """Whether a move brings an array nearer to where it should lie at the end."""
        name = move.after.name
        if name not in self.sharded.program.arrays and name[1:] not in self.sharded.program.arrays:
            return False
        return move.before != self.sharded.sharding(name)

    def _variable(self, array: Array) -> str:
        """Where the array is at hand; one that no step made is an argument."""
        if array not in self.at_hand:
            self.at_hand[array] = self.module.take(array.short, array)
        return self.at_hand[array]

    def _set(self, array: Array, text: str) -> None:
        self.at_hand[array] = self.module.names.of(array.short)
        self.module.lines.append(f"{self.at_hand[array]} = {text}")

    def _compute(self, step: Compute) -> None:
        operands = [self._variable(array) for array in step.inputs]
        operands += [self._variable(kept_array(step, name)) for name in kept_rows(step.op)]
        self._set(step.output, self.writer.expression(step, operands))

    def _move(self, move: Move) -> None:
        source = self._variable(move.before)
        for kind, write in _WRITERS.items():
            if isinstance(move, kind):
                self._set(move.after, write(move, source, self.setting))
                return
        raise XlaError(f"no JAX is known for {move.name}")


def _place(array: Array, label: str) -> int:
    return array.labels.index(label)


def _slice(move: Move, source: str, setting: Setting) -> str:
    """Each device keeps its part along every dim that gained axes at the minor end."""
    text, sizes = source, setting.local(move.after)
    for place, (before, after) in enumerate(zip(move.before.dims, move.after.dims, strict=True)):
        fresh = after.axes[len(before.axes) :]
        if fresh:
            start = f"lax.axis_index({axes_source(fresh)}) * {sizes[place]}"
            text = f"lax.dynamic_slice_in_dim({text}, {start}, {sizes[place]}, axis={place})"
    return text


def _gather(move: Move, source: str, setting: Setting) -> str:
    assert isinstance(move, AllGather)
    place = _place(move.before, move.dim)
    return f"lax.all_gather({source}, {axes_source(move.axes)}, axis={place}, tiled=True)"


def _scatter(move: Move, source: str, setting: Setting) -> str:
    assert isinstance(move, ReduceScatter)
    place = _place(move.before, move.dim)
    axes = axes_source(move.axes)
    return f"lax.psum_scatter({source}, {axes}, scatter_dimension={place}, tiled=True)"


def _reduce(move: Move, source: str, setting: Setting) -> str:
    assert isinstance(move, AllReduce)
    name = "pmax" if move.reduction == "max" else "psum"
    return f"lax.{name}({source}, {axes_source(move.axes)})"


def _exchange(move: Move, source: str, setting: Setting) -> str:
    assert isinstance(move, AllToAll)
    split, joined = _place(move.before, move.target), _place(move.before, move.source)
    return (
        f"lax.all_to_all({source}, {axes_source(move.axes)}, split_axis={split}, "
        f"concat_axis={joined}, tiled=True)"
    )


def _permute(move: Move, source: str, setting: Setting) -> str:
    axes = tuple(name for name in setting.mesh if name in move.axes)
    pairs = permutation(move.before, move.after, {name: setting.mesh[name] for name in axes})
    return f"lax.ppermute({source}, {axes_source(axes)}, {list(pairs)})"


def _pass_on(move: Move, source: str, setting: Setting) -> str:
    assert isinstance(move, ShiftPermute)
    mesh = {name: size for name, size in setting.mesh.items() if name in move.axes}
    return f"lax.ppermute({source}, {axes_source(mesh)}, {list(neighbours(move, mesh))})"


_WRITERS: dict[type[Move], Callable[[Move, str, Setting], str]] = {
    Slice: _slice,
    AllGather: _gather,
    ReduceScatter: _scatter,
    AllReduce: _reduce,
    AllToAll: _exchange,
    ShiftPermute: _pass_on,
    CollectivePermute: _permute,
}


def permutation(before: Array, after: Array, mesh: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """Who sends its block to whom when the axes on the dims take another order: pairs of places in
    the mesh of these axes, counted with the first axis as the major one.

    >>> from symscale.arrays.array import array
    >>> permutation(array("A[I_XY]"), array("A[I_YX]"), {"X": 2, "Y": 2})
    ((0, 0), (1, 2), (2, 1), (3, 3))
    """
    places = list(product(*(range(size) for size in mesh.values())))
    wanted = {_block(after, place, mesh): number for number, place in enumerate(places)}
    return tuple(
        (number, wanted[_block(before, place, mesh)]) for number, place in enumerate(places)
    )


def neighbours(move: ShiftPermute, mesh: dict[str, int]) -> tuple[tuple[int, int], ...]:
    """Who sends its edge to whom: pairs of places in the mesh of these axes.

    >>> from symscale.arrays.array import array
    >>> edge = array("A[P_YX]")
    >>> neighbours(ShiftPermute(edge, edge, ("Y", "X")), {"X": 2, "Y": 2})
    ((0, 2), (2, 1), (1, 3))
    """
    sizes = [mesh[name] for name in move.axes]
    at = {name: prod(mesh[below] for below in list(mesh)[place + 1 :])
          for place, name in enumerate(mesh)}  # fmt: skip
    line = [
        sum(index * at[name] for name, index in zip(move.axes, places, strict=True))
        for places in product(*map(range, sizes))
    ]
    return tuple(zip(line[:: move.by], line[:: move.by][1:], strict=False))


def _block(array: Array, place: tuple[int, ...], mesh: dict[str, int]) -> tuple[int, ...]:
    """Which block along each dim the device at this place holds, among those of these axes."""
    where = dict(zip(mesh, place, strict=True))
    out = []
    for dim in array.dims:
        index = 0
        for name in dim.axes:
            if name in mesh:
                index = index * mesh[name] + where[name]
        out.append(index)
    return tuple(out)
