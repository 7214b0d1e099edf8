"""Memory estimates that users found wrong elsewhere, made here with the library."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sympy import Expr, S, cancel, expand

from symscale import model, strategy, training
from symscale.algebra.symbols import B, D, F, H, L, N, T, V, axis, k
from symscale.models.decoder import two_matmul_experts
from symscale.parallel.schedules.lookup import schedule
from symscale.programs.program import Program, program
from symscale.studies.memory import Memory, layer_memory
from symscale.studies.share import Share
from symscale.studies.training import TrainingStep
from tests.studies.test_papers_memory import LAYER, LINES, MASKS

TRUTH = Path(__file__).parents[1] / "truth" / "cases_memory.json"
CASES = {case["id"]: case for case in json.loads(TRUTH.read_text("utf-8"))["cases"]}
LLAMA = model("llama-3-8b")
STATES = ("parameters", "gradients", "optimizer")
X = axis("X")


def right(name: str) -> Any:
    return CASES[name]["right_value"]


def given(name: str) -> Any:
    return CASES[name]["input"]


def states(made: TrainingStep) -> Expr:
    """Bytes of states for each parameter, on one of X ranks."""
    held = sum((made.memory[kind] for kind in STATES), S.Zero)
    return cancel(held.subs(LLAMA) / LLAMA.params.count)


def test_mixed_precision_takes_twelve_bytes_of_optimizer() -> None:
    made = training(LLAMA, "dp", optimizer="adam+master")
    params = given("ME-02")["params"]
    assert float(states(made) * params) / 1e9 == pytest.approx(right("ME-02")["GB"], rel=1e-3)
    optimizer = float(made.memory["optimizer"].subs(LLAMA) / LLAMA.params.count) * params / 1e9
    assert optimizer == pytest.approx(right("ME-02")["optimizer_GB"], rel=1e-3)
    assert float(states(made) * params) / 1e9 != pytest.approx(CASES["ME-02"]["wrong_value"]["GB"])


@pytest.mark.parametrize(
    ("stage", "name"),
    [("none", "dp"), ("stage1", "zero1"), ("stage2", "zero2"), ("stage3", "fsdp")],
)
def test_gradients_are_split_from_stage_two_on(stage: str, name: str) -> None:
    case = given("ME-04")
    each = states(training(LLAMA, name, optimizer="adam+master")).subs(X, case["dp"])
    found = float(each) * case["params"] / 1e9
    assert found == pytest.approx(right("ME-04")["paper_GB"][stage], rel=1e-3)


def test_expert_ranks_do_not_shrink_activations() -> None:
    """Ranks carved out of the data ranks: each still works on its tokens' share of experts."""
    case = given("ME-07")
    layer = two_matmul_experts()
    for name in ("dp", "dp+ep"):
        made = strategy(name)
        ranks = 1
        sizes: dict[Any, Any] = {}
        for one in made.mesh_axes:
            sizes[axis(one)] = 4
            ranks *= 4
        inner = next(a for a in layer.arrays.values() if a.labels == ("E", "c", "F"))
        local = made.shard(layer).sharding(inner.name).elements
        tokens = case["seq"] * case["micro_batch"]
        sizes |= {B: tokens * ranks, k: case["topk"], F: case["moe_ffn"]}
        assert local.subs(sizes) == right("ME-07")["routed_ffn_elements"]


def held(whole: Program) -> Expr:
    """Bytes of a layer's activations on one device, for heads of D/N and a width of 4D."""
    made = strategy("dp")
    kind: Any = SimpleNamespace(program=whole, count=L)
    memory: Memory = layer_memory(Share(kind, made.shard(whole)), made.techniques)
    return expand(memory["activations"].subs({F: 4 * D, H: D / N, X: 1}))


def sizes_of(case: dict[str, int]) -> dict[Any, int]:
    return {B: case["s"] * case["b"], T: case["s"], D: case["h"], N: case["a"]}


def test_a_formula_in_bytes_is_in_bytes() -> None:
    found = held(LAYER).subs(sizes_of(given("ME-08"))) / 2**30
    assert float(found) == pytest.approx(right("ME-08")["GiB_per_layer"], rel=1e-3)


def test_a_fused_kernel_keeps_nothing_quadratic() -> None:
    case = sizes_of(given("ME-09"))
    fused = program(*LINES, inputs=("In", *MASKS), sizes={"b": B / T, "S": T},
                    fused=("Scores", "Probs", "DropP", "Pd"))  # fmt: skip
    removed = (held(LAYER) - held(fused)).subs(case)
    assert removed == right("ME-09")["quadratic_term_removed"]
    # What stays of attention: its input, queries, keys, values, its result, a mask.
    rest = held(fused) - 2 * B * D * (1 + 1 + 1 + 4 + 4) - B * D
    assert rest.subs(case) == right("ME-09")["attention_bytes_upper"]


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_logits_and_their_gradient_are_counted(name: str) -> None:
    """Two bytes an element each: together as much as an f32 copy alone."""
    case = given("ME-10")[name]
    logits = training(LLAMA, "dp").formulas.memory["logits"]
    found = logits.subs({B: case["tokens"], V: case["vocab"], X: 1}) * case["bytes"] / 4
    assert float(found / 2**30) == pytest.approx(right("ME-10")[f"{name}_GiB"], rel=1e-3)


def test_uneven_stages_go_at_the_pace_of_the_slowest() -> None:
    times = given("ME-13")["stage_ms"]
    count = 4000
    blocks = schedule("1f1b").timeline(
        8, count, forward="1/3", backward="1/3", weights="1/3", scale=[str(t) for t in times]
    )
    speedup = count * sum(times) / float(max(block.end for block in blocks))
    assert speedup == pytest.approx(right("ME-13")["pp_speedup"], rel=0.005)
    assert sum(times) / len(times) / max(times) == pytest.approx(
        right("ME-13")["balance"], abs=1e-3
    )


def test_the_stage_that_holds_most_is_counted() -> None:
    """32 layers on 6 stages: six on each of the last two, not five and a third."""
    made = training(LLAMA, "dp+pp", microbatches=8, ends=(0, 0))
    result = made.at("h100", B=8 * 8192, X=1, P=6, T=8192)
    layer = (LLAMA.params.count - 2 * 128256 * 4096 - 4096) // 32
    held = made.stage_memory.devices(result.values)
    assert [one.by_kind["parameters"] for one in held[1:5]] == [2 * n * layer for n in (5, 5, 5, 6)]


def test_the_layer_at_work_is_whole_on_every_device() -> None:
    """Two gathered layers in bf16 stay, however many ranks share the states."""
    case = given("ME-19")
    made = training(LLAMA, "fsdp", optimizer="adam+master", gradients="f32")
    share = made.shares[0].sharded.program.parameters.subs(LLAMA)
    unreduced = 2
    _, layer = made.stage_memory.kinds[0]
    buffers = layer["buffers"].subs(LLAMA) / share - unreduced
    totals = []
    for ranks, wanted in zip(case["gpus"], right("ME-19")["GB"], strict=True):
        each = states(made).subs(X, ranks) * case["params"]
        total = float(each + buffers * case["largest_layer_params"]) / 1e9
        assert total == pytest.approx(wanted, rel=1e-3)
        totals.append(total)
    assert totals[0] / totals[1] == pytest.approx(right("ME-19")["ratio"], abs=0.005)


def test_no_case_is_left_out() -> None:
    text = Path(__file__).read_text("utf-8")
    assert all(f'"{name}"' in text for name in CASES)
