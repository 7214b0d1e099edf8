"""The catalogue's interface: list, values, words for wrong questions, steps, the command line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import pytest

from symscale import chip, strategy
from symscale.algebra.errors import SymscaleError
from symscale.algebra.symbols import M_Y, C, F, W_hbm, Y, n, symbol, to_latex
from symscale.cli import main
from symscale.report.mathml import content
from symscale.studies.crossovers import ENTRIES, crossovers, named_crossover
from symscale.studies.evaluated import evaluated_crossover


@pytest.mark.parametrize("name", ENTRIES)
def test_catalogue(name: str) -> None:
    found = named_crossover(name)
    plain = found.to_dict()
    assert plain["name"] == name
    assert plain["question"].endswith("?")
    assert plain["steps"]
    assert set(plain["needs"]) == {s.name for s in found.expr.free_symbols}
    assert plain["unit"]
    assert found._repr_latex_().startswith("$")
    assert str(found.expr) in repr(found)
    assert any(str(step.statement) for step in found.derivation)


def test_the_list() -> None:
    table = crossovers()
    assert table.columns == ("name", "about", "question")
    assert len(table) == len(ENTRIES) >= 45


def test_values_of_the_catalogue() -> None:
    for name, wanted in {
        "critical-batch": 4.59e14 / chip("v5p")["W_hbm"],
        "compute-bound": 4 * 2550**2 / (2 * 28672),
        "compute-bound-overlapped": 2550**2 / (2 * 28672),
        "best-split": math.sqrt(2 * 2**22 * 8960 / 28672),
        "attention-mlp": 3 * 8192 * 28672 / (2 * 64 * 128),
        "attention-projections": 8192 * (1 + 8 / 64),
        "attention-layer": 3 * 8192 * 28672 / (2 * 64 * 128) + 8192 * (1 + 8 / 64),
    }.items():
        found = evaluated_crossover(name, model="llama-3-70b", chip="v5p", chips=8960, batch=2**22)
        assert found.value == pytest.approx(float(wanted), rel=1e-12), name
    assert evaluated_crossover("compute-bound", chip="v5p").value is None


def test_chips_with_another_network() -> None:
    """On an H100 the links are its NVLink egress: F W/C ways of tensor parallelism."""
    found = evaluated_crossover("tensor-limit", chip="h100", model="llama-3-70b")
    rates = chip("h100")
    assert found.value == pytest.approx(float(28672 * rates[symbol("W_nvlink")] / rates[C]))


def test_strategies_with_several_axes_in_a_role() -> None:
    found = named_crossover("compute-bound", strategy=strategy("fsdp+tp", data="XZ", tensor="Y"))
    assert found.expr.free_symbols >= {C, F, M_Y}
    assert found.quantity == "B/n"


def test_numbers_by_name() -> None:
    found = evaluated_crossover(
        "replicas-or-tensor", chip="v5e", model="llama-3-70b", numbers={"Y": 8, "M_Y": 1}
    )
    rates = chip("v5e")
    wanted = 28672 * rates[symbol("W_ici")] / rates[W_hbm] * 7 / 8
    assert found.value == pytest.approx(float(wanted))
    assert found.to_dict()["value"] == found.value
    one = evaluated_crossover("replicas-or-tensor", numbers={"Y": 1})
    assert one.verdict == "always"
    assert Y in one.numbers
    assert n not in one.numbers


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: named_crossover("best-splt"), "'best-splt'; did you mean best-split"),
        (lambda: named_crossover("nothing"), "unknown crossover 'nothing'"),
        (lambda: named_crossover("best-split", strategy="fsdp"), "one role; nothing to split"),
        (
            lambda: evaluated_crossover("ici-or-hbm", numbers={"Q": 3}),
            "ici-or-hbm has no symbol 'Q'; it has B, F, M_Y, W_hbm, W_ici",
        ),
        (lambda: evaluated_crossover("ici-or-hbm", numbers={"F": -3}), "must be above zero"),
    ],
)
def test_errors(ask: Callable[[], object], message: str) -> None:
    with pytest.raises(SymscaleError, match=message):
        ask()


# --- derivations -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENTRIES)
def test_steps_are_phrases_with_mathematics_beside_them(name: str) -> None:
    """Statements hold no formulas: those are expressions, which every report typesets."""
    steps = named_crossover(name).derivation
    assert len(steps) >= 3
    for step in steps:
        assert not set("=<>*/^_{}\\") & set(step.statement), step.statement
        assert len(step.statement) < 90
    text = str(steps)
    assert text.splitlines()[0].startswith("1. ")
    assert steps._repr_latex_().startswith("$$\\begin{aligned}")


def test_steps_in_every_format() -> None:
    for name in ("mixed", "critical-batch", "pipeline-bubble", "2d-or-1d"):
        for step in named_crossover(name).derivation:
            if step.expr is not None:
                assert "<m" in content(to_latex(step.expr))


# --- the command line --------------------------------------------------------------------------


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = ["crossover", "ici-or-hbm", "--chip", "v5e", "--model", "llama-3-70b", "--json"]
    assert main([*wanted, "--batch", "64", "--set", "M_Y=1"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert {"symbol", "latex", "value", "unit", "verdict"} <= set(made)
    rates = chip("v5e")
    assert made["value"] == pytest.approx(float(28672 * rates[symbol("W_ici")] / rates[W_hbm] / 64))
    assert main(["crossover"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in ENTRIES)
    assert main(["crossover", "pipeline-bubble", "--set", "loss=0.05,p=16"]) == 0
    assert "m = 285 microbatches" in capsys.readouterr().out
    assert main(["crossover", "pipeline-bubble", "--set", "q=1"]) == 2
    assert "has no symbol 'q'; it has loss, p" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["crossover", "pipeline-bubble", "--set", "loss"])
    assert "write name=number" in capsys.readouterr().err
