"""Files that appear whole or not at all, and the PDF that a TeX engine makes of one."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from symscale.algebra.errors import ReportError

#: TeX engines that can set a report, the preferred first.
ENGINES = ("pdflatex", "lualatex", "xelatex", "tectonic")
NO_TEX = "no TeX engine found; apt-get install texlive-latex-recommended texlive-pictures"
_RUNS = 4
_TIMEOUT = 180
_RERUN = re.compile(r"Rerun to get|[Rr]erun LaTeX|widths have changed|No file \S+toc")


def write_text(path: Path | str, content: str) -> Path:
    """Write a text file whole or not at all, in UTF-8.

    Raises:
        ReportError: naming the path and why it could not be written.

    >>> with tempfile.TemporaryDirectory() as where:
    ...     write_text(Path(where) / "a.txt", "x").read_text()
    'x'
    """
    return write_bytes(path, content.encode("utf-8"))


def write_bytes(path: Path | str, content: bytes) -> Path:
    """Write a file whole or not at all.

    The bytes go to a hidden file beside it, which takes its name only when all have reached the
    disk; on any failure, an interrupt included, the hidden file is removed and an older file stays.

    Raises:
        ReportError: naming the path and why it could not be written.
    """
    target = Path(path)
    with _told(target):
        if target.is_dir():
            raise ReportError(f"cannot write {target}: it is a directory")
        real = Path(os.path.realpath(target))
        part = real.with_name(f".{real.name[:40]}.{secrets.token_hex(4)}.part")
        try:
            with open(part, "xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, real)
        except BaseException:
            with suppress(OSError):
                part.unlink(missing_ok=True)
            raise
    return target


def make_directory(path: Path | str) -> Path:
    """A directory to write into, made with its parents when missing.

    Raises:
        ReportError: when it cannot be made, or a file bears its name.
    """
    target = Path(path)
    with _told(target):
        if target.exists() and not target.is_dir():
            raise ReportError(f"cannot write into {target}: it is a file; name a directory")
        target.mkdir(parents=True, exist_ok=True)
    return target


@contextmanager
def _told(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ReportError(f"cannot write {target}: {reason}") from error
    except ValueError as error:
        raise ReportError(f"cannot write {str(target)!r}: {error}") from error


@dataclass(frozen=True)
class Compiled:
    """What a TeX engine made: the PDF's bytes and its log."""

    pdf: bytes
    log: str

    def overfull(self, limit: float = 2.0) -> list[str]:
        """The log's lines about boxes that stick out by more than ``limit`` points."""
        found = re.finditer(r"^Overfull \\[hv]box \(([\d.]+)pt too .*$", self.log, re.M)
        return [box[0] for box in found if float(box[1]) > limit]


def find_tex() -> str | None:
    """The path of a TeX engine on this machine, or None."""
    return next((found for name in ENGINES if (found := shutil.which(name))), None)


def build_pdf(tex_path: Path | str, engine: str | None = None) -> Path:
    """Make the PDF beside a ``.tex`` file; it appears whole or not at all.

    Raises:
        ReportError: with TeX's first complaint, or naming the packages to install.
    """
    source = Path(tex_path)
    with _told(source):
        content = source.read_text(encoding="utf-8")
    return write_bytes(source.with_suffix(".pdf"), compile_tex(content, engine).pdf)


def compile_tex(content: str, engine: str | None = None) -> Compiled:
    """Run a TeX engine in a directory of its own, without shell escape, as often as it needs.

    Raises:
        ReportError: with TeX's first complaint, or naming the packages to install.
    """
    program = engine or find_tex()
    if program is None:
        raise ReportError(NO_TEX)
    with tempfile.TemporaryDirectory(prefix="symscale-") as name:
        where = Path(name)
        with _told(where):
            (where / "report.tex").write_text(content, encoding="utf-8")
        log = _run_until_settled(program, where)
        made = where / "report.pdf"
        if not made.exists():
            raise ReportError(f"{Path(program).name} made no PDF: {_first_error(log)}")
        return Compiled(made.read_bytes(), log)


def _run_until_settled(program: str, where: Path) -> str:
    """Again while TeX asks for it or its tables (contents, references) still change."""
    log = ""
    before: tuple[bytes, ...] = ()
    for _ in range(_RUNS):
        log = _run_once(program, where)
        after = tuple(_content(where / f"report.{kind}") for kind in ("aux", "toc"))
        if after == before and not _RERUN.search(log):
            break
        before = after
    return log


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _run_once(program: str, where: Path) -> str:
    command = [program, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape"]
    if Path(program).name == "tectonic":
        command = [program, "--untrusted", "--keep-logs"]
    limits = {"openin_any": "p", "openout_any": "p", "max_print_line": "1000"}
    try:
        done = subprocess.run(
            [*command, "report.tex"], cwd=where, env=os.environ | limits, timeout=_TIMEOUT,
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ReportError(f"{Path(program).name} took over {_TIMEOUT} s") from error
    except OSError as error:
        raise ReportError(f"cannot run {program}: {error.strerror}") from error
    written = where / "report.log"
    log = written.read_text("utf-8", "replace") if written.exists() else ""
    if done.returncode != 0:
        said = log or (done.stdout + done.stderr).decode("utf-8", "replace")
        raise ReportError(f"{Path(program).name} failed: {_first_error(said)}")
    return log


def _first_error(log: str) -> str:
    """TeX's first complaint and the line it stands on, in one line."""
    complaint = re.search(r"^(?:! |error: )(.*)$", log, re.M)
    if complaint is None:
        return (log.strip().splitlines() or ["no message"])[-1]
    place = re.search(r"^l\.(\d+)", log[complaint.start() :], re.M)
    return complaint[1].strip() + (f" (line {place[1]})" if place else "")
