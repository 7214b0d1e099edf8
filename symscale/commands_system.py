"""What ``symscale serve`` says of a server in its system: flows, advice, and the sweep around it.

Everything heavy is imported inside the function that needs it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from symscale.algebra.errors import SymbolError

if TYPE_CHECKING:
    from symscale.studies.inference_prefill import Prefill
    from symscale.studies.inference_result import InferenceResult
    from symscale.studies.serving.advice import Advice
    from symscale.studies.serving.explore import Explored
    from symscale.studies.serving.system import ServingSystem

#: Options that say nothing without another one: a flag, and the one that it needs.
_NEEDED = (
    *((name, "answer", "--answer G") for name in ("link", "alpha", "draft", "prefix", "hit")),
    ("draft", "alpha", "--alpha CHANCE"),
    ("hit", "prefix", "--prefix TOKENS"),
)


def parts(
    options: argparse.Namespace, found: InferenceResult, prompt: Prefill | None
) -> Iterator[tuple[dict[str, Any], str]]:
    """The server in its system, advice, and the sweep around it, as far as they are asked for.

    Raises:
        SymscaleError: for an option that says nothing without another, or as the studies do.
    """
    system = _system(options, found)
    if system is not None:
        yield {"system": system.to_dict()}, repr(system)
    advice = _advice(options, found)
    if advice is not None:
        yield {"advice": advice.to_dict()}, repr(advice)
    explored = _explored(options, found)
    if explored is not None and options.sweep:
        yield {"sweep": explored.sweep.to_dict()}, repr(explored.sweep)
    if explored is not None and options.pareto:
        text = f"{explored.frontier!r}\n{explored.said}"
        yield {"pareto": explored.frontier_dict()}, text
    if options.output:
        from symscale.report.serving import serving_report

        page = serving_report(found, explored, system, advice, prompt)
        files = [str(path) for path in page.save(options.output)]
        yield {"files": files}, "\n".join(files)


def _system(options: argparse.Namespace, found: InferenceResult) -> ServingSystem | None:
    from symscale.studies.serving.system import serving_system

    for name, needed, said in _NEEDED:
        if getattr(options, name) is not None and getattr(options, needed) is None:
            raise SymbolError(f"--{name} says nothing without {said}")
    if options.answer is None:
        return None
    if options.prefill is None:
        raise SymbolError("--answer G needs the tokens of a prompt, --prefill P")
    names = ("link", "alpha", "draft", "prefix", "hit")
    given = {name: getattr(options, name) for name in names}
    asked = {name: value for name, value in given.items() if value is not None}
    return serving_system(found, options.prefill, options.answer, mfu=options.mfu, **asked)


def _advice(options: argparse.Namespace, found: InferenceResult) -> Advice | None:
    from symscale.studies.serving.advice import advise_on

    if options.want is None and options.within is None and found.fits:
        return None
    return advise_on(found, tokens_per_second=options.want, latency=options.within)


def _explored(options: argparse.Namespace, found: InferenceResult) -> Explored | None:
    from symscale.studies.serving.bar import Bar
    from symscale.studies.serving.explore import explore_around
    from symscale.studies.serving.pareto import NothingFits

    if not (options.sweep or options.pareto or options.output):
        for name in ("strategies", "against"):
            if getattr(options, name) is not None:
                raise SymbolError(f"--{name} says nothing without --sweep, --pareto or -o")
        return None
    strategies, against = _names(options.strategies), _names(options.against)
    try:
        with Bar("sweep", sys.stderr) as bar:
            return explore_around(found, strategies, against, bar)
    except NothingFits as error:
        if options.sweep or options.pareto:
            raise
        # The report is still of use: what does not fit, and what to do.
        print(f"symscale: no frontier in the report: {error}", file=sys.stderr)
        return None


def _names(listed: str | None) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(filter(None, (name.strip() for name in (listed or "").split(","))))
