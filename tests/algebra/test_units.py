"""Amounts add only when they are of one dimension, scope and span."""

from __future__ import annotations

import pytest

from symscale.algebra.errors import UnitError
from symscale.algebra.symbols import B, C, D
from symscale.algebra.units import BYTE, FLOP, ONE, SECOND, TOKEN, Dimension, Quantity, Scope, Span

WORK = Quantity(2 * B, FLOP)


def test_adding_likes() -> None:
    assert (WORK + Quantity(D, FLOP)).expr == 2 * B + D
    assert (3 * WORK).expr == (WORK * 3).expr == 6 * B


REFUSED = {
    "cannot add byte to FLOP": Quantity(B, BYTE),
    "cannot add s to FLOP": Quantity(B, SECOND),
    "cannot add FLOP/s to FLOP": Quantity(C, FLOP / SECOND),
    "cannot add an amount total to one per device": Quantity(B, FLOP, Scope.TOTAL),
    "cannot add an amount per layer to one per op": Quantity(B, FLOP, span=Span.LAYER),
    "cannot add an amount per step to one per op": Quantity(B, FLOP, span=Span.STEP),
}


@pytest.mark.parametrize("message", REFUSED)
def test_adding_unlikes(message: str) -> None:
    with pytest.raises(UnitError) as caught:
        WORK + REFUSED[message]
    assert str(caught.value) == message


def test_layers_and_steps_do_not_add() -> None:
    layer, step = Quantity(B, BYTE, span=Span.LAYER), Quantity(B, BYTE, span=Span.STEP)
    with pytest.raises(UnitError, match="cannot add an amount per step to one per layer"):
        layer + step


def test_dimensions_multiply() -> None:
    assert FLOP / SECOND * SECOND == FLOP
    assert (WORK / Quantity(C, FLOP / SECOND)).dimension == SECOND
    assert str(Dimension(flop=1, byte=-1)) == "FLOP/byte"
    assert str(FLOP * FLOP / SECOND / TOKEN) == "FLOP^2/s/token"
    assert str(ONE) == "1"
    assert str(ONE / BYTE) == "1/byte"
    assert str(WORK) == "2*B FLOP, per device, per op"
