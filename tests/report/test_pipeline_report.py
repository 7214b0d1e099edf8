"""Reports of steps with a pipeline, experts, split sequences and memory techniques."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from symscale import chip, report, training
from symscale.cli import main
from symscale.report.document import Callout, Display, Section, Table
from symscale.report.page import Report
from symscale.report.rich import plain
from symscale.report.schedule_chart import ScheduleChart
from symscale.report.writing import compile_tex, find_tex

#: Dense, of 32 layers, on 4 stages: one microbatch's forward is t_F on 8 layers.
PLAIN: dict[str, Any] = {"schedule": "1f1b", "microbatches": 32}
INTERLEAVED: dict[str, Any] = {
    "schedule": "interleaved", "chunks": 8, "microbatches": 16, "ends": (1, 1),
    "gradients": "f32", "optimizer": "adam+master",
}  # fmt: skip
DUALPIPE: dict[str, Any] = {
    "schedule": "dualpipe", "microbatches": 120, "remat": ("In", "Mid", "O"),
    "gradients": "f32", "optimizer": "adam-bf16+master",
}  # fmt: skip


@cache
def page(name: str) -> Report:
    """The reports that this file reads."""
    if name == "plain":
        return report(training("llama-3-8b", "dp+pp", **PLAIN), chip="h100", B=2**20, X=16, P=4)
    if name == "llama":
        step = training("llama-3-405b", "zero2+tp+sp+pp", keep="none", **INTERLEAVED)
        cluster = chip("h100").override(pod=16384)
        return report(step, chip=cluster, B=2**24, T=8192, X=128, Y=8, P=16)
    if name == "deepseek":
        step = training("deepseek-v3", "zero1+ep+pp", keep="none", **DUALPIPE)
        cluster = chip("h800").override(pod=2048, W_hbm=3.35e12)
        return report(step, chip=cluster, B=15360 * 4096, T=4096, X=2, Z=64, P=16)
    if name == "mixtral":
        return report(training("mixtral-8x7b", "fsdp+ep"), chip="h100", B=2**22, X=8, Z=8)
    if name == "windows":
        return report(training("gpt-oss-20b", "fsdp+ep"), chip="h100", B=2**21, X=8, Z=8)
    if name == "sequences":
        return report(training("llama-3-8b", "fsdp+tp+cp"), chip="tpu-v5p", B=2**22, X=64, Y=2, Z=2)
    step = training("llama-3-8b", "fsdp", remat="block", microbatches=4,
                    offload=("optimizer", "activations"))  # fmt: skip
    return report(step, chip="h100", B=2**22, X=64)


NAMES = ("plain", "llama", "deepseek", "mixtral", "windows", "sequences", "host")


def under(name: str, title: str) -> Section:
    """The section of a report of this title."""
    return next(one for one in page(name).document.sections if one.title == title)


def said(name: str, title: str) -> str:
    return json.dumps(under(name, title).to_dict(), ensure_ascii=False)


def rows(name: str, title: str, caption: str = "") -> list[list[str]]:
    """The rows of a section's table whose caption has these words."""
    return next(
        [[plain(cell) for cell in row] for row in block.rows]
        for block in under(name, title).blocks
        if isinstance(block, Table) and caption in plain(block.caption)
    )


# --- The schedule ------------------------------------------------------------------------------


def test_the_closed_forms_of_1f1b() -> None:
    """(p - 1)/m of the ideal time, (p - 1)/(m + p - 1) of the total: Narayanan, Huang."""
    block = next(b for b in under("plain", "The pipeline").blocks if isinstance(b, Display))
    forms = {plain(line.label): line.formula.text for line in block.lines}
    assert forms["bubble over the ideal time"] == "(p - 1)/m"
    assert forms["bubble over the total"] == "(p - 1)/(m + p - 1)"
    assert forms["in flight on the first stage"] == "min(m, p)"


def test_the_closed_forms_with_numbers_in() -> None:
    """Three of 32, three of 35; four microbatches wait on the first of four stages."""
    found = {row[0]: row[1:] for row in rows("plain", "The schedule in numbers", "with numbers")}
    assert found["bubble over the ideal time"] == ["3/32", f"{100 * 3 / 32:.2f}%"]
    assert found["bubble over the total"] == ["3/35", f"{100 * 3 / 35:.2f}%"]
    assert found["in flight on the first stage"] == ["4", "4 microbatches"]


