"""Parameters, FLOPs and caches of models against a decoder that is walked and counted by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import cancel

from symscale import model
from symscale.algebra.errors import ModelError, NotationError, SymbolError
from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, D, F, G, H, K, L, N, T, V
from symscale.models.config import read_config
from symscale.models.flops import flops_per_token
from symscale.models.model import Model, model_sources, models
from symscale.models.zoo import zoo_names
from symscale.programs.program import Program
from tests.models.reference import Counted, weights

FOLDER = Path(__file__).parents[1] / "truth"
PAPERS = json.loads((FOLDER / "papers.json").read_text("utf-8"))
PUBLISHED = json.loads((FOLDER / "models.json").read_text("utf-8"))["models"]


def config(**changed: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "model_type": "llama",
        "num_hidden_layers": 2,
        "hidden_size": 12,
        "intermediate_size": 20,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 30,
        "tie_word_embeddings": False,
        "gated": True,
    }
    return base | changed


def made(asked: dict[str, Any]) -> Model:
    """A model; no family that is read has a plain MLP, so that one is set by hand."""
    keys = {key: value for key, value in asked.items() if key != "gated"}
    return Model(replace(read_config(keys), gated=asked["gated"]))


CONFIGS = {
    "grouped": config(),
    "full": config(num_key_value_heads=4),
    "single": config(num_key_value_heads=1),
    "wide heads": config(head_dim=5),
    "tied": config(tie_word_embeddings=True),
    "plain": config(gated=False),
    "plain, tied, wide heads": config(gated=False, tie_word_embeddings=True, head_dim=7),
    "one layer": config(num_hidden_layers=1, hidden_size=8, intermediate_size=9, vocab_size=11),
}


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    caches = draw(st.integers(1, 3))
    heads = caches * draw(st.integers(1, 3))
    each = draw(st.integers(1, 4)) * 2
    found = config(
        num_hidden_layers=draw(st.integers(1, 3)),
        hidden_size=heads * each,
        intermediate_size=draw(st.integers(1, 24)),
        num_attention_heads=heads,
        num_key_value_heads=caches,
        vocab_size=draw(st.integers(2, 40)),
        gated=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()),
    )
    return found | ({"head_dim": draw(st.integers(1, 4)) * 2} if draw(st.booleans()) else {})


# --- parameters --------------------------------------------------------------------------------


def walked(asked: dict[str, Any]) -> dict[str, int]:
    """Elements of all arrays, by component."""
    out: dict[str, int] = {}
    for name, array in weights(asked).items():
        parts = name.split(".")
        component = "norms" if parts[-1] == "norm" else parts[-1] if len(parts) == 1 else parts[1]
        out[component] = out.get(component, 0) + array.size
    return out


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_by_walking(name: str) -> None:
    found = made(CONFIGS[name]).params
    assert found.counts() == walked(CONFIGS[name])
    assert found.count == sum(array.size for array in weights(CONFIGS[name]).values())


@given(configs())
@settings(max_examples=25)
def test_parameters_of_any_configuration(asked: dict[str, Any]) -> None:
    assert made(asked).params.counts() == walked(asked)


@pytest.mark.parametrize("name", [n for n in zoo_names() if "parameters" in PUBLISHED[n]])
def test_zoo_to_the_unit(name: str) -> None:
    found = model(name)
    assert found.params.count == PUBLISHED[name]["parameters"]
    assert evaluate(found.params.total, found) == PUBLISHED[name]["parameters"]
    assert found.params.to_dict()["total"] == PUBLISHED[name]["parameters"]


def test_a_tied_table_is_one_array() -> None:
    apart, tied = made(CONFIGS["grouped"]).params, made(CONFIGS["tied"]).params
    assert cancel(apart.total - tied.total - D * V) == 0
    assert "head" not in tied.components


def test_formulas_stay_symbols() -> None:
    found = model("llama-3-70b").params
    assert found.total.free_symbols == {L, D, F, N, K, H, V}
    table = found.table()
    assert table.columns == ("component", "count", "formula")
    assert sum(row[1] for row in table.rows[:-1]) == table.rows[-1][1] == found.count
    assert found.active == found.total


# --- FLOPs -------------------------------------------------------------------------------------

SEQUENCES, LENGTH = 2, 3


@pytest.fixture(scope="module", params=CONFIGS.values(), ids=CONFIGS.keys())
def case(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Counted]:
    counted = Counted(request.param)
    counted.run(SEQUENCES, LENGTH)
    return request.param, counted


def per_token(count: int) -> Fraction:
    return Fraction(count, SEQUENCES * LENGTH)


def counted_by_model(asked: dict[str, Any], **how: Any) -> Fraction:
    found = made(asked)
    value = evaluate(found.flops_per_token(LENGTH, **how), found)
    return Fraction(int(value.p), int(value.q))


def test_forward_flops(case: tuple[dict[str, Any], Counted]) -> None:
    asked, reference = case
    assert counted_by_model(asked) == per_token(reference.flops("forward"))


def test_training_flops(case: tuple[dict[str, Any], Counted]) -> None:
    asked, reference = case
    both = reference.flops("forward") + reference.flops("backward")
    assert counted_by_model(asked, training=True) == per_token(both)
    assert both == 3 * reference.flops("forward")


def test_conventions(case: tuple[dict[str, Any], Counted]) -> None:
    asked, reference = case
    for training in (False, True):
        whole = counted_by_model(asked, training=training)
        passes = 3 if training else 1
        scores = passes * per_token(reference.flops("forward", "scores"))
        head = passes * per_token(reference.flops("forward", "head"))
        assert whole - counted_by_model(asked, training=training, causal=True) == scores / 2
        assert whole - counted_by_model(asked, training=training, head=False) == head
        # A lookup as a product of one-hot rows costs what the head does.
        assert counted_by_model(asked, training=training, embeddings=True) - whole == head


def test_parts(case: tuple[dict[str, Any], Counted]) -> None:
    asked, reference = case
    found = made(asked)
    parts = found.flops_by_component()
    for name, part in {
        "attention": "projections",
        "attention scores": "scores",
        "mlp": "mlp",
        "head": "head",
    }.items():
        value = evaluate(parts[name].subs(T, LENGTH), found)
        assert value == per_token(reference.flops("forward", part)), name
    scores = evaluate(found.attention_flops_per_token(LENGTH), found)
    assert scores == per_token(reference.flops("forward", "scores"))


@given(configs(), st.integers(1, 2), st.integers(1, 4))
@settings(max_examples=20)
def test_flops_of_any_configuration(asked: dict[str, Any], batch: int, length: int) -> None:
    reference = Counted(asked)
    reference.run(batch, length)
    found = made(asked)
    value = evaluate(found.flops_per_token(length, training=True), found)
    both = reference.flops("forward") + reference.flops("backward")
    assert value * batch * length == both


@pytest.mark.parametrize("name", CONFIGS)
def test_programs_have_these_sizes(name: str) -> None:
    """The program's own lines as NumPy einsums: what it says is what is counted."""
    found = made(CONFIGS[name])
    sizes = {**found, T: LENGTH, B: SEQUENCES * LENGTH}
    assert looped(found.programs.layer, sizes) == evaluate(
        found.programs.layer.shard().forward.flops, sizes
    )
    assert looped(found.programs.ends, sizes) == evaluate(
        found.programs.ends.shard().forward.flops, sizes
    )


