"""The door through which numbers enter inference: chips, batch, context, and what fits them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from sympy import Expr, Symbol

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
from symscale.studies.inference_layout import CacheCut
from symscale.studies.inference_mesh import heads_of, meshes
from symscale.studies.inference_numbers import padded, usable_bytes, whole
from symscale.studies.inference_result import InferenceResult

if TYPE_CHECKING:
    from symscale.studies.inference import Inference

Made = TypeVar("Made")


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

    If none fits, it is the one with room for most. Where ways are left beyond the key/value heads,
    the cache is repeated or dealt out by sequences, whichever is better; a batch that ways do not
    divide is padded, as the chip with most rows sets the pace.

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
        """The fastest mesh that fits; if none does, the fastest of those with room for most."""
        asked, study = self.asked, self.study
        numbers = {name: asked[name] for name in asked if name not in _OWN}
        _check_names(study, numbers)
        batch, replicas, _ = (whole(asked[name], name) for name in ("batch", "replicas", "block"))
        _check_flags(asked)
        _check_replicas(batch, replicas)
        self.check_rates(numbers)
        length = _context(study, asked["context"], asked["beyond"])
        found = _meshes(study, asked["chips"], replicas, numbers)
        options = (
            self.option(mesh, cut, length, numbers)
            for mesh in found
            for cut in cache_cuts(study, mesh)
        )
        made = that_work(options)
        chosen = min(made, key=badness)
        return replace(chosen, rivals=tuple(one for one in made if one is not chosen))

    def option(
        self, mesh: dict[str, int], cut: CacheCut, length: int, numbers: Mapping[str, Any]
    ) -> Callable[[], InferenceResult]:
        """A mesh's result, to be made when it is asked for."""
        asked = self.asked
        batch, replicas = int(asked["batch"]), int(asked["replicas"])

        def made() -> InferenceResult:
            study, values, place = _placed(
                self.study, self.chip, mesh, cut, asked["fidelity"], asked["layout"], numbers
            )
            values[B] = exact(padded(batch // replicas, study.rows_cut(mesh)), "batch")
            values[S] = exact(length, "context")
            return InferenceResult(
                study, self.chip, MappingProxyType(mesh), MappingProxyType(values),
                batch, length, replicas, asked["method"], asked["overlap"],
                asked["activations"] == "on chip", int(asked["block"]),
                usable_bytes(self.chip, asked["share"], asked["buffers"]), place,
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


def badness(made: Any) -> tuple[int, float]:
    """What is better comes first: what fits, by its time; then what has room for more."""
    return (0 if made.fits else 1 + _ROOMIEST - made.largest_on_mesh, made.step_time)


#: Above any batch that fits a mesh.
_ROOMIEST = 10**30

#: The numbers of a question that are not a mesh's or a chip's.
_OWN = frozenset(
    (
        *("chips", "batch", "context", "replicas", "method", "overlap", "fidelity"),
        *("activations", "layout", "block", "share", "buffers", "beyond"),
    )
)


def that_work(options: Iterable[Callable[[], Made]]) -> tuple[Made, ...]:
    """The results of the meshes that fit the network.

    Raises:
        SymscaleError: what is wrong with the first, where none does.
    """
    found: list[Made] = []
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


def _check_names(study: Inference, numbers: Mapping[str, Any]) -> None:
    axes = ("X", "Y", "Z")
    known = {*axes, *(links(name).name for name in axes), *RATES}
    for name in sorted(set(numbers) - known):
        raise SymbolError(
            f"{name} = {numbers[name]}: no rate, and no mesh axis of {study.layout.name} "
            f"({', '.join(study.layout.mesh_axes)})"
        )


def _check_flags(asked: Mapping[str, Any]) -> None:
    if asked["activations"] not in ("on chip", "hbm"):
        raise SymbolError(f"activations {asked['activations']!r} is none of 'on chip', 'hbm'")
    if not isinstance(asked["beyond"], bool):
        raise SymbolError(f"beyond = {asked['beyond']!r}: True or False is wanted")


def _check_replicas(batch: int, replicas: int) -> None:
    """Refuse replicas that do not share the batch evenly."""
    if batch % replicas:
        fewer = next(count for count in range(min(replicas, batch), 0, -1) if batch % count == 0)
        raise SymbolError(
            f"a batch of {batch} is not shared evenly by {replicas} replicas; {fewer} is the "
            f"largest number below that shares it, {padded(batch, replicas)} the next batch that "
            f"{replicas} share"
        )


def _context(study: Inference, context: int | None, beyond: bool) -> int:
    longest = study.model.context
    if context is None and longest is None:
        raise SymbolError(f"{study.model.name} names no context length; give context=...")
    chosen = whole(longest if context is None else context, "context")
    if longest is not None and chosen > longest and not beyond:
        raise ModelError(
            f"context {chosen}: {study.model.name} is made for sequences of at most {longest} "
            "tokens (beyond=True or --beyond counts longer ones)"
        )
    return chosen


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
    every = whole(chips, "chips")
    if every % replicas:
        fewer = next(n for n in range(min(replicas, every), 0, -1) if every % n == 0)
        raise SymbolError(
            f"{chips} chips are not shared evenly by {replicas} replicas; {fewer} is the largest "
            "number below that shares them"
        )
    return meshes(study, every // replicas)


def _placed(
    study: Inference,
    chip: Chip,
    mesh: dict[str, int],
    cache: CacheCut,
    fidelity: Fidelity,
    layout: str | None,
    numbers: Mapping[str, Any],
) -> tuple[Inference, dict[Symbol, Expr], Placement | None]:
    """The study on a mesh of the chip's network, and all its numbers but batch and context."""
    live = tuple(name for name in study.layout.mesh_axes if mesh.get(name, 1) > 1)
    trivial = frozenset(study.layout.mesh_axes) - set(live)
    given = {name: f"M_{name}" for name in live if f"M_{name}" in numbers}
    own = {name: whole(numbers[link], link) for name, link in given.items()}
    sizes = {name: mesh[name] for name in live}
    place = chip.placement(live, sizes, own, layout) if live else None
    cut = replace(study.layout.without(trivial), cache=cache)
    network = chip.network(live, fidelity, sizes, own, layout) if live else study.network
    laid = place.layout.bindings if place is not None else {}
    rest = {name: value for name, value in numbers.items() if name not in mesh}
    values = bindings(chip, study.model, laid, **sizes, **rest)
    return study.put_on(network, cut), values, place


def cache_cuts(study: Inference, mesh: Mapping[str, int]) -> tuple[CacheCut, ...]:
    """Where the cache may lie: by batch, too, where ways are left beyond its heads.

    >>> from symscale.studies.inference import inference
    >>> cache_cuts(inference("llama-3-70b"), {"Y": 8, "Z": 2})
    ('heads', 'batch')
    """
    layout = study.layout
    if study.chosen:
        return (layout.cache,)
    dealt = layout.over if heads_of(study) else layout.tensor
    beyond = (mesh.get(a, 1) for a in (*layout.rows, *dealt) if a not in layout.batch)
    return ("heads", "batch") if prod(beyond) > 1 else ("heads",)
