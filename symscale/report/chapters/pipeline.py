"""The pipeline: its schedule in closed form, as a chart, dealt out over devices, and in numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra import symbols as s
from symscale.algebra.errors import StrategyError
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.time import Overlap
from symscale.parallel.pipeline import Pipeline
from symscale.parallel.schedules.schedule import Schedule
from symscale.report.chapters.pipeline_devices import dealt_blocks, message_blocks, symbolic
from symscale.report.document import (
    Block,
    Cell,
    DerivationBlock,
    Section,
    display,
    section,
    table,
    text,
)
from symscale.report.numbers import number, percent, seconds
from symscale.report.rich import Code, Math, Part
from symscale.report.schedule_chart import ScheduleChart, schedule_chart
from symscale.report.study import TrainingStudy

#: What a chart shows at most: more cannot be read.
_DEVICES, _CHUNKED, _CHUNKS = 8, 4, 2
_ASSUMED: tuple[tuple[Overlap, str], ...] = (
    ("full", "everything overlaps"),
    ("critical", "what the next op needs waits"),
    ("none", "nothing overlaps"),
)


def pipeline_chapter(study: TrainingStudy) -> list[Section]:
    """The schedule in symbols and in numbers, its chart, its devices, its messages."""
    pipeline = study.step.strategy.pipeline
    assert pipeline is not None
    return [
        section("The pipeline", *_closed(pipeline)),
        section("The schedule in numbers", *_numbers(study, pipeline), level=2),
        section("The schedule drawn", *_drawn(study, pipeline), level=2),
        section("Layers on devices", *dealt_blocks(study, pipeline), level=2),
        section("Messages between stages", *message_blocks(study, pipeline), level=2),
    ]


def _closed(pipeline: Pipeline) -> list[Block]:
    made = symbolic(pipeline)
    recipe = made.recipe
    said = recipe.meaning[0].upper() + recipe.meaning[1:]
    return [
        text(
            "Successive layers lie along axis ",
            Math(pipeline.devices),
            ", and microbatches go through them in the order of schedule ",
            Code(made.name),
            f". {said} ({recipe.source}). For {s_names(made)} on p equal devices:",
        ),
        display(*_shown(made)),
        *_fractions(made),
        DerivationBlock(made.derivation, f"The time of a step under {made.name}"),
        text("The closed form is exact for ", *_with_names(recipe.exact), "."),
    ]


def _with_names(words: str) -> Iterator[Part]:
    """A sentence with the durations in it as mathematics."""
    for piece in re.split(r"\b(t_[A-Z]+)\b", words):
        yield Math(s.symbol(piece)) if piece.startswith("t_") else piece


def s_names(made: Schedule) -> str:
    """The sizes and durations that a schedule's forms have, in words.

    >>> from symscale.parallel.schedules.lookup import schedule
    >>> s_names(schedule("1f1b"))
    'm microbatches'
    """
    chunks = " and v chunks of layers a device" if made.recipe.chunked else ""
    return f"m microbatches{chunks}"


def _forms(made: Schedule) -> Iterator[tuple[str, Expr]]:
    """The closed forms, each under its name."""
    yield "makespan", made.makespan
    if made.step != made.makespan:
        yield "step, no barrier between steps", made.step
    yield "ideal: the work of one device", made.ideal
    yield "bubble", made.bubble
    yield "bubble over the ideal time", made.bubble_of_ideal
    yield "bubble over the total", made.bubble_of_total
    yield "in flight on the first stage", made.in_flight(0)


def _shown(made: Schedule) -> Iterator[tuple[str, Expr]]:
    """The closed forms but for the fractions of a bubble with several arms."""
    for name, form in _forms(made):
        if " over " not in name or not made.bubble.has(Maximum):
            yield name, form


def _fractions(made: Schedule) -> list[Block]:
    """What the fractions are where they are too long to be set twice."""
    if not made.bubble.has(Maximum):
        return []
    return [
        text(
            "The step is the longest of several paths. The bubble is given below over the ideal "
            "time, and over the total, which is ideal time and bubble."
        )
    ]


def _numbers(study: TrainingStudy, pipeline: Pipeline) -> list[Block]:
    """The closed forms with this step's durations, and the step as it is."""
    result, made = study.result, symbolic(pipeline)
    durations = {
        symbol: result.seconds(expr)
        for symbol, expr in study.step.pace.durations(pipeline, result.overlap).items()
    }
    sizes = _sizes(study, pipeline)
    used = {one for _, form in _forms(made) for one in form.free_symbols}
    put = bindings({**durations, **sizes})
    rows: list[tuple[Cell, ...]] = [
        (Math(symbol), s.info(symbol).meaning, seconds(value))
        for symbol, value in durations.items()
        if symbol in used
    ]
    bubbles = [
        (said, percent(_bubble(study, word)), seconds(result.times[word]))
        for word, said in _ASSUMED
    ]
    return [
        table(["symbol", "duration", ("value", "right")], rows,
              "Durations of this step: one microbatch on an even share of what is dealt out."),
        _valued(made, sizes, put),
        text(
            "These are for equal stages. The real step has layers that may not divide, and ends; "
            "what that costs counts as bubble:"
        ),
        table(["assumption", ("bubble of the total", "right"), ("step", "right")], bubbles,
              "The bubble of the real step, of its total, under each assumption on overlap."),
    ]  # fmt: skip