def looped(program: Program, sizes: dict[Any, Any]) -> int:
    total = 0
    for op in program.ops:
        if len(op.inputs) == 2 and op.summed and op.name == "einsum":
            letters = {label: chr(97 + place) for place, label in enumerate(op.labels)}
            left, right = ("".join(letters[x] for x in array.labels) for array in op.inputs)
            arrays = [
                np.zeros([int(evaluate(size, sizes)) for size in array.global_shape])
                for array in op.inputs
            ]
            every = "".join(letters.values())
            total += 2 * np.einsum(f"{left},{right}->{every}", *arrays).size
    return total


def test_length_may_be_a_symbol_or_a_number() -> None:
    llama = model("llama-3-8b")
    formula = llama.flops_per_token(T, training=True, causal=True)
    assert formula.has(T)
    assert formula.subs(T, 4096) == llama.flops_per_token(4096, training=True, causal=True)
    for wrong in (0, -5, "8192"):
        with pytest.raises(SymbolError, match="T = "):
            llama.flops_per_token(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("row", PAPERS["training_flops_per_token"]["rows"], ids=str)
def test_published_flops_of_a_token(row: dict[str, Any]) -> None:
    assert row["source"] in PAPERS["sources"]
    found = flops_per_token(row["model"], row["length"], training=True, causal=True)
    assert found.value == pytest.approx(row["value"], rel=row["rel"])


@pytest.mark.parametrize("row", PAPERS["training_flops"]["rows"], ids=str)
def test_published_flops_of_training(row: dict[str, Any]) -> None:
    assert row["source"] in PAPERS["sources"]
    found = model(row["model"])
    formula = found.flops_per_token(T, training=True, embeddings=True)
    scores = 3 * found.attention_flops_per_token(T)
    value = float(evaluate(cancel(formula - scores), found))
    assert value * row["tokens"] == pytest.approx(row["value"], rel=row["rel"])


def test_a_count_says_how_it_was_counted() -> None:
    found = flops_per_token("llama-3-8b", 8192, training=True, causal=True)
    plain = found.to_dict()
    assert isinstance(plain["flops_per_token"], int)
    assert plain["conventions"]["attention scores"].startswith("half")
    assert "nothing recomputed" in plain["conventions"]["passes"]
    assert "FLOPs a token" in str(found)
    assert json.dumps(plain)


# --- caches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("dtype", "kind"), [("bf16", np.float16), ("int8", np.int8),
                                              ("f32", np.float32)])  # fmt: skip
