"""Compilation of written programs by XLA, in a process of its own on virtual devices."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symscale.xla.emit_module import Written
from symscale.xla.emit_setting import XlaError

_WORKER = Path(__file__).with_name("compile_worker.py")
_INSTALL = 'JAX is not installed; get it with: pip install "symscale[xla]"'
#: Seconds that starting JAX may take, and each program on top.
START_LIMIT = 60.0
PROGRAM_LIMIT = 60.0


@dataclass(frozen=True)
class Compiled:
    """What XLA made of a program: the module after SPMD partitioning, and the optimised one."""

    name: str
    spmd: str
    final: str
    version: str

    def __repr__(self) -> str:
        return f"Compiled({self.name!r}, jax {self.version}: {len(self.spmd)} characters of HLO)"

    def to_dict(self) -> dict[str, Any]:
        """Name, version and both modules' text."""
        return {
            "name": self.name, "version": self.version, "spmd": self.spmd, "final": self.final,
        }  # fmt: skip


def check_installed() -> None:
    """Refuse to go on without JAX.

    Raises:
        XlaError: saying how to get it, in one line.
    """
    if importlib.util.find_spec("jax") is None or importlib.util.find_spec("jaxlib") is None:
        raise XlaError(_INSTALL)


def compile_all(
    programs: Sequence[Written], limit: float | None = None
) -> tuple[Compiled | XlaError, ...]:
    """Every program compiled, in one process; one that fails leaves its error in its place.

    The process gets as many virtual CPU devices as the largest mesh has; the caller's JAX and
    environment are not touched.

    Args:
        programs: what to compile.
        limit: seconds for all of them; by default a minute each and one for the start.

    Raises:
        XlaError: without JAX, when the process dies, or when time is up.
    """
    if not programs:
        return ()
    check_installed()
    seconds = START_LIMIT + PROGRAM_LIMIT * len(programs) if limit is None else limit
    with tempfile.TemporaryDirectory(prefix="symscale-xla-") as name:
        folder = Path(name)
        for number, written in enumerate(programs):
            (folder / f"{number}.py").write_text(written.text, "utf-8")
        devices = max(written.setting.devices for written in programs)
        _run(folder, devices, seconds, programs)
        version = (folder / "version.txt").read_text("utf-8")
        return tuple(
            _result(folder, number, written, version) for number, written in enumerate(programs)
        )


def environment(devices: int) -> dict[str, str]:
    """The environment of the compiling process: virtual CPU devices, whatever the caller has."""
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
        "PYTHONSAFEPATH": "1",
        "PYTHONIOENCODING": "utf-8",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }


def _run(folder: Path, devices: int, seconds: float, programs: Sequence[Written]) -> None:
    process = subprocess.Popen(
        [sys.executable, str(_WORKER), str(folder)],
        env=environment(devices),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log.txt").open("wb"),
        start_new_session=True,
    )
    try:
        status = process.wait(seconds)
    except BaseException as error:
        _stop(process)
        if isinstance(error, subprocess.TimeoutExpired):
            at = programs[len(list(folder.glob("*.final.txt"))) % len(programs)].name
            raise XlaError(f"XLA took longer than {seconds:g} s; it was at {at!r}") from None
        raise
    if status:
        lines = (folder / "log.txt").read_text("utf-8", "replace").strip().splitlines()
        last = lines[-1] if lines else "it said nothing"
        raise XlaError(f"the process that compiles ended with status {status}: {last}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the compiling process with all its helpers."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _result(folder: Path, number: int, written: Written, version: str) -> Compiled | XlaError:
    failed = folder / f"{number}.error.txt"
    if failed.exists():
        why = " ".join(failed.read_text("utf-8").split())
        return XlaError(f"XLA refuses {written.name!r}: {why[:300]}")
    spmd, final = (
        (folder / f"{number}.{view}.txt").read_text("utf-8") for view in ("spmd", "final")
    )
    return Compiled(written.name, spmd, final, version)
