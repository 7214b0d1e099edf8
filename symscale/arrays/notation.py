"""The named-axis notation, parsed and printed.

``Name[dim, dim]`` or ``Name: dtype[dim, dim]``. After a dim's last underscore, capitals are mesh
axes (``D_XY``, in order from major to minor); long axis names go in braces (``D_{data,model}``, and
``n_Q_{}`` is a dim ``n_Q`` over no axis); any other underscore belongs to the dim's name. ``{U_X}``
behind the bracket marks partial sums along X.

Source: the notation of How To Scale Your Model, "Sharded Matrices", made explicit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from symscale.algebra.errors import NotationError
from symscale.arrays.dtype import DType, dtype

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*'*")
_DIM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")
_AXIS = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CAPITALS = re.compile(r"[A-Z]+")
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class DimText:
    """A dim as written: its name and the mesh axes it is sharded over, major first."""

    name: str
    axes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.axes:
            return f"{self.name}_{axes_text(self.axes)}"
        head, _, tail = self.name.rpartition("_")
        return f"{self.name}_{{}}" if head and _CAPITALS.fullmatch(tail) else self.name


@dataclass(frozen=True)
class ArrayText:
    """An array as written; ``dtype`` is None where none was given."""

    name: str
    dims: tuple[DimText, ...]
    dtype: DType | None = None
    unreduced: tuple[str, ...] = ()

    def __str__(self) -> str:
        kind = f": {self.dtype}" if self.dtype else ""
        tail = f"{{U_{axes_text(self.unreduced)}}}" if self.unreduced else ""
        return f"{self.name}{kind}[{', '.join(map(str, self.dims))}]{tail}"


@dataclass(frozen=True)
class StatementText:
    """One line of a program as written.

    ``op`` is ``*`` for a product, ``+`` for a sum, empty for a plain arrow, else a function's name.
    ``over`` are the dims named after a semicolon: those the function works along.
    """

    op: str
    operands: tuple[ArrayText, ...]
    result: ArrayText
    over: tuple[str, ...] = ()


def axes_text(axes: Sequence[str]) -> str:
    """Mesh axes as they stand behind an underscore.

    >>> axes_text(["X", "Y"]), axes_text(["data", "Y"])
    ('XY', '{data,Y}')
    """
    if all(len(name) == 1 and name.isupper() for name in axes):
        return "".join(axes)
    return "{" + ",".join(axes) + "}"


def parse_array(text: str) -> ArrayText:
    """One array of the notation.

    Raises:
        NotationError: pointing at the character.

    >>> str(parse_array("In: bf16[B_X, d_model_Y]{U_Z}"))
    'In: bf16[B_X, d_model_Y]{U_Z}'
    >>> parse_array("In[B_X, D_X]")
    Traceback (most recent call last):
    symscale.algebra.errors.NotationError: mesh axis X is used twice in In, at character 11 of \
'In[B_X, D_➤X]'
    """
    scanner = _Scanner(text)
    array = _array(scanner)
    scanner.end()
    return array


def parse_statement(text: str) -> StatementText:
    """One line: ``A[B, D] * W[D, F] -> Out[B, F]``, ``relu(A[B, F]) -> R[B, F]``,
    ``softmax(P[B, S]; S) -> Q[B, S]``, ``A[B, D] + C[B, D] -> R[B, D]`` or ``A[B] -> R[b, T]``.

    Raises:
        NotationError: pointing at the character.

    >>> parse_statement("A[B, D] * W[D, F]")
    Traceback (most recent call last):
    symscale.algebra.errors.NotationError: expected '->' and the result, at character 18 of \
'A[B, D] * W[D, F]➤'
    """
    scanner = _Scanner(text)
    op, operands, over = _left_side(scanner)
    if not (scanner.take("->") or scanner.take("→")):
        scanner.fail("expected '->' and the result")
    result = _array(scanner)
    scanner.end()
    return StatementText(op, operands, result, over)


class _Scanner:
    """A cursor over one line, which knows how to point at where it stands."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise NotationError(f"a line of notation is text, not {text!r}")
        self.text = text
        self.at = 0

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def peek(self, mark: str) -> bool:
        self.space()
        return self.text.startswith(mark, self.at)

    def take(self, mark: str) -> bool:
        if self.peek(mark):
            self.at += len(mark)
            return True
        return False

    def match(self, pattern: re.Pattern[str], wanted: str) -> str:
        self.space()
        found = pattern.match(self.text, self.at)
        if not found:
            self.fail(f"expected {wanted}")
        self.at = found.end()
        return found.group()

    def end(self) -> None:
        self.space()
        if self.at < len(self.text):
            self.fail("unexpected text")

    def fail(self, why: str, at: int | None = None) -> NoReturn:
        where = self.at if at is None else at
        marked = f"{self.text[:where]}➤{self.text[where:]}"
        raise NotationError(f"{why}, at character {where + 1} of {marked!r}")


