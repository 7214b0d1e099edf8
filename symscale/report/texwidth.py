"""An estimate, in em, of how wide LaTeX mathematics is set: enough to decide on line breaks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_\[\]]|\s+|.", re.DOTALL)
_SPACES = {r"\;": 0.28, r"\,": 0.17, r"\:": 0.22, r"\quad": 1.0, r"\qquad": 2.0, r"\ ": 0.33}
_RELATIONS = {"=", "<", ">", r"\leq", r"\geq", r"\le", r"\ge", r"\approx", r"\neq", r"\iff"}
_OPERATORS = {"+", "-", r"\times", r"\cdot", r"\wedge", r"\vee"}
_NARROW = {"(": 0.39, ")": 0.39, ",": 0.45, ".": 0.28, "/": 0.5, "|": 0.28, "!": 0.28, "'": 0.28}
_WORDS = {r"\max": 2.1, r"\min": 1.9, r"\log": 1.6, r"\ln": 1.2, r"\exp": 1.9}
_INVISIBLE = {r"\left", r"\right", r"\displaystyle", r"\limits", "{", "}", r"\mathbin"}
_SIZED = {r"\bigl": 0.07, r"\bigr": 0.07, r"\biggl": 0.35, r"\biggr": 0.35}
_TEXT = {r"\text", r"\mathrm", r"\operatorname", r"\mathit", r"\texttt"}
_LETTER = {"I": 0.44, "J": 0.55, "M": 0.97, "W": 0.94, "i": 0.35, "j": 0.41, "l": 0.3, "t": 0.36}
_SCRIPT = 0.72
#: Against the widths TeX reports for the formulas of a report, which it must not exceed.
_CALIBRATION = 1.07


@lru_cache(maxsize=4096)
def tex_width(latex: str) -> float:
    r"""The width in em of a formula on one line.

    >>> tex_width(r"\frac{B}{C D F}") < tex_width("C D F + B")
    True
    """
    return _CALIBRATION * _run(iter(_TOKEN.findall(latex)), None)


def _run(tokens: Iterator[str], end: str | None) -> float:
    total = 0.0
    for token in tokens:
        if token == end:
            break
        total += _atom(token, tokens)
    return total


def _group(tokens: Iterator[str]) -> float:
    for token in tokens:
        if token == "{":
            return _run(tokens, "}")
        if not token.isspace():
            return _atom(token, tokens)
    return 0.0


def _atom(token: str, tokens: Iterator[str]) -> float:
    if token == "{":
        return _run(tokens, "}")
    if token in "^_":
        return _SCRIPT * _group(tokens)
    if token in (r"\frac", r"\dfrac"):
        return max(_group(tokens), _group(tokens)) + 0.24
    if token == r"\sqrt":
        return 0.85 + _group(tokens)
    if token in _TEXT:
        return _words(tokens)
    return _plain(token)


def _words(tokens: Iterator[str]) -> float:
    depth, letters = 0, 0
    for token in tokens:
        depth += {"{": 1, "}": -1}.get(token, 0)
        letters += len(token) if token not in "{}" else 0
        if depth == 0:
            break
    return 0.51 * letters


def _plain(token: str) -> float:
    if token.isspace() or token in _INVISIBLE:
        return 0.0
    for table in (_SPACES, _NARROW, _WORDS, _SIZED):
        if token in table:
            return table[token]
    if token in _RELATIONS:
        return 1.33
    if token in _OPERATORS:
        return 1.22
    if token.isdigit():
        return 0.5
    return _LETTER.get(token, 0.74 if token.isupper() else 0.55)
