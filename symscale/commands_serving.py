"""What the commands about serving do once their arguments are parsed.

Everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from symscale.algebra.errors import SymbolError
from symscale.commands import show

if TYPE_CHECKING:
    from symscale.studies.inference import Inference, Weights
    from symscale.studies.inference_result import InferenceResult
    from symscale.studies.serving.advice import Advice
    from symscale.studies.serving.explore import Explored
    from symscale.studies.serving.system import ServingSystem


def serve(options: argparse.Namespace) -> None:
    """A step of generation, and perhaps the prefill of a prompt."""
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
    if options.prefill is not None:
        prompt = prefill(found, options.prefill, mfu=options.mfu)
        data, text = {**data, **prompt.to_dict()}, f"{text}\n\n{prompt!r}"
    why = difference(found)
    if options.explain:
        text = f"{text}\n\n{why!r}{_walls(found)}"
    for more, said in _parts(options, found):
        data, text = {**data, **more}, f"{text}\n\n{said}"
    show(options, {"ttft_s": None, **data, "methods": why.to_dict()}, text)


def _walls(found: InferenceResult) -> str:
    """The walls of the model's layers in closed form, where tensor parallelism has them."""
    from symscale.studies.inference_walls import walls

    layout = found.study.layout
    return "" if layout.rows or layout.batch else f"\n\n{walls(found.study)!r}"


#: What is asked of a server whose layers are not dealt out to stages.
_WITHOUT_STAGES = (
    *("mesh", "explain", "sweep", "pareto", "output", "want", "within"),
    *("answer", "link", "alpha", "draft"),
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


def _parts(
    options: argparse.Namespace, found: InferenceResult
) -> Iterator[tuple[dict[str, Any], str]]:
    """The server in its system, advice, and the sweep around it, as far as they are asked for."""
    system = _system(options, found)
    if system is not None:
        yield {"system": system.to_dict()}, repr(system)
    if options.want is not None or options.within is not None or not found.fits:
        advice = _advice(options, found)
        yield {"advice": advice.to_dict()}, repr(advice)
    if options.sweep or options.pareto or options.output:
        explored = _explored(options, found)
        if options.sweep:
            yield {"sweep": explored.sweep.to_dict()}, repr(explored.sweep)
        if options.pareto:
            yield {"pareto": explored.frontier.to_dict()}, repr(explored.frontier)
        if options.output:
            from symscale.report.serving import serving_report

            page = serving_report(found, explored.sweep, explored.frontier, system)
            files = [str(path) for path in page.save(options.output)]
            yield {"files": files}, "\n".join(files)


def _system(options: argparse.Namespace, found: InferenceResult) -> ServingSystem | None:
    from symscale.studies.serving.system import serving_system

    if options.answer is None:
        for name in ("link", "alpha", "draft"):
            if getattr(options, name) is not None:
                raise SymbolError(f"--{name} says nothing without --answer G")
        return None
    if options.prefill is None:
        raise SymbolError("--answer G needs the tokens of a prompt, --prefill P")
    return serving_system(
        found,
        options.prefill,
        options.answer,
        mfu=options.mfu,
        link=options.link,
        alpha=options.alpha,
        draft=0.05 if options.draft is None else options.draft,
    )


def _advice(options: argparse.Namespace, found: InferenceResult) -> Advice:
    from symscale.studies.serving.advice import advise_on

    return advise_on(found, tokens_per_second=options.want, latency=options.within)


def _explored(options: argparse.Namespace, found: InferenceResult) -> Explored:
    from symscale.studies.serving.bar import Bar
    from symscale.studies.serving.explore import explore

    with Bar("sweep", sys.stderr) as bar:
        return explore(
            options.model,
            options.chip,
            chips=found.chips // found.replicas,
            batch=found.batch // found.replicas,
            context=found.context,
            weights=_weights(options),
            kv=options.kv,
            strategy=options.strategy,
            compute=options.compute,
            cache=options.cache,
            absorbed=not options.naive,
            overlap=options.overlap,
            fidelity=options.fidelity,
            block=options.block,
            share=options.share,
            buffers=options.buffers,
            progress=bar,
        )


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
