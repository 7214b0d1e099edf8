"""A trace file, Chrome's JSON, plain or gzipped, as the ops that ran on devices."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symscale.xla.trace_error import TraceError

MAX_BYTES = 256 * 2**20
_MICROSECOND = 1e-6
# Lines of a device's process in TensorBoard's traces that do not show ops.
_NOT_OPS = ("steps", "xla modules", "framework", "source", "launch stats", "python", "xla traceme")


@dataclass(frozen=True)
class Op:
    """One op as it ran: its device and its time in seconds.

    ``whole``: the interval of an asynchronous op from start to end, not of its issue.
    """

    name: str
    category: str
    device: str
    start: float
    end: float
    whole: bool = False


@dataclass(frozen=True)
class Events:
    """The ops of a trace, and how many events could not be read."""

    ops: tuple[Op, ...]
    skipped: int


def load_events(path: Path) -> Events:
    """The ops of a trace file, or of the newest trace in a profile's folder.

    Raises ``TraceError`` for a file that cannot be read, is cut off, or holds no ops.
    """
    file = _newest(path) if path.is_dir() else path
    document = _parsed(_content(file), file)
    events = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(events, list):
        raise TraceError(f"{file} is JSON but no trace: it has no list 'traceEvents'")
    found = _ops([event for event in events if isinstance(event, dict)])
    if not found.ops:
        raise TraceError(
            f"{file} holds no op: of {len(events)} events none is on a device or has an hlo_op"
        )
    return found


def _newest(folder: Path) -> Path:
    found = [*folder.rglob("*.trace.json.gz"), *folder.rglob("*.trace.json")]
    if not found:
        raise TraceError(f"{folder} is a folder without a *.trace.json.gz")
    return max(found, key=lambda file: (file.stat().st_mtime, file.name))


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            zipped = opened.read(2) == b"\x1f\x8b"
        with gzip.open(file) if zipped else file.open("rb") as stream:
            content: bytes = stream.read(MAX_BYTES + 1)
    except EOFError:
        raise TraceError(f"{file} is a gzip file that is cut off") from None
    except (gzip.BadGzipFile, zlib.error):
        raise TraceError(f"{file} is a gzip file that is damaged") from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TraceError(f"{file} cannot be read: {reason}") from None
    if len(content) > MAX_BYTES:
        raise TraceError(f"{file} is larger than {MAX_BYTES >> 20} MiB; trace fewer steps")
    return content


def _parsed(content: bytes, file: Path) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise TraceError(f"{file} is not JSON: {error.msg} on line {error.lineno}") from None
    except (UnicodeDecodeError, RecursionError, ValueError) as error:
        raise TraceError(f"{file} is not JSON: {type(error).__name__}") from None


def _ops(events: list[dict[str, Any]]) -> Events:
    processes, threads = _names(events)
    ops: list[Op] = []
    skipped = 0
    for event in _complete(events):
        process = processes.get(_text(event.get("pid")), "")
        line = threads.get((_text(event.get("pid")), _text(event.get("tid"))), "")
        if not _is_op(event, process, line):
            continue
        op = _op(event, process, line)
        if op is None:
            skipped += 1
        else:
            ops.append(op)
    return Events(tuple(ops), skipped)


def _names(
    events: Iterable[dict[str, Any]],
) -> tuple[Mapping[str, str], Mapping[tuple[str, str], str]]:
    """Names of processes and of their threads, from the trace's metadata."""
    processes: dict[str, str] = {}
    threads: dict[tuple[str, str], str] = {}
    for event in events:
        if event.get("ph") != "M":
            continue
        pid, name = _text(event.get("pid")), _text(_arguments(event).get("name"))
        if event.get("name") == "process_name":
            processes[pid] = name
        elif event.get("name") == "thread_name":
            threads[pid, _text(event.get("tid"))] = name
    return processes, threads


def _complete(events: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Events with a duration; a pair of begin and end is made one."""
    open_events: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for event in events:
        phase = event.get("ph")
        line = (_text(event.get("pid")), _text(event.get("tid")))
        if phase == "X":
            yield event
        elif phase == "B":
            open_events.setdefault(line, []).append(event)
        elif phase == "E" and open_events.get(line):
            begun = open_events[line].pop()
            start, end = _number(begun.get("ts")), _number(event.get("ts"))
            yield {**begun, "dur": None if start is None or end is None else end - start}


def _is_op(event: dict[str, Any], process: str, line: str) -> bool:
    arguments = _arguments(event)
    if "hlo_op" in arguments or "hlo_category" in arguments:
        return not line.lower().startswith(_NOT_OPS)
    if not process.startswith("/device:") or "CPU" in process:
        return False
    return not line.lower().startswith(_NOT_OPS)


def _op(event: dict[str, Any], process: str, line: str) -> Op | None:
    start, duration = _number(event.get("ts")), _number(event.get("dur"))
    arguments = _arguments(event)
    name = _text(arguments.get("hlo_op") or event.get("name"))
    if start is None or duration is None or duration < 0 or not name:
        return None
    ordinal = _text(arguments.get("device_ordinal"))
    owner = process or f"process {_text(event.get('pid'))}"
    return Op(
        name=name,
        category=_text(arguments.get("hlo_category")),
        device=f"{owner} #{ordinal}" if ordinal else owner,
        start=start * _MICROSECOND,
        end=(start + duration) * _MICROSECOND,
        whole="async" in line.lower(),
    )


def _arguments(event: dict[str, Any]) -> dict[str, Any]:
    found = event.get("args")
    return found if isinstance(found, dict) else {}


def _text(value: object) -> str:
    return str(value) if isinstance(value, str | int | float) else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and abs(number) < 1e18 else None
