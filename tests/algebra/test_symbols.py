"""The symbol table, derivations and the textbook's network."""

from __future__ import annotations

import pytest
from sympy import Symbol

from symscale.algebra import symbols
from symscale.algebra.derivation import Derivation, Step
from symscale.algebra.errors import SymbolError, near
from symscale.algebra.links import IDEAL
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import M_X, M_Y, B, C, D, W_ici, X, Y, axis, info, links, symbol
from tests.algebra.equality import assert_same


@pytest.mark.parametrize("name", symbols.EXPORTED)
def test_every_exported_symbol_has_meaning_and_unit(name: str) -> None:
    made = getattr(symbols, name)
    entry = info(name)
    assert made is symbol(name)
    assert made.is_positive
    assert entry.meaning
    assert entry.unit
    assert bool(made.is_integer) == (entry.kind in ("dim", "axis", "links", "count"))


def test_symbols_are_made_once() -> None:
    assert symbol("d_model") is symbol("d_model")
    assert axis("X") is X
    assert links("X") is M_X
    assert links("data") is links("data")
    assert info(links("data")).meaning == "physical axes that mesh axis data is laid over"


def test_strangers_are_refused() -> None:
    with pytest.raises(SymbolError, match="no symbol 'nothing' in the table"):
        info("nothing")
    with pytest.raises(SymbolError, match=r"'D' is not symscale's symbol D .* import D"):
        symbols.check_known(B + Symbol("D"))


def test_describing(capsys: pytest.CaptureFixture[str]) -> None:
    symbols.describe()
    printed = capsys.readouterr().out
    for name in symbols.EXPORTED:
        assert f"\n{name} " in f"\n{printed}"


def test_near_names() -> None:
    assert near("llama-3-80b", ["llama-3-8b", "gpt-2"]) == "; did you mean llama-3-8b?"
    assert near("zzz", ["llama-3-8b"]) == ""


def test_derivations() -> None:
    first = Derivation().then("math", B / C, "FLOPs over rate")
    both = first + Derivation((Step("done", None, ""),))
    assert str(both) == "1. math: B/C    (FLOPs over rate)\n2. done"
    assert len(both) == len(list(both)) == 2
    assert both.to_dict()["steps"][0]["latex"] == r"\frac{B}{C}"
    assert both._repr_latex_().startswith("$$")


def test_the_textbooks_network() -> None:
    """Bytes over bandwidth; an AllToAll over X devices moves X/4 of its local bytes.

    Over several mesh axes, the one with the longest rings decides.
    """
    for kind in ("AllGather", "ReduceScatter", "AllReduce", "CollectivePermute"):
        assert_same(IDEAL.time(kind, B * D, ["X"]), B * D / (M_X * W_ici))
    assert_same(IDEAL.time("AllGather", B * D, ["X", "Y"]), B * D / ((M_X + M_Y) * W_ici))
    assert_same(IDEAL.time("AllToAll", B * D, ["X"]), B * D * X / (4 * M_X * W_ici))
    slowest = Maximum(X / M_X, Y / M_Y)
    assert_same(IDEAL.time("AllToAll", B, ["X", "Y"]), B * slowest / (4 * W_ici))
    assert IDEAL.resource(["X", "Y"]) == "XY"
    assert IDEAL.resource(["data", "Y"]) == "data,Y"
