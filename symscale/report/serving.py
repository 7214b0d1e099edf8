"""The serving report: a server's step, its memory, its system, and the frontier of a sweep."""

from __future__ import annotations

from sympy import Expr, Float, Rational

from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b
from symscale.report.chapters.frontier import frontier_chapter
from symscale.report.document import (
    Block,
    Document,
    Section,
    display,
    section,
    table,
    text,
)
from symscale.report.document import DerivationBlock as Steps
from symscale.report.numbers import memory, number, seconds
from symscale.report.page import Report
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.batching import batching
from symscale.studies.serving.disaggregation import disaggregate
from symscale.studies.serving.pareto import Frontier
from symscale.studies.serving.served import placed_step
from symscale.studies.serving.speculative import speculative
from symscale.studies.serving.sweep import Sweep
from symscale.studies.serving.system import ServingSystem

_DIGITS = 4


def serving_report(
    result: InferenceResult,
    found: Sweep | None = None,
    front: Frontier | None = None,
    system: ServingSystem | None = None,
) -> Report:
    """A report on a server.

    Args:
        result: the server.
        found: a sweep about it.
        front: the frontier of that sweep.
        system: what continuous batching, servers apart and drafts make of it.

    >>> from symscale.studies.inference import inference
    >>> server = inference("llama-3-8b").at("h100", chips=1, batch=8, context=4096)
    >>> print(serving_report(server).document.title)
    Serving llama-3-8b on H100 SXM
    """
    sections = [*_step(result)]
    if found is not None and front is not None:
        sections += frontier_chapter(found, front)
    if system is not None:
        sections += _system(system)
    title = f"Serving {result.study.model.name} on {result.chip.title}"
    mesh = ", ".join(f"{name} = {size}" for name, size in result.mesh.items())
    under = f"{result.batch:,} sequences of {result.context:,} tokens, {mesh}"
    return Report(Document(title, under, (), tuple(sections)))


def _step(result: InferenceResult) -> list[Section]:
    """A step of generation: the formula, what takes it, and what fills a chip."""
    step = placed_step(result)
    busy = [(name, seconds(value)) for name, value in result.busy.items()]
    held = [(kind, memory(size)) for kind, size in result.memory.items()]
    blocks: list[Block] = [
        text(
            "A step of generation reads the cache of every sequence, and all weights under the "
            "arithmetic of all tokens; exchanges run beside, or longer. In symbols, then for these "
            "chips in ", b, " sequences of ", KEYS, " tokens with what must wait for an exchange:"
        ),
        display(
            ("seconds a step", result.study.formulas.time("aggregate")),
            ("in numbers", _rounded(step.seconds())),
        ),
        text(
            "Kernel by kernel it takes ", seconds(result.seconds("per-op")),
            f": {result.tokens_per_second:,.0f} tokens a second, "
            f"{result.tokens_per_second_per_chip:,.0f} for each chip; it waits for "
            f"{result.bottleneck}.",
        ),
        table(["resource", ("busy", "right")], busy, "What takes a step."),
        table(["kind", ("on a chip", "right")], held, "What fills a chip."),
    ]  # fmt: skip
    return [section("A step of generation", *blocks)]


def _rounded(expr: Expr) -> Expr:
    """An expression with its fractions as decimals, for a reader."""
    fractions = (one for one in expr.atoms(Rational) if not one.is_Integer)
    return expr.xreplace({one: Float(one, _DIGITS) for one in fractions})


def _system(system: ServingSystem) -> list[Section]:
    """Continuous batching, servers of two kinds and drafts: formulas, steps and numbers."""
    flows, apart, drafts = batching(), disaggregate(), speculative()
    said = [(name, number(value, digits=4)) for name, value in system.table()
            if not isinstance(value, str)]  # fmt: skip
    return [
        section(
            "The server in its system",
            text(
                f"Prompts of {system.prompt:,} tokens are answered with {system.answer:,} tokens "
                "each. A full batch drops as many tokens from its cache as it adds:"
            ),
            display(("tokens evicted in a step", flows.evicted)),
            table(["", ("value", "right")], said, "One replica, with its own step and prefill."),
        ),
        section("Servers apart", Steps(apart.derivation), level=2),
        section("Drafts", Steps(drafts.derivation), level=2),
    ]
