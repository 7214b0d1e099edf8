"""What a model's inference on a chip gives these studies: options to sweep, and a server's step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, Symbol, ceiling

from symscale.algebra.errors import (
    HardwareError,
    ModelError,
    ShardingError,
    SymbolError,
    SymscaleError,
)
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import B, W_hbm, b
from symscale.algebra.symbols import S as KEYS
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.figure import MissingFigure
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.models.storage import Format, storage_format
from symscale.studies.inference import Inference, Weights, inference
from symscale.studies.inference_at import cache_cuts
from symscale.studies.inference_kernels import Method
from symscale.studies.inference_layout import CacheCut
from symscale.studies.inference_mesh import meshes
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.options import Option
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.sweep import Progress, Sweep, sweep_options

Source = str | PathLike[str] | Mapping[str, Any] | Model


def placed_step(found: InferenceResult) -> ServerStep:
    """The step of one replica, as it lies on its mesh, with all numbers in but batch and context.

    Seconds follow the aggregate model; what the next op waits for is not hidden.

    >>> from symscale.studies.inference import inference
    >>> llama = inference("llama-3-70b", weights="int8", kv="int8")
    >>> step = placed_step(llama.at("tpu-v5e", chips=8, batch=32, context=8192))
    >>> float(step.seconds().subs({b: 32, KEYS: 8192}))
    0.01...
    """
    study, values = found.study, _fixed(found)
    waiting = study.step.comms(study.network, waiting=True).values()
    chips = prod(found.mesh.values())
    memory = study.memory

    def put(expr: Expr) -> Expr:
        return expr.xreplace(values)

    return ServerStep(
        math=put(study.step.products),
        weights=put(study.step.all_weights),
        cache=put(study.step.total("cache") / W_hbm).subs(B, b),
        comms=put(Add(*waiting)),
        weight_bytes=chips * put(memory.weights),
        cache_bytes=chips * put(memory.cache + memory.state).subs(B, b),
    )


def option_of(found: InferenceResult, name: str) -> Option:
    """One replica's step and memory as an option of a sweep."""
    study = found.study
    seconds = study.time(found.method, found.overlap, found.on_chip)
    # Ways that sequences do not fill have empty rows; a step takes as long as with full ones.
    ways = found.batch_step
    rows = b if ways == 1 else ways * ceiling(b / ways)
    return Option(
        name,
        prod(found.mesh.values()),
        seconds.xreplace({B: rows}),
        study.memory.paged(found.block).total.xreplace({B: rows}),
        float(found.usable_bytes),
        1,
        price(found.chip),
        MappingProxyType(_fixed(found)),
    )


def price(chip: Chip) -> float | None:
    """US dollars of a chip for an hour; None where none is on file."""
    try:
        return float(chip.price.value)
    except HardwareError:
        return None


def _fixed(found: InferenceResult) -> dict[Symbol, Expr]:
    return {key: value for key, value in found.values.items() if key not in (B, KEYS)}


def served_options(
    study: Inference, chip: str | PathLike[str] | Chip, chips: Iterable[int], **how: Any
) -> tuple[Option, ...]:
    """Every mesh that a model's layout can have on each number of chips.

    Where ways are left beyond the key/value heads, the cache is repeated in one option and dealt
    out by sequences in another. A mesh that the chip's network cannot have is left out.

    Args:
        study: a model with its types and layout.
        chip: the name of a chip, or a chip.
        chips: numbers of chips.
        how: ``method``, ``overlap``, ``fidelity``, ``block``, ``share`` (see :meth:`Inference.at`).

    Raises:
        ShardingError: for chips that no mesh of the layout divides the model's dims by.
        HardwareError: where the network can have none of the meshes.

    >>> llama = inference("llama-3-70b", weights="int8", kv="int8")
    >>> [o.name for o in served_options(llama, "tpu-v5e", (8, 16))]
    ['Y=8', 'Y=8, Z=2', 'Y=8, Z=2, cache by batch']
    """
    made: dict[str, Option] = {}
    wrong: SymscaleError | None = None
    for count in chips:
        for mesh in meshes(study, count):
            try:
                for option in mesh_options(study, chip, mesh, **how):
                    made.setdefault(option.name, option)
            except MissingFigure:
                raise
            except (ShardingError, HardwareError) as error:
                wrong = wrong or error
    if not made and wrong is not None:
        raise wrong
    return tuple(made.values())


def mesh_options(
    study: Inference, chip: str | PathLike[str] | Chip, mesh: Mapping[str, int], **how: Any
) -> tuple[Option, ...]:
    """One mesh, with every way in which the cache can lie on it.

    Raises:
        SymscaleError: as :meth:`Inference.at`.

    >>> [o.name for o in mesh_options(inference("llama-3-8b"), "h100", {"Y": 8})]
    ['Y=8']
    """
    found_chip = find_chip(chip)
    made = []
    for beyond in cache_cuts(study, mesh):
        found = study.with_cache(beyond).at(found_chip, batch=1, context=1, **mesh, **how)
        made.append(option_of(found, mesh_name(found)))
    return tuple(made)


