"""What the commands about serving do once their arguments are parsed.

Everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from symscale.algebra.errors import SymbolError
from symscale.commands import show

if TYPE_CHECKING:
    from symscale.studies.inference import Inference, Weights
    from symscale.studies.inference_result import InferenceResult
    from symscale.studies.inference_walls import Walls


def serve(options: argparse.Namespace) -> None:
    """A step of generation, and perhaps the prefill of a prompt."""
    from symscale.commands_system import parts
    from symscale.studies.inference_difference import difference
    from symscale.studies.inference_prefill import prefill

    if options.mfu is not None and options.prefill is None:
        raise SymbolError("--mfu says nothing without --prefill P")
    if options.stages is not None:
        _pipeline(options)
        return
    if options.groups is not None:
        raise SymbolError("--groups are of a pipeline; give its --stages too")
    names = ("chips", "batch", "context", "replicas", "method", "overlap", "fidelity")
    how = ("activations", "layout", "block", "share", "buffers", "beyond")
    asked = {name: getattr(options, name) for name in (*names, *how)}
    found = _study(options).at(options.chip, **asked, **(options.mesh or {}))
    data, text = found.to_dict(), repr(found)
    prompt = None if options.prefill is None else prefill(found, options.prefill, mfu=options.mfu)
    if prompt is not None:
        data, text = {**data, **prompt.to_dict()}, f"{text}\n\n{prompt!r}"
    why = difference(found)
    if options.explain:
        walls = _walls(found)
        text = "\n\n".join((text, repr(why), *(() if walls is None else (repr(walls),))))
        data["walls"] = None if walls is None else walls.to_dict()
    for more, said in parts(options, found, prompt):
        data, text = {**data, **more}, f"{text}\n\n{said}"
    show(options, {"ttft_s": None, **data, "methods": why.to_dict()}, text)


def _walls(found: InferenceResult) -> Walls | None:
    """The walls of the model's layers in closed form, where tensor parallelism has them."""
    from symscale.studies.inference_walls import walls

    layout = found.study.layout
    return None if layout.rows or layout.batch else walls(found.study)


#: What is asked of a server whose layers are not dealt out to stages.
_WITHOUT_STAGES = (
    *("mesh", "explain", "sweep", "pareto", "output", "want", "within"),
    *("answer", "link", "alpha", "draft", "prefix", "hit", "strategies", "against"),
)


def _pipeline(options: argparse.Namespace) -> None:
    """A step of generation over stages."""
    from symscale.studies.inference_pipeline import pipelined

    for name in _WITHOUT_STAGES:
        if getattr(options, name) not in (None, False):
            raise SymbolError(f"--{name} goes without --stages")
    if options.replicas != 1:
        raise SymbolError("--replicas goes without --stages")
    names = ("chips", "batch", "context", "method", "overlap", "fidelity", "activations")
    how = ("layout", "block", "share", "buffers", "beyond")
    asked = {name: getattr(options, name) for name in (*names, *how)}
    if options.chips is None:
        raise SymbolError("no number of chips; give --chips")
    found = pipelined(
        _study(options), options.chip, stages=options.stages, groups=options.groups, **asked
    )
    data, text = found.to_dict(), repr(found)
    if options.prefill is not None:
        first = found.prefill_time(options.prefill, found.groups, options.mfu)
        data, text = {**data, "ttft_s": first}, f"{text}\ntime to first token: {first:.4g} s"
    show(options, data, text)


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
        beyond=options.beyond,
    )
    show(options, found.to_dict(), repr(found))


def _study(options: argparse.Namespace) -> Inference:
    """What serves, as the options have it."""
    from symscale.studies.inference import inference

    found = inference(
        options.model,
        weights=_weights(options),
        kv=options.kv,
        compute=options.compute,
        strategy=options.strategy,
        cache=options.cache,
        absorbed=not options.naive,
    )
    if options.naive and not found.latent:
        raise SymbolError(f"--naive is for latent attention; {found.model.name} has none")
    return found


def _weights(options: argparse.Namespace) -> Weights:
    """How weights are stored: all alike, or the experts apart."""
    if not options.experts:
        stored: str | None = options.weights
        return stored
    others = {"others": options.weights} if options.weights else {}
    return {"experts": options.experts, **others}
