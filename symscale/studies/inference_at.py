"""The door through which numbers enter inference: chips, batch, context, and what fits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sympy import Expr, Symbol, floor

from symscale.algebra.errors import (
    HardwareError,
    ModelError,
    ShardingError,
    SymbolError,
    SymscaleError,
)
from symscale.algebra.substitution import bindings, exact
from symscale.algebra.symbols import B, S, axis, links
from symscale.algebra.time import Overlap
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.figure import RATES, MissingFigure
from symscale.hardware.networks import Fidelity
from symscale.hardware.placement import Placement
from symscale.studies.inference_kernels import Method
from symscale.studies.inference_layout import CacheCut, ServingLayout
from symscale.studies.inference_mesh import heads_of, meshes
from symscale.studies.inference_result import InferenceResult

if TYPE_CHECKING:
    from symscale.studies.inference import Inference


def inference_result(
    study: Inference,
    chip: str | PathLike[str] | Chip,
    *,
    chips: int | None = None,
    batch: int = 1,
    context: int | None = None,
    replicas: int = 1,
    method: Method = "per-op",
    overlap: Overlap = "full",
    fidelity: Fidelity = "ideal",
    activations: str = "on chip",
    layout: str | None = None,
    block: int = 1,
    share: float = 1.0,
    buffers: int = 0,
    beyond: bool = False,
    **numbers: Any,
) -> InferenceResult:
    """A step of generation on a chip: of the meshes that its chips can have, the fastest that fits.

    Args:
        study: what serves.
        chip: the name of a chip, or a chip.
        chips: of all replicas; the product of the mesh axes unless given.
        batch: sequences in flight, over all replicas.
        context: tokens that each sequence has cached; the model's context unless given.
        replicas: copies that share the batch and nothing else.
        method: ``"per-op"`` or ``"aggregate"`` (see :class:`Pass`).
        overlap: what communication hides behind (see :meth:`Pass.seconds`).
        fidelity: ``"ideal"``, ``"ring"`` or ``"latency"`` (hops counted).
        activations: ``"on chip"``, or ``"hbm"``: each kernel reads and writes its own there.
        layout: how mesh axes lie on the network, e.g. ``"Z,Y"``.
        block: tokens of a block of a paged cache.
        share: of a chip's HBM that may be used.
        buffers: bytes of that set aside on each chip.
        beyond: count a context beyond the model's, too.
        numbers: mesh axes (``X``, ``Y``, ``Z``), ``M_X`` and the like, or any rate.

    Raises:
        SymbolError: for a number that is not above zero or not whole, or an unknown name.
        ModelError: for a context beyond the model's.
        ShardingError: for chips that no split of the layout divides the model's dims by.
        HardwareError: for an unknown chip, or a mesh that does not fit its network.
    """
    asked = {
        "chips": chips, "batch": batch, "context": context, "replicas": replicas,
        "method": method, "overlap": overlap, "fidelity": fidelity, "activations": activations,
        "layout": layout, "block": block, "share": share, "buffers": buffers,
        "beyond": beyond, **numbers,
    }  # fmt: skip
    return _Asked(study, find_chip(chip), MappingProxyType(asked)).best()


@dataclass(frozen=True)
class _Asked:
    """A question: a study, a chip, and the numbers."""

    study: Inference
    chip: Chip
    asked: Mapping[str, Any]

    def best(self) -> InferenceResult:
        """The fastest mesh that fits; the fastest at all if none does."""
        asked = self.asked
        batch, replicas = asked["batch"], asked["replicas"]
        numbers = {name: asked[name] for name in asked if name not in _OWN}
        _check(self.study, numbers, batch=batch, replicas=replicas, block=asked["block"])
        if asked["activations"] not in ("on chip", "hbm"):
            raise SymbolError(f"activations {asked['activations']!r} is none of 'on chip', 'hbm'")
        if batch % replicas:
            raise SymbolError(f"a batch of {batch} is not shared evenly by {replicas} replicas")
        self.check_rates(numbers)
        length = _context(self.study, asked["context"], asked["beyond"])
        found = _meshes(self.study, asked["chips"], replicas, numbers)
        options = _that_work(self.option(mesh, length, numbers) for mesh in found)
        return min(options, key=lambda made: (not made.fits, made.step_time))

    def option(
        self, mesh: dict[str, int], length: int, numbers: Mapping[str, Any]
    ) -> Callable[[], InferenceResult]:
        """A mesh's result, to be made when it is asked for."""
        asked = self.asked
        batch = asked["batch"] // asked["replicas"]

        def made() -> InferenceResult:
            placed = _placed(
                self.study, self.chip, mesh, batch, asked["fidelity"], asked["layout"], numbers
            )
            study, values, place = placed
            values[B], values[S] = exact(batch, "batch"), exact(length, "context")
            return InferenceResult(
                study, self.chip, MappingProxyType(mesh), MappingProxyType(values),
                asked["batch"], length, asked["replicas"], asked["method"], asked["overlap"],
                asked["activations"] == "on chip", int(asked["block"]), self.usable(), place,
                self.study, asked,
            )  # fmt: skip

        return made

    def check_rates(self, numbers: Mapping[str, Any]) -> None:
        """Refuse a chip that has no number for a rate that the step runs at."""
        used = {"W_hbm": None}
        for one in self.study.step.kernels:
            used |= dict.fromkeys(s.name for s in one.math.free_symbols if s.name in RATES)
        for name in used:
            if name not in numbers:
                self.chip.figure(name)

    def usable(self) -> int:
        """Bytes of a chip that may be filled."""
        share, buffers = self.asked["share"], self.asked["buffers"]
        if not 0 < exact(share, "share") <= 1:
            raise SymbolError(f"share = {share}: above 0 and at most 1 is wanted")
        left = floor(exact(share, "share") * self.chip.hbm_bytes) - buffers
        if buffers < 0 or left <= 0:
            raise SymbolError(f"buffers of {buffers} bytes on a chip of {self.chip.hbm_bytes}")
        return int(left)


