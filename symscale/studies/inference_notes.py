"""What the numbers of a result leave out, and what of it does not fit, one line each."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from sympy import Integer

from symscale.algebra.symbols import B, E, V
from symscale.models.blocks import Experts

if TYPE_CHECKING:
    from symscale.studies.inference_result import InferenceResult


def notes_of(result: InferenceResult) -> tuple[str, ...]:
    """Notes on the model, on what is repeated or padded, on experts met, and on what is missing."""
    found = list(notes_of_lying(result))
    if not result.fits:
        found.append(
            f"does not fit: {result.missing_bytes:,} bytes too many on each chip; the largest "
            f"batch at this context is {result.largest_batch}"
        )
    return tuple(found)


def notes_of_lying(result: InferenceResult) -> tuple[str, ...]:
    """The same without whether it fits."""
    kinds = (_padded(result), _repeated(result), _experts(result))
    return (*result.study.model.notes, *(note for notes in kinds for note in notes))


def _padded(result: InferenceResult) -> Iterator[str]:
    """Rows that stand empty where the batch does not fill them."""
    if result.padded_batch > result.batch:
        ways = result.batch_step * result.replicas
        yield (
            f"a batch of {result.batch} is cut over {ways} ways: the fullest has "
            f"{result.padded_batch // ways}, so that a step takes as long as one of "
            f"{result.padded_batch}"
        )


def _repeated(result: InferenceResult) -> Iterator[str]:
    """What tensor parallelism does not cut."""
    layout, sizes = result.study.layout, result.study.model
    ways = prod(result.mesh.get(name, 1) for name in layout.tensor)
    if ways == 1:
        return
    if any(kind.state for kind in result.study.programs.kinds):
        yield f"recurrent layers are whole on each of {ways} tensor-parallel chips"
    over = prod(result.mesh.get(name, 1) for name in layout.over)
    if over > 1 and layout.cache == "heads":
        yield f"keys and values are repeated on {over} chips each"
    if V in sizes and sizes[V] % ways:
        padded = -(-sizes[V] // ways) * ways
        yield f"a vocabulary of {sizes[V]:,} is padded to {padded:,} on {ways} chips"


def _experts(result: InferenceResult) -> Iterator[str]:
    """How many experts a step reads."""
    model = result.study.model
    if not model.config.body.find(Experts):
        return
    parts = prod(result.mesh.get(name, 1) for name in result.study.layout.batch)
    cut = parts if result.study.layout.experts != "exchange" else 1
    batch = Integer(result.batch) / result.replicas / cut
    met = float(model.experts_touched(B).subs(model).subs(B, float(batch)))
    yield (
        f"of {model[E]} experts a layer's step meets {met:.3g}, if its tokens choose alike; the "
        "busiest chip may have more"
    )
