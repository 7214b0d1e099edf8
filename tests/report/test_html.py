"""The HTML of a document: one file, well-formed, with real mathematics and drawings."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from symscale.algebra.symbols import B, C, D, W_hbm, to_latex
from symscale.report import html
from symscale.report.breaking import Row
from symscale.report.document import Document, section, text
from symscale.report.mathml import content, mathml
from tests.report.report_demo import demo


@pytest.fixture(scope="module")
def page() -> str:
    return html.render(demo())


def _elements(page: str, tag: str) -> list[ElementTree.Element]:
    found = re.findall(rf"<{tag}\b.*?</{tag}>", page, re.DOTALL)
    assert found
    return [ElementTree.fromstring(one) for one in found]


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    assert "<script" not in page
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert "url(" not in page.replace("url(#", "")
    assert "@import" not in page
    assert set(re.findall(r"https?://[^\"' ]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_the_contents_lead_to_every_section(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    links = re.findall(r'href="#([^"]+)"', page)
    assert links == [i for i in ids if i.startswith("section")]
    assert len(links) == len(demo().sections)


def test_mathematics_is_wellformed_and_holds_no_raw_latex(page: str) -> None:
    formulas = _elements(page, "math")
    assert len(formulas) > 30
    for formula in formulas:
        shown = "".join(formula.itertext())
        assert not re.search(r"[\\{}_^]", shown), shown


def test_a_fraction_becomes_a_fraction() -> None:
    root = ElementTree.fromstring(mathml((Row("", to_latex(B * D / C)),), display=True))
    (fraction,) = root.iter("mfrac")
    top, bottom = ("".join(part.itertext()) for part in fraction)
    assert (top, bottom) == ("BD", "C")


def test_upright_words_and_long_numbers_stay_in_one_piece() -> None:
    assert "<mi>hbm</mi>" in content(to_latex(W_hbm))
    assert "<mn>12,345,678</mn>" in content("12{,}345{,}678")


def test_latex_that_is_not_understood_is_shown_and_escaped() -> None:
    assert "<b>" not in content(r"\frac{a} <b> \begin{nothing}")


def test_drawings_are_wellformed(page: str) -> None:
    drawings = _elements(page, "svg")
    assert len(drawings) == 3
    clips = re.findall(r'<clipPath id="([^"]+)"', page)
    assert len(set(clips)) == 3


def test_style_stays_inside_the_report() -> None:
    fragment = html.fragment(Document("t", sections=(section("s", text("words")),)))
    style = re.sub(
        r"@media[^{]*\{", "", re.findall(r"<style>(.*?)</style>", fragment, re.DOTALL)[0]
    )
    selectors = [s.strip() for group in re.findall(r"([^{}]+)\{", style) for s in group.split(",")]
    assert all(selector.startswith(".symscale") for selector in selectors if selector)
    assert "<html" not in fragment