def test_cache_bytes(name: str, dtype: str, kind: type) -> None:
    asked = CONFIGS[name]
    found = made(asked)
    arrays = weights(asked)
    tokens = 5
    total = 0
    for layer in range(asked["num_hidden_layers"]):
        for side in "kv":
            _, heads, each = arrays[f"{layer}.attention.{side}"].shape
            total += np.zeros((tokens, heads, each), kind).nbytes
    assert tokens * evaluate(found.kv_bytes_per_token(dtype), found) == total


def test_half_byte_caches_are_exact() -> None:
    llama = model("llama-3-70b")
    whole = evaluate(llama.kv_bytes_per_token("int8"), llama)
    assert evaluate(llama.kv_bytes_per_token("int4"), llama) == whole / 2
    with pytest.raises(NotationError, match="unknown dtype 'bf8'"):
        llama.kv_bytes_per_token("bf8")


@pytest.mark.parametrize(
    "name", [n for n, r in PUBLISHED.items() if "kv_bytes_per_token_bf16" in r]
)
def test_published_caches(name: str) -> None:
    found = model(name)
    wanted = PUBLISHED[name]["kv_bytes_per_token_bf16"]
    assert evaluate(found.kv_bytes_per_token(), found) == wanted


# --- the object --------------------------------------------------------------------------------


def test_a_model_is_a_mapping_of_sizes() -> None:
    llama = model("llama-3-70b")
    assert dict(llama) == {L: 80, D: 8192, F: 28672, N: 64, K: 8, G: 8, H: 128, V: 128256}
    assert (D * F).subs(llama) == 8192 * 28672
    assert model(llama) is llama
    assert model("Meta-Llama/Meta-Llama-3-70B") == llama
    assert hash(model("llama-3-70b")) == hash(llama)
    assert llama != model("llama-3.1-70b")
    assert "70,553,706,496" in llama.card()
    assert "70,553,706,496" in repr(llama)
    assert json.loads(json.dumps(llama.to_dict()))["sizes"]["K"] == 8
    assert len(llama.summary()) == len(llama)


def test_the_list_of_models() -> None:
    table = models()
    assert [row[0] for row in table] == list(zoo_names())
    assert all(row[1] == model(str(row[0])).params.count for row in table)
    assert all(model(source).name for source in model_sources())


def test_unknown_model() -> None:
    with pytest.raises(ModelError, match="unknown model 'lama-3-70b'; did you mean llama-3-70b"):
        model("lama-3-70b")
