"""A pipeline's devices: the layers dealt out to them, what they hold, and what they send."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from symscale.algebra import symbols as s
from symscale.algebra.symbols import B
from symscale.parallel.pipeline import Pipeline
from symscale.parallel.schedules.schedule import Schedule
from symscale.report.document import Block, display, equation, table, text
from symscale.report.numbers import count, memory, number, seconds
from symscale.report.study import TrainingStudy

#: Rows of a table of devices at either end, where all are too many.
_ROWS = 8


def symbolic(pipeline: Pipeline) -> Schedule:
    """The schedule with all its sizes and durations as symbols.

    >>> from symscale.parallel.strategy import strategy
    >>> symbolic(strategy("dp+pp", microbatches=8).pipeline).bubble_of_total
    (p - 1)/(m + p - 1)
    """
    chunks = {"v": s.v} if pipeline.schedule.recipe.chunked else {}
    return pipeline.schedule.at(p=s.p, m=s.m, pair=s.t_FB, **chunks)


def dealt_blocks(study: TrainingStudy, pipeline: Pipeline) -> list[Block]:
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


def message_blocks(study: TrainingStudy, pipeline: Pipeline) -> list[Block]:
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
