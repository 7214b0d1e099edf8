"""Traces: the shipped one, hand-made ones with known times, and files that are none."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from symscale.xla.hlo import read_hlo
from symscale.xla.trace import TraceError, TraceReport, read_trace
from symscale.xla.trace_intervals import length, minus, union
from symscale.xla.trace_kinds import kind_of

DATA = Path(__file__).parent / "data"
TRACE = DATA / "mlp.trace.json.gz"
PROGRAM = (DATA / "mlp.hlo.txt").read_text("utf-8")
STEPS = 3


def process(pid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}}


def thread(pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": "thread_name", "args": {"name": name}}


def op(
    name: str, start: float, end: float, pid: int = 1, tid: int = 1, **args: Any
) -> dict[str, Any]:
    """An event in microseconds."""
    event = {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": start, "dur": end - start}
    return {**event, "args": args}


def write(path: Path, *events: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"traceEvents": list(events)}), "utf-8")
    return path


def report_of(tmp_path: Path, *events: dict[str, Any], **options: Any) -> TraceReport:
    named = (process(1, "/device:TPU:0"), thread(1, 1, "XLA Ops"))
    return read_trace(write(tmp_path / "t.json", *named, *events), **options)


def microseconds(report: TraceReport) -> dict[str, float]:
    found = {entry.kind: entry.seconds for entry in (*report.kinds, *report.totals)}
    return {kind: round(seconds * 1e6, 6) for kind, seconds in found.items()}


# --- the shipped trace -------------------------------------------------------------------------


def test_shipped_trace_is_small_and_its_runs_are_those_of_the_program() -> None:
    assert TRACE.stat().st_size < 200_000
    report = read_trace(TRACE, program=PROGRAM, steps=STEPS)
    hlo = read_hlo(PROGRAM, {"X": 2, "Y": 2})
    runs = {entry.kind: entry.count for entry in report.kinds}
    devices = len(report.devices)
    assert devices == 4
    assert runs["matmul"] == len(hlo.dots) * devices * STEPS
    for kind in ("AllGather", "AllReduce"):
        emitted = [found.name for found in hlo.collectives if found.kind == kind]
        assert runs[kind] == len(emitted) * devices * STEPS
        assert {found.name for found in report.collectives if found.kind == kind} == set(emitted)
    assert runs.keys() == {"matmul", "fusion", "AllGather", "AllReduce"}


def test_shipped_trace_times_agree_with_a_plain_sum_of_its_events() -> None:
    # On CPU each device runs one op after the other, so covered time is the sum of durations.
    events = json.loads(gzip.decompress(TRACE.read_bytes()))["traceEvents"]
    report = read_trace(TRACE, program=PROGRAM)
    for name in ("all-gather", "all-gather.1", "all-reduce"):
        total = sum(e["dur"] for e in events if e.get("args", {}).get("hlo_op") == name)
        (found,) = (entry for entry in report.collectives if entry.name == name)
        assert found.seconds == pytest.approx(total * 1e-6 / len(report.devices), rel=1e-9)
    assert report.exposed == pytest.approx(report.total("comms").seconds, rel=0.05)


def test_bounds_stand_beside_what_was_measured() -> None:
    bounds = {"matmul": 1e-5, "comms": 2e-5, "step": 3e-5, "AllToAll": 0.0}
    report = read_trace(TRACE, bounds, program=PROGRAM, steps=STEPS)
    by_kind = {entry.kind: entry for entry in (*report.kinds, *report.totals)}
    for kind in ("matmul", "comms", "step"):
        assert by_kind[kind].bound == pytest.approx(STEPS * bounds[kind])
        assert by_kind[kind].fraction == pytest.approx(STEPS * bounds[kind] / by_kind[kind].seconds)
    # A bound for what never ran is shown, not dropped.
    assert by_kind["AllToAll"].seconds == 0
    assert by_kind["AllToAll"].fraction is None
    assert "%" in repr(report)
    assert "<td>matmul</td>" in report._repr_html_()
    assert json.loads(json.dumps(report.to_dict()))["steps"] == STEPS


def test_maker_of_the_trace_stands_beside_it() -> None:
    maker = (DATA / "make_trace.py").read_text("utf-8")
    assert f"STEPS = {STEPS}\n" in maker
    assert TRACE.name in maker


# --- known times -------------------------------------------------------------------------------


def test_exposed_is_what_compute_does_not_cover(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        op("fusion.1", 0, 10, hlo_category="convolution fusion"),
        op("fusion.2", 30, 50, hlo_category="loop fusion"),
        op("all-gather.1", 5, 40, tid=2),
        thread(1, 2, "Async XLA Ops"),
    )
    assert microseconds(report) == {
        "matmul": 10,
        "fusion": 20,
        "AllGather": 35,
        "compute": 30,
        "comms": 35,
        "exposed": 20,
        "step": 50,
    }
    assert report.exposed_fraction == pytest.approx(20 / 35)


def test_start_and_done_are_one_time_in_flight(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        op("all-reduce-start.3", 0, 1),
        op("dot.1", 1, 8),
        op("all-reduce-done.3", 8, 12),
        op("collective-permute-start", 12, 13),
        op("collective-permute-done.9", 15, 16),
    )
    times = microseconds(report)
    assert times["AllReduce"] == 12
    assert times["CollectivePermute"] == 4
    assert times["exposed"] == 1 + 4 + 4
    assert [entry.count for entry in report.collectives] == [1, 1]


def test_start_without_done_is_kept(tmp_path: Path) -> None:
    assert microseconds(report_of(tmp_path, op("all-gather-start.1", 0, 3)))["AllGather"] == 3


def test_loops_do_not_count_beside_what_they_contain(tmp_path: Path) -> None:
    report = report_of(tmp_path, op("while.1", 0, 100), op("dot.1", 10, 20), op("dot.1", 30, 50))
    assert microseconds(report)["matmul"] == 30
    assert microseconds(report)["step"] == 40


def test_begin_and_end_events_pair_by_nesting(tmp_path: Path) -> None:
    def half(phase: str, name: str, time: float) -> dict[str, Any]:
        return {"ph": phase, "pid": 1, "tid": 1, "name": name, "ts": time}

    report = report_of(
        tmp_path,
        half("B", "while.1", 0),
        half("B", "dot.1", 1),
        half("E", "dot.1", 5),
        half("B", "all-to-all.2", 5),
        half("E", "all-to-all.2", 8),
        half("E", "while.1", 9),
    )
    assert microseconds(report)["matmul"] == 4
    assert microseconds(report)["AllToAll"] == 3


def test_mean_over_devices_and_lines_that_are_no_ops(tmp_path: Path) -> None:
    report = report_of(
        tmp_path,
        op("dot.1", 0, 10),
        process(2, "/device:TPU:1"),
        thread(2, 1, "XLA Ops"),
        op("dot.1", 0, 30, pid=2),
        thread(2, 7, "Steps"),
        op("0", 0, 500, pid=2, tid=7),
        process(9, "/host:CPU"),
        op("python", 0, 900, pid=9),
    )
    assert microseconds(report)["matmul"] == 20
    assert [device.span for device in report.devices] == pytest.approx([10e-6, 30e-6])


def test_unreadable_times_are_counted(tmp_path: Path) -> None:
    bad = [op("dot.1", 0, 1) | change for change in ({"ts": "x"}, {"dur": -1}, {"dur": True})]
    report = report_of(tmp_path, op("dot.1", 0, 1), *bad)
    assert report.skipped == 3
    assert "3 ops" in repr(report)


def test_folder_means_its_newest_trace(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "profile" / "1"
    folder.mkdir(parents=True)
    (folder / "host.trace.json.gz").write_bytes(TRACE.read_bytes())
    assert len(read_trace(tmp_path).devices) == 4


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("dot_general.3", "matmul"),
        ("all_gather.2", "AllGather"),
        ("all-gather-start.1", "AllGather"),
        ("psum_scatter.1", "ReduceScatter"),
        ("reduce_scatter.8", "ReduceScatter"),
        ("all-reduce-scatter.8", "ReduceScatter"),
        ("psum.8", "AllReduce"),
        ("ppermute.3", "CollectivePermute"),
        ("all_to_all.1", "AllToAll"),
        ("ncclDevKernel_AllGather_RING_LL(ncclKernelComm*)", "AllGather"),
        ("sm90_xmma_gemm_bf16", "matmul"),
        ("loop_add_fusion.4", "fusion"),
        ("transpose.1", "other"),
        ("conditional.1", "control"),
    ],
)
def test_kinds_by_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_intervals_agree_with_counting_ticks() -> None:
    chance = random.Random(0)
    for _ in range(200):
        first, second = (
            [tuple(sorted(chance.choices(range(40), k=2))) for _ in range(chance.randrange(8))]
            for _ in range(2)
        )
        ticks = [{t for start, end in part for t in range(start, end)} for part in (first, second)]
        assert length(union(first)) == len(ticks[0])  # type: ignore[arg-type]
        assert length(minus(first, second)) == len(ticks[0] - ticks[1])  # type: ignore[arg-type]


# --- files that are no trace -------------------------------------------------------------------

OP = json.dumps({"traceEvents": [op("x", 0, 1)]}).encode()
WRONG = {
    "empty": (b"", "not JSON"),
    "text": (b"hello", "not JSON"),
    "binary": (b"\x00\xff\xfe", "not JSON"),
    "deep": (b"[" * 200_000, "not JSON"),
    "big number": (b"[" + b"9" * 10_000 + b"]", "not JSON"),
    "cut json": (OP[:-5], "not JSON"),
    "no trace": (b'{"a": 1}', "no trace"),
    "a number": (b"3", "no trace"),
    "no events": (b"[]", "holds no op"),
    "odd events": (b'[1, null, {"ph": "X", "pid": [], "args": 3}]', "holds no op"),
    "other program's": (OP, "holds no op"),
    "cut gzip": (TRACE.read_bytes()[:-200], "cut off"),
    "two bytes of gzip": (b"\x1f\x8b", "cut off"),
    "damaged gzip": (TRACE.read_bytes()[:500] + b"\0" * 400 + TRACE.read_bytes()[900:], "gzip"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    content, words = WRONG[name]
    file = tmp_path / "wrong"
    file.write_bytes(content)
    with pytest.raises(TraceError) as refused:
        read_trace(file)
    message = str(refused.value)
    assert words in message
    assert str(file) in message
    assert "\n" not in message


def test_missing_file_and_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        read_trace(tmp_path / "none")
    with pytest.raises(TraceError, match="folder without"):
        read_trace(tmp_path)


def test_too_large_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("symscale.xla.trace_load.MAX_BYTES", 2**20)
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b" " * 2**24))
    assert bomb.stat().st_size < 2**16
    with pytest.raises(TraceError, match="larger than 1 MiB"):
        read_trace(bomb)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"matmull": 1.0}, "did you mean matmul"),
        ({"matmul": -1.0}, "give seconds"),
        ({"matmul": float("nan")}, "give seconds"),
    ],
)
def test_wrong_bounds_are_refused(bounds: dict[str, float], words: str) -> None:
    with pytest.raises(TraceError, match=words):
        read_trace(TRACE, bounds)
    with pytest.raises(TraceError, match="at least one"):
        read_trace(TRACE, steps=0)
