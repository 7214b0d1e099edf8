"""The command line: what it prints, and that bad input gets one clear line and exit status 2."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from symscale.cli import main

LLAMA_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
}
REPORT = ["report", "llama-3-8b", "--chip", "tpu-v5p", "--chips", "256", "--batch", "4Mi"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    try:
        status = main(list(arguments))
    except SystemExit as stop:
        status = int(stop.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def data(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    status, out, err = run(capsys, *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a refused command prints."""
    status, out, err = run(capsys, *arguments)
    assert status == 2
    assert out == ""
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err


def config(where: Path, **changes: Any) -> str:
    kept = {key: value for key, value in {**LLAMA_8B, **changes}.items() if value is not ...}
    path = where / "config.json"
    path.write_text(json.dumps(kept))
    return str(path)


def test_params(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "params", "llama-3-70b")
    assert found["total"] == found["active"] == 70_553_706_496
    assert sum(found["components"].values()) == found["total"]


def test_params_of_a_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert data(capsys, "params", config(tmp_path))["total"] == 8_030_261_248


def test_flops_names_its_conventions(capsys: pytest.CaptureFixture[str]) -> None:
    full = data(capsys, "flops", "llama-2-7b", "--context", "4k")
    causal = data(capsys, "flops", "llama-2-7b", "--context", "4k", "--causal")
    assert full["flops_per_token"] > causal["flops_per_token"]
    assert causal["conventions"]["attention scores"] == "half of them (causal)"


def test_crossover(capsys: pytest.CaptureFixture[str]) -> None:
    found = data(capsys, "crossover", "critical-batch", "--chip", "tpu-v5p")
    assert found["symbol"] == "C/W_hbm"
    assert found["unit"] == "tokens"
    assert found["latex"] == r"\frac{C}{W_{\mathrm{hbm}}}"
    assert found["value"] == pytest.approx(4.59e14 / 2.765e12)


def test_crossover_without_numbers_has_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert data(capsys, "crossover", "compute-bound")["value"] is None


def test_crossover_list(capsys: pytest.CaptureFixture[str]) -> None:
    names = [row["name"] for row in data(capsys, "crossover")["crossovers"]]
    assert "critical-batch" in names
    for name in names:
        assert data(capsys, "crossover", name)["steps"]


def test_tables_fit_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    commands = (["chips"], ["models"], ["chips", "h100"], ["models", "llama-3-8b"], ["crossover"])
    for command in commands:
        status, out, _ = run(capsys, *command)
        assert status == 0
        # An address cannot be broken.
        assert max(len(line) for line in out.splitlines() if "://" not in line) <= 80, command


def test_report_writes_whole_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "new" / "folder"
    found = data(capsys, *REPORT, "-o", str(out), "--format", "tex,html")
    assert [Path(name).name for name in found["files"]] == ["report.tex", "report.html"]
    assert found["step_time_s"] > 0
    assert found["bottleneck"] in found["busy_s"]
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "report.tex"]
    assert (out / "report.tex").read_text().rstrip().endswith(r"\end{document}")
    assert (out / "report.html").read_text().rstrip().endswith("</html>")


def test_report_of_a_config(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = ["report", config(tmp_path), *REPORT[2:], "-o", str(tmp_path), "--format", "html"]
    assert data(capsys, *arguments, "--mesh", "X=64,Y=4")["mesh"] == {"X": 64, "Y": 4}


def test_a_count_with_a_wrong_suffix(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, *REPORT[:-1], "4Q", "-o", "out")
    assert "'4Q': unknown suffix 'Q'; use k, M, G, T or Ki, Mi, Gi, Ti" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["params", "lama-3-70b"], "unknown model 'lama-3-70b'; did you mean"),
        (["chips", "tpu-v5"], "unknown chip 'tpu-v5'; did you mean"),
        (["crossover", "critical"], "unknown crossover 'critical'; did you mean critical-batch"),
        (["crossover", "compute-bound", "--strategy", "fdsp"], "unknown strategy 'fdsp'"),
        (["models", "no/such/config.json"], "no/such/config.json"),
        ([*REPORT, "-o", "out", "--mesh", "X=64,Y=3"], "mesh axis Y = 3 does not divide"),
        ([*REPORT, "-o", "out", "--mesh", "X=64"], "no size for mesh axis Y"),
        ([*REPORT, "-o", "out", "--mesh", "X=-4,Y=2"], "'-4'"),
        ([*REPORT, "-o", "out", "--mesh", "X=64,X=2"], "mesh axis X occurs twice"),
        ([*REPORT, "-o", "out", "--mesh", "X=64,Y=8"], "--mesh has 512 chips, but --chips is 256"),
        ([*REPORT, "-o", "out", "--format", "doc"], "format 'doc' is none of tex, html, pdf"),
        ([*REPORT[:5], "100000", *REPORT[6:], "-o", "out"], "one tpu-v5p pod has 8960"),
    ],
)
def test_wrong_arguments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[str], said: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert said in refused(capsys, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_config_without_keys(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = config(tmp_path, hidden_size=..., vocab_size=...)
    line = refused(capsys, "params", path)
    assert "hidden_size" in line
    assert "vocab_size" in line


def test_a_config_that_is_not_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{'hidden_size': 1}")
    assert "JSON" in refused(capsys, "params", str(path))


@pytest.mark.parametrize("size", [-1, 0, 1.5, True, "4096"])
def test_a_config_with_a_wrong_size(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, size: Any
) -> None:
    assert "intermediate_size" in refused(
        capsys, "params", config(tmp_path, intermediate_size=size)
    )


def test_a_config_without_a_context(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = config(tmp_path, max_position_embeddings=...)
    arguments = ["report", path, *REPORT[2:], "-o", str(tmp_path / "out")]
    assert "context" in refused(capsys, *arguments)
    assert not (tmp_path / "out").exists()


def test_an_unwritable_directory(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "file" in refused(capsys, *REPORT, "-o", str(tmp_path / "file" / "out"))


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_leaves_no_half_file(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: int,
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, "fsync", fail)
    line = refused(capsys, *REPORT, "-o", str(tmp_path), "--format", "tex,html")
    assert os.strerror(error) in line
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_no_half_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    status, _, err = run(capsys, *REPORT, "-o", str(tmp_path), "--format", "tex,html")
    assert status == 130
    assert err == "symscale: interrupted\n"
    assert list(tmp_path.iterdir()) == []


def test_without_a_tex_engine_it_says_which_package(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    status, out, err = run(capsys, *REPORT, "-o", str(tmp_path), "--format", "tex,pdf")
    assert status == 0
    assert "texlive-latex-recommended" in err
    assert out == f"{tmp_path / 'report.tex'}\n"