def mesh_name(found: InferenceResult) -> str:
    """A mesh in a word or a few, and where the cache lies on it."""
    where = {"heads": "", "batch": ", cache by batch", "sequence": ", cache by keys"}
    alone = found.batch_step == 1 and found.study.layout.cache == "batch"
    cut = "" if alone else where[found.study.layout.cache]
    return ", ".join(f"{axis}={size}" for axis, size in found.mesh.items()) + cut


def types_name(study: Inference) -> str:
    """How weights and cache are stored, and the layout, in a few words.

    >>> types_name(inference("mixtral-8x7b", {"experts": "fp8"}, "int8"))
    'experts fp8, int8 cache, tp'
    """
    if study.formats == inference(study.model).formats and len(set(study.formats.values())) > 1:
        return f"own, {study.kv.name} cache, {study.layout.name}"
    known = study.model.params.components
    kinds = {part: kind.name for part, kind in study.formats.items() if part in known}
    common = Counter(kinds.values()).most_common(1)[0][0]
    apart = [f"{part} {kind}" for part, kind in kinds.items() if kind != common]
    rest = [] if common == storage_format(study.model.config.dtype).name else [f"others {common}"]
    stored = " ".join((*apart, *rest)) if apart else common
    return f"{stored}, {study.kv.name} cache, {study.layout.name}"


def sweep(
    model: Source,
    chip: str | PathLike[str] | Chip,
    *,
    chips: int | Sequence[int],
    batch: int | Sequence[int] | Any,
    context: int | Sequence[int] | Any,
    weights: Weights | Sequence[Weights] = (None,),
    kv: str | Sequence[str] = ("bf16",),
    strategy: str | Sequence[str] = ("tp",),
    compute: str | None = None,
    cache: CacheCut | None = None,
    absorbed: bool = True,
    method: Method = "aggregate",
    progress: Progress | None = None,
    **how: Any,
) -> Sweep:
    """Generation at every batch, context, number of chips, mesh and types.

    Of everything that is swept, one or several may be given.

    Args:
        model: a name of the zoo, a configuration, or a model.
        chip: the name of a chip, or a chip.
        chips: numbers of chips; each with all meshes that it can have.
        batch: sequences in flight.
        context: tokens that each has cached.
        weights: how weights are stored; None, as the configuration says.
        kv: element types of the cache.
        strategy: layouts (see :func:`serving_layout`).
        compute: the type of products with weights (see :func:`inference`).
        cache: where the cache lies beyond its heads; every way unless given.
        absorbed: latent attention reads the latent vectors themselves.
        method: ``"aggregate"`` (quick to evaluate) or ``"per-op"``.
        progress: called after every block of points.
        how: ``overlap``, ``fidelity``, ``block``, ``share`` (see :meth:`Inference.at`).

    Raises:
        SymbolError: for nothing to sweep, or a number that is not whole and above zero.
        ModelError: for an unknown model, or a context beyond the model's.
        ShardingError: for chips that no mesh divides the model's dims by.

    >>> found = sweep("llama-3-8b", "tpu-v5e", chips=(1, 8), batch=(1, 8), context=4096,
    ...               weights="int8")
    >>> found.best(within=0.003).option.name
    'int8, bf16 cache, tp, Y=8'
    """
    known = find_model(model)
    found_chip = find_chip(chip)
    made: list[Option] = []
    for count in _each(chips):
        if not exact(count, "chips").is_integer:
            raise SymbolError(f"chips = {count}: a whole number is wanted")
    every = product(_each(weights), _each(kv), _each(strategy))
    for stored, cached, layout in every:
        study = inference(known, stored, cached, compute, layout, cache, absorbed=absorbed)
        head = types_name(study)
        for option in served_options(study, found_chip, _each(chips), method=method, **how):
            made.append(replace(option, name=f"{head}, {option.name}"))
    if not made:
        raise SymbolError("nothing to sweep: give chips, weights, kv and strategy at least one")
    found = sweep_options(made, batch, context, progress)
    check_contexts(known, found, bool(how.get("beyond")))
    return found


def check_contexts(model: Model, found: Sweep, beyond: bool) -> None:
    """Refuse a context beyond the model's, unless it is to be counted.

    Raises:
        ModelError: for such a context.
    """
    longest = model.context
    if longest is not None and found.context.max() > longest and not beyond:
        raise ModelError(
            f"context {int(found.context.max())}: {model.name} is made for sequences of at most "
            f"{longest} tokens (beyond=True or --beyond counts longer ones)"
        )


def _each(given: Any) -> tuple[Any, ...]:
    """One or several of something, as several: a word and a mapping are one."""
    if isinstance(given, str | Mapping | Format) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)
