"""Causal balance against pairs counted one by one."""

from __future__ import annotations

from fractions import Fraction

import pytest
from sympy import Rational, cancel, limit

from symscale.algebra.errors import StrategyError
from symscale.algebra.symbols import T, Z
from symscale.models.scores import mean_keys
from symscale.parallel.balance import Order, causal_balance, hottest_keys

ORDERS: tuple[Order, ...] = ("contiguous", "zigzag", "striped")


def rank_of(token: int, ways: int, length: int, order: Order) -> int:
    if order == "striped":
        return token % ways
    if order == "contiguous":
        return token * ways // length
    block = token * 2 * ways // length
    return min(block, 2 * ways - 1 - block)


def counted(ways: int, length: int, order: Order) -> list[int]:
    """Pairs on each rank: every query with every key up to its own."""
    pairs = [0] * ways
    for query in range(length):
        for _ in range(query + 1):
            pairs[rank_of(query, ways, length, order)] += 1
    return pairs


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("ways", "length"), [(1, 6), (2, 8), (3, 12), (4, 24), (5, 40), (8, 48)])
def test_pairs_counted_one_by_one(order: Order, ways: int, length: int) -> None:
    pairs = counted(ways, length, order)
    wanted = Fraction(max(pairs) * ways, sum(pairs))
    assert causal_balance(ways, order, length) == Rational(wanted.numerator, wanted.denominator)
    keys = Fraction(max(pairs) * ways, length)
    assert hottest_keys(ways, order, "exact", length) == Rational(keys.numerator, keys.denominator)


@pytest.mark.parametrize("order", ORDERS)
def test_closed_forms(order: Order) -> None:
    wanted = {"contiguous": 2 - 1 / Z, "zigzag": 1, "striped": 1}[order]
    assert cancel(causal_balance(Z, order) - wanted) == 0
    exact = causal_balance(Z, order, T)
    for ways in (1, 2, 7, 64):
        assert limit(exact.subs(Z, ways), T, "oo") == causal_balance(ways, order)
        assert exact.subs({Z: ways, T: 128 * ways}) == causal_balance(ways, order, 128 * ways)


def test_a_ring_that_keeps_step_waits_for_the_hottest_all_the_same() -> None:
    """Step by step, the slowest device of a ring over contiguous blocks: the same 2 - 1/ways."""
    for ways, size in ((2, 4), (4, 8), (8, 2)):
        area = Fraction(size * size)
        steps = [area / 2] + [area] * (ways - 1)
        mean = (ways * size) ** 2 / Fraction(2) / ways
        assert causal_balance(ways) == Rational(str(sum(steps) / mean))


def test_hottest_keys_are_the_mean_ones_balanced() -> None:
    assert cancel(hottest_keys(Z) - mean_keys(T, causal="half") * (2 - 1 / Z)) == 0
    assert hottest_keys(Z, "zigzag", "exact") == mean_keys(T, causal="exact")
    assert hottest_keys(16, causal=False) == T


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, "zigzack"), "unknown order 'zigzack'.*did you mean zigzag"),
        ((0,), "ways = 0: a whole number above zero"),
        ((Rational(3, 2),), "ways = 3/2"),
        ((6, "zigzag", 100), "zigzag over 6 ranks cuts a sequence into 12 blocks.*T = 100"),
        ((3, "striped", 100), "striped over 3 ranks"),
    ],
)
def test_errors(arguments: tuple, message: str) -> None:
    with pytest.raises(StrategyError, match=message):
        causal_balance(*arguments)
