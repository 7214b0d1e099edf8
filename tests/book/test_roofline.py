"""Chapters 1 and 2 of the book: intensities, critical batches, chips."""

from __future__ import annotations

from sympy import limit, oo

from symscale import crossover, einsum, leading
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import B, C, C_int8, D, F, N, W_hbm, W_vmem
from symscale.programs.einsum import Product
from symscale.solve.answer import Crossover
from tests.book.truth import check, exact, given, number, same

INT8 = einsum("A: int8[B, D] * W: int8[D, F] -> Out: int8[B, F]")
FEW_ROWS = [C_int8 / (D * W_hbm), C_int8 / (F * W_hbm)]


def compute_bound(product: Product) -> Crossover:
    return crossover(product.time.math, product.time.hbm, B)


def test_dot_product() -> None:
    # 1.text.c: the book's 2N - 1 FLOPs and our 2N (a multiply-add is two, the first adds to zero)
    # are one apart, so the intensities meet where N is large.
    dot = einsum("x[N] * y[N] -> z[]")
    assert dot.flops - (2 * N - 1) == 1
    assert dot.bytes == 4 * N + 2
    assert float(limit(dot.intensity, N, oo)) == exact("1.text.c")


def test_matmul_intensity() -> None:
    # 1.text.d
    mm = einsum("A[B, D] * W[D, F] -> Out[B, F]")
    assert same(mm.intensity, B * D * F / (B * D + D * F + B * F))
    assert leading(mm.intensity, small=[B / D, B / F]).term == B


def test_int8_critical_batch() -> None:
    # 1.1.3
    assert leading(INT8.intensity, small=[B / D, B / F]).term == 2 * B
    wall = leading(compute_bound(INT8).threshold, small=FEW_ROWS).term
    for edition in ("old", "new"):
        values = {C_int8: number("1.1.3", "C"), W_hbm: number("1.1.3", f"W_{edition}")}
        check(wall, values, "1.1.3", f"B_{edition}")
    old = {C_int8: number("1.1.3", "C"), W_hbm: number("1.1.3", "W_old")}
    check(C_int8 / W_hbm, old, "1.1.3", "intensity_old")


def test_int8_times() -> None:
    # 1.1.4
    math, hbm = 2 * B * D * F / C_int8, (B * D + D * F + B * F) / W_hbm
    assert same(INT8.time.math, math)
    assert same(INT8.time.hbm, hbm)
    assert isinstance(INT8.time.lower, Maximum)
    assert same(INT8.time.upper, math + hbm)
    numbers = {B: 64, D: 4096, F: 16384, C_int8: number("1.1.4", "C"), W_hbm: number("1.1.4", "W")}
    assert INT8.time.lower.subs(numbers) == max(math.subs(numbers), hbm.subs(numbers))


def test_int8_weights_in_bf16_arithmetic() -> None:
    # 1.2
    mixed = einsum("A: bf16[B, D] * W: int8[D, F] -> Out: bf16[B, F]")
    small = [C / (D * W_hbm), C / (F * W_hbm)]
    wall = leading(compute_bound(mixed).threshold, small=small).term
    check(wall, {C: number("1.2", "C"), W_hbm: number("1.2", "W")}, "1.2")


def test_a_matrix_for_every_row() -> None:
    # 1.4: the batch cancels, so that no batch makes it compute-bound.
    product = einsum("A: int8[B, D] * W: int8[B, D, F] -> Out: int8[B, F]")
    assert not product.intensity.has(B)
    assert exact("1.4") == "2 (limit)"
    assert leading(product.intensity, small=[1 / D, 1 / F]).term == 2


def test_h100_critical_batch() -> None:
    # 1.5: half of the sparse rate is the dense one.
    wall = leading(
        compute_bound(einsum("A[B, D] * W[D, F] -> Out[B, F]")).threshold,
        small=[C / (D * W_hbm), C / (F * W_hbm)],
    ).term
    check(wall, {C: number("1.5", "C_sparse") / 2, W_hbm: number("1.5", "W")}, "1.5")


def test_matrix_unit() -> None:
    # 2.text.a
    rows, edge = (int(number("2.text.a", name)) for name in ("rows", "edge"))
    one = einsum("A[r, c] * W[c, w] -> Out[r, w]", sizes={"r": rows, "c": edge, "w": edge})
    rate = one.flops / number("2.text.a", "cycles") * number("2.text.a", "clock")
    check(rate, {}, "2.text.a")


def test_int8_exact_threshold() -> None:
    # 2.4.1, and 2.4.2 with the weights in on-chip memory.
    wall = compute_bound(INT8).threshold
    for entry, rate in (("2.4.1", W_hbm), ("2.4.2", W_vmem)):
        for edition in ("old", "new"):
            values = given(entry, "D", "F")
            values |= {C_int8: number(entry, "C"), rate: number(entry, f"W_{edition}")}
            check(wall.subs(W_hbm, rate), values, entry, edition)
