"""Inference: a step of generation and a prompt's prefill, symbolic first, numbers last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Expr, S

from symscale.algebra.errors import ModelError, SymscaleError
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.symbols import B, T
from symscale.algebra.time import Overlap
from symscale.arrays.dtype import DType, dtype
from symscale.hardware.chip import Chip
from symscale.models.blocks import Latent
from symscale.models.decoder import COMPONENTS, Decoder, decoder
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.models.params import component_of
from symscale.models.quantised import stored_formats
from symscale.models.scores import Causal
from symscale.models.storage import Format, storage_format
from symscale.programs.sharded import ShardedProgram
from symscale.studies.inference_at import inference_result
from symscale.studies.inference_kernels import Method, Pass, one_pass
from symscale.studies.inference_layout import CacheCut, ServingLayout, serving_layout
from symscale.studies.inference_memory import ServingMemory, serving_memory
from symscale.studies.inference_mesh import Cut, cuts
from symscale.studies.inference_program import Served, Types, served_ends, served_layer
from symscale.studies.inference_result import InferenceResult

Weights = str | Format | Mapping[str, "str | Format"] | None
#: The key of a mapping of formats under which everything not named is stored.
OTHERS = "others"
#: What experts' biases are stored in, beside the components.
BIASES = "biases of experts"


@dataclass(frozen=True)
class Inference:
    """A model that serves, symbolic in batch, cached keys, mesh axes and rates.

    ``B`` is the number of sequences in generation (a token each), ``S`` the keys each has cached.
    ``step`` is a step of generation, ``prefill`` the forward pass of prompts of ``T`` tokens (``B``
    tokens in all), each as the kernels and exchanges of one device; ``memory`` is per device;
    ``at(...)`` puts the numbers in. ``formulas`` has the model's sizes as symbols.
    """

    model: Model
    formats: Mapping[str, Format]
    kv: DType
    math: DType | None
    layout: ServingLayout
    absorbed: bool = True
    causal: Causal = "exact"
    network: Network = IDEAL
    sized: bool = True
    chosen: bool = False

    @property
    def formulas(self) -> Inference:
        """The same with the model's sizes left as symbols."""
        return replace(self, sized=False)

    @cached_property
    def programs(self) -> Decoder:
        """The model's programs; latent attention absorbs its matrices in generation."""
        absorbed = self.absorbed and self.latent
        return decoder(self.model.config, absorbed=True) if absorbed else self.model.programs

    @property
    def latent(self) -> bool:
        """Whether keys and values are made of latent vectors, which alone are cached."""
        return bool(self.model.config.body.find(Latent))

    @cached_property
    def types(self) -> Types:
        """The element types of weights, cache, states and products."""
        kinds = {name: _as_dtype(kind) for name, kind in self.formats.items()}
        return Types(lambda name: kinds[_stored_as(name)], self.kv, dtype("f32"), self.math)

    @cached_property
    def layers(self) -> tuple[Served, ...]:
        """Layers by kind, then the ends, in generation."""
        ends = served_ends(self.programs.ends, self.types, B, B)
        return (*(served_layer(kind, self.types) for kind in self.programs.kinds), ends)

    @property
    def sharded(self) -> tuple[tuple[Served, ShardedProgram], ...]:
        """The same under the layout."""
        return self._shared._sharded

    @cached_property
    def _sharded(self) -> tuple[tuple[Served, ShardedProgram], ...]:
        return tuple((served, self.layout.shard(served)) for served in self.layers)

    @property
    def step(self) -> Pass:
        """A step of generation on one device."""
        return self._shared._step

    @cached_property
    def _step(self) -> Pass:
        return self._sized(one_pass(self._sharded, self.kv))

    @property
    def prefill(self) -> Pass:
        """The forward pass of ``B/T`` prompts of ``T`` tokens; only their last tokens get logits.

        Attention is cut by heads, wherever the cache lies later.
        """
        return self._shared._prefill

    @cached_property
    def _prefill(self) -> Pass:
        return self._sized(one_pass(self.prefilled, self.kv))

    @property
    def prefilled(self) -> tuple[tuple[Served, ShardedProgram], ...]:
        """Layers by kind, then the ends, under the layout, as prefill runs them."""
        return self._shared._prefilled

    @cached_property
    def _prefilled(self) -> tuple[tuple[Served, ShardedProgram], ...]:
        layout = replace(self.layout, cache="heads")
        kinds = self.model.programs.kinds
        parts = [served_layer(kind, self.types, False, self.causal) for kind in kinds]
        parts.append(served_ends(self.programs.ends, self.types, B, B / T))
        return tuple((one, layout.shard(one)) for one in parts)

    def _sized(self, made: Pass) -> Pass:
        return made.put(self.model) if self.sized else made

    @property
    def memory(self) -> ServingMemory:
        """Bytes on one device by kind."""
        return self._shared._memory

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Every dim that mesh axes cut: its name, its size, the axes."""
        return self._shared._cuts

    @cached_property
    def _cuts(self) -> tuple[Cut, ...]:
        return cuts(self)

    @cached_property
    def _shared(self) -> Inference:
        """What no network changes, made once for all meshes and chips."""
        formats = tuple(self.formats.items())
        how = (self.kv, self.math, self.layout, self.absorbed, self.causal, self.sized)
        return _shared(self.model, formats, *how)

    @cached_property
    def _memory(self) -> ServingMemory:
        plain = one_pass(self._sharded, self.kv)
        found = serving_memory(
            self.layers, self.layout, plain, self.model.state_bytes(), self.tower_bytes
        )
        return found.put(self.model) if self.sized else found

    @property
    def tower_bytes(self) -> Expr:
        """Bytes of an image tower's weights, which no step of generation reads."""
        weights = self.model.params.components.get("image tower", S.Zero)
        return S.Zero + weights * self.formats["norms"].bits_per_weight / 8

    def rows_cut(self, mesh: Mapping[str, int]) -> int:
        """Over how many ways sequences are dealt out, on a mesh of these sizes."""
        dealt = prod(mesh.get(name, 1) for name in self.layout.batch)
        return max(self.memory.ways(mesh), dealt)

    def time(
        self, method: Method = "per-op", overlap: Overlap = "full", on_chip: bool = True
    ) -> Expr:
        """Seconds of a step of generation (see :meth:`Pass.seconds`).

        >>> from symscale.algebra.symbols import W_hbm, C, B, S, Y, Z
        >>> found = inference("llama-3-70b", weights="int8", kv="int8", strategy="tp")
        >>> found.time("aggregate").has(S)
        True
        """
        return self.step.seconds(self.network, method, overlap, on_chip)

    def with_cache(self, cut: CacheCut) -> Inference:
        """The same with the cache cut so, whatever the numbers."""
        return replace(self, layout=replace(self.layout, cache=cut), chosen=True)

    def put_on(self, network: Network, layout: ServingLayout) -> Inference:
        """The same on a chip's network, under a layout."""
        return replace(self, network=network, layout=layout)

    def at(self, chip: str | PathLike[str] | Chip, **numbers: Any) -> InferenceResult:
        """Generation with numbers in it; see :func:`inference_result` for all of them.

        Args:
            chip: the name of a chip, or a chip.
            numbers: ``chips``, ``batch`` (sequences in flight) and ``context`` (tokens that each
                has cached), and perhaps ``replicas``, ``block``, ``share``, mesh axes...

        >>> llama = inference("llama-3-70b", weights="int8", kv="int8")
        >>> r = llama.at("tpu-v5e", chips=8, batch=32, context=8192)
        >>> r.kv_bytes, r.fits, r.bottleneck
        (42949672960, True, 'hbm')
        """
        return inference_result(self, chip, **numbers)

    def __repr__(self) -> str:
        return f"inference of {self.model.name}, {self.layout.name}\n{self.memory!r}"

    def _repr_html_(self) -> str:
        return self.memory.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Model, layout, types and memory as plain text."""
        return {
            "model": self.model.name,
            "strategy": self.layout.name,
            "weights": {name: kind.name for name, kind in self.formats.items()},
            "kv": self.kv.name,
            "memory": self.memory.to_dict(),
        }


def _stored_as(weight: str) -> str:
    """The component whose format a weight has; biases of experts are not packed with them."""
    return BIASES if weight.startswith("bE") else component_of(weight)


def _as_dtype(kind: Format) -> DType:
    """A storage format as an element type: its share of scales counted in its bytes."""
    try:
        return dtype(kind.name)
    except SymscaleError:
        return DType(kind.name, kind.bits_per_weight / 8, dtype("bf16").rate, kind.bits)


@lru_cache(maxsize=64)
def _shared(
    model: Model,
    formats: tuple[tuple[str, Format], ...],
    kv: DType,
    math: DType | None,
    layout: ServingLayout,
    absorbed: bool,
    causal: Causal,
    sized: bool,
) -> Inference:
    """A study on no network."""
    held = MappingProxyType(dict(formats))
    return Inference(model, held, kv, math, layout, absorbed, causal, sized=sized)


def inference(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    weights: Weights = None,
    kv: str | DType = "bf16",
    compute: str | DType | None = None,
    strategy: str | ServingLayout = "tp",
    cache: CacheCut | None = None,
    *,
    absorbed: bool = True,
    causal: Causal = "exact",
) -> Inference:
    """A model that serves: prefill and generation as partitioned programs.

    Args:
        model: a name of the zoo, a ``config.json``, a mapping of its keys, or a model.
        weights: how weights are stored (``"int8"``, ``"int4-g128"``...), or by component
            (``{"experts": "mxfp4"}``, everything else under ``"others"``); what is not named is
            stored as the configuration says.
        kv: the element type of the cache.
        compute: the type that products with weights run in; the wider of weights and bf16 unless
            given.
        strategy: ``tp``, ``tp+ep``, ``2d``, ``wg`` or ``ep`` (see :func:`serving_layout`).
        cache: where the cache lies beyond its heads: ``"heads"`` (repeated), ``"batch"`` or
            ``"sequence"``; chosen with the numbers unless given.
        absorbed: latent attention reads the latent vectors themselves in generation.
        causal: how prefill counts the causal mask (see :func:`mean_keys`).

    Raises:
        ModelError: an unknown model, format or component, or a model that does not generate.
        NotationError: an unknown element type.
        StrategyError: an unknown strategy.

    >>> inference("llama-3-8b").memory["cache"]
    131072*B*S/Y
    """
    found = find_model(model)
    if not isinstance(absorbed, bool):
        raise ModelError(f"absorbed = {absorbed!r}: True or False is wanted")
    if not found.programs.kinds or found.programs.encoder:
        raise ModelError(f"{found.name}: only decoders are served; it has an encoder")
    formats = _formats(found, weights)
    layout = serving_layout(strategy, cache or "heads")
    return Inference(
        found,
        MappingProxyType(formats),
        dtype(kv),
        None if compute is None else dtype(compute),
        layout,
        absorbed,
        causal,
        chosen=cache is not None,
    )


def _formats(found: Model, weights: Weights) -> dict[str, Format]:
    """The format of every component."""
    stored = dict(stored_formats(found.config))
    plain = storage_format(found.config.dtype)
    if weights is not None and not isinstance(weights, Mapping):
        return dict.fromkeys((*COMPONENTS, BIASES), storage_format(weights))
    chosen = {name: storage_format(kind) for name, kind in (weights or {}).items()}
    if OTHERS in chosen:
        plain, stored = chosen.pop(OTHERS), {}
    for name in chosen:
        if name not in found.params.components:
            known = ", ".join(found.params.components)
            raise ModelError(f"no component {name!r}; the model has {known}")
    return {**dict.fromkeys((*COMPONENTS, BIASES), plain), **stored, **chosen}
