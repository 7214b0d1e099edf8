"""What each command does once its arguments are parsed: one call, and its result printed.

Everything heavy is imported inside the command that needs it.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from symscale.algebra.errors import SymbolError


def show(options: argparse.Namespace, data: Any, text: str) -> None:
    """Print a result: one JSON object, or text."""
    print(json.dumps(data, sort_keys=True, allow_nan=False) if options.json else text)


def report(options: argparse.Namespace) -> None:
    """Write a report and name its files."""
    from symscale.options import techniques_of
    from symscale.report.command import write_report
    from symscale.report.progress import Progress

    with Progress("report", sys.stderr) as progress:
        written = write_report(
            options.model,
            chip=options.chip,
            chips=options.chips,
            batch=options.batch,
            strategy=options.strategy,
            mesh=options.mesh,
            length=options.seq,
            layout=options.layout,
            changes=options.set,
            overlap=options.overlap,
            efficiency=options.efficiency,
            keep=options.keep,
            techniques=techniques_of(options),
            output=options.output,
            formats=options.format,
            progress=progress.step,
        )
    for line in written.messages:
        print(f"symscale: {line}", file=sys.stderr)
    show(options, written.to_dict(), str(written))


def train(options: argparse.Namespace) -> None:
    """A training step, and the run over so many tokens."""
    from symscale.hardware.chips import chip
    from symscale.hardware.showing import changed
    from symscale.options import need_microbatches, techniques_of
    from symscale.studies.meshes import placed_step
    from symscale.studies.run import training_run
    from symscale.studies.training import training
    from symscale.studies.walls import wall_text

    given = _budget(options)
    used = techniques_of(options)
    step = training(options.model, options.strategy, keep=options.keep, **used)
    need_microbatches(options.strategy, step.strategy.pipeline is not None, used)
    result = placed_step(
        step,
        changed(chip(options.chip), options.set),
        options.chips,
        options.batch,
        options.mesh,
        options.seq,
        options.layout,
        overlap=options.overlap,
        efficiency=options.efficiency,
    )
    data, text = {**result.to_dict(), "wall": wall_text(result)}, repr(result)
    text += f"\n{data['wall']}"
    if result.placement is not None and result.placement.levels:
        text += f"\n\n{result.placement}"
    if not result.fits:
        found = result.remedy
        data["remedy"] = None if found is None else found.to_dict()
        text += f"\nto fit: {found or 'no single change is enough'}"
    if options.scaling:
        from symscale.studies.innermost import innermost_of
        from symscale.studies.scaling import scaling_of

        curve, inner = scaling_of(result), innermost_of(result)
        data, text = {**data, "scaling": curve.to_dict()}, f"{text}\n\n{curve!r}"
        if inner is not None:
            data["innermost"], text = inner.to_dict(), f"{text}\n{inner.words}"
    if options.tokens is not None:
        run = training_run(result, options.tokens, **given)
        data, text = {**data, **run.to_dict()}, f"{text}\n\n{run!r}"
    show(options, {"days": None, "cost_usd": None, **data}, text)


def _budget(options: argparse.Namespace) -> dict[str, float]:
    """Pace, price and power of a run, those that were given."""
    names = {
        "mfu": "--mfu", "tflops": "--tflops", "step_seconds": "--step-seconds",
        "price": "--price", "power": "--power", "pue": "--pue", "carbon": "--carbon",
    }  # fmt: skip
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if given and options.tokens is None:
        flags = ", ".join(names[name] for name in given)
        raise SymbolError(f"{flags}: of a run; give its --tokens too")
    if "tflops" in given:
        given["achieved"] = given.pop("tflops") * 1e12
    if "step_seconds" in given:
        given["step_time"] = given.pop("step_seconds")
    return given


def params(options: argparse.Namespace) -> None:
    """Parameters by component."""
    from symscale.models.command import params_report

    data, text = params_report(
        options.model,
        stored=options.stored,
        experts=options.experts,
        cache=options.cache,
        context=options.context,
    )
    show(options, data, text)


def flops(options: argparse.Namespace) -> None:
    """FLOPs for one token."""
    from symscale.models.command import flops_report

    found = flops_report(
        options.model,
        options.context,
        decode=options.decode,
        naive=options.naive,
        training=options.training,
        causal=options.causal,
        recompute=options.recompute,
        head=not options.no_head,
        embeddings=options.embeddings,
        mtp=options.mtp,
        capacity=options.capacity,
    )
    show(options, found.to_dict(), str(found))


def crossover(options: argparse.Namespace) -> None:
    """A named crossover, or the list of them."""
    from symscale.studies.crossovers import crossovers
    from symscale.studies.evaluated import evaluated_crossover

    if options.name is None:
        show(options, {"crossovers": crossovers().to_dict()}, str(crossovers()))
        return
    found = evaluated_crossover(
        options.name,
        strategy=options.strategy,
        model=options.model,
        chip=options.chip,
        chips=options.chips,
        batch=options.batch,
        numbers=options.set,
    )
    show(options, found.to_dict(), str(found))


def chips(options: argparse.Namespace) -> None:
    """The chips, or one."""
    from symscale.hardware.chips import chips
    from symscale.hardware.showing import shown

    if options.name is None:
        show(options, {"chips": chips().to_dict()}, repr(chips()))
        return
    found = shown(
        options.name,
        edition=options.edition,
        changes=options.set,
        roofline=options.roofline,
        mesh=options.mesh,
        layout=options.layout,
    )
    show(options, found.to_dict(), str(found))


def models(options: argparse.Namespace) -> None:
    """The zoo, or one model."""
    from symscale.models.model import model, model_sources, models

    if options.name is None:
        found, sources = models(), model_sources()
        rows = [{**row, "source": sources[row["model"]]} for row in found.to_dict()]
        show(options, {"models": rows}, str(found))
    else:
        one = model(options.name)
        show(options, one.to_dict(), one.card())


def trace(options: argparse.Namespace) -> None:
    """Measured time by kind of op."""
    from symscale.xla.trace import read_trace

    bounds = None
    if options.chip is not None:
        from symscale.hardware.chips import chip
        from symscale.models.decoder import two_matmul_layer
        from symscale.parallel.strategy import strategy
        from symscale.xla.bounds import derived_bounds

        layer = strategy(options.strategy).shard(two_matmul_layer())
        bounds = derived_bounds(
            layer, chip(options.chip), options.mesh, options.sizes, options.training
        )
    found = read_trace(options.file, bounds, steps=options.steps)
    show(options, found.to_dict(), repr(found))


def check(options: argparse.Namespace) -> int:
    """A program held against XLA; its verdict is the exit status."""
    from symscale.xla.check import Question, check, source

    if options.catalogue:
        from symscale.xla.catalogue import run_catalogue

        return run_catalogue(options.output, options.json)
    question = Question(
        tuple(options.lines),
        options.model,
        options.strategy,
        tuple(options.shard),
        options.mesh or {"X": 4, "Y": 2},
        options.sizes,
        tuple(options.inputs.split(",")) if options.inputs else None,
        options.by_size,
    )
    how: Any = (options.which or "forward", options.explicit, options.pinned)
    if options.source:
        written = source(question, *how)
        show(options, written.to_dict(), written.text.rstrip())
        return 0
    found = check(question, *how)
    show(options, found.to_dict(), str(found))
    return 0 if found.ok else 1
