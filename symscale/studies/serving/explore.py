"""The sweep around a server: fewer chips, other types, layouts and batches than asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from os import PathLike
from typing import Any

from symscale.algebra.errors import ShardingError, SymscaleError
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.studies.inference import Inference, Weights, inference
from symscale.studies.inference_layout import serving_layout
from symscale.studies.inference_mesh import dividing
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.options import Option
from symscale.studies.serving.pareto import Frontier, pareto
from symscale.studies.serving.served import (
    Source,
    check_contexts,
    mesh_name,
    mesh_options,
    option_of,
    served_options,
    types_name,
)
from symscale.studies.serving.sweep import Point, Progress, Sweep, sweep_options

#: Types that weights and cache are tried in, besides those asked for.
TYPES = ("bf16", "int8", "int4")
CACHES = ("bf16", "int8")
_BATCHES = 512
_STEP = 64
_SHORTEST = 512
_MESH = ("X", "Y", "Z")
#: What of a question a sweep changes; everything else of it holds for all options.
_SWEPT = frozenset((*_MESH, "chips", "batch", "context", "replicas"))
#: What belongs to one mesh and to no other.
_OF_A_MESH = frozenset(("layout", "M_X", "M_Y", "M_Z"))


@dataclass(frozen=True)
class Explored:
    """A sweep and, at the context asked for, its frontier; and the server among its points.

    ``server`` is one replica; ``left_out`` says what could not be swept, and why. All seconds are
    by one time model, the server's own: ``method`` and ``overlap``.
    """

    sweep: Sweep
    frontier: Frontier
    server: Point
    method: str
    overlap: str
    left_out: tuple[str, ...] = ()

    @property
    def better(self) -> Point | None:
        """The most tokens a second for each chip that no longer step gives than the server's own.

        None where the server itself is on the frontier.
        """
        found = self.frontier.within(self.server.step_time * _SAME)
        if found is None or (self.server.fits and found.per_chip <= self.server.per_chip * _SAME):
            return None
        return found

    @property
    def verdict(self) -> str:
        """Where the server stands beside the frontier, in a line."""
        own, better = self.server, self.better
        said = (
            f"this server, {own.option.name}: {own.step_time:.4g} s a token, "
            f"{own.per_chip:.4g} tokens/s a chip"
        )
        if not own.fits:
            said += "; it does not fit"
        if better is None:
            return f"{said}; on the frontier" if own.fits else said
        return (
            f"{said}; as soon, {better.option.name} at a batch of {better.batch} gives "
            f"{better.per_chip:.4g}"
        )

    @property
    def model_of_time(self) -> str:
        """By which model seconds are counted, in words."""
        return f"seconds of all points: {self.method} model, overlap {self.overlap}"

    def __repr__(self) -> str:
        return f"{self.sweep!r}\n\n{self.frontier!r}\n{self.said}"

    @property
    def said(self) -> str:
        """The lines below a frontier."""
        left = (f"left out: {why}" for why in self.left_out)
        return "\n".join((self.model_of_time, self.verdict, *left))

    def to_dict(self) -> dict[str, Any]:
        """Both, for JSON."""
        return {"sweep": self.sweep.to_dict(), "pareto": self.frontier_dict()}

    def frontier_dict(self) -> dict[str, Any]:
        """The frontier and the server beside it, for JSON."""
        return {
            **self.frontier.to_dict(),
            "method": self.method,
            "overlap": self.overlap,
            "server": self.server.to_dict(),
            "left_out": list(self.left_out),
        }


#: Steps that only rounding tells apart are equal.
_SAME = 1 + 1e-12


def explore(
    model: Source,
    chip: str | PathLike[str] | Chip,
    *,
    chips: int,
    batch: int,
    context: int,
    weights: Weights = None,
    kv: str = "bf16",
    strategy: str = "tp",
    strategies: Sequence[str] = (),
    against: Sequence[str | PathLike[str] | Chip] = (),
    progress: Progress | None = None,
    **how: Any,
) -> Explored:
    """The frontier of latency against throughput around a server: see :func:`explore_around`.

    Steps follow the aggregate model unless ``method`` is given.

    Raises:
        SymscaleError: as :meth:`Inference.at` does; or where nothing fits at this context.

    >>> found = explore("llama-3-8b", "tpu-v5e", chips=8, batch=8, context=4096)
    >>> found.frontier.points[0].option.chips, len(found.sweep.context)
    (8, 4)
    """
    own = {name: how.pop(name) for name in ("compute", "cache", "absorbed") if name in how}
    study = inference(model, weights, kv, strategy=strategy, **own)
    asked = {"method": "aggregate", **how}
    found = study.at(chip, chips=chips, batch=batch, context=context, **asked)
    return explore_around(found, strategies, against, progress)


def explore_around(
    found: InferenceResult,
    strategies: Sequence[str] = (),
    against: Sequence[str | PathLike[str] | Chip] = (),
    progress: Progress | None = None,
) -> Explored:
    """The frontier of latency against throughput around a server that is there.

    Swept are all batches up to 512 and fewer above (see :func:`batches`), contexts halved down from
    the one asked for, chips halved down from those of one replica as far as a mesh exists, and
    weights and cache in bf16 and int8 (weights in int4 as well) besides the server's own types. A
    mesh that was asked for is the only one of its layout on as many chips. Everything else is as
    the server was asked for: time model, blocks, share, rates.

    Args:
        found: the server.
        strategies: other layouts to try (see :func:`serving_layout`).
        against: other chips to try, as many of them.
        progress: called after every block of points.

    Raises:
        SymscaleError: for an unknown strategy or chip; or where nothing fits at this context.

    >>> server = inference("llama-3-8b").at("tpu-v5e", chips=8, batch=8, context=4096)
    >>> near = explore_around(server, strategies=("2d",), against=("tpu-v6e",))
    >>> near.server.option.name
    'tpu-v5e, bf16, bf16 cache, tp, Y=8'
    """
    around = _Around(found, tuple(find_chip(one) for one in against))
    left: dict[str, None] = {}
    made = dict(around.options(strategies, left))
    batch = found.batch // found.replicas
    lengths = sorted({*halved(found.context, _SHORTEST), found.context})
    swept = sweep_options(tuple(made.values()), batches(batch), lengths, progress)
    check_contexts(found.study.model, swept, bool(found.asked.get("beyond")))
    server = Point(around.own, batch, found.context, found.step_time, found.fits)
    front = pareto(swept, found.context)
    return Explored(swept, front, server, found.method, found.overlap, tuple(left))


@dataclass(frozen=True)
class _Around:
    """What is near a server: its options by name."""

    found: InferenceResult
    against: tuple[Chip, ...]

    @property
    def study(self) -> Inference:
        return self.found.origin or self.found.study

    @property
    def own(self) -> Option:
        """The server itself."""
        name = f"{types_name(self.found.study)}, {mesh_name(self.found)}"
        return option_of(self.found, self._named(self.found.chip, name))

    def _named(self, chip: Chip, name: str) -> str:
        return f"{chip.name}, {name}" if self.against else name

    def how(self, without: frozenset[str]) -> dict[str, Any]:
        """The question, some of it left out."""
        return {k: v for k, v in self.found.asked.items() if k not in _SWEPT | without}

    def options(
        self, strategies: Iterable[str], left: dict[str, None]
    ) -> Iterator[tuple[str, Option]]:
        """The server first, then all others; what cannot be swept is noted."""
        own = self.own
        yield own.name, own
        chips = dict.fromkeys((self.found.chip, *self.against))
        layouts = dict.fromkeys((self.study.layout.name, *strategies))
        for chip, layout in product(chips, layouts):
            for study in self.studies(layout):
                try:
                    for option in self._of(study, chip):
                        name = self._named(chip, f"{types_name(study)}, {option.name}")
                        if name != own.name:
                            yield name, replace(option, name=name)
                except SymscaleError as error:
                    left[f"{layout} on {chip.name}: {error}"] = None

    def studies(self, layout: str) -> Iterator[Inference]:
        """The server's types, then the others, under a layout."""
        study = self.study
        cache = study.layout.cache
        placed = study.layout if layout == study.layout.name else serving_layout(layout, cache)
        stored = [study.formats, *(inference(study.model, kind).formats for kind in TYPES)]
        kinds = [study.kv, *(inference(study.model, kv=kind).kv for kind in CACHES)]
        seen: set[str] = set()
        for formats, kv in product(stored, kinds):
            made = replace(study, formats=formats, kv=kv, layout=placed)
            if types_name(made) not in seen:
                seen.add(types_name(made))
                yield made

    def _of(self, study: Inference, chip: Chip) -> Iterator[Option]:
        """Every number of chips with every mesh; at the server's own, the mesh that was given."""
        given = {name: size for name, size in self.found.asked.items() if name in _MESH}
        pinned = bool(given) and study.layout == self.study.layout and chip == self.found.chip
        each = self.found.chips // self.found.replicas
        for count in (one for one in halved(each) if dividing(study, one)):
            if pinned and count == each:
                yield from mesh_options(study, chip, given, **self.how(frozenset()))
            else:
                yield from self._meshes(study, chip, count)

    def _meshes(self, study: Inference, chip: Chip, count: int) -> tuple[Option, ...]:
        """All meshes on so many chips that the network can have; none where it can have none."""
        rates: Mapping[str, Any] = self.how(_OF_A_MESH)
        try:
            return served_options(study, chip, (count,), **rates)
        except ShardingError:
            return ()


def batches(most: int) -> tuple[int, ...]:
    """All batches up to 512, then multiples of 64 about 1/32 apart, up to ``most`` and with it.

    >>> batches(600)[-3:], len(batches(10**6)) < 1000
    ((512, 576, 600), True)
    """
    out = list(range(1, _BATCHES + 1))
    while (after := out[-1] + max(_STEP, out[-1] // 32 // _STEP * _STEP)) < most:
        out.append(after)
    return tuple(out) if most <= _BATCHES else (*out, most)


def halved(number: int, least: int = 1) -> tuple[int, ...]:
    """A number and its halves, as long as they are whole and no less than ``least``.

    >>> halved(24), halved(8192, 2048), halved(300, 512)
    ((24, 12, 6, 3), (8192, 4096, 2048), ())
    """
    out = []
    while number >= least:
        out.append(number)
        if number % 2:
            break
        number //= 2
    return tuple(out)
