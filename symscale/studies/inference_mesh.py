"""The meshes that a serving layout can have on so many chips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, prod
from typing import TYPE_CHECKING, TypeAlias

from sympy import divisors

from symscale.algebra.errors import ShardingError
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import info, symbol
from symscale.studies.inference_layout import ServingLayout
from symscale.studies.inference_program import base

if TYPE_CHECKING:
    from symscale.studies.inference import Inference

#: A dim that mesh axes cut: its name, its size, the axes.
Cut: TypeAlias = tuple[str, int, tuple[str, ...]]

#: The most chips tried for an error's hint.
_TRIED = 4096

#: Vocabularies are padded to the next multiple; the batch and the keys are checked apart.
_PADDED = ("V", "B", "b", "S", "S_all", "T", "c")


def cuts(study: Inference) -> tuple[Cut, ...]:
    """Every dim that mesh axes cut: its name, its size, the axes."""
    found: dict[Cut, None] = {}
    for served, sharded in study.sharded:
        for name in served.program.arrays:
            if name in sharded.program.arrays:
                for dim in sharded.sharding(name).dims:
                    if dim.axes and base(dim.name) not in _PADDED:
                        size = int(evaluate(dim.size, study.model))
                        found[(dim.name, size, dim.axes)] = None
    return tuple(found)


def heads_of(study: Inference) -> int:
    """Ways over which Y can deal out heads: the key/value heads; without any, all that divide."""
    sizes = study.model
    counts = [size for symbol, size in sizes.items() if base(symbol.name) == "K"]
    return gcd(*counts) if counts else 0


def split_ways(study: Inference, ways: int) -> dict[str, int]:
    """Tensor-parallel ways as Y over key/value heads and Z beyond them."""
    heads = heads_of(study)
    first = gcd(ways, heads) if heads else ways
    return {"Y": first, "Z": ways // first} if first < ways else {"Y": ways}


def meshes(study: Inference, chips: int) -> tuple[dict[str, int], ...]:
    """All meshes of a layout on so many chips whose axes divide what they cut.

    Raises:
        ShardingError: where there is none, naming the largest number of chips that has one.
    """
    found = dividing(study, chips)
    if found:
        return found
    known = study.cuts
    works = (n for n in range(min(chips - 1, _TRIED), 1, -1) if dividing(study, n))
    raise ShardingError(
        f"{chips} chips under {study.layout.name} do not divide {_culprit(study, known, chips)} of "
        f"{study.model.name}; the largest number below that does is {next(works, 1)}"
    )


def dividing(study: Inference, chips: int) -> tuple[dict[str, int], ...]:
    """All meshes of a layout on so many chips whose axes divide what they cut; perhaps none."""
    return tuple(_dividing(study.layout, study, study.cuts, chips))


def _dividing(
    layout: ServingLayout,
    study: Inference,
    known: tuple[Cut, ...],
    chips: int,
) -> Iterator[dict[str, int]]:
    outer = bool(layout.rows or layout.batch)
    for first in divisors(chips) if outer else (1,):
        tensor = split_ways(study, chips // int(first))
        if "Z" in tensor and not layout.over:
            continue
        mesh = {"X": int(first), **tensor} if outer else tensor
        if divides(known, mesh):
            yield mesh


def divides(known: tuple[Cut, ...], mesh: Mapping[str, int]) -> bool:
    """Whether the axes divide every dim that they cut."""
    return all(size % prod(mesh.get(name, 1) for name in axes) == 0 for _, size, axes in known)


def _culprit(study: Inference, known: tuple[Cut, ...], chips: int) -> str:
    """A dim that the plainest split does not divide, in words."""
    mesh = split_ways(study, chips)
    failing = [
        (name, size) for name, size, axes in known if size % prod(mesh.get(a, 1) for a in axes)
    ]
    if not failing or any(base(name) in ("K", "G", "N") for name, _ in failing):
        config = study.model.config
        return f"{config.heads} query heads over {config.kv_heads} key/value heads"
    name, size = failing[0]
    return f"{name} = {size} ({info(symbol(name)).meaning})"
