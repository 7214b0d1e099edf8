"""One product under shardings: the textbook's four cases, with costs of the product itself."""

from __future__ import annotations

import pytest
from sympy import Expr, Rational, Symbol

from symscale.algebra.errors import NotationError, ProgramError
from symscale.algebra.symbols import (
    M_X,
    M_Y,
    B,
    C,
    C_f32,
    C_int8,
    D,
    F,
    K,
    W_hbm,
    W_ici,
    X,
    Y,
    symbol,
)
from symscale.programs.einsum import einsum
from tests.algebra.equality import assert_same

I, J = symbol("I"), symbol("J")

Moves = list[tuple[str, str, Expr]]

CASES: dict[str, tuple[str, Moves]] = {
    "1: nothing contracted is sharded": ("A[I_X, J] * W[J, K_Y] -> C[I_X, K_Y]", []),
    "1: a result wanted whole": (
        "A[I_X, J] * W[J, K] -> C[I, K]",
        [("AllGather_X", "C", 2 * I * K)],
    ),
    "2: one operand": (
        "A[I, J_X] * W[J, K] -> C[I, K]",
        [("AllGather_X", "A", 2 * I * J)],
    ),
    "2: the other operand": (
        "A[I_Y, J] * W[J_X, K] -> C[I_Y, K]",
        [("AllGather_X", "W", 2 * J * K)],
    ),
    "2: part of a dim's axes": (
        "A[I, J_XY] * W[J_X, K] -> C[I, K]",
        [("AllGather_Y", "A", 2 * I * J / X), ("AllReduce_X", "C", 4 * I * K)],
    ),
    "3: both, result whole": (
        "A[I, J_X] * W[J_X, K] -> C[I, K]",
        [("AllReduce_X", "C", 4 * I * K)],
    ),
    "3: both, result sharded": (
        "A[I, J_X] * W[J_X, K] -> C[I, K_X]",
        [("ReduceScatter_X", "C", 2 * I * K)],
    ),
    "3: both, beside another axis": (
        "A[I_Y, J_X] * W[J_X, K] -> C[I_Y, K_X]",
        [("ReduceScatter_X", "C", 2 * I * K / Y)],
    ),
    "3: both, over two axes": (
        "A[I, J_XY] * W[J_XY, K] -> C[I_X, K]",
        [("ReduceScatter_X", "C", 2 * I * K), ("AllReduce_Y", "C", 4 * I * K / X)],
    ),
    "3: two axes into two dims": (
        "A[I, J_XY] * W[J_XY, K] -> C[I_X, K_Y]",
        [("ReduceScatter_X", "C", 2 * I * K), ("ReduceScatter_Y", "C", 2 * I * K / X)],
    ),
    "4: gather the left": (
        "A[I_X, J] * W[J, K_X] -> C[I, K_X]",
        [("AllGather_X", "A", 2 * I * J)],
    ),
    "4: gather the right": (
        "A[I_X, J] * W[J, K_X] -> C[I_X, K]",
        [("AllGather_X", "W", 2 * J * K)],
    ),
    "a finer result is sliced for free": ("A[I, J] * W[J, K] -> C[I_X, K_Y]", []),
}


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    text, wanted = CASES[name]
    made = einsum(text)
    assert [(m.name, m.before.name) for m in made.comms] == [(n, a) for n, a, _ in wanted]
    for move, (_, _, volume) in zip(made.comms, wanted, strict=True):
        assert_same(move.volume, volume)


def test_flops_bytes_and_intensity() -> None:
    mm = einsum("A[B, D] · W[D, F] -> Out[B, F]")
    assert_same(mm.flops, 2 * B * D * F)
    assert_same(mm.bytes, 2 * B * D + 2 * D * F + 2 * B * F)
    assert_same(mm.intensity, B * D * F / (B * D + D * F + B * F))
    assert_same(mm.time.math, 2 * B * D * F / C)
    assert_same(mm.time.hbm, (2 * B * D + 2 * D * F + 2 * B * F) / W_hbm)
    assert_same(mm.time.upper, mm.time.math + mm.time.hbm)


def test_batching_dims_count_once() -> None:
    """The book's example: batching I and J, free K and L, contracted M."""
    made = einsum("A[I, J, K, M] * W[I, J, M, L] -> C[I, J, K, L]", sizes={"L": 5, "M": 7})
    assert_same(made.flops, 2 * I * J * K * 5 * 7)


@pytest.mark.parametrize(
    ("text", "rate", "size"),
    [
        ("A[B, D] * W[D, F] -> O[B, F]", C, 2),
        ("A[B, D] * W: int8[D, F] -> O[B, F]", C, 1),
        ("A: int8[B, D] * W: int8[D, F] -> O[B, F]", C_int8, 1),
        ("A: int8[B, D] * W: int4[D, F] -> O[B, F]", C_int8, Rational(1, 2)),
        ("A[B, D] * W: f32[D, F] -> O[B, F]", C_f32, 4),
    ],
)
def test_types_set_rate_and_bytes(text: str, rate: Symbol, size: Expr | int) -> None:
    made = einsum(text)
    assert_same(made.time.math, 2 * B * D * F / rate)
    assert_same(made.bytes.coeff(D * F), size)


def test_a_product_can_be_told_its_type() -> None:
    made = einsum("A[B, D] * W: int8[D, F] -> O[B, F]", math="int8")
    assert_same(made.time.math, 2 * B * D * F / C_int8)
    with pytest.raises(NotationError, match=r"unknown dtype 'bf8'.*did you mean fp8 or bf16"):
        einsum("A[B, D] * W[D, F] -> O[B, F]", math="bf8")


def test_sharded_times() -> None:
    made = einsum("A[B_X, D_Y] * W[D_Y, F] -> O[B_X, F]")
    assert_same(made.time.comms, 4 * B * F / (X * M_Y * W_ici))
    both = einsum("A[B, D_XY] * W[D_XY, F] -> O[B, F]")
    assert dict(both.volume()) == {(X, Y): 4 * B * F}
    assert_same(both.time.comms, 4 * B * F / ((M_X + M_Y) * W_ici))


def test_a_product_shows_itself() -> None:
    mm = einsum("A[B, D] * W[D, F] -> Out[B, F]")
    assert repr(mm).startswith("einsum('A[B, D] · W[D, F] -> Out[B, F]'): 2*B*D*F FLOPs")
    assert mm._repr_latex_().startswith("$")
    assert mm.to_dict()["flops"] == "2*B*D*F"


def test_only_products() -> None:
    with pytest.raises(ProgramError, match=r"einsum takes a product .* not 'A\[B\] \+ "):
        einsum("A[B] + W[B] -> O[B]")
