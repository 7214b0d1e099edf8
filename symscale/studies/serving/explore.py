"""The sweep around a server: fewer chips, other types and other batches than it was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

from symscale.algebra.errors import ShardingError
from symscale.hardware.chip import Chip
from symscale.models.model import model as find_model
from symscale.studies.inference import Inference, Weights, inference
from symscale.studies.inference_mesh import meshes
from symscale.studies.serving.pareto import Frontier, pareto
from symscale.studies.serving.served import Source, sweep
from symscale.studies.serving.sweep import Progress, Sweep

#: Types that weights and cache are tried in, besides those asked for.
TYPES = ("bf16", "int8", "int4")
CACHES = ("bf16", "int8")
_BATCHES = 512
_STEP = 64
_SHORTEST = 512


@dataclass(frozen=True)
class Explored:
    """A sweep and, at the context asked for, its frontier."""

    sweep: Sweep
    frontier: Frontier

    def __repr__(self) -> str:
        return f"{self.sweep!r}\n\n{self.frontier!r}"

    def to_dict(self) -> dict[str, Any]:
        """Both, for JSON."""
        return {"sweep": self.sweep.to_dict(), "pareto": self.frontier.to_dict()}


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
    progress: Progress | None = None,
    **how: Any,
) -> Explored:
    """The frontier of latency against throughput around a server.

    Swept are all batches up to 512 and fewer above (see :func:`batches`), contexts halved down from
    the one asked for, chips halved down from the number asked for as far as a mesh exists, and
    weights and cache in bf16 and int8 (weights in int4 as well) besides the types asked for.

    Raises:
        SymscaleError: as :func:`sweep` does; or where nothing fits at this context.

    >>> found = explore("llama-3-8b", "tpu-v5e", chips=8, batch=8, context=4096)
    >>> found.frontier.points[0].option.chips, len(found.sweep.context)
    (8, 4)
    """
    known = find_model(model)
    layouts = inference(known, strategy=strategy)
    counts = [count for count in halved(chips) if _has_mesh(layouts, count)] or [chips]
    found = sweep(
        known,
        chip,
        chips=counts,
        batch=batches(batch),
        context=sorted({*halved(context, _SHORTEST), context}),
        weights=_with(weights, TYPES),
        kv=_with(kv, CACHES),
        strategy=(strategy,),
        progress=progress,
        **how,
    )
    return Explored(found, pareto(found, context))


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


def _has_mesh(study: Inference, chips: int) -> bool:
    try:
        return bool(meshes(study, chips))
    except ShardingError:
        return False


def _with(asked: Any, others: Iterable[str]) -> list[Any]:
    """What was asked for, then the others."""
    first = [] if asked is None else [asked]
    return [*first, *(one for one in others if one != asked)]
