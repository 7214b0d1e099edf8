"""Any text shows as itself in LaTeX and in HTML."""

from __future__ import annotations

import re
import shutil
import subprocess
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symscale.report import html, latex
from symscale.report.document import Document, callout, display, listing, section, table, text
from symscale.report.escaping import tex, tex_mono
from symscale.report.numbers import number
from symscale.report.plots import LinePlot, hline, line, spot, vline
from symscale.report.rich import Code, Math, Strong
from symscale.report.writing import compile_tex, find_tex
from tests.report.report_demo import HOSTILE

needs_tex = pytest.mark.skipif(find_tex() is None, reason="no TeX engine")


def everywhere(words: str) -> Document:
    """A document with these words in every place that takes text."""
    plot = LinePlot(
        words, words, words, (line(words, [(1, 2), (3, 4)]),), caption=words,
        markers=(vline(2, words), hline(3, words)), spots=(spot(2, 3, words),),
    )  # fmt: skip
    blocks = (
        text(words, Code(words), Strong(words), number(3, words)),
        display((words, Math("x"))),
        table([words], [[words], [Code(words)]], caption=words, notes=[words]),
        listing([words], caption=words),
        callout("bad", words, title=words),
        plot,
    )
    return Document(words, words, (words,), (section(words, *blocks),) * 4)


COMMANDS = re.compile(r"\\([A-Za-z]+)")


@given(st.text())
def test_text_brings_no_command_of_its_own(words: str) -> None:
    allowed = {"char", "onecell", "ensuremath", "texttt", "softbreak", "underscore", "dots"}
    for escaped in (tex(words), tex_mono(words), tex_mono(words, cell=False)):
        outside = re.sub(r"\\ensuremath\{[^{}]*(?:\{[^{}]*\})?[^{}]*\}", "", escaped)
        assert all(c in allowed or c.startswith("text") for c in COMMANDS.findall(outside))
        assert not re.search(r"(?<!\\)[$&#%]", outside)


def test_hostile_text_is_escaped_in_the_source() -> None:
    source = latex.render(everywhere(HOSTILE))
    assert r"\input" not in source
    assert source.count(r"\end{document}") == 1
    assert source.rstrip().endswith(r"\end{document}")


class _Page(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_hostile_text_shows_in_html() -> None:
    page = _Page(html.render(everywhere(HOSTILE + "\" onload='x'")))
    assert "script" not in page.tags
    assert not any(name.startswith("on") for name, _ in page.attributes)
    assert "".join(page.words).count(HOSTILE) > 40


@needs_tex
@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="no pdftotext")
def test_hostile_text_shows_in_the_pdf(tmp_path: Path) -> None:
    words = r"a_b%$#&\input{x}<script>"
    blocks = (text(words), text(Code(words)), table([words], [[words]]), listing([words]))
    made = compile_tex(latex.render(Document(words, sections=(section(words, *blocks),))))
    (tmp_path / "x.pdf").write_bytes(made.pdf)
    command = ["pdftotext", "-layout", str(tmp_path / "x.pdf"), "-"]
    shown = subprocess.run(command, capture_output=True, check=True).stdout.decode()
    assert re.sub(r"\s", "", shown).count(words) == 7


@needs_tex
def test_every_character_can_be_set() -> None:
    """All of ASCII, accented Latin, Greek, and what the escapes know; others by code point."""
    codes = [*range(0x20, 0x7F), *range(0xA0, 0x180), *range(0x391, 0x3CA), *range(0x2010, 0x2300)]
    chars = [c for c in map(chr, codes) if unicodedata.category(c) != "Cn"]
    lines = [" ".join(chars[i : i + 20]) for i in range(0, len(chars), 20)]
    blocks = [text(line) for line in [*lines, "\u4e2d\U0001f600\u0000\u0007"]]
    made = compile_tex(latex.render(Document("all", sections=(section("x", *blocks),))))
    assert made.pdf.startswith(b"%PDF")
    assert "Missing character" not in made.log
