"""Activation memory as Korthikanti et al. print it, from a layer with dropout and its shardings."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sympy import Expr, Integer, Rational, S, expand

from symscale.algebra.symbols import B, D, F, H, L, N, T, Y, axis
from symscale.parallel.schedules.lookup import schedule
from symscale.parallel.strategy import Strategy, strategy
from symscale.programs.program import Program, program
from symscale.studies.memory import Memory, layer_memory
from symscale.studies.saved import recomputed
from symscale.studies.share import Share
from tests.algebra.equality import assert_same

TRUTH = Path(__file__).parents[1] / "truth" / "papers_memory.json"
ROWS = {row["id"]: row for row in json.loads(TRUTH.read_text("utf-8"))["rows"]}

#: A layer of GPT-3 without biases: attention's scores are arrays like others, and dropout is a
#: product with a mask of one byte an element.
LINES = (
    "layernorm(In[B, D], g1[D], b1[D]; D) -> Xa[B, D]",
    "Xa[B, D] * Wq[D, N, H] -> Q[B, N, H]",
    "Xa[B, D] * Wk[D, N, H] -> Keys[B, N, H]",
    "Xa[B, D] * Wv[D, N, H] -> Vals[B, N, H]",
    "Q[B, N, H] -> Qs[b, T, N, H]",
    "Keys[B, N, H] -> Ks[b, S, N, H]",
    "Vals[B, N, H] -> Vs[b, S, N, H]",
    "Qs[b, T, N, H] * Ks[b, S, N, H] -> Scores[b, N, T, S]",
    "softmax(Scores[b, N, T, S]; S) -> Probs[b, N, T, S]",
    "mul(Probs[b, N, T, S], DropP: bool[b, N, T, S]) -> Pd[b, N, T, S]",
    "Pd[b, N, T, S] * Vs[b, S, N, H] -> Os[b, T, N, H]",
    "Os[b, T, N, H] -> O[B, N, H]",
    "O[B, N, H] * Wo[N, H, D] -> Att0[B, D]",
    "mul(Att0[B, D], DropA: bool[B, D]) -> Att[B, D]",
    "In[B, D] + Att[B, D] -> Mid[B, D]",
    "layernorm(Mid[B, D], g2[D], b2[D]; D) -> Xm[B, D]",
    "Xm[B, D] * Win[D, F] -> Up[B, F]",
    "gelu(Up[B, F]) -> Act[B, F]",
    "Act[B, F] * Wout[F, D] -> Mlp0[B, D]",
    "mul(Mlp0[B, D], DropM: bool[B, D]) -> Mlp[B, D]",
    "Mid[B, D] + Mlp[B, D] -> Out[B, D]",
)
MASKS = ("DropP", "DropA", "DropM")
LAYER: Program = program(*LINES, inputs=("In", *MASKS), sizes={"b": B / T, "S": T})

#: The paper's ways: strategy, policy. Sequence parallelism gathers anew for the backward pass.
WAYS = {
    "serial": ("dp", "none"),
    "tp": ("tpwhole", "none"),
    "tp_sel": ("tpwhole", "selective"),
    "tpsp": ("tp+sp", "none"),
    "tpsp_sel": ("tp+sp", "selective"),
    "full": ("dp", "block"),
}


def held(way: str, **options: Any) -> Memory:
    name, policy = WAYS[way]
    made: Strategy = strategy(name, **options)
    kind: Any = SimpleNamespace(program=LAYER, count=L)
    share = Share(kind, made.shard(LAYER, keep="none"), policy)  # type: ignore[arg-type]
    return layer_memory(share, made.techniques)


def activations(way: str) -> Expr:
    """Bytes of one layer on a device over those of a token's width; the paper's sbh."""
    found = held(way)["activations"].subs({F: 4 * D, H: D / N, axis("X"): 1})
    return expand(found / (B * D))


@pytest.mark.parametrize(
    ("way", "paper"),
    [
        ("serial", 34 + 5 * N * T / D),
        ("tp", 10 + 24 / Y + 5 * N * T / (D * Y)),
        ("tpsp", (34 + 5 * N * T / D) / Y),
        ("tp_sel", 10 + 24 / Y),
        ("tpsp_sel", 34 / Y),
        ("full", Integer(2)),
    ],
)
def test_bytes_of_a_layer(way: str, paper: Expr) -> None:
    """Table 2 of the paper, term by term."""
    assert_same(activations(way), paper)


def sizes(row: dict[str, Any]) -> dict[Any, int]:
    model, setting = row["model"], row["setting"]
    return {D: model["hidden"], N: model["heads"], T: model["s"], Y: setting["TP"],
            B: setting["b"] * model["s"], L: model["layers"], axis("X"): 1}  # fmt: skip


def in_flight(row: dict[str, Any]) -> Expr:
    """Microbatches of a device's layers that the first stage holds."""
    setting = row["setting"]
    p, v = setting["PP"], setting["interleave"]
    if p == 1:
        return S.One
    name, chunks = ("interleaved", v) if v > 1 else ("1f1b", None)
    return schedule(name, p=p, m=setting["B"] // setting["b"], v=chunks).in_flight(0)


def first_stage(row: dict[str, Any], way: str) -> Expr:
    """Bytes of activations on the first stage."""
    known = sizes(row)
    layer = (activations(way) * B * D).subs(known)
    return layer * known[L] / row["setting"]["PP"] * in_flight(row)


FIGURE = {"act_tp": "tp", "act_sp_sel": "tpsp_sel"}


@pytest.mark.parametrize("name", [n for n in ROWS if "/fig1/" in n and "act" in n])
def test_activations_of_the_first_stage(name: str) -> None:
    row = ROWS[name]
    found = first_stage(row, FIGURE[name.rpartition("/")[2]]) / 2**30
    assert float(found) == pytest.approx(row["value"], rel=row["tol"])


@pytest.mark.parametrize("name", [n for n in ROWS if n.endswith("par_opt")])
def test_states_of_a_device(name: str) -> None:
    """18 bytes a parameter: bf16 weights, f32 gradients, two moments and a master copy."""
    row = ROWS[name]
    found = held("tpsp", gradients="f32", optimizer="adam+master")
    states = sum(found[kind] for kind in ("parameters", "gradients", "optimizer"))
    norms = 18 * 4 * D
    layers = (states - norms).subs({F: 4 * D, H: D / N}).subs(sizes(row))
    known = sizes(row)
    total = layers * known[L] / row["setting"]["PP"] / 2**30
    assert float(total) == pytest.approx(row["value"], rel=row["tol"])


@pytest.mark.parametrize("name", [n for n in ROWS if "/fig7/" in n])
def test_shares_of_the_tensor_parallel_baseline(name: str) -> None:
    row = ROWS[name]
    way = name.rpartition("/")[2]
    share = 100 * (activations(way) / activations("tp")).subs(sizes(row))
    assert float(share) == pytest.approx(row["value"], rel=row["tol"])


def test_what_selective_recomputation_saves() -> None:
    row = ROWS["korth/text/MT-NLG/saving"]
    saved = 1 - activations("tpsp_sel") / activations("tpsp")
    value = 100 * saved.subs({N: row["model"]["heads"], D: row["model"]["hidden"], T: 2048})
    assert float(value) == pytest.approx(row["value"], abs=row["tol"])


def test_output_tensors_in_flight() -> None:
    """A stage's output of each microbatch in flight, which need not stay."""
    row = ROWS["korth/dealloc"]
    out = strategy("tpwhole").shard(LAYER).sharding("Out").bytes
    flight = schedule("1f1b", p=row["setting"]["p"], m=280).in_flight(0)
    found = out.subs({B: 2048, D: row["model"]["hidden"]}) * flight / 2**30
    assert float(found) == pytest.approx(row["value"], abs=row["tol"])


def test_full_recomputation_repeats_a_third() -> None:
    row = ROWS["korth/tab4/full_bound"]
    made = strategy("dp").shard(LAYER)
    again = recomputed(made, "block").flops
    last = LAYER.ops[-3].output.name
    assert last == "Mlp0"
    # The last product need not be repeated: its result is not read.
    product = next(s.flops for s in made.forward.computes if s.output.name == last)
    whole = made.forward.flops + made.backward.flops
    share = Rational(100) * (again + product) / whole
    known = {D: 6144, N: 64, H: 96, F: 4 * 6144, T: 2048, B: 4 * 2048, axis("X"): 1}
    assert float(share.subs(known)) == pytest.approx(row["value"], abs=row["tol"])
