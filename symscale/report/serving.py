"""The serving report: a server's step, its memory, its system, and the frontier of a sweep."""

from __future__ import annotations

from symscale.algebra.symbols import B, b
from symscale.algebra.symbols import S as KEYS
from symscale.report.chapters.frontier import frontier_chapter
from symscale.report.chapters.server import (
    advice_chapter,
    prompt_chapter,
    rounded,
    system_chapters,
)
from symscale.report.document import (
    Block,
    Cell,
    Document,
    Section,
    Table,
    callout,
    display,
    section,
    table,
    text,
)
from symscale.report.numbers import memory, seconds
from symscale.report.page import Report
from symscale.report.rich import Part
from symscale.studies.inference_difference import difference
from symscale.studies.inference_prefill import Prefill
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.advice import Advice
from symscale.studies.serving.explore import Explored
from symscale.studies.serving.system import ServingSystem

_OVERLAP = {
    "full": "exchanges run beside, or longer",
    "critical": "exchanges that the next op waits for come on top, the others run beside",
    "none": "arithmetic, traffic and exchanges come one after another",
}
_METHOD = {"per-op": "Kernel by kernel", "aggregate": "By this model"}


def serving_report(
    result: InferenceResult,
    explored: Explored | None = None,
    system: ServingSystem | None = None,
    advice: Advice | None = None,
    prompt: Prefill | None = None,
) -> Report:
    """A report on a server.

    Args:
        result: the server.
        explored: a sweep about it, and its frontier.
        system: what continuous batching, servers apart and drafts make of it.
        advice: the wall that it stands at.
        prompt: the prefill of a prompt.

    >>> from symscale.studies.inference import inference
    >>> server = inference("llama-3-8b").at("h100", chips=1, batch=8, context=4096)
    >>> print(serving_report(server).document.title)
    Serving llama-3-8b on H100 SXM
    """
    sections = [_step(result)]
    if prompt is not None:
        sections.append(prompt_chapter(prompt))
    if advice is not None:
        sections.append(advice_chapter(advice))
    if explored is not None:
        sections += frontier_chapter(explored)
    if system is not None:
        sections += system_chapters(system)
    title = f"Serving {result.study.model.name} on {result.chip.title}"
    mesh = ", ".join(f"{name} = {size}" for name, size in result.mesh.items())
    under = f"{result.batch:,} sequences of {result.context:,} tokens, {mesh}"
    return Report(Document(title, under, (), tuple(sections)))


def _step(result: InferenceResult) -> Section:
    """A step of generation: the formula, what takes it, and what fills a chip."""
    busy = [(name, seconds(value)) for name, value in result.busy.items()]
    held = [(kind, memory(size)) for kind, size in result.memory.items()]
    whole = result.study.formulas.time("aggregate", result.overlap)
    fixed = {key: value for key, value in result.values.items() if key not in (B, KEYS)}
    here = result.study.time("aggregate", result.overlap).xreplace(fixed).xreplace({B: b})
    blocks: list[Block] = [
        text(
            "A step of generation reads the cache of every sequence, and all weights under the "
            f"arithmetic of all tokens; {_OVERLAP[result.overlap]}. This is the aggregate model, "
            "in symbols, and the same expression for these chips in ", b, " sequences of ", KEYS,
            " tokens on a replica:",
        ),
        display(
            ("seconds a step", whole.xreplace({B: b})),
            ("the same in numbers", rounded(here)),
        ),
        text(*_pace(result)),
        _both(result),
        table(["resource", ("busy", "right")], busy, "What takes a step."),
        table(["kind", ("on a chip", "right")], held, "What fills a chip."),
    ]  # fmt: skip
    blocks += [callout("note", f"{note[0].upper()}{note[1:]}.") for note in result.notes]
    return section("A step of generation", *blocks)


def _pace(result: InferenceResult) -> tuple[Part | str, ...]:
    """Seconds of the step by the model that was asked for."""
    return (
        f"{_METHOD[result.method]} it takes ", seconds(result.step_time),
        f": {result.tokens_per_second:,.0f} tokens a second, "
        f"{result.tokens_per_second_per_chip:,.0f} for each chip; it waits for "
        f"{result.bottleneck}.",
    )  # fmt: skip


def _both(result: InferenceResult) -> Table:
    """The step by both models of its time, and what each assumption between them accounts for."""
    found = difference(result)
    rows: list[tuple[Cell, ...]] = [("aggregate: all of a kind at once", seconds(found.aggregate))]
    rows += [(reason, seconds(value)) for reason, value in found.reasons.items()]
    rows.append(("per-op: kernel by kernel", seconds(found.per_op)))
    return table(["step", ("seconds", "right")], rows, "From one model of a step to the other.")
