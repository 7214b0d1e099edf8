"""MathML for a page without scripts, converted from the LaTeX that the algebra prints."""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape

from symscale.report.breaking import Row

_UPRIGHT = re.compile(
    r'<mi mathvariant="normal">\w</mi>(?:<mi mathvariant="normal">\w</mi>|<mn[^>]*>\d+</mn>)+'
)
_GROUPED = re.compile(r"<mn>(\d+)</mn>(?:<mrow><mo>&#x0002C;</mo></mrow><mn>(\d+)</mn>)+")
_SLASH = '<mo lspace="0.08em" rspace="0.08em">/</mo>'
_ESCAPED = re.compile(r"\\([%&#_$])(?=[^<>]*</mtext>)")
_REFERENCE = re.compile("&amp;#x([0-9A-Fa-f]{1,6});")
_TAGS = re.compile(r"<[^>]+>")


def mathml(lines: tuple[Row, ...], display: bool) -> str:
    r"""A formula of one or more rows as a ``<math>`` element.

    >>> mathml((Row("", "B_X"),), display=False)
    '<math><mrow><msub><mi>B</mi><mi>X</mi></msub></mrow></math>'
    """
    block = ' display="block"' if display else ""
    if len(lines) == 1:
        return f"<math{block}>{content(lines[0].latex)}</math>"
    body = "".join(
        f"<mtr><mtd>{content(row.left)}</mtd><mtd>{content(row.right)}</mtd></mtr>" for row in lines
    )
    style = ' displaystyle="true"' if display else ""
    return f'<math{block}><mtable class="aligned"{style}>{body}</mtable></math>'


@lru_cache(maxsize=4096)
def content(latex: str) -> str:
    """What stands inside ``<math>`` for a piece of LaTeX; or the LaTeX itself.

    >>> "12,345" in content("12{,}345 B")
    True
    """
    if not latex.strip():
        return "<mrow></mrow>"
    from xml.etree.ElementTree import tostring

    from latex2mathml.converter import convert_to_element

    try:
        element = convert_to_element(latex)
    except Exception:  # the converter raises errors of many unrelated kinds
        return f"<mtext>{escape(latex)}</mtext>"
    # The converter writes symbols as character references, which must survive the escaping of
    # everything else: its own printer would let a "<" of a name through.
    inner = "".join(tostring(child, encoding="unicode") for child in element)
    return _tidy(_REFERENCE.sub(r"&#x\1;", inner))


def _tidy(inner: str) -> str:
    """Upright words in one piece, numbers with their separators in one piece, tight slashes."""
    inner = _ESCAPED.sub(r"\1", inner)
    merged = _UPRIGHT.sub(lambda m: f"<mi>{_TAGS.sub('', m[0])}</mi>", inner)
    merged = merged.replace("<mo>/</mo>", _SLASH).replace("<mo>&#x0002F;</mo>", _SLASH)
    return _GROUPED.sub(
        lambda m: f"<mn>{_TAGS.sub('', m[0]).replace('&#x0002C;', ',')}</mn>", merged
    )
