"""Chapters 5 and 6 of the book: strategies, their bounds, memory and duration of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sympy import Expr, Rational, Symbol

from symscale import Eq, chip, crossover, minimise, model, strategy, training
from symscale.algebra.symbols import M_X, B, C, D, F, L, T, W_dcn, W_ici, X, Y, axis, n
from symscale.hardware.networks import Switch
from symscale.models.decoder import two_matmul_layer
from symscale.models.model import Model
from symscale.studies.conditions import compute_bound
from symscale.studies.memory import Memory
from tests.book.test_transformers import flops_per_parameter
from tests.book.truth import check, exact, given, number, same

MIXED = two_matmul_layer().shard(strategy("fsdp+tp"))
DAY = 86400

#: The book trains on 15e12 tokens with 70e9 parameters; three of its counts rest on that.
TOKENS = Rational(15 * 10**12)


def rates(entry: str) -> dict[Symbol, Any]:
    """Rates with the ratio that an entry gives: alpha = C / W_ici, one direction pair an axis."""
    return {C: number(entry, "alpha") * 10**9, W_ici: 10**9}


def days(flops: Expr, chips: Expr, use: Expr, rate: Expr) -> Expr:
    """Days for so many FLOPs; arithmetic alone, so that nothing but the rate enters."""
    return flops / (chips * rate * use) / DAY


def without_norms(found: Model) -> int:
    return found.params.count - found.params.counts()["norms"]


def states(memory: Memory) -> Expr:
    return memory["parameters"] + memory["optimizer"]


# --- chapter 5 ---------------------------------------------------------------------------------


def test_backward_arithmetic_of_data_parallelism() -> None:
    # 5.text.c
    found = two_matmul_layer().shard(strategy("dp")).backward.time.math
    assert exact("5.text.c") == "8BDF/(XC)"
    assert same(found, 8 * B * D * F / (X * C))


def test_days_of_training() -> None:
    # 5.text.e, 5.text.j and 6.time; 6.3e24 FLOPs are six for each of 70e9 parameters and 15e12
    # tokens.
    flops = flops_per_parameter() * 70 * 10**9 * TOKENS
    for entry in ("5.text.e", "5.text.j", "6.time"):
        assert flops == number(entry, "flops")
    rate = chip("v5p")[C]
    assert rate == number("6.time", "C")
    check(days(flops, number("5.text.e", "n"), number("5.text.e", "mfu"), rate), {}, "5.text.e")
    for use, name in ((Rational(1), "mfu100"), (Rational(2, 5), "mfu40")):
        check(days(flops, number("5.text.j", "n"), use, rate), {}, "5.text.j", name)
    found = days(flops, number("6.time", "n"), number("6.time", "mfu"), rate)
    check(found, {}, "6.time", "days")
    check(found * DAY, {}, "6.time", "s")


def test_best_split() -> None:
    # 5.text.f
    best = minimise(MIXED.forward.time.comms, over=(X, Y), subject_to=Eq(X * Y, n))
    check(best[X], given("5.text.f"), "5.text.f")
    assert same((best[X] * best[Y]) ** 2, n**2)


def test_bounds_of_the_mixed_strategy() -> None:
    # 5.text.g a chip, 5.text.h for a batch on 4096 chips.
    for name, overlapped in (("sum", False), ("max", True)):
        found = compute_bound(strategy("fsdp+tp"), overlapped)
        values = rates("5.text.g") | given("5.text.g", "F", "M_X", "M_Y")
        check(found.per_chip, values, "5.text.g", name)
        values = rates("5.text.h") | given("5.text.h", "F", "M_X", "M_Y", "n")
        check(found.answer.threshold, values, "5.text.h", name)


def test_data_parallelism_between_pods() -> None:
    # 5.text.i: FSDP inside a pod, gradients added between pods over the data-centre network.
    layer = two_matmul_layer().shard(
        "In[B_{pod,X}, D]", "Tmp[B_{pod,X}, F]", "Out[B_{pod,X}, D]", "Win[D_X, F]", "Wout[F, D_X]"
    )
    wall = batch_of_a_pod(layer.backward.time.math, layer.backward.volume()[axis("pod")])
    between = number("5.text.i", "W_host") / number("5.text.i", "chips_per_host")
    assert between == chip("v5p")[W_dcn]
    check(wall, {C: number("5.text.i", "C"), W_dcn: between}, "5.text.i", "exact")


def batch_of_a_pod(math: Expr, volume: Expr) -> Expr:
    """The batch a pod from which arithmetic hides what moves between pods."""
    comms = Switch(rate=W_dcn).time("AllReduce", volume, ["pod"])
    return crossover(math, comms, B).threshold / axis("pod")


def test_llama_2_13b() -> None:
    # 5.1
    found = model("llama-2-13b")
    parts = found.params.counts()
    assert parts["mlp"] == exact("5.1", "ffw")
    assert parts["attention"] == exact("5.1", "attn")
    assert parts["embedding"] + parts["head"] == exact("5.1", "vocab")
    assert without_norms(found) == exact("5.1", "total")
    assert found.params.count == exact("5.1", "with_norms")


def test_memory_of_a_slice() -> None:
    # 5.3.0
    v5p = chip("v5p", edition="book")
    assert v5p.hbm_bytes == number("5.3.0", "hbm")
    check(n * v5p.hbm_bytes, {n: number("5.3.0", "n")}, "5.3.0")


def test_data_parallelism_does_not_fit() -> None:
    # 5.3.1: ten bytes a parameter, norms left out by the book.
    found = model("llama-2-13b")
    step = training(found, "dp")
    per_parameter = states(step.memory).subs(found) / found.params.count
    check(per_parameter * without_norms(found), {}, "5.3.1")
    assert exact("5.3.1") > number("5.3.1", "hbm")
    result = step.at(chip("v5p", edition="book"), B=3 * 2**20, X=4096)
    assert not result.fits


def test_fully_sharded() -> None:
    # 5.3.2: saved are the block's input and the two halves of the gate.
    found = model("llama-2-13b")
    memory = training(found, "fsdp", checkpoints=("In", "Gate", "Up")).memory
    values = {**found, B: number("5.3.2", "B"), X: number("5.3.2", "n")}
    norms = Rational(10 * found.params.counts()["norms"])
    check(memory["activations"] * X, values, "5.3.2", "acts")
    total = (memory["activations"] + states(memory)) * X - norms
    check(total, values, "5.3.2", "total")
    check(total / X, values, "5.3.2", "per_chip")
    wall = compute_bound(strategy("fsdp")).per_chip
    check(wall * X, values | rates("5.3.2") | {M_X: 3}, "5.3.2", "need")
    check(B / X, values, "5.3.2", "B_per_chip")
    assert exact("5.3.2", "B_per_chip") * values[X] < exact("5.3.2", "need")


def test_mixed_on_a_slice() -> None:
    # 5.3.3
    found = model("llama-2-13b")
    values = {**found, **rates("5.3.3"), **given("5.3.3", "B", "n", "M_X", "M_Y")}
    for name, overlapped in (("bound_sum", False), ("bound_max", True)):
        check(compute_bound(strategy("fsdp+tp"), overlapped).per_chip, values, "5.3.3", name)
    check(compute_bound(strategy("fsdp+tp")).split[X], values, "5.3.3", "X_opt")
    check(B / n, values, "5.3.3", "B_per_chip")
    for mesh in exact("5.3.3", "comm_over_math"):
        sizes = mesh_of(mesh)
        for name, symbol in (("fsdp", X), ("tp", Y)):
            check(ratio(symbol), values | sizes, "5.3.3", "comm_over_math", mesh, name)
    step = flops_per_parameter() * B * without_norms(found) / (n * C)
    v5p = values | {C: chip("v5p")[C]}
    check(step, v5p, "5.3.3", "step_100")
    check(step / number("5.3.3", "mfu"), v5p, "5.3.3", "step_40")
    memory = training(found, "fsdp+tp", checkpoints=("In", "Gate", "Up")).memory
    per_chip = memory["activations"] + states(memory)
    norms = Rational(10 * found.params.counts()["norms"]) / 4096
    check(per_chip - norms, values | {X: 1024, Y: 4}, "5.3.3", "mem_per_chip")


def mesh_of(text: str) -> dict[Symbol, int]:
    pairs = (part.split("=") for part in text.split(","))
    return {axis(name): int(size) for name, size in pairs}


def ratio(symbol: Symbol) -> Expr:
    """Communication along one axis over arithmetic, forward pass of the two-matmul layer."""
    return MIXED.forward.time.by_axis[symbol] / MIXED.forward.time.math


# --- chapter 6 ---------------------------------------------------------------------------------


def test_flops_of_a_token() -> None:
    # 6.flops_tok: scores apart, with the lookup counted as the product it stands for.
    found = model("llama-3-70b")
    flops = found.flops_per_token(T, training=True, embeddings=True)
    scores = flops_per_parameter() / 2 * found.attention_flops_per_token(T)
    check(flops - scores, found, "6.flops_tok", "exact")
    check((flops - scores) / C * 1000, {**found, **chip("v5p")}, "6.flops_tok", "t_ms")
    check(flops_per_parameter() * number("6.flops_tok", "P"), {}, "6.flops_tok", "book")


def checkpointed(names: tuple[str, ...]) -> tuple[Expr, Expr]:
    """Bytes over all chips of the states, for a parameter, and of the saved activations."""
    found = model("llama-3-70b")
    memory = training(found, "fsdp", checkpoints=names).memory
    return (
        (states(memory) * X).subs(found) / found.params.count,
        memory["activations"].subs(found) * X,
    )


def test_fewest_chips() -> None:
    # 6.min_tpus
    wide = ("In", "Att", "Mid", "Mlp")
    values = given("6.min_tpus", "B")
    for count, name in ((4, "ckpt4"), (3, "ckpt3")):
        check(checkpointed(wide[:count])[1], values, "6.min_tpus", name)
    for names, name in ((wide, "total4"), (("In", "Gate", "Up"), "alt_ffw_checkpoints")):
        each, saved = checkpointed(names)
        check(each * number("6.min_tpus", "P") + saved, values, "6.min_tpus", name)
    each, saved = checkpointed(wide)
    total = each * number("6.min_tpus", "P") + saved
    check(total / chip("v5p", edition="book").hbm_bytes, values, "6.min_tpus", "tpus")


def test_longest_training() -> None:
    # 6.min_time
    flops, use = number("6.min_time", "flops"), number("6.min_time", "mfu")
    check(days(flops, 225, use, chip("v5p")[C]), {}, "6.min_time", "n225")
    rounding = number("6.min_time", "rounded_days") / days(flops, 8960, use, chip("v5p")[C])
    check(days(flops, 171, use, chip("v5p")[C]) * rounding, {}, "6.min_time", "n171")
    years = days(flops, 225, use, chip("v5p")[C]) / Rational("365.25")
    assert float(years) == pytest.approx(exact("6.min_time", "years"), rel=1e-9)


def test_memory_of_a_chip_in_a_pod() -> None:
    # 6.per_chip: the states, and four or twelve times one checkpoint of width D.
    each, saved = checkpointed(("In",))
    for count, name in ((4, "gb"), (12, "twelve")):
        total = each * number("6.per_chip", "P") + count * saved
        values = given("6.per_chip", "B", "n")
        check(total / n / 10**9, values, "6.per_chip", name)


def test_fewer_sequences_than_chips() -> None:
    # 6.seq
    layer = training("llama-3-70b", "fsdp").layer
    sequences = layer.sharding("Qs").dim("b")
    assert sequences.axes == ("X",)
    check(sequences.size, given("6.seq", "B", "T"), "6.seq")
    assert exact("6.seq") < number("6.seq", "n")
    cut = training("llama-3-70b", "fsdp").at("v5p", B=2**22, X=4096, T=8192)
    assert "a sequence lies on several chips" in cut.notes[0]
    assert training("llama-3-70b", "fsdp").at("v5p", B=2**22, X=512, T=8192).notes == ()


def test_mixed_on_a_pod() -> None:
    # 6.mixed
    values = rates("6.mixed") | given("6.mixed", "B", "n", "M_X", "M_Y", "F")
    assert values[F] == model("llama-3-70b")[F]
    for name, overlapped in (("sum", False), ("max", True)):
        check(compute_bound(strategy("fsdp+tp"), overlapped).per_chip, values, "6.mixed", name)
    check(compute_bound(strategy("fsdp+tp")).split[X], values, "6.mixed", "X")


def pods(entry: str, found: Model) -> Mapping[Symbol, Any]:
    """Numbers of one pod of several that share a batch."""
    batch = number(entry, "B") / number(entry, "pods")
    return {**found, **rates(entry), **given(entry, "n", "M_X", "M_Y"), B: batch}


def check_bounds(entry: str, values: Mapping[Symbol, Any]) -> None:
    check(B, values, entry, "B_pod")
    check(B / n, values, entry, "B_chip")
    check(compute_bound(strategy("fsdp+tp")).per_chip, values, entry, "sum_bound")
    check(compute_bound(strategy("fsdp+tp"), True).per_chip, values, entry, "max_bound")
    check(compute_bound(strategy("fsdp+tp")).split[X], values, entry, "X_opt")


def test_four_pods() -> None:
    # 6.Q1
    values = pods("6.Q1", model("llama-3-70b"))
    check_bounds("6.Q1", values)
    for mesh in ("1120x8", "896x10"):
        x, y = map(int, mesh.split("x"))
        for place, symbol in enumerate((X, Y)):
            here = {**values, X: x, Y: y}
            check(ratio(symbol), here, "6.Q1", f"comm_over_math_{mesh}", place)
    found = compute_bound(strategy("fsdp+tp"))
    slowdown = found.split.value / found.math.subs(Y, n / X)
    check(slowdown, values, "6.Q1", "sum_slowdown")
    chips = number("6.Q1", "pods") * number("6.Q1", "n")
    for use, name in ((Rational(1), "days_100"), (Rational(2, 5), "days_40")):
        check(days(number("6.Q1", "flops"), chips, use, chip("v5p")[C]), {}, "6.Q1", name)
    # Between pods nothing waits: 1.05e6 tokens a pod against 73,440.
    assert exact("6.Q1", "B_pod") > exact("5.text.i", "exact")


def test_eight_pods() -> None:
    # 6.Q2b
    found = model("llama-3.1-405b")
    values = pods("6.Q2b", found)
    check_bounds("6.Q2b", values)
    tensor = compute_bound(strategy("tp")).answer
    assert tensor.variable == Y
    check(tensor.threshold, values, "6.Q2b", "tp_limit_per_axis")
    flops = flops_per_parameter() * without_norms(found) * number("6.Q2b", "tokens")
    chips = number("6.Q2b", "pods") * number("6.Q2b", "n")
    for use, name in ((Rational(1), "days_100"), (Rational(2, 5), "days_40")):
        check(days(flops, chips, use, chip("v5p")[C]), {}, "6.Q2b", name)
    small = {**values, B: Rational(2**22, 8)}
    check(B / n, small, "6.Q2b", "at_4M", "B_chip")
    bound = compute_bound(strategy("fsdp+tp"), True)
    check(bound.per_chip, small, "6.Q2b", "at_4M", "bound")
    assert not bound.answer.holds({**small, B: 2**19})


def test_layers_cancel() -> None:
    """Bounds are those of one layer, so a step of L layers has the same."""
    time = MIXED.forward.time
    assert same(time.scale(L).comms / time.scale(L).math, time.comms / time.math)
