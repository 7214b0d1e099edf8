"""Training steps with schedules, microbatches and memory techniques, against simulation and hand.

The pipeline's time is held against an event-by-event simulation with stages of unequal work; bytes
against counts over the matrices of the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr, Rational, S, cancel

from symscale import chip, model, strategy, training
from symscale.algebra.errors import ShardingError, StrategyError, SymbolError, SymscaleError
from symscale.algebra.symbols import B, L, axis, m, t_B, t_F, t_W
from symscale.algebra.time import Time
from symscale.models.decoder import two_matmul_layer
from symscale.models.remat import rematerialise
from symscale.parallel.techniques import Techniques
from symscale.studies.pace import BACKWARD, FORWARD, UPDATE
from symscale.studies.result import StepResult
from symscale.studies.training import TrainingStep
from tests.parallel.schedule_simulator import Machine

LLAMA = model("llama-3-8b")
LAYERS, T = 32, 8192
P = axis("P")


def step(name: str, **options: Any) -> TrainingStep:
    return training(LLAMA, name, **options)


# --- the schedule's time, simulated ------------------------------------------------------------


def simulated(result: StepResult, places: list[int]) -> float:
    """Seconds from the first forward to the last backward, each stage with its layers.

    ``places`` are the layers of each stage; the last has embedding and head beside them.
    """
    pipe = result.step.strategy.pipeline
    assert pipe is not None
    devices, pace = result.mesh["P"], result.step.pace
    schedule = pipe.schedule.at(p=devices)

    def seconds(expr: Expr) -> Fraction:
        return Fraction(result.seconds(expr.xreplace(dict(LLAMA))))

    def passes(time: Callable[[int], Time], per: Fraction) -> dict[str, Fraction]:
        totals = [seconds(time(i).total(result.overlap)) * per for i in (FORWARD, BACKWARD)]
        pair = seconds(time(FORWARD).beside(time(BACKWARD)).total(result.overlap)) * per
        return {"F": totals[0], "BW": totals[1], "FB": pair}

    layer = passes(pace.micro, Fraction(devices, LAYERS))
    ends = passes(pace.of_ends, Fraction(devices))
    durations = pace.durations(pipe, result.overlap)
    both = {kind: seconds(durations[symbol]) for kind, symbol in (("B", t_B), ("W", t_W))}
    # What share of a backward pass, run as two pieces, each of them is.
    whole = seconds(durations[t_F]) * layer["BW"] / layer["F"]
    parts = {kind: value / whole for kind, value in both.items()}

    def duration(slot: Sequence[Any]) -> Fraction:
        if len(slot) > 1:
            stages = [work.stage for work in slot]
            held = Fraction(sum(places[stage] for stage in stages), 2)
            last = sum(stage == len(places) - 1 for stage in stages)
            return layer["FB"] * held + ends["FB"] * Fraction(last, 2)
        work = slot[0]
        kind, share = ("BW", parts[work.kind]) if work.kind in parts else (work.kind, Fraction(1))
        beside = ends[kind] if work.stage == len(places) - 1 else 0
        return (layer[kind] * places[work.stage] + beside) * share

    chunks = int(schedule.v) if schedule.recipe.chunked else None
    found = Machine(schedule.order(devices, int(schedule.m), chunks), duration).run()
    return float(found.span if not schedule.recipe.barrier else found.makespan)


CASES = [("gpipe", {}), ("1f1b", {}), ("interleaved", {"chunks": 2}), ("zb-h1", {}),
         ("zb-h2", {}), ("dualpipe", {}), ("dualpipev", {})]  # fmt: skip


def timed(name: str, ends: Any, places: list[int], **options: Any) -> tuple[float, float]:
    """The library's seconds of a step without the update, and the simulation's."""
    made = step("dp+tp+pp", schedule=name, microbatches=16, ends=ends, **options)
    result = made.at("h100", B=64 * T, X=4, Y=8, P=4, T=T)
    update = result.seconds(made.on("h100", sizes=result.mesh).pass_time(UPDATE).total())
    return result.time - update, simulated(result, places)


@pytest.mark.parametrize("ends", [(0, 0), (1, 1), (0, 2)], ids=str)
@pytest.mark.parametrize(("name", "options"), CASES, ids=[case[0] for case in CASES])
def test_a_schedule_takes_what_the_simulation_takes(
    name: str, options: dict[str, Any], ends: tuple[int, int]
) -> None:
    """Exact where one path at the slowest pace is the longest; else within a few percent."""
    stages = 8 if name in ("interleaved", "dualpipev") else 4
    share, more = divmod(LAYERS + sum(ends), stages)
    places = [share + (stage >= stages - more) for stage in range(stages)]
    places[0] -= ends[0]
    places[-1] -= ends[1]
    said, seen = timed(name, ends, places, **options)
    if name in ("gpipe", "1f1b") and ends == (0, 0):
        assert said == pytest.approx(seen, rel=1e-9)
    assert 0.985 * seen <= said <= 1.065 * seen


def test_the_bubble_is_nearly_the_schedules_share() -> None:
    """(p - 1)/(m + p - 1) of the total, but for the ends and a head that fills no whole layer."""
    made = step("dp+pp", microbatches=8).at("h100", B=32 * T, X=4, P=4, T=T)
    assert made.bubble == pytest.approx(3 / 11, abs=0.03)
    assert step("dp", microbatches=8).at("h100", B=32 * T, X=4, T=T).bubble == 0


# --- microbatches and reductions ----------------------------------------------------------------


def moved(made: TrainingStep, kind: str, array: str = "W") -> Expr:
    """Bytes that collectives of a kind move of weights or their gradients in a step."""
    found = (
        value for key, value in made.cost.items()
        if key.op == kind and key.kind == "comm bytes" and key.array.lstrip("d").startswith(array)
    )  # fmt: skip
    return sum(found, S.Zero)


@pytest.mark.parametrize(("name", "kind"), [("fsdp", "AllGather"), ("fsdp", "ReduceScatter"),
                                            ("zero2", "ReduceScatter")])  # fmt: skip
def test_what_is_split_moves_with_every_microbatch(name: str, kind: str) -> None:
    once, often = (moved(step(name, microbatches=count), kind) for count in (1, 8))
    assert once != 0
    assert cancel(often / once) == 8


@pytest.mark.parametrize("name", ["dp", "zero1"])
def test_whole_gradients_are_reduced_once(name: str) -> None:
    kinds = ("AllReduce", "ReduceScatter", "AllGather")
    once, often = (
        sum(moved(step(name, microbatches=count), kind) for kind in kinds) for count in (1, 8)
    )
    assert cancel(often - once) == 0
    each = step(name, microbatches=8, reduce="each") if name == "dp" else None
    if each is not None:
        assert cancel(sum(moved(each, kind) for kind in kinds) / once) == 8


def test_gradients_that_wait_are_whole() -> None:
    waiting = step("fsdp", microbatches=4, reduce="last").formulas.memory
    split = step("fsdp", microbatches=4).formulas.memory
    assert cancel(waiting["gradients"] / split["gradients"]) == axis("X")
    assert moved(step("fsdp", microbatches=4, reduce="last"), "ReduceScatter") == moved(
        step("fsdp"), "ReduceScatter"
    )


def test_gradients_in_f32_are_reduced_in_f32() -> None:
    narrow, wide = (step("zero1", gradients=dtype) for dtype in (None, "f32"))
    assert cancel(moved(wide, "ReduceScatter") / moved(narrow, "ReduceScatter")) == 2
    assert cancel(wide.memory["gradients"] / narrow.memory["gradients"]) == 2


def test_hierarchical_sharding_gathers_within_a_group() -> None:
    """Gathers as of FSDP over X; across groups only the gradients' shards, once."""
    layer = two_matmul_layer()
    made, plain = strategy("hsdp").shard(layer), strategy("fsdp").shard(layer)
    for mine, theirs in zip(made.phases[:2], plain.phases[:2], strict=True):
        assert mine.volume() == theirs.volume()
    outer = made.update.volume()
    assert set(outer) == {axis("R")}
    assert outer[axis("R")] == 2 * 2 * layer.parameters / axis("X")