#: The numbers of a question that are not a mesh's or a chip's.
_OWN = frozenset(
    (
        *("chips", "batch", "context", "replicas", "method", "overlap", "fidelity"),
        *("activations", "layout", "block", "share", "buffers", "beyond"),
    )
)


def _that_work(
    options: Iterable[Callable[[], InferenceResult]],
) -> tuple[InferenceResult, ...]:
    """The results of the meshes that fit the network and the batch.

    Raises:
        SymscaleError: what is wrong with the first, where none does.
    """
    found: list[InferenceResult] = []
    first: SymscaleError | None = None
    for option in options:
        try:
            found.append(option())
        except MissingFigure:
            raise
        except (HardwareError, ShardingError) as error:
            first = first or error
    if not found and first is not None:
        raise first
    return tuple(found)


def _check(study: Inference, numbers: Mapping[str, Any], **counts: Any) -> None:
    for name, value in counts.items():
        if not exact(value, name).is_integer:
            raise SymbolError(f"{name} = {value}: a whole number is wanted")
    axes = ("X", "Y", "Z")
    known = {*axes, *(links(name).name for name in axes), *RATES}
    for name in sorted(set(numbers) - known):
        raise SymbolError(
            f"{name} = {numbers[name]}: no rate, and no mesh axis of {study.layout.name} "
            f"({', '.join(study.layout.mesh_axes)})"
        )


def _context(study: Inference, context: int | None, beyond: bool) -> int:
    longest = study.model.context
    if context is None and longest is None:
        raise SymbolError(f"{study.model.name} names no context length; give context=...")
    chosen = exact(longest if context is None else context, "context")
    if not chosen.is_integer:
        raise SymbolError(f"context = {context}: a whole number is wanted")
    if longest is not None and chosen > longest and not beyond:
        raise ModelError(
            f"context {chosen}: {study.model.name} is made for sequences of at most {longest} "
            "tokens (beyond=True or --beyond counts longer ones)"
        )
    return int(chosen)


def _meshes(
    study: Inference, chips: int | None, replicas: int, numbers: Mapping[str, Any]
) -> tuple[dict[str, int], ...]:
    """The mesh that was given, or all that the layout can have on so many chips."""
    given = {name: numbers[name] for name in ("X", "Y", "Z") if name in numbers}
    values = bindings(**given)
    mesh = {name: int(values[axis(name)]) for name in given}
    for name in mesh:
        if name not in study.layout.mesh_axes:
            raise SymbolError(
                f"{name} = {mesh[name]}: no mesh axis of {study.layout.name} "
                f"({', '.join(study.layout.mesh_axes)})"
            )
    count = replicas * prod(mesh.values())
    if mesh:
        if chips is not None and chips != count:
            raise SymbolError(f"{chips} chips, but the mesh and its replicas have {count}")
        return (mesh,)
    if chips is None:
        raise SymbolError("no number of chips; give chips=..., or mesh axes")
    if exact(chips, "chips") % replicas:
        raise SymbolError(f"{chips} chips are not shared evenly by {replicas} replicas")
    return meshes(study, chips // replicas)


def _placed(
    study: Inference,
    chip: Chip,
    mesh: dict[str, int],
    batch: int,
    fidelity: Fidelity,
    layout: str | None,
    numbers: Mapping[str, Any],
) -> tuple[Inference, dict[Symbol, Expr], Placement | None]:
    """The study on a mesh of the chip's network, and all its numbers but batch and context."""
    live = tuple(name for name in study.layout.mesh_axes if mesh.get(name, 1) > 1)
    trivial = frozenset(study.layout.mesh_axes) - set(live)
    own = {name: int(numbers[f"M_{name}"]) for name in live if f"M_{name}" in numbers}
    sizes = {name: mesh[name] for name in live}
    place = chip.placement(live, sizes, own, layout) if live else None
    cut = study.layout.without(trivial)
    if not study.chosen:
        cut = replace(cut, cache=_cache_cut(study, cut, mesh, batch))
    network = chip.network(live, fidelity, sizes, own, layout) if live else study.network
    laid = place.layout.bindings if place is not None else {}
    rest = {name: value for name, value in numbers.items() if name not in mesh}
    values = bindings(chip, study.model, laid, **sizes, **rest)
    made = study.put_on(network, cut)
    _check_batch(made, mesh, batch)
    return made, values, place


def _cache_cut(
    study: Inference, layout: ServingLayout, mesh: Mapping[str, int], batch: int
) -> CacheCut:
    """The cache cut by batch where ways are left beyond its heads and divide the batch."""
    dealt = layout.over if heads_of(study) else layout.tensor
    ways = prod(mesh[name] for name in (*layout.rows, *dealt) if name not in layout.batch)
    return "batch" if ways > 1 and batch % ways == 0 else "heads"


def _check_batch(study: Inference, mesh: Mapping[str, int], batch: int) -> None:
    """Refuse a batch that the ways do not divide that cut it."""
    ways = max(study.memory.ways(mesh), prod(mesh[name] for name in study.layout.batch))
    if batch % ways:
        below = batch // ways * ways
        hint = f"the largest that works below is {below}" if below else f"{ways} is the smallest"
        raise ShardingError(
            f"a batch of {batch} sequences is cut over {ways} ways, which do not divide it; {hint}"
        )