def test_interleaved_chunks_divide_the_bubble() -> None:
    """15/(8 * 16) of the ideal time and 15/(8 * 16 + 15) of the total (Narayanan et al. 2021)."""
    found = {row[0]: row[1:] for row in rows("llama", "The schedule in numbers", "with numbers")}
    assert found["bubble over the ideal time"] == ["15/128", "11.7%"]
    assert found["bubble over the total"] == ["15/143", "10.5%"]


def test_the_real_bubble_has_unequal_stages_in_it() -> None:
    """The head is two layers' work, so that the slowest of four stages holds nine of 34."""
    layer = 2 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4 * 4096 * 8192
    work = 32 * (32 + 2 * 4096 * 128256 / layer) / 4
    shares = [float(row[1].rstrip("%")) for row in rows("plain", "The schedule in numbers", "real")]
    # The optimizer step, in which no stage waits for another, lies in the total as well.
    waiting = 100 * (1 - work / (35 * 9))
    assert 0.9 * waiting < shares[0] < waiting
    assert shares[0] > 100 * 3 / 35


def test_dualpipe_has_its_own_pairs() -> None:
    text = said("deepseek", "The pipeline")
    assert "t_FB" in text
    assert "p + 1" in text
    assert "2412.19437" in text


@pytest.mark.parametrize(
    ("name", "devices", "cut"),
    [
        ("plain", 4, "all 4 devices and 8 of 32 microbatches"),
        ("llama", 4, "4 of 16 devices"),
        ("deepseek", 8, "8 of 16 devices"),
    ],
)
def test_the_chart_can_be_read(name: str, devices: int, cut: str) -> None:
    section = under(name, "The schedule drawn")
    chart = next(block for block in section.blocks if isinstance(block, ScheduleChart))
    assert chart.rows == devices
    text = said(name, "The schedule drawn")
    assert "could not be read" in text
    assert cut in text


# --- Devices -----------------------------------------------------------------------------------


def test_layers_are_dealt_out_as_the_run_did() -> None:
    """Llama 3 405B has a layer less on the first and the last stage: 126 and two ends on 128."""
    table = rows("llama", "Layers on devices")
    assert [int(row[2]) for row in table] == [7, *[8] * 14, 7]
    assert table[0][1] == "15, 31, 47, 63, 79, 95, 111"
    assert sum(int(row[2]) for row in table) == 126


def test_dualpipe_keeps_two_shares() -> None:
    """Each of 61 layers lies on two devices."""
    table = rows("deepseek", "Layers on devices")
    assert sum(int(row[2]) for row in table) == 2 * 61
    assert [row[1] for row in table] == [row[1] for row in reversed(table)]
    assert "keeps 2 copies" in said("deepseek", "Layers on devices")


def test_1f1b_holds_fewer_microbatches_further_on() -> None:
    assert [row[3] for row in rows("plain", "Layers on devices")] == ["4", "3", "2", "1"]


def test_messages_are_residuals_there_and_back() -> None:
    """2 * 32 messages of an inner device, each 2 * B * D / (X m) bytes."""
    text = said("plain", "Messages between stages")
    one = 2 * 2**20 * 4096 / (16 * 32)
    assert f"{one / 1e6:.4g} MB" in text
    assert f"{64 * one / 1e9:.4g} GB" in text


# --- Memory ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_of_the_fullest_device_and_adds_up(name: str) -> None:
    section = under(name, "Memory of a chip")
    table = next(block for block in section.blocks if isinstance(block, Table))
    assert ("holds most" in plain(table.caption)) == (name in ("plain", "llama", "deepseek"))
    *kinds, total = (_bytes(plain(row[2])) for row in table.rows)
    assert sum(kinds) == pytest.approx(total, rel=1e-3)