# --- what is computed again ---------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["selective", "matmul", "block"])
@pytest.mark.parametrize("name", ["dp", "fsdp+tp", "tp+sp"])
def test_arithmetic_done_again_is_the_policys(name: str, policy: Any) -> None:
    """Over all devices, what a share repeats is what the whole program would."""
    made = step(name, remat=policy)
    devices = S.One
    for used in made.strategy.mesh_axes:
        devices *= axis(used)
    share = made.formulas.shares[0]
    found = (share.again.flops * devices).expand()
    assert cancel(found - rematerialise(share.kind.program, policy).flops) == 0


def test_a_whole_layer_again_gathers_its_input_again() -> None:
    plain = step("tp", remat="none").shares[0]
    again = step("tp", remat="block").shares[0].again
    gathers = [one.volume for one in again.collectives if one.kind == "AllGather"]
    first = [one.volume for one in plain.sharded.forward.collectives if one.kind == "AllGather"]
    assert gathers == first
    weights = frozenset(plain.sharded.program.weights)
    assert not any(one.before.name in weights for one in step("fsdp", remat="block").shares[0]
                   .again.collectives)  # fmt: skip


# --- memory, stage by stage -----------------------------------------------------------------------


def test_stages_hold_every_parameter_once() -> None:
    made = step("dp+pp", microbatches=8, ends=(1, 1))
    result = made.at("h100", B=8 * T, X=1, P=4, T=T)
    memory, values = made.stage_memory, dict(result.values)
    each = [memory._numbers(one, values) for _, one in memory.kinds]
    ends = [memory._numbers(one, values) for one in (memory.embedding, memory.head, memory.common)]
    held = [memory._on(device, values, each, ends)["parameters"] for device in range(4)]
    assert sum(held) == 2 * LLAMA.params.count
    # 34 places: eight, eight, nine, nine; the outer ones are taken by the ends.
    layer = (LLAMA.params.count - 2 * 128256 * 4096 - 4096) // LAYERS
    assert held[1] == 2 * 8 * layer
    assert held[2] == 2 * 9 * layer


