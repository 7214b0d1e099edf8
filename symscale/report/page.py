"""A report: one document that shows itself, converts itself and writes itself to files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from symscale.algebra.errors import ReportError, near
from symscale.report.document import Document
from symscale.report.writing import build_pdf, find_tex, make_directory, write_text

Format = Literal["tex", "html", "txt", "pdf"]
FORMATS: tuple[Format, ...] = ("tex", "html", "txt", "pdf")


@dataclass(frozen=True)
class Report:
    """A document ready to be printed, shown in a notebook, or saved.

    >>> print(Report(Document("A report")))
    A report
    ========
    <BLANKLINE>
    """

    document: Document

    def latex(self) -> str:
        """The LaTeX source."""
        from symscale.report.latex import render

        return render(self.document)

    def html(self) -> str:
        """One self-contained HTML page."""
        from symscale.report.html import render

        return render(self.document)

    def text(self) -> str:
        """Plain text, 80 columns wide."""
        from symscale.report.text import render

        return render(self.document)

    def save(
        self,
        directory: Path | str,
        formats: Iterable[str] | None = None,
        name: str = "report",
    ) -> tuple[Path, ...]:
        """Write the report into a directory; every file appears whole or not at all.

        ``formats`` are ``tex``, ``html``, ``txt`` and ``pdf``; unless given, all but the text, the
        PDF only where a TeX engine is found. A PDF is set from the LaTeX file, which is then
        written too. All pages are drawn before the first is written. The paths come
        back in the order of writing.

        Raises:
            ReportError: for an unknown format, a directory that cannot be written, or (after the
                other files are written) a missing or failing TeX engine.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as where:
        ...     report = Report(Document("A report"))
        ...     [path.name for path in report.save(where, ("tex", "html"))]
        ['report.tex', 'report.html']
        """
        usual = ("tex", "html", "pdf") if find_tex() else ("tex", "html")
        wanted = _checked(usual if formats is None else formats)
        if not name or Path(name).name != name or name in (".", ".."):
            raise ReportError(f"report name {name!r} must be a plain file name")
        drawers = {"tex": self.latex, "html": self.html, "txt": self.text}
        pages = {kind: drawers[kind]() for kind in wanted if kind != "pdf"}
        where = make_directory(directory)
        written = [write_text(where / f"{name}.{kind}", page) for kind, page in pages.items()]
        if "pdf" in wanted:
            written.append(build_pdf(where / f"{name}.tex"))
        return tuple(written)

    def to_dict(self) -> dict[str, Any]:
        """The document as text, for JSON."""
        return self.document.to_dict()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        count = len(self.document.sections)
        return f"<Report {self.document.title!r}, {count} section{'s' * (count != 1)}>"

    def _repr_html_(self) -> str:
        from symscale.report.html import fragment

        return fragment(self.document)


def _checked(formats: Iterable[str]) -> tuple[str, ...]:
    asked = [formats] if isinstance(formats, str) else list(formats)
    for kind in asked:
        if kind not in FORMATS:
            known = ", ".join(FORMATS)
            raise ReportError(f"format {kind!r} is none of {known}{near(str(kind), FORMATS)}")
    if "pdf" in asked and "tex" not in asked:
        asked.insert(0, "tex")
    return tuple(dict.fromkeys(asked))