def _bytes(words: str) -> float:
    """Bytes as a report writes them: 1 GiB (1.074 GB)."""
    found = re.search(r"\((\d[\d.]*) (k|M|G|T)B\)", words)
    if found is None:
        return float(words.removesuffix(" bytes").replace(",", ""))
    return float(found[1]) * {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[found[2]]


def test_llama_405b_states_by_hand() -> None:
    """Eight layers a device; f32 gradients and 12 bytes of state split over 128 data ranks."""
    found = {row[0]: _bytes(row[2]) for row in rows("llama", "Memory of a chip")}
    width, wide, keys = 16384, 53248, 8 * 128
    layer = 3 * width * wide + 2 * width * width + 2 * width * keys
    assert found["parameters"] == pytest.approx(2 * 8 * layer / 8, rel=1e-3)
    assert found["gradients"] == pytest.approx(4 * 8 * layer / 8 / 128, rel=1e-3)
    assert found["optimizer"] == pytest.approx(12 * 8 * layer / 8 / 128, rel=1e-3)


def test_what_does_not_fit_says_by_how_much_and_what_to_do() -> None:
    callout = next(b for b in under("mixtral", "Memory of a chip").blocks if isinstance(b, Callout))
    text = plain(callout.parts)
    assert callout.kind == "bad"
    assert "480.7 GB) too many" in text
    assert "The least change that is enough: " in text
    assert "s a step on 64 chips" in text


def test_a_block_saves_its_input_alone() -> None:
    """One array of 2 B D bytes; of the forward pass, a third of forward and backward, nearly all
    comes again: the last product is not needed.
    """
    title = "Saved and computed again"
    assert [row[0] for row in rows("host", title, "saves")] == ["In[B_X, D]", "all"]
    saved = 2 * 2**22 // 4 * 4096 / 64
    assert _bytes(rows("host", title, "saves")[0][2]) == pytest.approx(saved, rel=1e-3)
    policies = {row[0]: row for row in rows("host", title, "policy")}
    assert set(policies) == {"none", "selective", "matmul", "block"}
    assert policies["none"][3] == "0"
    assert 20 < float(policies["block"][4].rstrip("%")) < 100 / 3
    assert (
        _bytes(policies["block"][1]) < _bytes(policies["matmul"][1]) < _bytes(policies["none"][1])
    )


def test_what_lies_on_the_host_and_when_it_hides() -> None:
    text = said("host", "On the host")
    kinds = {row[0]: _bytes(row[2]) for row in rows("host", "On the host", "keeps")}
    assert kinds["optimizer"] == pytest.approx(8 * 8.03e9 / 64, rel=1e-3)
    # Each layer's input, and that of the final norm.
    assert kinds["activations"] == pytest.approx(33 * 2 * 2**20 * 4096 / 64, rel=1e-3)
    assert [row[3] for row in rows("host", "On the host", "PCIe")] == [
        "it hides", "it hides", "nothing to hide behind"
    ]  # fmt: skip
    # Bytes over the forward pass's seconds of arithmetic: both counted here by hand.
    moved = 4 * kinds["activations"]
    per_token = 2 * (32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 4096 * 128256)
    scores = 32 * 4 * 4096 * 8192
    least = moved / (2**22 / 64 * (per_token + scores) / 9.89e14)
    assert f"{least / 1e9:.4g} GB/s" in text


def test_microbatches_say_what_moves_each_time() -> None:
    """FSDP gathers and reduces with each of four; data parallelism reduces after the last."""
    table = rows("host", "Microbatches", "moves")
    assert {row[4] for row in table} == {"4"}
    assert "with every microbatch" in said("host", "Microbatches")
    once = rows("plain", "Microbatches", "moves")
    assert {(row[0], row[4]) for row in once} == {("optimizer step", "1")}
    assert "after the last microbatch only" in said("plain", "Microbatches")


# --- The whole page ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_layer_has_its_algorithm(name: str) -> None:
    titles = [section.title for section in page(name).document.sections]
    kinds_of = {"deepseek": ("dense", "moe"), "windows": ("window", "full")}
    wanted = [f"Layers of kind {kind}" for kind in kinds_of.get(name, ())] or ["The layer"]
    for title in wanted:
        assert title in titles
        kinds = [block.to_dict()["kind"] for block in under(name, title).blocks]
        assert kinds.count("listing") >= 2
        assert "table" in kinds


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("plain", "a stage of a pipeline waits for its neighbours"),
        ("deepseek", "the layers of deepseek-v3 are of 2 kinds"),
        ("mixtral", "the layers of mixtral-8x7b have experts"),
        ("sequences", "fsdp+tp+cp splits more than batch and weights"),
        ("host", "a batch goes through in 4 parts"),
    ],
)
def test_a_comparison_that_would_be_wrong_is_left_out(name: str, why: str) -> None:
    text = json.dumps(page(name).to_dict())
    assert why in text
    assert "Time against the batch" not in text
    assert "The best split of" not in text


