"""The pipeline: its schedule in closed form, as a chart, dealt out over devices, and in numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from sympy import Expr, Symbol

from symscale.algebra import symbols as s
from symscale.algebra.errors import StrategyError
from symscale.algebra.maximum import Maximum
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import B
from symscale.algebra.time import Overlap
from symscale.parallel.pipeline import Pipeline
from symscale.parallel.schedules.schedule import Schedule
from symscale.report.document import (
    Block,
    Cell,
    DerivationBlock,
    Section,
    display,
    equation,
    section,
    table,
    text,
)
from symscale.report.numbers import count, memory, number, percent, seconds
from symscale.report.rich import Code, Math, Part
from symscale.report.schedule_chart import ScheduleChart, schedule_chart
from symscale.report.study import TrainingStudy

#: What a chart shows at most: more cannot be read.
_DEVICES, _CHUNKS = 8, 2
#: Rows of a table of devices at either end, where all are too many.
_ROWS = 8
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
        section("Layers on devices", *_dealt(study, pipeline), level=2),
        section("Messages between stages", *_messages(study, pipeline), level=2),
    ]


def symbolic(pipeline: Pipeline) -> Schedule:
    """The schedule with all its sizes and durations as symbols.

    >>> from symscale.parallel.strategy import strategy
    >>> symbolic(strategy("dp+pp", microbatches=8).pipeline).bubble_of_total
    (p - 1)/(m + p - 1)
    """
    chunks = {"v": s.v} if pipeline.schedule.recipe.chunked else {}
    return pipeline.schedule.at(p=s.p, m=s.m, pair=s.t_FB, **chunks)


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
        "pass of one microbatch on a device's layers, and works of equal stages are drawn. "
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
    for devices in range(min(asked, _DEVICES), 1, -1):
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


# --- Devices -----------------------------------------------------------------------------------


def _dealt(study: TrainingStudy, pipeline: Pipeline) -> list[Block]:
    """Layers, microbatches in flight and memory of every device."""
    result = study.result
    devices = result.mesh[pipeline.axis]
    layers = len(study.model.config.body.layers)
    head = round(result.seconds(study.step.pace.head_in_layers))
    held = pipeline.stage_layers(layers, devices, head)
    flows = pipeline.schedule.at(p=devices)
    filled = study.step.stage_memory.devices(result.values)
    rows = [
        (count(device), ranges(held[device]), count(len(held[device])),
         number(float(flows.in_flight(device))), memory(filled[device].total))
        for device in range(devices)
    ]  # fmt: skip
    notes = []
    if devices > 2 * _ROWS:
        notes.append(f"Devices {_ROWS} to {devices - _ROWS - 1} are left out.")
        rows = rows[:_ROWS] + rows[-_ROWS:]
    first, last = pipeline.slots(head)
    return [
        text(
            f"The {layers} layers and the ends are dealt out as evenly as they go: the embedding "
            f"counts as {_as_layers(first)}, the head as {_as_layers(last)}"
            f"{_why_head(pipeline)}. {layers + first + last} over "
            f"{devices * int(pipeline.schedule.pieces)} stages. "
            f"{_copies(pipeline)}{result.held.device} holds most."
        ),
        table(
            [("device", "right"), "layers, from 0", ("layers", "right"), ("in flight", "right"),
             ("bytes", "right")],
            rows,
            "What each device of the pipeline holds; in flight are microbatches of its layers.",
            notes=notes,
        ),
    ]  # fmt: skip


def _as_layers(slots: int) -> str:
    return "one layer" if slots == 1 else f"{slots} layers" if slots else "none"


def _why_head(pipeline: Pipeline) -> str:
    return " by its FLOPs" if pipeline.ends is None else ", as given"


def _copies(pipeline: Pipeline) -> str:
    copies = pipeline.schedule.recipe.weights
    kept = f"Every device keeps {copies} copies of its share of the weights. " if copies > 1 else ""
    return f"{kept}Device "


def ranges(numbers: Iterable[int]) -> str:
    """Whole numbers with runs drawn together.

    >>> ranges((0, 1, 2, 5, 7, 8))
    '0-2, 5, 7-8'
    """
    runs = []
    for _, pairs in groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        run = [value for _, value in pairs]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    return ", ".join(runs) or "none"


# --- Messages ----------------------------------------------------------------------------------


def _messages(study: TrainingStudy, pipeline: Pipeline) -> list[Block]:
    """Bytes between stages: one message, how many, and the time on the links."""
    step, result = study.step, study.result
    schedule = pipeline.schedule
    message = step.shares[-1].sharded.sharding("Out").bytes.xreplace({B: B / s.m})
    made = symbolic(pipeline)
    parts = {s.m: schedule.m, s.v: schedule.v, s.p: result.mesh[pipeline.axis]}
    here = schedule.at(p=result.mesh[pipeline.axis])
    sent = here.sent(message.xreplace({s.m: schedule.m}))
    took = step.network.time("CollectivePermute", sent, (pipeline.axis,))
    lines = [
        ("one message", equation(message, memory(result.seconds(message.xreplace(parts))))),
        ("messages of an inner device", made.messages["inner"]),
        ("of one at an end", made.messages["end"]),
        ("bytes that the busiest device sends", equation(made.sent(message),
                                                         memory(result.seconds(sent)))),
    ]  # fmt: skip
    if made.hops is not None:
        hops = made.hops.xreplace(parts)
        lines.append(("messages on the longest path", equation(made.hops, number(float(hops)))))
    return [
        text(
            "A device sends a microbatch's residual activations on, and their gradient back. "
            f"Over the links of axis {pipeline.axis} that takes ",
            seconds(result.seconds(took)),
            " a step, beside the arithmetic:",
        ),
        display(*lines),
    ]
