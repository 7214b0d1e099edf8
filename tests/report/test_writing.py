"""Files appear whole or not at all, and every failure is one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from symscale.algebra.errors import ReportError
from symscale.report import writing
from symscale.report.writing import build_pdf, compile_tex, find_tex, make_directory, write_text

needs_tex = pytest.mark.skipif(find_tex() is None, reason="no TeX engine")


def _one_line(caught: pytest.ExceptionInfo[ReportError]) -> str:
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_file_is_written_and_written_over(tmp_path: Path) -> None:
    target = tmp_path / "report.tex"
    assert write_text(target, "one \u2264") == target
    write_text(target, "two")
    assert target.read_text(encoding="utf-8") == "two"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_keeps_pointing_at_its_file(tmp_path: Path) -> None:
    (tmp_path / "real.tex").write_text("old")
    (tmp_path / "link.tex").symlink_to(tmp_path / "real.tex")
    write_text(tmp_path / "link.tex", "new")
    assert (tmp_path / "link.tex").is_symlink()
    assert (tmp_path / "real.tex").read_text() == "new"


def test_a_written_file_has_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize(
    "failure", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: BaseException, step: str
) -> None:
    target = tmp_path / "report.html"
    target.write_text("old")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(os, step, fail)
    expected = ReportError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected) as caught:
        write_text(target, "new " * 10000)
    if expected is ReportError:
        assert str(caught.value) == f"cannot write {target}: No space left on device"
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = open

    def full(path: object, mode: str) -> object:
        return real("/dev/full", "wb") if mode == "xb" else real(path, mode)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(ReportError, match="No space left on device"):
        write_text(tmp_path / "report.tex", "x" * 100000)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ReportError) as caught:
        make_directory(tmp_path / "file")
    assert _one_line(caught).endswith("it is a file; name a directory")
    with pytest.raises(ReportError, match="cannot write"):
        make_directory(tmp_path / "file" / "below")
    with pytest.raises(ReportError, match="it is a directory"):
        write_text(tmp_path, "x")
    with pytest.raises(ReportError, match="No such file or directory"):
        write_text(tmp_path / "missing" / "report.tex", "x")
    with pytest.raises(ReportError, match="cannot write"):
        write_text(tmp_path / "nul\0", "x")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_closed_directory(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(ReportError, match="Permission denied"):
        write_text(closed / "report.tex", "x")


def test_without_tex_the_packages_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_tex() is None
    with pytest.raises(ReportError) as caught:
        compile_tex("x")
    assert "apt-get install texlive-latex-recommended texlive-pictures" in _one_line(caught)


def test_the_source_of_a_pdf_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="No such file"):
        build_pdf(tmp_path / "none.tex")


@needs_tex
def test_a_mistake_in_tex_is_told_and_leaves_no_pdf(tmp_path: Path) -> None:
    source = tmp_path / "bad.tex"
    source.write_text("\\documentclass{article}\n\\begin{document}\n\\nonsense\n\\end{document}\n")
    with pytest.raises(ReportError) as caught:
        build_pdf(source)
    assert "Undefined control sequence. (line 3)" in _one_line(caught)
    assert list(tmp_path.iterdir()) == [source]


@needs_tex
def test_tex_may_run_no_command_and_read_no_other_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.tex"
    secret.write_text("secret words")
    page = "\\documentclass{article}\\begin{document}x"
    page += f"\\immediate\\write18{{touch {tmp_path}/made}}"
    page += f"\\IfFileExists{{{secret}}}{{\\typeout{{HELD}}}}{{}}\\end{{document}}"
    log = compile_tex(page).log
    assert not (tmp_path / "made").exists()
    assert "\nHELD" not in log


@needs_tex
def test_a_pdf_appears_beside_its_source(tmp_path: Path) -> None:
    source = tmp_path / "ok.tex"
    source.write_text("\\documentclass{article}\\begin{document}x\\end{document}")
    assert build_pdf(source) == tmp_path / "ok.pdf"
    assert (tmp_path / "ok.pdf").read_bytes().startswith(b"%PDF")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ok.pdf", "ok.tex"]


def test_an_engine_that_cannot_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="cannot run"):
        compile_tex("x", engine=str(tmp_path / "no-such-tex"))


def test_the_log_is_read_for_boxes_that_stick_out() -> None:
    log = "x\nOverfull \\hbox (6.4pt too wide) in paragraph\nOverfull \\vbox (1.0pt too high)\n"
    made = writing.Compiled(b"", log)
    assert made.overfull() == ["Overfull \\hbox (6.4pt too wide) in paragraph"]
    assert len(made.overfull(0.5)) == 2
