"""Lines of a program that carry their shardings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from symscale.algebra.errors import ProgramError
from symscale.arrays.notation import ArrayText, parse_statement


def split_lines(lines: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A program's lines without shardings, and the shardings they carried.

    Where any array of the lines is sharded, all are taken to lie as they are written; where none
    is, no shardings come out.

    Raises:
        NotationError: pointing at the character.
        ProgramError: when two lines shard an array differently.

    >>> split_lines(["A[I_X, J] * B[J, K] -> C[I_X, K]"])
    (('A[I, J] * B[J, K] -> C[I, K]',), ('A[I_X, J]', 'B[J, K]', 'C[I_X, K]'))
    >>> split_lines(["relu(A[I]) -> C[I]"])
    (('relu(A[I]) -> C[I]',), ())
    """
    plain: list[str] = []
    shards: dict[str, str] = {}
    sharded = False
    for line in lines:
        parsed = parse_statement(line)
        parts = (*parsed.operands, parsed.result)
        for part in parts:
            text = str(replace(part, dtype=None))
            sharded |= text != str(replace(_bare(part), dtype=None))
            if shards.setdefault(part.name, text) != text:
                raise ProgramError(f"{part.name} lies as {shards[part.name]} and as {text}")
        operands = [str(_bare(part)) for part in parsed.operands]
        over = f"; {', '.join(parsed.over)}" if parsed.over else ""
        left = (
            f" {parsed.op} ".join(operands)
            if parsed.op in ("*", "+", "")
            else f"{parsed.op}({', '.join(operands)}{over})"
        )
        plain.append(f"{left} -> {_bare(parsed.result)}")
    return tuple(plain), tuple(shards.values()) if sharded else ()


def _bare(part: ArrayText) -> ArrayText:
    return replace(part, dims=tuple(replace(d, axes=()) for d in part.dims), unreduced=())
