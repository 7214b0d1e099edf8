"""Any text, made harmless in LaTeX: every character shows as itself."""

from __future__ import annotations

import unicodedata

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\ensuremath{\mathdollar}",  # \$ needs a font that a plain installation lacks
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\underscore\softbreak{}",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "`": r"\`{}",
    "-": "-{}",  # two in a row would become a dash
    "\N{NO-BREAK SPACE}": "~",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{LEFT DOUBLE QUOTATION MARK}": "``",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "''",
    "\N{LEFT SINGLE QUOTATION MARK}": "`",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{HORIZONTAL ELLIPSIS}": r"\dots{}",
    "\N{ZERO WIDTH SPACE}": "",
}
_MATH = {
    "·": r"\cdot", "×": r"\times", "−": "-", "±": r"\pm", "÷": r"\div", "≤": r"\leq", "≥": r"\geq",
    "≠": r"\neq", "≈": r"\approx", "≪": r"\ll", "≫": r"\gg", "∝": r"\propto", "∞": r"\infty",
    "→": r"\rightarrow", "←": r"\leftarrow", "↔": r"\leftrightarrow", "⇒": r"\Rightarrow",
    "↦": r"\mapsto", "∈": r"\in", "∑": r"\sum", "∏": r"\prod", "√": r"\surd", "∂": r"\partial",
    "∧": r"\wedge", "∨": r"\vee", "∩": r"\cap", "∪": r"\cup", "∅": r"\emptyset", "⊗": r"\otimes",
    "⌈": r"\lceil", "⌉": r"\rceil", "⌊": r"\lfloor", "⌋": r"\rfloor", "°": r"^{\circ}",
    "½": r"\tfrac12", "¼": r"\tfrac14", "¾": r"\tfrac34", "µ": r"\mu", "✓": r"\surd",
    "✗": r"\times", "•": r"\bullet", "′": "'",
}  # fmt: skip
_UNSET = "ÐðÞþĐđĦħĸĿŀŉŊŋŦŧĄąĘęĮįŲųĢģĶķĻļŅņŖŗĲĳ"
_GREEK = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma "
_GREEK += "tau upsilon phi chi psi omega"
_CAPITALS = ("gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "upsilon", "phi", "psi",
             "omega")  # fmt: skip
for _name in _GREEK.split():
    _letter = unicodedata.lookup(f"GREEK SMALL LETTER {_name.replace('lambda', 'lamda')}")
    _MATH[_letter] = f"\\{_name}"
    if _name in _CAPITALS:  # TeX has a command for the capitals that are not also Latin ones
        _MATH[_letter.upper()] = f"\\{_name.title()}"
for _digit, _high, _low in zip("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉", strict=True):
    _MATH[_high], _MATH[_low] = f"^{_digit}", f"_{_digit}"
_MATH["⁻"] = "^-"


def tex(value: object) -> str:
    r"""Text for LaTeX; what no font of a plain installation holds shows as its code point.

    An address may be broken after its slashes.

    >>> tex("a_b & 50%")
    'a\\underscore\\softbreak{}b \\& 50\\%'
    """
    shown = "".join(map(_char, str(value)))
    return shown.replace("/", r"/\softbreak{}") if "://" in shown else shown


def tex_mono(value: str, cell: bool = True) -> str:
    r"""Text in the monospaced face, where LaTeX's own escapes would leave it.

    With ``cell`` every character takes one column, so that a listing keeps its alignment; without,
    a long name may be broken after its punctuation.

    >>> tex_mono("B_X")
    'B{\\char95}X'
    """
    return "".join(_mono_char(char, cell) for char in value)


def _mono_char(char: str, cell: bool) -> str:
    if char == " ":
        return "~" if cell else " "
    if char.isascii() and char.isprintable():
        shown = char if char.isalnum() else f"{{\\char{ord(char)}}}"
        return shown if cell or char not in "_/.,-=:" else shown + r"\softbreak{}"
    return rf"\onecell{{{_char(char)}}}" if cell and char in _MATH else _char(char)


def _char(char: str) -> str:
    if char in _SPECIAL:
        return _SPECIAL[char]
    if char in _MATH:
        return rf"\ensuremath{{{_MATH[char]}}}"
    if char.isascii():
        return char if char.isprintable() else " "
    if _accented_latin(char):
        return char
    plain = unicodedata.normalize("NFKD", char)
    if plain != char and plain.isascii():
        return "".join(map(_char, plain))
    return rf"\texttt{{U+{ord(char):04X}}}"


def _accented_latin(char: str) -> bool:
    """Whether a plain installation sets it: a Latin letter with an accent that TeX can compose."""
    return "\u00c0" <= char <= "\u017e" and char not in _UNSET
