"""What the commands about serving do once their arguments are parsed.

Everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from symscale.commands import show

if TYPE_CHECKING:
    from symscale.studies.inference import Inference


def serve(options: argparse.Namespace) -> None:
    """A step of generation, and perhaps the prefill of a prompt."""
    from symscale.studies.inference_difference import difference
    from symscale.studies.inference_prefill import prefill

    names = ("chips", "batch", "context", "replicas", "method", "overlap", "fidelity")
    how = ("activations", "layout", "block", "share", "buffers")
    asked = {name: getattr(options, name) for name in (*names, *how)}
    found = _study(options).at(options.chip, **asked, **(options.mesh or {}))
    data, text = found.to_dict(), repr(found)
    if options.prefill is not None:
        prompt = prefill(found, options.prefill, mfu=options.mfu)
        data, text = {**data, **prompt.to_dict()}, f"{text}\n\n{prompt!r}"
    why = difference(found)
    if options.explain:
        text = f"{text}\n\n{why!r}"
    show(options, {"ttft_s": None, **data, "methods": why.to_dict()}, text)


def fit(options: argparse.Namespace) -> None:
    """The fewest chips that hold a model."""
    from symscale.studies.inference_fit import fit

    found = fit(
        _study(options),
        options.chip,
        batch=options.batch,
        context=options.context,
        block=options.block,
        share=options.share,
        buffers=options.buffers,
    )
    show(options, found.to_dict(), repr(found))


def _study(options: argparse.Namespace) -> Inference:
    """What serves, as the options have it."""
    from symscale.studies.inference import inference

    weights: Any = options.weights
    if options.experts:
        weights = {"experts": options.experts}
        weights |= {"others": options.weights} if options.weights else {}
    return inference(
        options.model,
        weights=weights,
        kv=options.kv,
        compute=options.compute,
        strategy=options.strategy,
        cache=options.cache,
        absorbed=not options.naive,
    )