def _valued(made: Schedule, sizes: dict[Symbol, int], put: Mapping[Symbol, Expr]) -> Block:
    """The closed forms with sizes in, then with durations."""
    known = {size: number for size, number in sizes.items() if size != s.v or made.recipe.chunked}
    given = ", ".join(f"{size.name} = {number}" for size, number in known.items())
    rows = [
        (name, "" if name not in dict(_shown(made)) else Math(form.xreplace(known)),
         _figure(name, form, put))
        for name, form in _forms(made)
    ]  # fmt: skip
    return table(["", f"at {given}", ("value", "right")], rows, "The closed forms with numbers in.")


def _sizes(study: TrainingStudy, pipeline: Pipeline) -> dict[Symbol, int]:
    schedule = pipeline.schedule
    return {
        s.p: study.result.mesh[pipeline.axis],
        s.m: int(schedule.m),
        s.v: int(schedule.v),
    }


def _figure(name: str, form: Expr, put: Mapping[Symbol, Expr]) -> Cell:
    value = float(evaluate(form, put))
    if "over" in name:
        return percent(value)
    return number(value, "microbatches") if name.startswith("in flight") else seconds(value)


def _bubble(study: TrainingStudy, word: Overlap) -> float:
    result = study.result
    return 1 - result.seconds(study.step.time.total(word)) / result.times[word]


# --- Chart -------------------------------------------------------------------------------------


def _drawn(study: TrainingStudy, pipeline: Pipeline) -> list[Block]:
    chart, cut = pipeline_chart(study, pipeline)
    return [text(cut), chart]


def pipeline_chart(study: TrainingStudy, pipeline: Pipeline) -> tuple[ScheduleChart, str]:
    """The schedule's chart, cut down to what can be read, and a sentence on what it shows."""
    made, asked = pipeline.schedule, study.result.mesh[pipeline.axis]
    devices, parts, chunks = _readable(made, asked)
    total = (asked, int(made.m), int(made.v))
    shown = [
        f"{one} of {all_} {what}" if one < all_ else f"all {all_} {what}"
        for one, all_, what in zip(
            (devices, parts, chunks), total, ("devices", "microbatches", "chunks"), strict=True
        )
        if what != "chunks" or made.recipe.chunked
    ]
    timed = _durations(study, pipeline)
    cut = (devices, parts, chunks) != total
    said = (
        f"The chart shows {_listed(shown)}"
        f"{': all of them could not be read' if cut else ''}; time is in units of a forward "
        "pass of one microbatch on a device's layers, and stages are drawn equal. "
        "Numbers in the blocks count microbatches."
    )
    chart = schedule_chart(
        made,
        devices,
        parts,
        chunks if made.recipe.chunked else None,
        xlabel="time, in forward passes",
        **timed,
    )
    return chart, said


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _readable(made: Schedule, asked: int) -> tuple[int, int, int]:
    """The largest sizes that can be read and that the schedule allows."""
    parts, chunks = int(made.m), min(int(made.v), _CHUNKS)
    most = _CHUNKED if made.recipe.chunked else _DEVICES
    for devices in range(min(asked, most), 1, -1):
        for few in range(min(parts, 2 * devices), parts + 1):
            given = {"v": chunks} if made.recipe.chunked else {}
            try:
                made.at(p=devices, m=few, **given)
            except StrategyError:
                continue
            return devices, few, chunks
    return asked, parts, int(made.v)


def _durations(study: TrainingStudy, pipeline: Pipeline) -> dict[str, Any]:
    """The step's own durations over that of a forward pass, to a hundredth."""
    found = study.step.pace.durations(pipeline, study.result.overlap)
    unit = study.result.seconds(found[s.t_F])
    names = {"backward": s.t_B, "weights": s.t_W}
    if pipeline.schedule.times.own_pair is not None:
        names["pair"] = s.t_FB
    return {name: f"{study.result.seconds(found[t]) / unit:.2f}" for name, t in names.items()}
