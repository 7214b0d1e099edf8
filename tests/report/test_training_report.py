"""The training report: what it says of LLaMA 3 70B on a v5p pod, and that it renders."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from symscale import report, training
from symscale.report.page import Report
from symscale.report.writing import compile_tex, find_tex


@pytest.fixture(scope="module")
def page() -> Report:
    step = training("llama-3-70b", "fsdp+tp")
    return report(step, chip="tpu-v5p", B=2**22, X=2048, Y=4, chips=8960)


@pytest.fixture(scope="module")
def text(page: Report) -> str:
    return json.dumps(page.to_dict(), ensure_ascii=False)


@pytest.mark.parametrize(
    "said",
    [
        # The source of the model, and its size to the unit.
        "Meta-Llama-3-70B/blob/main/config.json",
        "70,553,706,496",
        # Pure FSDP on the pod: 4 Mi / 8960 against C/(3 W_ici) = 2550/3.
        "4,194,304 tokens on 8,960 chips are 468.1 a chip, below the 850 needed: "
        "communication-bound",
        # The mixed split: sqrt(2 * 2^22 * 8960 / 28672), and the walls 4a^2/(2F) and a^2/(2F).
        "= 1,619",
        "453.6 tokens a chip",
        "113.4 tokens a chip",
        "468.1 a chip, above the 453.6 needed: compute-bound",
        # 2048 x 4: 0.9783 on two matmuls, 1.0133 on the decoder without scores.
        "97.83%",
        "compute-bound, by 2.2% with summed communication",
        "101.3%",
        "over the wall by 1.3% summed, inside it overlapped",
        # Attention passes the MLP at 1.5 D F / (N H).
        "43,008 tokens",
        "T = 8*D",
        "It fits",
    ],
)
def test_it_says(text: str, said: str) -> None:
    assert said in text


def test_every_strategy_has_its_algorithm_and_derivation(page: Report) -> None:
    titles = {section.title: section for section in page.document.sections}
    for name in ("dp", "zero1", "zero2", "fsdp", "tp", "tp+sp", "fsdp+tp", "fsdp+tp+sp", "2d"):
        kinds = [block.to_dict()["kind"] for block in titles[f"Strategy {name}"].blocks]
        assert kinds.count("listing") >= 3
        assert {"table", "callout"} <= set(kinds)
        # A comparison that an earlier strategy has derived is referred to.
        said = json.dumps([block.to_dict() for block in titles[f"Strategy {name}"].blocks])
        assert "derivation" in kinds or "the two times are those of" in said


def test_html_is_one_file_without_network_or_scripts(page: Report) -> None:
    html = page.html()
    assert "<math" in html
    assert html.count("<svg") == 3
    assert "<script" not in html
    assert not re.search(r'(?:src|href)="(?!#)', html)


def test_both_pages_plot_the_same_numbers(page: Report) -> None:
    assert page.latex().count(r"\begin{axis}") == page.html().count("<svg") == 3


def test_no_raw_names_in_mathematics(page: Report) -> None:
    body = page.latex().partition(r"\begin{document}")[2]
    for name in ("W_hbm", "W_ici", "C_int8", "sqrt("):
        assert name not in body.replace("the book's W\\_ici", "")


def test_a_strategy_with_one_axis_has_a_report_too() -> None:
    made = report(training("llama-3-8b", "fsdp"), chip="tpu-v5e", B=2**20, X=256)
    assert "fsdp on 256 chips" in str(made)


def test_what_does_not_fit_is_not_recommended() -> None:
    step = training("llama-3-70b", "dp")
    made = json.dumps(report(step, chip="tpu-v5p", B=2**22, X=8192, chips=8960).to_dict())
    assert "dp on X = 8192 is not enough" in made
    assert "GB a chip do not fit" in made
    assert "bound by the links of mesh axis X" in made
    assert "Compute-bound and small enough here: fsdp+tp" in made


def test_repeated_work_is_said() -> None:
    step = training("llama-3-70b", "2d")
    made = json.dumps(report(step, chip="tpu-v5p", B=2**22, X=2048, Y=4).to_dict())
    assert "Devices repeat work" in made


def test_axes_behind_one_port_gain_nothing_from_overlap() -> None:
    step = training("llama-3-8b", "fsdp+tp")
    made = json.dumps(report(step, chip="h100", B=2**15, X=4, Y=2).to_dict())
    assert "they share a port, so it makes no difference" in made
    assert "times lower" not in made


def test_a_small_batch_is_bound_by_memory() -> None:
    step = training("llama-3-70b", "tp")
    made = report(step, chip="tpu-v5p", B=8, T=8, Y=8).to_dict()
    assert "HBM-bound" in json.dumps(made)


def test_a_gpu_node_has_a_report() -> None:
    made = str(report(training("llama-3-8b", "tp"), chip="h100", B=2**15, Y=8))
    assert "W_nvlink" in made
    assert "W_ici" not in made.partition("Strategies")[2]


@pytest.mark.skipif(find_tex() is None, reason="no TeX engine")
def test_the_pdf_has_no_overfull_line(page: Report, tmp_path: Path) -> None:
    made = compile_tex(page.latex())
    assert made.pdf.startswith(b"%PDF")
    assert made.overfull(2.0) == []
