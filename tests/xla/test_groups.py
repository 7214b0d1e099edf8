"""Replica groups of every spelling, back to mesh axes: by brute force over all subsets."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from symscale.xla.groups import parse_groups, parse_pairs
from symscale.xla.groups_axes import axes_of_groups, axes_of_pairs
from symscale.xla.hlo_error import HloError

MESHES = [
    {"X": 4},
    {"X": 4, "Y": 2},
    {"Y": 2, "X": 4},
    {"X": 2, "Y": 2, "Z": 2},
    {"X": 3, "Y": 2},
    {"data": 2, "fsdp": 3, "tensor": 4},
    {"X": 1, "Y": 4, "Z": 1, "W": 2},
    {"X": 8, "Y": 8, "Z": 16},
]


def subsets(mesh: dict[str, int]) -> list[tuple[str, ...]]:
    """Ordered choices of at least one axis, axes of size 1 left out."""
    names = [name for name, size in mesh.items() if size > 1]
    return [
        chosen
        for number in range(1, len(names) + 1)
        for chosen in itertools.permutations(names, number)
    ]


def groups_over(mesh: dict[str, int], axes: tuple[str, ...]) -> np.ndarray:
    """The definition: devices that agree in all other coordinates, axes major to minor."""
    names = list(mesh)
    rest = [place for place, name in enumerate(names) if name not in axes]
    order = rest + [names.index(name) for name in axes]
    size = math.prod(mesh[name] for name in axes)
    ids = np.arange(math.prod(mesh.values())).reshape(tuple(mesh.values()))
    return ids.transpose(order).reshape(-1, size)


def listed(groups: np.ndarray) -> str:
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"


def iota(mesh: dict[str, int], axes: tuple[str, ...]) -> str:
    names = list(mesh)
    order = [i for i, name in enumerate(names) if name not in axes]
    order += [names.index(name) for name in axes]
    size = math.prod(mesh[name] for name in axes)
    total = math.prod(mesh.values())
    dims = ",".join(str(mesh[name]) for name in names)
    return f"[{total // size},{size}]<=[{dims}]T({','.join(map(str, order))})"


def mesh_axes(mesh: dict[str, int], axes: tuple[str, ...], quote: str) -> str:
    named = ",".join(f"{quote}{name}{quote}={size}" for name, size in mesh.items())
    return f"mesh[{named}] {{{','.join(quote + name + quote for name in axes)}}}"


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_every_subset_of_axes_in_every_order_and_spelling(mesh: dict[str, int]) -> None:
    devices = math.prod(mesh.values())
    for axes in subsets(mesh):
        groups = groups_over(mesh, axes)
        expected = tuple(map(tuple, groups.tolist()))
        spellings = [
            listed(groups),
            iota(mesh, axes),
            mesh_axes(mesh, axes, "'"),
            mesh_axes(mesh, axes, ""),
        ]
        for text in spellings:
            assert parse_groups(text, devices) == expected, text
        found = axes_of_groups(expected, mesh)
        assert found.names == tuple(name for name in mesh if name in axes)
        in_order = axes == found.names
        assert ("listed with " + ", ".join(axes) in found.note) == (not in_order), found


@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_order_of_groups_and_within_groups_does_not_change_the_axes(mesh: dict[str, int]) -> None:
    rng = np.random.default_rng(0)
    for axes in subsets(mesh)[:6]:
        groups = groups_over(mesh, axes)
        mixed = rng.permuted(groups[rng.permutation(len(groups))], axis=1)
        found = axes_of_groups(tuple(map(tuple, mixed.tolist())), mesh)
        assert set(found.names) == set(axes)


@pytest.mark.parametrize(
    ("mesh", "split", "axes", "names"),
    [
        ({"X": 4}, (2, 2), (0,), ("X:0",)),
        ({"X": 4}, (2, 2), (1,), ("X:1",)),
        ({"X": 8}, (2, 2, 2), (0, 2), ("X:0", "X:2")),
        ({"X": 4, "Y": 2}, (2, 2, 2), (1, 2), ("X:1", "Y")),
        ({"X": 2, "Y": 8}, (2, 2, 2, 2), (0, 1), ("X", "Y:0")),
        ({"X": 6}, (2, 3), (1,), ("X:1",)),
        ({"X": 6}, (3, 2), (1,), ("X:1",)),
    ],
)
def test_parts_of_axes(
    mesh: dict[str, int], split: tuple[int, ...], axes: tuple[int, ...], names: tuple[str, ...]
) -> None:
    digits = {f"d{place}": size for place, size in enumerate(split)}
    groups = groups_over(digits, tuple(f"d{place}" for place in axes))
    found = axes_of_groups(tuple(map(tuple, groups.tolist())), mesh)
    assert found.names == names
    assert all(name in found.note for name in names if ":" in name)


def test_sub_axes_of_the_mesh_form() -> None:
    ids = np.arange(8).reshape(2, 2, 2)
    text = "mesh['a'=8] {'a':(2)2}"
    expected = ids.transpose(0, 2, 1).reshape(-1, 2)
    assert parse_groups(text, 8) == tuple(map(tuple, expected.tolist()))
    text = "mesh['a'=8] {'a':(1)2,'a':(4)2}"
    expected = ids.transpose(1, 0, 2).reshape(-1, 4)
    assert parse_groups(text, 8) == tuple(map(tuple, expected.tolist()))


@pytest.mark.parametrize("ids", ["[4,2]T(1,0)", "0,2,4,6,1,3,5,7"])
def test_device_ids_of_the_mesh_form(ids: str) -> None:
    devices = np.arange(8).reshape(4, 2).T.reshape(2, 4)
    text = f"mesh['a'=2,'b'=4], device_ids=({ids}) {{'b'}}"
    assert parse_groups(text, 8) == tuple(map(tuple, devices.tolist()))


def test_empty_groups_are_all_devices() -> None:
    assert parse_groups("{}", 4) == ((0, 1, 2, 3),)
    assert axes_of_groups(((0, 1, 2, 3),), {"X": 2, "Y": 2}).names == ("X", "Y")


@pytest.mark.parametrize(
    "groups",
    [
        ((0, 1, 2), (3,)),
        ((0, 3), (1, 2)),
        ((0, 1),),
        ((0, 2), (1, 3)),
    ],
)
def test_groups_of_no_axes_have_a_note(groups: tuple[tuple[int, ...], ...]) -> None:
    mesh = {"X": 2, "Y": 3} if groups == ((0, 2), (1, 3)) else {"X": 2, "Y": 2}
    found = axes_of_groups(groups, mesh)
    assert found.names == ()
    assert "match no mesh axes" in found.note


def test_groups_of_one_device_run_over_nothing() -> None:
    assert axes_of_groups(((0,), (1,), (2,), (3,)), {"X": 4}) == axes_of_groups(((0,),), {"X": 1})


@pytest.mark.parametrize("mesh", MESHES[:7], ids=str)
def test_permute_axes_are_those_along_which_ids_change(mesh: dict[str, int]) -> None:
    ids = np.arange(math.prod(mesh.values())).reshape(tuple(mesh.values()))
    for chosen in subsets(mesh):
        moved = ids
        for name in chosen:
            moved = np.roll(moved, 1, axis=list(mesh).index(name))
        pairs = tuple(zip(ids.ravel().tolist(), moved.ravel().tolist(), strict=True))
        found = axes_of_pairs(parse_pairs(listed(np.array(pairs)), ids.size), mesh)
        assert found.names == tuple(name for name in mesh if name in chosen)
        assert found.note == ""


def test_pairs_of_a_device_with_itself_are_dropped() -> None:
    pairs = parse_pairs("{{0,0},{1,2},{2,1},{3,3}}", 4)
    assert pairs == ((1, 2), (2, 1))
    found = axes_of_pairs(pairs, {"X": 2, "Y": 2})
    assert found.names == ("X", "Y")
    assert found.note == "2 of 4 devices send"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{{0,1},{1,2}}",
        "{{0,9}}",
        "{{0,1}",
        "[2,4]<=[9]",
        "[2,4]<=[4,2]T(0,0)",
        "[2,2,2]<=[8]",
        "[0,0]<=[0]",
        "[99999999999999999999]<=[8]",
        "[999999999,999999999]<=[999999999,999999999]",
        "mesh['a'=4] {'a'}",
        "mesh['a'=8] {'b'}",
        "mesh['a'=8] {'a':(3)2}",
        "mesh['a'=8] {'a':(0)2}",
        "mesh['a'=8] {'a':(1)2,'a':(1)4}",
        "mesh['a'=8], device_ids=(0,0,1,2,3,4,5,6) {'a'}",
        "mesh[] {}",
        "ring(8)",
    ],
)
def test_unknown_spellings_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(HloError) as refused:
        parse_groups(text, 8)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{{0}}", "{{0,1,2}}", "{{0,8}}", "{{}}", "all"])
def test_wrong_pairs_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(HloError):
        parse_pairs(text, 8)