def test_experts_exchange_what_is_routed_to_them() -> None:
    """Two experts a token there and back, forward and backward: 2 B D k / (X Z) bytes each."""
    text = said("mixtral", "The layer")
    assert text.count("AllToAll_Z") == 4
    table = {tuple(row[:2]): row[2] for row in rows("mixtral", "The layer")}
    assert table[("", "bytes over Z")] == "4*B*D*k/(X*Z)"


@pytest.mark.parametrize("name", NAMES)
def test_no_raw_names_in_mathematics(name: str) -> None:
    body = page(name).latex().partition(r"\begin{document}")[2]
    for raw in ("W_hbm", "W_pcie", "W_dcn", "t_FB", "L_moe", "sqrt(", "Maximum", "ceiling"):
        assert raw not in body, raw


@pytest.mark.parametrize("name", ["plain", "deepseek", "host"])
def test_both_pages_say_the_same_numbers(name: str) -> None:
    made = page(name)
    html, tex = made.html(), made.latex()
    charts = sum(
        isinstance(block, ScheduleChart) for one in made.document.sections for block in one.blocks
    )
    assert html.count("<svg") == tex.count(r"\begin{axis}") + charts
    for title in ("Memory of a chip", "Layers on devices"):
        if title == "Layers on devices" and name == "host":
            continue
        for row in rows(name, title):
            figure = re.search(r"\d[\d.]*(?= GB\))", row[-1])
            if figure:
                assert figure[0] in html, row
                assert figure[0] in tex, row


@pytest.mark.skipif(find_tex() is None, reason="no TeX engine")
@pytest.mark.parametrize("name", ["llama", "deepseek", "windows"])
def test_the_pdf_has_no_overfull_line(name: str) -> None:
    made = compile_tex(page(name).latex())
    assert made.pdf.startswith(b"%PDF")
    assert made.overfull(2.0) == []


# --- The command -------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["report", *words])
    out, err = capsys.readouterr()
    return status, out, err


def test_the_command_takes_the_options_of_train(
    capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    status, out, _ = run(
        capsys, "llama-3-8b", "--chip", "h800", "--set", "W_hbm=3.35e12", "--chips", "64",
        "--batch", "1Mi", "--strategy", "dp+pp", "--schedule", "zb-h1", "--microbatches", "16",
        "--mesh", "P=4,X=16", "--remat", "block", "--optimizer", "adam+master",
        "--overlap", "none", "--efficiency", "math=0.8", "--format", "html", "--json",
        "-o", str(tmp_path),
    )  # fmt: skip
    assert status == 0
    data = json.loads(out)
    assert data["techniques"]["remat"] == "block"
    assert data["overlap"] == "none"
    assert data["step_time_s"] == pytest.approx(data["step_times_s"]["none"])
    assert "zb-h1" in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--strategy", "dp+pp"), "strategy dp+pp has stages: give --microbatches"),
        (("--strategy", "dp+pp", "--microbatches", "3", "--mesh", "P=4,X=16"),
         "3 microbatches do not divide a batch of 1048576 tokens"),
        (("--strategy", "fsdp", "--remat", "some"), "remat 'some' is none of"),
        (("--strategy", "fsdp", "--set", "speed=1"), "'speed' is no figure of a chip"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line_and_no_file(
    words: tuple[str, ...], wrong: str, capsys: pytest.CaptureFixture[str], tmp_path: Any
) -> None:
    folder = tmp_path / "out"
    status, _, err = run(
        capsys, "llama-3-8b", "--chip", "h100", "--chips", "64", "--batch", "1Mi", *words,
        "-o", str(folder),
    )  # fmt: skip
    assert status == 2
    assert wrong in err
    assert err.strip().count("\n") == 0
    assert not folder.exists()
