"""The fewest chips that hold a model: weights alone, and with cache, buffers and concurrency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from os import PathLike
from typing import Any

from sympy import Expr, S, ceiling

from symscale.algebra.errors import HardwareError, ShardingError, SymbolError
from symscale.algebra.substitution import evaluate, exact
from symscale.algebra.symbols import B, n
from symscale.algebra.table import Table
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.figure import MissingFigure
from symscale.models.storage import stored_bytes
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.inference import BIASES, Inference
from symscale.studies.inference_memory import HBM_BYTES
from symscale.studies.inference_mesh import dividing
from symscale.studies.inference_numbers import usable_bytes
from symscale.studies.inference_result import InferenceResult

#: The most chips that are tried.
MOST = 16384


def real_sizes(chip: Chip) -> Iterator[int]:
    """The numbers of chips that can be had together, ascending.

    TPU slices are a power of two, from one host's four chips (or a single chip, where pods come by
    the chip) to the pod; GPUs come in parts of a node that are powers of two, then in whole nodes.

    >>> from itertools import islice
    >>> from symscale.hardware.chips import chip
    >>> list(islice(real_sizes(chip("tpu-v5e")), 5)), list(islice(real_sizes(chip("h100")), 6))
    ([1, 4, 8, 16, 32], [1, 2, 4, 8, 16, 24])
    """
    torus = chip.torus
    if torus is None:
        node = chip.domain
        size = 1
        while size < node:
            yield size
            size *= 2
        yield from range(node, min(chip.reach, MOST) + 1, node)
        return
    if torus.rule == "axis":
        yield 1
    size = 4
    while size < chip.reach:
        yield size
        size *= 2
    yield chip.reach


@dataclass(frozen=True)
class Fit:
    """What holds a model.

    Attributes:
        study: what serves.
        chip: on which chip.
        weight_bytes: bytes of all weights, held once.
        chips_for_weights: the fewest chips whose usable memory together holds them.
        result: a step on the fewest chips, of the sizes that can be had and divide the model, that
            hold weights, cache and a step's own arrays.
    """

    study: Inference
    chip: Chip
    weight_bytes: int
    chips_for_weights: int
    result: InferenceResult

    @property
    def chips(self) -> int:
        """The fewest real chips that hold everything."""
        return self.result.chips

    @property
    def max_batch(self) -> int:
        """The largest batch that these hold at the context asked for."""
        return self.result.largest_batch

    @property
    def evenly(self) -> Crossover:
        """From how many chips weights and cache fit, if both were cut evenly, in closed form."""
        return evenly(self.study, self.result.context)

    @property
    def chips_evenly(self) -> int:
        """The same in numbers, buffers left free: before rounding to what can be had."""
        values = {B: exact(self.result.batch, "batch"), HBM_BYTES: S(self.result.usable_bytes)}
        return max(1, int(ceiling(evaluate(self.evenly.threshold, values))))

    @cached_property
    def doubled(self) -> InferenceResult | None:
        """The same step on twice the chips; None where no split of them divides the model."""
        try:
            return self.result.again(chips=2 * self.chips)
        except (HardwareError, ShardingError):
            return None

    @property
    def speedup_of_doubling(self) -> float | None:
        """How much sooner a step ends on twice the chips when sums are waited for: not twice."""
        if self.doubled is None:
            return None
        return self.result.seconds(overlap="critical") / self.doubled.seconds(overlap="critical")

    def table(self) -> Table:
        """The headline numbers."""
        memory = self.result.memory
        rows: list[tuple[str, str | float | int]] = [
            ("weights, bytes", self.weight_bytes),
            ("chips for the weights alone", self.chips_for_weights),
            ("chips, all cut evenly", self.chips_evenly),
            ("chips, of a real size", self.chips),
            *((f"{kind}, bytes a chip", value) for kind, value in memory.items()),
            ("usable, bytes a chip", self.result.usable_bytes),
            ("largest batch", self.max_batch),
            ("seconds a step", self.result.step_time),
        ]
        if self.doubled is not None and self.speedup_of_doubling is not None:
            rows += [
                ("largest batch on twice the chips", self.doubled.largest_batch),
                ("step sooner on twice the chips, times", self.speedup_of_doubling),
            ]
        return Table(("", "value"), tuple(rows))

    def __repr__(self) -> str:
        asked = self.result
        head = (
            f"{self.study.model.name} on {self.chip.name}: a batch of {asked.batch}, "
            f"{asked.context} tokens cached of each"
        )
        return f"{head}\n{self.table()}\n{self.evenly}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        doubled = self.doubled
        return {
            "model": self.study.model.name,
            "chip": self.chip.name,
            "batch": self.result.batch,
            "context": self.result.context,
            "weight_bytes": self.weight_bytes,
            "chips_for_weights": self.chips_for_weights,
            "chips_evenly": self.chips_evenly,
            "chips": self.chips,
            "mesh": dict(self.result.mesh),
            "max_batch": self.max_batch,
            "memory": dict(self.result.memory),
            "memory_bytes": self.result.memory_bytes,
            "usable_bytes": self.result.usable_bytes,
            "kv_bytes_per_token": self.result.kv_bytes_per_token,
            "step_time_s": self.result.step_time,
            "max_batch_of_twice": None if doubled is None else doubled.largest_batch,
            "speedup_of_twice": self.speedup_of_doubling,
            "formula": str(self.evenly.threshold),
        }


def whole_weights(study: Inference) -> Expr:
    """Bytes of all weights, held once."""
    known = study.model.params.components
    formats = {name: kind for name, kind in study.formats.items() if name in known}
    plain, biases = study.formats["norms"], study.formats[BIASES]
    return stored_bytes(study.model.params, plain, formats, biases)


def evenly(study: Inference, context: int, weights: Expr | int | None = None) -> Crossover:
    """From how many chips weights and ``B`` caches of this length fit, both cut evenly.

    ``weights`` are bytes in place of the model's own.

    >>> from symscale.studies.inference import inference
    >>> evenly(inference("llama-3-70b", weights="int8", kv="int8"), 8192).threshold
    (1342177280*B + 70553706496)/M_hbm
    """
    return crossover(n * HBM_BYTES, _needed(study, context, weights), n)


def sequences(study: Inference, context: int, weights: Expr | int | None = None) -> Crossover:
    """From which batch on ``n`` chips are too few, weights and cache cut evenly.

    >>> from symscale.studies.inference import inference
    >>> sequences(inference("llama-3-70b", kv="int8"), 8192, weights=2**36).threshold
    M_hbm*n/1342177280 - 256/5
    """
    return crossover(_needed(study, context, weights), n * HBM_BYTES, B)


def _needed(study: Inference, context: int, weights: Expr | int | None) -> Expr:
    """Bytes of all weights and of ``B`` caches, held once."""
    held = whole_weights(study) if weights is None else S(weights)
    cache = B * study.model.kv_bytes(context, study.kv)
    return (held + cache).xreplace(dict(study.model)).doit()


def fit(
    study: Inference,
    chip: str | PathLike[str] | Chip,
    *,
    batch: int = 1,
    context: int | None = None,
    **numbers: Any,
) -> Fit:
    """The fewest chips that hold a model, and what else then fits.

    Args:
        study: what serves (see :func:`~symscale.studies.inference.inference`).
        chip: the name of a chip, or a chip.
        batch: sequences that must be in flight at once.
        context: tokens that each has cached; the model's context unless given.
        numbers: ``block``, ``share``, ``buffers`` and the like (see :meth:`Inference.at`).

    Raises:
        HardwareError: no real number of chips holds it.

    >>> from symscale.studies.inference import inference
    >>> found = fit(inference("llama-3-70b"), "h100")
    >>> found.weight_bytes, found.chips_for_weights, found.chips
    (141107412992, 2, 2)
    """
    for name in ("chips", "X", "Y", "Z"):
        if name in numbers:
            raise SymbolError(f"fit finds the number of chips and their mesh; leave {name} out")
    found = find_chip(chip)
    total = int(evaluate(whole_weights(study), study.model))
    room = usable_bytes(found, numbers.get("share", 1.0), numbers.get("buffers", 0))
    alone = max(1, int(ceiling(exact(total, "weights") / room)))
    best: InferenceResult | None = None
    last: Exception | None = None
    for count in takewhile(lambda size: size <= MOST, real_sizes(found)):
        # Fewer than would hold the weights cannot, and chips that divide no mesh are not tried.
        if count < alone or not dividing(study, count):
            continue
        result, last = _tried(study, found, count, {"batch": batch, "context": context, **numbers})
        if result is not None and result.fits:
            return Fit(study, found, total, alone, result)
        best = max(filter(None, (best, result)), key=lambda r: r.largest_batch, default=None)
    raise HardwareError(_too_large(study, found, batch, alone, best, last))


def _too_large(
    study: Inference,
    chip: Chip,
    batch: int,
    alone: int,
    best: InferenceResult | None,
    last: Exception | None,
) -> str:
    """Why no number of chips will do, and the batch that the most chips hold."""
    said = (
        f"no number of {chip.name} chips up to {min(chip.reach, MOST)} holds a batch of {batch} "
        f"of {study.model.name} under {study.layout.name}"
    )
    if best is not None:
        return f"{said}; {best.chips} chips hold {best.largest_batch}, the most of any number"
    why = f"the weights alone fill {alone}, and no such number divides the model's dims"
    return f"{said}: {last or why}"


def _tried(
    study: Inference, chip: Chip, count: int, asked: Mapping[str, Any]
) -> tuple[InferenceResult | None, Exception | None]:
    """A step on so many chips, or why there is none."""
    try:
        return study.at(chip, chips=count, **asked), None
    except MissingFigure:
        raise
    except (HardwareError, ShardingError) as error:
        return None, error
