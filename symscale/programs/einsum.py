"""A single product, as one meets it in a REPL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sympy import Expr, cancel

from symscale.algebra.errors import ProgramError
from symscale.algebra.symbols import to_latex
from symscale.algebra.time import AxisKey, Time
from symscale.arrays.dtype import DType, dtype
from symscale.arrays.notation import ArrayText, StatementText, parse_statement
from symscale.programs.ops import Einsum, describe
from symscale.programs.phase import Phase
from symscale.programs.program import Program, program


@dataclass(frozen=True)
class Product:
    """A product of two arrays with its costs on one device.

    ``flops`` are matrix FLOPs, ``bytes`` what HBM reads and writes, ``intensity`` FLOPs a byte,
    ``time`` the roofline times (``time.math``, ``time.hbm``, ``time.lower``, ``time.upper``), and
    ``volume()`` the bytes that sharded operands need moved.
    """

    op: Einsum
    forward: Phase

    @property
    def flops(self) -> Expr:
        """Matrix FLOPs: twice the product of all distinct dims on a device."""
        return self.forward.flops

    @property
    def bytes(self) -> Expr:
        """Bytes of operands and result, each moved once."""
        return self.forward.hbm_bytes

    @property
    def intensity(self) -> Expr:
        """Arithmetic intensity, FLOPs a byte."""
        return cancel(self.flops / self.bytes)

    @property
    def time(self) -> Time:
        """Roofline times in seconds."""
        return self.forward.time

    def volume(self) -> Mapping[AxisKey, Expr]:
        """Bytes of communication by mesh axis."""
        return self.forward.volume()

    @property
    def comms(self) -> tuple[Any, ...]:
        """The collectives that the shardings need."""
        return self.forward.collectives

    def __str__(self) -> str:
        return str(self.forward)

    def __repr__(self) -> str:
        return (
            f"einsum({describe(self.op)!r}): {self.flops} FLOPs, {self.bytes} bytes, "
            f"{self.intensity} FLOPs a byte"
        )

    def _repr_latex_(self) -> str:
        return (
            rf"$\mathrm{{FLOPs}} = {to_latex(self.flops)},\; \mathrm{{bytes}} = "
            rf"{to_latex(self.bytes)},\; \mathrm{{intensity}} = {to_latex(self.intensity)}$"
        )

    def to_dict(self) -> dict[str, Any]:
        """The product and its costs as plain text."""
        return {
            "einsum": describe(self.op),
            "flops": str(self.flops),
            "bytes": str(self.bytes),
            "intensity": str(self.intensity),
            "time": self.time.to_dict(),
        }


def einsum(
    text: str, *, math: str | DType | None = None, sizes: Mapping[str, Expr | int] | None = None
) -> Product:
    """A product of two named-axis arrays: ``"A[B, D] * W[D, F] -> Out[B, F]"``.

    Dims of both operands that the result lacks are summed; dims of all three are batching. Arrays
    are bf16 unless said (``W: int8[D, F]``); the product runs in the wider of its operands' types
    unless ``math`` names another. Shardings (``A[B_X, D]``) are partitioned.

    Raises:
        NotationError: pointing at the character.
        ProgramError: for other than two operands, or dims that do not agree.

    >>> mm = einsum("A[B, D] * W[D, F] -> Out[B, F]")
    >>> mm.flops, mm.intensity
    (2*B*D*F, B*D*F/(B*D + B*F + D*F))
    """
    parsed = parse_statement(text)
    if parsed.op != "*" or len(parsed.operands) != 2:
        raise ProgramError(f"einsum takes a product A[...] * B[...] -> C[...] of two, not {text!r}")
    texts = (*parsed.operands, parsed.result)
    plain = program(str(_unsharded(parsed)), sizes=sizes)
    op = plain.ops[0]
    assert isinstance(op, Einsum)
    if math is not None:
        op = replace(op, math=dtype(math))
        plain = Program((op,), plain.inputs)
    sharded = plain.shard(*dict.fromkeys(str(part) for part in texts))
    return Product(op, sharded.forward)


def _unsharded(parsed: StatementText) -> str:
    left, right = (_bare(part) for part in parsed.operands)
    return f"{left} * {right} -> {_bare(parsed.result)}"


def _bare(part: ArrayText) -> ArrayText:
    dims = tuple(replace(dim, axes=()) for dim in part.dims)
    return replace(part, dims=dims, unreduced=())