@pytest.mark.parametrize(("name", "flight"), [("gpipe", 16), ("1f1b", 4), ("zb-h1", 4),
                                              ("zb-h2", 7)])  # fmt: skip
def test_activations_in_flight(name: str, flight: int) -> None:
    """One microbatch is a whole sequence on each device; eight layers a stage."""
    made = step("dp+pp", schedule=name, microbatches=16, ends=(0, 0))
    result = made.at("h100", B=16 * T, X=1, P=4, T=T)
    one = LLAMA.saved_bytes_per_token("none").subs(LLAMA) / LAYERS * T
    memory, values = made.stage_memory, dict(result.values)
    each = [memory._numbers(part, values) for _, part in memory.kinds]
    ends = [memory._numbers(e, values) for e in (memory.embedding, memory.head, memory.common)]
    found = memory._on(0, values, each, ends)
    assert found["activations"] == flight * 8 * one
    if name == "gpipe":
        # All stages hold as much, and the last one all microbatches' logits.
        logits = 2 * 2 * 128256 * T
        assert result.held.device == 3
        assert result.memory["logits"] == 16 * logits
    elif name == "1f1b":
        assert result.held.device == 0


def test_dualpipe_holds_two_copies() -> None:
    single = step("dp+pp", microbatches=8, ends=(0, 0)).at("h100", B=8 * T, X=1, P=4, T=T)
    double = step("dp+pp", microbatches=8, schedule="dualpipe", ends=(0, 0)).at(
        "h100", B=8 * T, X=1, P=4, T=T
    )
    layer = (LLAMA.params.count - 2 * 128256 * 4096 - 4096) // LAYERS
    assert double.memory["parameters"] - 2 * 16 * layer in (0, 2 * (2 * 128256 + 1) * 4096)
    assert single.memory["parameters"] < double.memory["parameters"]
    # p + 1 microbatches of one stage's layers in flight, on both copies together; 1F1B has p.
    flowing = [one.step.stage_memory.devices(one.values)[1].by_kind for one in (single, double)]
    assert 4 * flowing[1]["activations"] == pytest.approx(5 / 3 * 4 * flowing[0]["activations"])


