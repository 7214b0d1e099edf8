"""Causal balance: how much more the hottest rank of a cut sequence computes than the mean.

Under a causal mask a query meets the keys up to its own, so the ranks that hold the end of a
sequence work more than those that hold its beginning. In which order tokens are dealt out decides:

- ``contiguous``: rank r holds the r-th of so many blocks;
- ``zigzag``: twice as many blocks; rank r holds the r-th from the front and the r-th from the back;
- ``striped``: tokens are dealt out one by one.

It stretches the arithmetic of attention's scores, and nothing else: projections, MLP and what is
moved are the same for all ranks. It holds where queries stay cut (``cp`` and ``ring``), for a full
causal mask; ``ulysses`` cuts heads, and a score that is counted in full (no mask) is balanced.

Sources: Llama 3, https://arxiv.org/abs/2407.21783, section 3.3.2, and zigzag in Megatron-Core (2 CP
chunks, a pair a rank); Striped Attention, https://arxiv.org/abs/2311.09431.
"""

from __future__ import annotations

from typing import Literal, get_args

from sympy import Dummy, Expr, Integer, Poly, S, cancel, summation

from symscale.algebra.errors import StrategyError, near
from symscale.algebra.symbols import T
from symscale.models.scores import Causal, mean_keys

Order = Literal["contiguous", "zigzag", "striped"]


def causal_balance(
    ways: Expr | int, order: Order = "contiguous", length: Expr | int | None = None
) -> Expr:
    """Pairs of query and key on the hottest rank over their mean.

    Args:
        ways: over how many ranks a sequence is cut.
        order: how tokens are dealt out (see the module).
        length: the sequence's length, for the exact number of pairs (each query meets itself);
            without one, the area under the mask: what a long sequence comes to.

    Raises:
        StrategyError: for another order, ways that are no whole number above zero, or a length
            that does not divide into the order's blocks.

    >>> from symscale.algebra.symbols import Z
    >>> causal_balance(Z), causal_balance(Z, "zigzag"), causal_balance(4)
    ((2*Z - 1)/Z, 1, 7/4)
    >>> causal_balance(4, "striped"), causal_balance(4, "striped", length=64)
    (1, 68/65)
    """
    count = _whole(ways)
    size = T if length is None else S(length)
    _check(order, count, size)
    hottest, every = _pairs(order, count, size, count - 1), summation(_MET, (_AT, 0, size - 1))
    exact = cancel(hottest * count / every)
    if length is not None:
        return exact
    above, below = (Poly(side, T) for side in exact.as_numer_denom())
    assert above.degree() == below.degree()
    return cancel(above.LC() / below.LC())


def hottest_keys(
    ways: Expr | int,
    order: Order = "contiguous",
    causal: Causal = "half",
    length: Expr | int = T,
) -> Expr:
    """The mean number of keys that a query on the hottest rank meets.

    What :func:`mean_keys` is for all queries; a rank's scores take this over T times the time that
    they take counted in full.

    >>> from symscale.algebra.symbols import Z
    >>> hottest_keys(Z), hottest_keys(Z, "zigzag"), hottest_keys(Z, causal=False)
    ((2*T*Z - T)/(2*Z), T/2, T)
    """
    keys = mean_keys(length, causal=causal)
    if causal is False:
        return keys
    return cancel(keys * causal_balance(ways, order, length if causal == "exact" else None))


#: A query's position, and the keys that it meets.
_AT = Dummy("i", integer=True)
_MET = _AT + 1


def _pairs(order: Order, ways: Expr, length: Expr, rank: Expr) -> Expr:
    """The pairs of a rank, summed over its queries.

    Later tokens meet more keys, so where ranks differ the last one is hottest.
    """
    if order == "striped":
        return summation(_MET.subs(_AT, ways * _AT + rank), (_AT, 0, length / ways - 1))
    blocks = ways if order == "contiguous" else 2 * ways
    held = (rank,) if order == "contiguous" else (rank, blocks - 1 - rank)
    size = length / blocks
    return S.Zero + sum(
        (summation(_MET, (_AT, block * size, (block + 1) * size - 1)) for block in held), S.Zero
    )


def _whole(ways: Expr | int) -> Expr:
    count = S(ways)
    if count.is_number and not (count.is_Integer and count > 0):
        raise StrategyError(f"ways = {ways}: a whole number above zero is wanted")
    return count


def _check(order: str, ways: Expr, length: Expr) -> None:
    orders = get_args(Order)
    if order not in orders:
        raise StrategyError(
            f"unknown order {order!r}; orders: {', '.join(orders)}{near(order, orders)}"
        )
    blocks = (2 if order == "zigzag" else Integer(1)) * ways
    if blocks.is_Integer and length.is_number and not (length / blocks).is_Integer:
        raise StrategyError(
            f"{order} over {ways} ranks cuts a sequence into {blocks} blocks, which do not divide "
            f"T = {length}"
        )
