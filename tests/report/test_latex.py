"""The LaTeX of a document: what it loads, that it compiles, that nothing sticks out."""

from __future__ import annotations

import re

import pytest

from symscale.algebra.symbols import B, D, F
from symscale.report import latex
from symscale.report.document import Document, section, table, text
from symscale.report.writing import Compiled, compile_tex, find_tex
from tests.report.report_demo import demo

# In Debian's texlive-latex-recommended and texlive-pictures, with what they depend on.
SHIPPED = {
    "geometry", "amsmath", "amssymb", "array", "booktabs", "longtable", "microtype", "xcolor",
    "graphicx", "caption", "pgfplots", "hyperref",
}  # fmt: skip


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    if find_tex() is None:
        pytest.skip("no TeX engine")
    return compile_tex(latex.render(demo()))


def test_only_packages_of_a_small_installation() -> None:
    loaded = re.findall(r"\\usepackage(?:\[[^]]*\])?\{([^}]*)\}", latex.render(demo()))
    assert {name for group in loaded for name in group.split(",")} <= SHIPPED


def test_braces_and_environments_balance() -> None:
    body = latex.render(demo()).split(r"\begin{document}")[1]
    begun = re.findall(r"\\begin\{(\w+)\}", body)
    ended = re.findall(r"\\end\{(\w+)\}", body)
    assert sorted([*begun, "document"]) == sorted(ended)
    bare = re.sub(r"\\[{}]", "", body)
    assert bare.count("{") == bare.count("}")


def test_the_demo_compiles_to_several_pages(compiled: Compiled) -> None:
    assert compiled.pdf.startswith(b"%PDF")
    assert re.search(r"Output written on report.pdf \([4-9] pages", compiled.log)


def test_nothing_sticks_out_of_the_page(compiled: Compiled) -> None:
    assert compiled.overfull(2.0) == []


def test_no_bitmap_fonts_and_no_undefined_references(compiled: Compiled) -> None:
    assert "pk>" not in compiled.log
    assert "undefined" not in compiled.log


def test_fractions_are_stacked_when_displayed_and_slashed_in_a_line() -> None:
    page = latex.render(
        Document("t", sections=(section("s", text(B / D), table(["f"], [[B * D / F]])),))
    )
    assert "$B / D$" in page
    assert "$B D / F$" in page
    assert r"\frac{4 B D F}{C X Y}" in latex.render(demo())


def test_a_wide_table_gets_smaller_type_or_wrapped_columns() -> None:
    page = latex.render(
        Document("t", sections=(section("s", table(["a", "b"], [["word " * 40, 1]])),))
    )
    assert re.search(r"\\small.*\n.*p\{\d+\.\d+em\}", page)
