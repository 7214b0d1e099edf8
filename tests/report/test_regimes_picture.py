"""Pictures of regimes: the same polygons and walls in SVG and in LaTeX."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from symscale import chip, strategy
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, B, D, F, X, Y, n
from symscale.models.decoder import two_matmul_layer
from symscale.report.regimes_picture import RegimesFigure, regimes_figure
from symscale.solve.regimes import regimes

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def figure() -> RegimesFigure:
    time = two_matmul_layer().shard(strategy("fsdp+tp")).forward.time
    found = regimes(Maximum(time.math, *time.by_axis.values()).subs(Y, n / X), B, X)
    numbers = {**chip("v5p"), D: 8192, F: 28672, M_X: 2, M_Y: 1, n: 8960}
    names = {time.math.subs(Y, n / X): "arithmetic & <math>"}
    made = found.picture((1e4, 1e8), (1, 8960), numbers, names=names)
    return regimes_figure(made, "FSDP & tensor on a pod")


def test_svg_has_every_cell_wall_and_formula(figure: RegimesFigure) -> None:
    root = ElementTree.fromstring(figure.svg())
    polygons = root.findall(f"{SVG}polygon")
    assert len(polygons) == len(figure.picture.regions) == 3
    for polygon in polygons:
        for pair in polygon.attrib["points"].split():
            x, y = map(float, pair.split(","))
            assert 70 <= x <= 710
            assert 30 <= y <= 380
    texts = ["".join(text.itertext()) for text in root.findall(f"{SVG}text")]
    assert "X = B*M_X*W_ici/C" in texts
    assert "X = C*n/(F*M_Y*W_ici)" in texts
    assert "X = sqrt(B*M_X*n/(F*M_Y))" in texts
    assert "arithmetic & <math>" in texts
    assert any(text.startswith("2: ") for text in texts)
    assert "NaN" not in figure.svg()


def test_latex_has_the_same(figure: RegimesFigure) -> None:
    source = figure.latex()
    assert source.count(r"\addplot") == 3
    assert source.count(r"\draw[thick]") == 3
    assert r"X = B M_X W_{\mathrm{ici}} / C" in source
    assert r"\sqrt{B M_X n / (F M_Y)}" in source
    assert r"FSDP \& tensor on a pod" in source
    assert r"arithmetic \& " in source
    corners = re.findall(r"\((\d[\d.e+]*),(\d[\d.e+]*)\)", source)
    assert len(corners) >= sum(len(region.corners) for region in figure.picture.regions)


def test_to_dict_and_notebook(figure: RegimesFigure) -> None:
    plain = figure.to_dict()
    assert plain["kind"] == "regimes"
    assert {region["name"] for region in plain["regions"]} == {"arithmetic & <math>", "2", "3"}
    assert figure._repr_html_() == figure.svg()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no TeX engine")
def test_latex_compiles(figure: RegimesFigure, tmp_path: Path) -> None:
    page = (
        r"\documentclass{article}\usepackage{amsmath,pgfplots}\pgfplotsset{compat=1.17}"
        "\n\\begin{document}\n" + figure.latex() + "\n\\end{document}\n"
    )
    (tmp_path / "figure.tex").write_text(page, "utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "figure.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Missing character" not in done.stdout