def test_what_lies_on_the_host() -> None:
    plain = step("fsdp").at("h100", B=64 * T, X=64, T=T)
    moved_off = step("fsdp", offload="optimizer").at("h100", B=64 * T, X=64, T=T)
    assert moved_off.memory["optimizer"] == 0
    host = moved_off.step.stage_memory.on_host
    assert round(moved_off.seconds(host.total.xreplace(dict(LLAMA)))) == plain.memory["optimizer"]
    # Gradients go down and weights come up: two and two bytes a parameter.
    seconds = 4 * LLAMA.params.count / 64 / float(chip("h100")["W_pcie"])
    assert moved_off.busy["pcie"] == pytest.approx(seconds, rel=1e-6)


# --- numbers that cannot be ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "numbers", "kind", "said"),
    [
        ("dp", {"microbatches": 0}, {}, StrategyError, "microbatches = 0: a whole number of 1"),
        ("dp+pp", {}, {"P": 4}, SymbolError, "no number of microbatches; give m="),
        ("dp+pp", {"microbatches": 8}, {"P": 64}, StrategyError, "P=64: 32 layers leave 30 of 64"),
        ("dp", {"microbatches": 3}, {}, ShardingError, "3 microbatches do not divide a batch of"),
        ("dp", {"schedule": "1f1b"}, {}, StrategyError, "has no stages for schedule='1f1b'; add"),
        ("dp", {}, {"chips": 32}, ShardingError, "the mesh X=16 has 16 devices, not 32"),
        ("dp+pp", {"schedule": "zb-h1", "microbatches": 2}, {"P": 4}, StrategyError, "at least p"),
        ("dp+pp", {"schedule": "interleaved", "microbatches": 4}, {"P": 4}, SymbolError, "v=..."),
        ("zero2", {"reduce": "last"}, {}, StrategyError, "keeps gradients split"),
        ("dp", {"remat": "blok"}, {}, StrategyError, "remat 'blok' is none of none, selective"),
        ("dp", {"offload": "weights"}, {}, StrategyError, "offload 'weights' is none of optimizer"),
        ("dp", {"gradients": "f31"}, {}, StrategyError, "gradients 'f31' is none of f32, bf16"),
        ("dp+pp", {"microbatches": 4, "ends": (1,)}, {"P": 4}, StrategyError, "two whole numbers"),
        ("dp", {}, {"efficiency": {"math": 1.5}}, SymscaleError, "math"),
    ],
)
def test_a_plan_that_cannot_be_gets_one_line(
    name: str, options: dict[str, Any], numbers: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said.replace("(", r"\(")) as caught:
        step(name, **options).at("h100", **{"B": 64 * T, "X": 16, "T": T, **numbers})
    assert "\n" not in str(caught.value)


# --- laws -----------------------------------------------------------------------------------

SPLITS = ("dp", "zero1", "zero2", "fsdp")
SIZES = st.sampled_from([2, 4, 8, 16, 64])


@settings(max_examples=20, deadline=None)
@given(ways=SIZES, count=st.sampled_from([1, 2, 4]), adam=st.sampled_from(["adam", "adam+master"]))
def test_more_zero_never_needs_more_states(ways: int, count: int, adam: str) -> None:
    held = []
    for name in SPLITS:
        made = step(name, microbatches=count, optimizer=adam)
        result = made.at("h100", B=256 * T, X=ways, T=T)
        held.append(sum(result.memory[kind] for kind in ("parameters", "gradients", "optimizer")))
    assert held == sorted(held, reverse=True)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_bubble_falls_with_microbatches(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["gpipe", "1f1b", "zb-h1", "dualpipev"]))
    devices = data.draw(st.sampled_from([2, 4, 8]))
    few = devices * data.draw(st.sampled_from([2, 4]))
    made = [
        step("dp+pp", schedule=name, microbatches=count).at("h100", B=256 * T, X=1, P=devices, T=T)
        for count in (few, 2 * few)
    ]
    assert made[1].bubble < made[0].bubble


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_utilisation_is_a_share_and_work_is_all_done(data: st.DataObject) -> None:
    """MFU at most 1; devices times their busy time at least the whole work; overlaps in order."""
    name = data.draw(st.sampled_from(["dp", "fsdp", "tp", "fsdp+tp", "fsdp+tp+pp", "hsdp"]))
    policy = data.draw(st.sampled_from(["none", "selective", "block"]))
    count = data.draw(st.sampled_from([4, 8]))
    made = step(name, microbatches=count, remat=policy)
    mesh = {one: 4 if one == "P" else data.draw(st.sampled_from([2, 4, 8]))
            for one in made.strategy.mesh_axes}  # fmt: skip
    result = made.at("h100", B=512 * T, T=T, **mesh)
    assert 0 < result.compute_fraction <= 1 + 1e-12
    assert result.math * result.chips >= result.useful_math * result.chips * (1 - 1e-12)
    times = result.times
    assert times["full"] <= times["critical"] * (1 + 1e-12)
    assert times["critical"] <= times["none"] * (1 + 1e-12)