def _left_side(scanner: _Scanner) -> tuple[str, tuple[ArrayText, ...], tuple[str, ...]]:
    start = scanner.at
    name = scanner.match(_NAME, "an array or a function")
    if scanner.take("("):
        return name, *_arguments(scanner)
    scanner.at = start
    operands = [_array(scanner)]
    op = ""
    while True:
        mark = next((m for m in ("*", "·", "+") if scanner.peek(m)), None)
        if mark is None:
            return op, tuple(operands), ()
        plain = "*" if mark == "·" else mark
        if op and op != plain:
            scanner.fail("one line holds one operation")
        op = plain
        scanner.take(mark)
        operands.append(_array(scanner))


def _arguments(scanner: _Scanner) -> tuple[tuple[ArrayText, ...], tuple[str, ...]]:
    operands = [_array(scanner)]
    over: list[str] = []
    while scanner.take(","):
        operands.append(_array(scanner))
    if scanner.take(";"):
        over.append(scanner.match(_DIM, "a dim"))
        while scanner.take(","):
            over.append(scanner.match(_DIM, "a dim"))
    if not scanner.take(")"):
        scanner.fail("expected ')'")
    return tuple(operands), tuple(over)


def _array(scanner: _Scanner) -> ArrayText:
    name = scanner.match(_NAME, "an array's name")
    kind = _dtype(scanner) if scanner.take(":") else None
    if not scanner.take("["):
        scanner.fail(f"expected '[' and the dims of {name}")
    seen: set[str] = set()
    dims: list[DimText] = []
    while not scanner.take("]"):
        if dims and not scanner.take(","):
            scanner.fail(f"expected ',' or ']' in {name}")
        dims.append(_dim(scanner, name, seen))
    _no_repeats(scanner, name, dims)
    unreduced = _unreduced(scanner, name, seen) if scanner.peek("{") else ()
    return ArrayText(name, tuple(dims), kind, unreduced)


def _no_repeats(scanner: _Scanner, name: str, dims: list[DimText]) -> None:
    names = [dim.name for dim in dims]
    for dim in names:
        if names.count(dim) > 1:
            scanner.fail(f"dim {dim} occurs twice in {name}")


def _dtype(scanner: _Scanner) -> DType:
    scanner.space()
    start = scanner.at
    word = scanner.match(_AXIS, "a dtype")
    try:
        return dtype(word)
    except NotationError as error:
        scanner.fail(str(error), start)


def _dim(scanner: _Scanner, array: str, seen: set[str]) -> DimText:
    word = scanner.match(_DIM, f"a dim of {array}")
    if word.endswith("_") and scanner.peek("{"):
        return DimText(word[:-1], _braced(scanner, array, seen))
    head, _, tail = word.rpartition("_")
    if not head or not _CAPITALS.fullmatch(tail):
        return DimText(word)
    start = scanner.at - len(tail)
    for offset, letter in enumerate(tail):
        _claim(scanner, letter, array, seen, start + offset)
    return DimText(head, tuple(tail))


def _braced(scanner: _Scanner, array: str, seen: set[str]) -> tuple[str, ...]:
    scanner.take("{")
    axes: list[str] = []
    while not scanner.take("}"):
        if axes and not scanner.take(","):
            scanner.fail("expected ',' or '}' among the mesh axes")
        scanner.space()
        start = scanner.at
        word = scanner.match(_AXIS, "a mesh axis")
        _claim(scanner, word, array, seen, start)
        axes.append(word)
    return tuple(axes)


def _unreduced(scanner: _Scanner, array: str, seen: set[str]) -> tuple[str, ...]:
    scanner.take("{")
    if not scanner.take("U_"):
        scanner.fail("expected 'U_' and the mesh axes of the partial sums")
    if scanner.peek("{"):
        axes = _braced(scanner, array, seen)
    else:
        start = scanner.at
        axes = tuple(scanner.match(_CAPITALS, "mesh axes"))
        for offset, letter in enumerate(axes):
            _claim(scanner, letter, array, seen, start + offset)
    if not scanner.take("}"):
        scanner.fail("expected '}'")
    return axes


def _claim(scanner: _Scanner, axis: str, array: str, seen: set[str], at: int) -> None:
    if axis in seen:
        scanner.fail(f"mesh axis {axis} is used twice in {array}", at)
    seen.add(axis)
