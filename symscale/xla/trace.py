"""A profile of a run, measured times beside derived bounds.

A trace that JAX, TensorBoard or Chrome wrote holds each op with its device and time. Time is
counted as covered time: what runs twice at once on a device counts once. Communication is
*exposed* while no compute op runs on the same device.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from symscale.algebra.errors import near
from symscale.xla.trace_error import TraceError
from symscale.xla.trace_intervals import Interval, length, minus, union
from symscale.xla.trace_kinds import COLLECTIVES, CONTROL, KINDS, kind_of, kinds_in_program
from symscale.xla.trace_load import Op, load_events
from symscale.xla.trace_report import TOTALS, DeviceTime, Measured, TraceReport

__all__ = ["DeviceTime", "Measured", "TraceError", "TraceReport", "read_trace"]

_SUFFIX = re.compile(r"[-_](start|done)((?:\.\w+)*)$")


def read_trace(
    path: str | Path,
    bounds: Mapping[str, float] | None = None,
    *,
    program: str | None = None,
    steps: int = 1,
) -> TraceReport:
    """Measured time per kind of op and per collective, on the average device.

    Args:
        path: a trace file (Chrome's JSON, plain or gzipped), or a profile's folder.
        bounds: least seconds of one step by kind (``matmul``, ``AllGather``, ...) or in total
            (``compute``, ``comms``, ``step``), to set beside what was measured.
        program: HLO text of the traced module; tells which fusions are matmuls, and names such as
            ``psum.8`` apart. Without it kinds are told by name.
        steps: steps that the trace holds.

    Raises:
        TraceError: the file is no trace, cut off or too large; a bound has no such kind.
    """
    _check(bounds or {}, steps)
    events = load_events(Path(path))
    kinds = kinds_in_program(program) if program is not None else {}
    by_device: dict[str, list[tuple[Op, str]]] = defaultdict(list)
    for op in events.ops:
        kind = kinds.get(op.name) or kind_of(op.name, op.category)
        if kind != CONTROL:
            by_device[op.device].append((op, kind))
    timelines = {device: _joined(found) for device, found in sorted(by_device.items())}
    if not timelines:
        raise TraceError(f"{path} holds loops and calls but no op inside them")
    devices = tuple(_device_time(device, found) for device, found in timelines.items())
    limits = {name: bound * steps for name, bound in (bounds or {}).items()}
    return TraceReport(
        path=str(path),
        devices=devices,
        kinds=_by_kind(list(timelines.values()), limits),
        collectives=_by_collective(list(timelines.values())),
        totals=_totals(devices, limits),
        steps=steps,
        skipped=events.skipped,
    )


def _check(bounds: Mapping[str, float], steps: int) -> None:
    names = (*KINDS, *TOTALS)
    for name, bound in bounds.items():
        if name not in names:
            raise TraceError(
                f"bound {name!r} is none of {', '.join(names)}{near(str(name), names)}"
            )
        if not math.isfinite(bound) or bound < 0:
            raise TraceError(f"bound {name} is {bound!r}; give seconds, 0 or more")
    if steps < 1:
        raise TraceError(f"steps is {steps!r}; a trace holds at least one")


# An op of a device's timeline: its name, kind and interval.
_Span = tuple[str, str, Interval]


def _joined(ops: Sequence[tuple[Op, str]]) -> list[_Span]:
    """Ops of one device in order, a start and its done joined to the time between them."""
    found: list[_Span] = []
    begun: dict[tuple[str, str], list[Op]] = defaultdict(list)
    for op, kind in sorted(ops, key=lambda entry: (entry[0].start, entry[0].end)):
        suffix = _SUFFIX.search(op.name)
        if suffix is None or op.whole or kind not in COLLECTIVES:
            found.append((op.name, kind, (op.start, op.end)))
            continue
        name, number = op.name[: suffix.start()], suffix[2]
        if suffix[1] == "start":
            begun[kind, name + number].append(op)
            continue
        starts = begun.get((kind, name + number)) or _oldest(begun, kind)
        start = starts.pop(0).start if starts else op.start
        found.append((name + number, kind, (start, op.end)))
    left = ((op, kind) for (kind, _), waiting in begun.items() for op in waiting)
    return found + [(op.name, kind, (op.start, op.end)) for op, kind in left]


def _oldest(begun: Mapping[tuple[str, str], list[Op]], kind: str) -> list[Op]:
    """The waiting starts of a kind that began first: numbers of start and done may differ."""
    waiting = [ops for (owner, _), ops in begun.items() if owner == kind and ops]
    return min(waiting, key=lambda ops: ops[0].start, default=[])


def _device_time(device: str, spans: Sequence[_Span]) -> DeviceTime:
    compute = union(time for _, kind, time in spans if kind not in COLLECTIVES)
    comms = union(time for _, kind, time in spans if kind in COLLECTIVES)
    span = max(time[1] for *_, time in spans) - min(time[0] for *_, time in spans)
    return DeviceTime(
        device=device,
        span=span,
        compute=length(compute),
        comms=length(comms),
        exposed=length(minus(comms, compute)),
        idle=max(0.0, span - length(union((*compute, *comms)))),
    )


def _mean(values: Iterable[float], devices: int) -> float:
    return sum(values) / devices


def _covered(timelines: Sequence[Sequence[_Span]], place: int, value: str) -> tuple[float, int]:
    """Mean covered time over devices of the spans with a name (0) or kind (1), and their number."""
    times = [[span[2] for span in spans if span[place] == value] for spans in timelines]
    return _mean((length(union(found)) for found in times), len(times)), sum(map(len, times))


def _by_kind(
    timelines: Sequence[Sequence[_Span]], limits: Mapping[str, float]
) -> tuple[Measured, ...]:
    present = {kind for spans in timelines for _, kind, _ in spans}
    found = []
    for kind in KINDS:
        if kind in present or kind in limits:
            seconds, count = _covered(timelines, 1, kind)
            found.append(Measured(kind, seconds, count, limits.get(kind)))
    return tuple(found)


def _by_collective(timelines: Sequence[Sequence[_Span]]) -> tuple[Measured, ...]:
    """Each collective instruction, in the order of its first run."""
    times: dict[tuple[str, str], list[list[Interval]]] = {}
    for place, spans in enumerate(timelines):
        for name, kind, time in spans:
            if kind in COLLECTIVES:
                slots = times.setdefault((name, kind), [[] for _ in timelines])
                slots[place].append(time)
    return tuple(
        Measured(
            kind,
            _mean((length(union(found)) for found in slots), len(slots)),
            sum(map(len, slots)),
            name=name,
        )
        for (name, kind), slots in times.items()
    )


def _totals(devices: Sequence[DeviceTime], limits: Mapping[str, float]) -> tuple[Measured, ...]:
    number = len(devices)
    values = {
        "compute": _mean((found.compute for found in devices), number),
        "comms": _mean((found.comms for found in devices), number),
        "exposed": _mean((found.exposed for found in devices), number),
        "step": _mean((found.span for found in devices), number),
    }
    return tuple(Measured(name, values[name], number, limits.get(name)) for name in TOTALS)