def test_without_communication_time_is_work_over_rate() -> None:
    result = step("dp", microbatches=4).at("h100", B=64 * T, X=1, T=T)
    flops = LLAMA.flops_per_token(T, training=True).subs(LLAMA) * 64 * T
    assert result.time == pytest.approx(float(flops / chip("h100")["C"]), rel=1e-9)
    assert result.compute_fraction == pytest.approx(1, rel=1e-12)


def test_efficiencies_stretch_their_own_roof() -> None:
    made = step("dp")
    plain = made.at("h100", B=64 * T, X=64, T=T)
    slow = made.at("h100", B=64 * T, X=64, T=T, efficiency={"math": 0.5})
    assert slow.busy["math"] == pytest.approx(2 * plain.busy["math"], rel=1e-12)
    assert slow.busy["hbm"] == pytest.approx(plain.busy["hbm"], rel=1e-12)
    assert slow.compute_fraction == pytest.approx(plain.compute_fraction / 2, rel=1e-6)


# --- remedies -------------------------------------------------------------------------------


def test_the_least_change_that_makes_it_fit() -> None:
    result = step("dp").at("tpu-v5p", B=2**20, X=64, T=T)
    assert not result.fits
    assert result.missing_bytes == result.memory_bytes - int(chip("tpu-v5p").hbm_bytes)
    found = result.remedy
    assert found is not None
    assert found.result.fits
    assert len(found.changes) == 1
    # No other single change of those tried is faster.
    for options in ({"remat": "block"}, {"offload": "optimizer"}):
        other = step("dp", **options).at("tpu-v5p", B=2**20, X=64, T=T)
        assert not other.fits or other.time >= found.result.time


def test_nothing_is_enough_for_a_model_far_too_large() -> None:
    huge = training("llama-3-405b", "dp").at("tpu-v5e", B=2**20, X=2, T=T)
    assert not huge.fits
    assert huge.remedy is None


def test_techniques_print_themselves() -> None:
    used = strategy("fsdp", remat="block", offload=("optimizer",)).techniques
    assert used == Techniques(remat="block", offload=("optimizer",))
    assert used.to_dict()["remat"] == "block"
    assert strategy("dp+pp", microbatches=8).techniques.microbatches == 8
    assert strategy("dp+pp").techniques.microbatches == m
    assert Rational(1) == Techniques().microbatches


def test_sizes_stay_symbols_in_formulas() -> None:
    seconds = step("fsdp+pp", microbatches=8).formulas.seconds("none")
    assert {B, L, P} <= seconds.free_symbols


def test_a_remedy_keeps_schedule_chunks_and_ends() -> None:
    made = step("dp+pp", schedule="interleaved", chunks=2, microbatches=8, ends=(1, 1),
                optimizer="adam+master", remat="block")  # fmt: skip
    small = chip("h100").override(hbm_bytes=24 * 10**9)
    result = made.at(small, B=64 * T, X=8, P=4, T=T, efficiency={"math": 0.5})
    assert not result.fits
    found = result.remedy
    assert found is not None
    pipe = found.result.step.strategy.pipeline
    assert pipe is not None
    assert (pipe.schedule.name, pipe.ends) == ("interleaved", (1, 1))
    assert pipe.schedule.v == 2
    assert found.result.step.strategy.techniques.optimizer == "adam+master"
    assert dict(found.result.step.efficiency) == dict(result.step.efficiency)
