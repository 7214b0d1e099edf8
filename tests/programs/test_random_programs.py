"""Random programs under random shardings: on simulated devices they give the unsharded numbers."""

from __future__ import annotations

from hypothesis import given, note, settings
from hypothesis import strategies as st
from sympy import Symbol

from symscale.arrays.array import Array, array
from symscale.programs.program import program
from symscale.programs.sharded import ShardedProgram
from tests.programs.random_programs import (
    LABELS,
    einsum_lines,
    meshes,
    numbers,
    placements,
    sharded_programs,
    split_sizes,
)
from tests.simulator.check import Run, check_reshard
from tests.simulator.devices import Devices, copies

Drawn = tuple[ShardedProgram, dict[str, int], dict[Symbol, int]]


def shown(sharded: ShardedProgram, mesh: dict[str, int], _: object) -> str:
    lines = [str(array) for array in sharded.shardings.values()]
    return "\n".join([str(sharded.program), *lines, f"{mesh} keep={sharded.keep}", str(sharded)])


@settings(max_examples=300)
@given(sharded_programs(einsum_lines().map(lambda line: program(line, sizes=split_sizes()))))
def test_an_einsum_gives_the_unsharded_result(drawn: Drawn) -> None:
    note(shown(*drawn))
    Run.of(*drawn).check()


@settings(max_examples=500)
@given(sharded_programs())
def test_a_program_gives_the_unsharded_result(drawn: Drawn) -> None:
    note(shown(*drawn))
    Run.of(*drawn).check()


@settings(max_examples=300)
@given(st.data())
def test_any_sharding_reaches_any_other(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    count = data.draw(st.integers(1, 3))
    whole = array(f"A[{', '.join(LABELS[:count])}]", sizes=split_sizes())
    source = data.draw(placements(whole, mesh, True))
    target = data.draw(placements(whole, mesh, False))
    left = data.draw(st.sets(st.sampled_from(source.unreduced))) if source.unreduced else set()
    kept = tuple(name for name in source.unreduced if name in left and name not in target.axes)
    check_reshard(source, target.placed(target.sharding, kept), mesh, numbers(mesh))


@given(st.data())
def test_local_bytes_over_copies_are_global_bytes(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    whole = array("A: int4[I, J]", sizes=split_sizes())
    placed: Array = data.draw(placements(whole, mesh, False))
    devices = Devices(mesh, numbers(mesh))
    local, total = devices.number(2 * placed.bytes), devices.number(2 * placed.global_bytes)
    assert local * devices.count == total * copies(placed, devices)
