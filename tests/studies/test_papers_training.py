"""Published days, rates, costs and energies of training runs, each from counted work and a pace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, Rational

from symscale import chip, model, strategy
from symscale.algebra.symbols import B, C, X
from symscale.arrays.mesh import Mesh
from symscale.models.decoder import two_matmul_layer
from symscale.models.flops import rule_of_thumb
from symscale.models.model import Model
from symscale.models.utilisation import utilisation
from symscale.parallel.schedules.lookup import schedule
from symscale.studies.budget import budget, per_parameter
from symscale.studies.spending import Budget
from tests.models.cases import gpt2

TRUTH = json.loads((Path(__file__).parents[1] / "truth" / "papers_training.json").read_text())
ROWS: list[dict[str, Any]] = TRUTH["rows"]
GIGA, TERA, PETA = 10**9, 10**12, 10**15
HOUR = 3600


def rows(*prefixes: str) -> pytest.MarkDecorator:
    chosen = [row for row in ROWS if row["id"].startswith(prefixes)]
    assert chosen
    return pytest.mark.parametrize("row", chosen, ids=[row["id"] for row in chosen])


def close(found: Any, row: dict[str, Any]) -> None:
    value, tol = row["value"], row["tol"]
    if row["tol_kind"] == "exact":
        assert float(found) == pytest.approx(value, rel=1e-12)
    elif row["tol_kind"] == "abs":
        assert abs(float(found) - value) <= tol
    else:
        assert abs(float(found) / value - 1) <= tol


def megatron(sizes: dict[str, Any]) -> Model:
    """A GPT with learned positions; the number of heads changes no count."""
    width: int = sizes["hidden" if "hidden" in sizes else "h"]
    return gpt2(
        n_embd=width, n_layer=sizes.get("layers", sizes.get("l")),
        n_head=sizes.get("heads", width // 128), vocab_size=sizes.get("V", sizes.get("v")),
        n_positions=sizes["s"],
    )  # fmt: skip


def work(found: Model, length: int, again: Expr | int = 0) -> Expr:
    """Training FLOPs of a token, and what is done a second time."""
    return (found.flops_per_token(length, training=True) + again).subs(found)


def whole_forward(found: Model, length: int) -> Expr:
    """All layers' forward pass: what these papers do again, the last product of a layer too."""
    return found.flops_per_token(length, head=False)


def table_1(row: dict[str, Any]) -> Budget:
    sizes, setting = row["model"], row["setting"]
    found, tokens = megatron(sizes), setting["B"] * sizes["s"]
    each = work(found, sizes["s"], whole_forward(found, sizes["s"]))
    return budget(
        each, tokens, chips=setting["GPUs"], chip="a100", achieved=setting["achieved_TF"] * TERA
    )


@rows("mega/pct")
def test_share_of_the_peak(row: dict[str, Any]) -> None:
    close(100 * table_1(row).mfu, row)


@rows("mega/agg")
def test_rate_of_all_gpus(row: dict[str, Any]) -> None:
    run = table_1(row)
    close(run.flops / run.seconds / PETA, row)


@rows("mega/days")
def test_days_by_the_rule_of_eight(row: dict[str, Any]) -> None:
    """Six FLOPs for each parameter, and two for the second forward pass."""
    setting, each = row["setting"], per_parameter() + per_parameter(training=False)
    run = budget(
        each * int(row["model"]["P"]), setting["T"], chips=setting["n"],
        achieved=setting["X"] * TERA,
    )  # fmt: skip
    close(run.days, row)


@rows("mega/T2")
def test_days_of_the_counted_model(row: dict[str, Any]) -> None:
    sizes, setting = row["model"], row["setting"]
    found = megatron(sizes)
    assert found.params.count == pytest.approx(sizes["P"], rel=0.005)
    each = work(found, sizes["s"], whole_forward(found, sizes["s"]))
    run = budget(each, setting["T"], chips=setting["GPUs"], achieved=setting["X"] * TERA)
    close(run.days, row)


@rows("mtnlg")
def test_rate_of_a_gpu_from_the_step_time(row: dict[str, Any]) -> None:
    sizes, setting = row["model"], row["setting"]
    found, tokens = megatron(sizes), setting["B"] * sizes["s"]
    each = work(found, sizes["s"], whole_forward(found, sizes["s"]))
    run = budget(
        each, tokens, chips=8 * setting["nodes"], chip="a100", batch=tokens,
        step_time=setting["seconds"],
    )  # fmt: skip
    close(run.achieved / TERA, row)


def one_step(row: dict[str, Any], seconds: float, scores_again: bool = False) -> Budget:
    """A step of Korthikanti's table, at a measured time; perhaps with the scores made again."""
    sizes, setting = row["model"], row["setting"]
    sizes = {"heads": 128, **sizes}
    found, tokens = megatron(sizes), setting["B"] * sizes["s"]
    again = found.attention_flops_per_token(sizes["s"]) if scores_again else 0
    each = work(found, sizes["s"], again)
    return budget(
        each, tokens, chips=setting["GPUs"], chip="a100", batch=tokens, step_time=seconds
    )  # fmt: skip


@rows("korth/tab5")
def test_korthikanti_table_5(row: dict[str, Any]) -> None:
    what, setting = row["id"].split("/")[3], row["setting"]
    present = one_step(row, setting["present_s"], what == "HFU_corrected")
    if what == "increase":
        full = one_step(row, setting["full_s"])
        close(100 * (present.achieved / full.achieved - 1), row)
    else:
        close(100 * present.mfu, row)


@rows("korth/530B_dp8")
def test_korthikanti_on_2240_gpus(row: dict[str, Any]) -> None:
    close(100 * one_step(row, row["setting"]["t"]).mfu, row)


@rows("korth/tab4/seqpar", "korth/tab4/full", "korth/tab4/sel")
def test_korthikanti_table_4(row: dict[str, Any]) -> None:
    """Overheads over a layer's plain step, and the share that counting makes of a full repeat."""
    if row["id"].endswith("full_bound"):
        found = megatron({"h": 6144, "l": 48, "V": 51200, "s": 2048, "heads": 64})
        passes = found.flops_per_token(2048, training=True, head=False)
        close(100 * (whole_forward(found, 2048) / passes).subs(found), row)
        return
    setting = row["setting"]
    paces = ((setting["fwd_ms"] + setting["bwd_ms"]), setting["baseline_ms"])
    mine, plain = (budget(1, 1, batch=1, chips=1, step_time=ms / 1000).seconds for ms in paces)
    close(100 * (mine / plain - 1), row)


@rows("korth/dealloc")
def test_outputs_of_the_stages_in_flight(row: dict[str, Any]) -> None:
    """The first of p stages holds the outputs of p microbatches."""
    sizes, setting = row["model"], row["setting"]
    found = megatron({**sizes, "l": 105, "V": 51200, "heads": 128})
    (out,) = found.programs.kinds[0].program.inputs[:1]
    array = found.programs.kinds[0].program.arrays[out]
    one = array.global_bytes.subs(found).subs(B, sizes["s"] * setting["b"])
    held = schedule("1f1b", p=setting["p"], m=4 * setting["p"]).in_flight()
    close(one * held / 2**30, row)


@rows("palm/")
def test_palms_count_for_mt_nlg(row: dict[str, Any]) -> None:
    sizes, setting = row["model"], row["setting"]
    if row["id"].endswith("tok_s"):
        tokens = setting["B"] * setting["s"]
        run = budget(1, tokens, batch=tokens, step_time=setting["seconds"])
        close(tokens / run.seconds, row)
        return
    each = per_parameter() * int(sizes["N"])
    if "h" in sizes:
        scores = megatron({**sizes, "heads": 128})
        each += 3 * scores.attention_flops_per_token(sizes["s"]).subs(scores)
    pace = setting["tok_s"] / setting["GPUs"]
    run = budget(each, 10**9, chips=setting["GPUs"], chip="a100", throughput=pace)
    close(100 * run.mfu, row)
    share = utilisation(each, setting["tok_s"], 312e12, chips=setting["GPUs"])
    assert run.mfu == pytest.approx(float(share))


@rows("chin/T3")
def test_chinchilla_table_3(row: dict[str, Any]) -> None:
    each = per_parameter() * int(row["model"]["N"])
    close(budget(each, row["setting"]["D"]).flops, row)


@rows("gpt3/")
def test_gpt3_table_of_compute(row: dict[str, Any]) -> None:
    """T5's tokens meet either the encoder or the decoder: half of the parameters."""
    share = Rational(1, 2) if "/T5-" in row["id"] else 1
    run = budget(per_parameter() * int(row["model"]["N"]) * share, row["setting"]["D"])
    close(run.pf_days if row["unit"] == "PF-day" else run.flops, row)


@rows("llama3/T4")
def test_llama_3_table_4(row: dict[str, Any]) -> None:
    setting, what = row["setting"], row["id"].split("/")[3]
    ways = {name: setting[name] for name in ("TP", "CP", "PP", "DP")}
    gpus = int(Mesh(**ways).devices)
    if what == "gpus":
        close(gpus, row)
    elif what == "tokens":
        # Of the published tokens, a data rank has its published sequences.
        tokens = strategy("zero2").shard(two_matmul_layer()).sharding("In").dim("B").local
        each = tokens.subs({B: row["value"], X: setting["DP"]})
        assert each == setting["batch_per_DP"] * setting["seq"]
    else:
        assert gpus in (8192, 16384)
        found = model("llama-3.1-405b")
        run = budget(
            found, 15.6e12, chips=gpus, chip="h100", length=setting["seq"],
            achieved=setting["TF"] * TERA,
        )  # fmt: skip
        close(100 * run.mfu, row)


@rows("llama3/C405")
def test_llama_3_compute(row: dict[str, Any]) -> None:
    rule = rule_of_thumb("llama-3.1-405b")
    assert rule.number == pytest.approx(row["model"]["N"], rel=1e-5)
    close(budget(rule, row["setting"]["D"]).flops, row)


@rows("llama3/hours")
def test_llama_3_hours_hold_the_run(row: dict[str, Any]) -> None:
    """The published hours are no fewer than the work at the peak takes, nor than at 43 %."""
    setting = row["setting"]
    rule = rule_of_thumb(row["model"]["name"])
    at_peak = budget(rule, setting["tokens"], chip="h100", mfu=1)
    close(100 * at_peak.chip_hours / setting["hours"], row)
    assert budget(rule, setting["tokens"], achieved=430 * TERA).chip_hours < setting["hours"]


@rows("dsv3/hours", "dsv3/days", "dsv2/saving")
def test_deepseek_hours(row: dict[str, Any]) -> None:
    setting = row["setting"]
    tokens, pace = setting.get("tokens", TERA), TERA / (setting["hours_per_T"] * HOUR)
    run = budget(1, tokens, chips=setting.get("GPUs"), throughput=pace)
    if row["unit"] == "day":
        close(run.days, row)
    elif row["unit"] == "%":
        other = budget(1, tokens, throughput=TERA / (setting["other_hours_per_T"] * HOUR))
        close(100 * (1 - run.chip_hours / other.chip_hours), row)
    else:
        close(run.chip_hours, row)


@rows("dsv3/cost")
def test_deepseek_cost(row: dict[str, Any]) -> None:
    setting = row["setting"]
    run = budget(
        1, 1, batch=1, chips=2048, step_time=Rational(setting["hours"]) * HOUR / 2048,
        price=setting["price"],
    )  # fmt: skip
    close(run.cost_usd, row)


@rows("dsv3/TF", "dsv3/MFU", "dsv3/tokens")
def test_deepseek_v3_step(row: dict[str, Any]) -> None:
    setting = row["setting"]
    batch = setting["sequences"] * setting["seq"]
    run = budget(
        "deepseek-v3", batch, chips=setting["GPUs"], chip="h800", batch=batch,
        step_time=setting["step_s"], length=setting["seq"], causal=setting.get("causal", False),
    )  # fmt: skip
    if row["unit"] == "token":
        close(batch / run.days, row)
    else:
        close(100 * run.mfu if row["unit"] == "%" else run.achieved / TERA, row)


@rows("maxtext/")
def test_maxtext(row: dict[str, Any]) -> None:
    setting = row["setting"]
    name = {"v4": "tpu-v4p", "v5e": "tpu-v5e", "v5p": "tpu-v5p"}[setting["chip"]]
    slices, cores = map(int, setting["slices"].split("x"))
    chips = slices * (cores if setting["chip"] == "v5e" else cores // 2)
    each, rate = per_parameter() * GIGA, setting["TF"] * TERA
    run = budget(each, TERA, chips=chips, chip=name, achieved=rate)
    close(100 * run.mfu, row)
    assert run.flops / run.seconds == pytest.approx(rate * chips)
    assert rate <= chip(name)[C]


def footprint(setting: dict[str, Any]) -> Budget:
    return budget(
        1, 1, batch=1, chips=1, step_time=setting["hours"] * HOUR, power=setting["watts"],
        pue=setting["pue"], carbon=setting["kg_per_kwh"],
    )  # fmt: skip


@rows("llama1/energy", "llama1/carbon")
def test_energy_and_carbon(row: dict[str, Any]) -> None:
    run = footprint(row["setting"])
    found = run.energy_kwh if row["unit"] == "MWh" else run.carbon_kg
    close(found / 1000, row)
    on_file = budget(
        1, 1, batch=1, chips=1, step_time=row["setting"]["hours"] * HOUR, chip="a100",
        pue=row["setting"]["pue"],
    )  # fmt: skip
    assert on_file.energy_kwh == pytest.approx(run.energy_kwh), "the A100's TDP is 400 W"


@rows("llama1/hours", "llama1/days")
def test_llama_65b(row: dict[str, Any]) -> None:
    setting = row["setting"]
    run = budget(
        1, setting["tokens"], chips=setting["GPUs"], throughput=setting["tok_s_gpu"]
    )  # fmt: skip
    close(run.days if row["unit"] == "day" else run.chip_hours, row)


@rows("opt/hours", "bloom/hours")
def test_hours_of_so_many_gpus(row: dict[str, Any]) -> None:
    setting = row["setting"]
    run = budget(1, 1, batch=1, chips=setting["GPUs"], step_time=setting["days"] * 24 * HOUR)
    close(run.chip_hours, row)


def test_every_row_has_a_source_and_is_tested() -> None:
    assert {row["source"] for row in ROWS} <= set(TRUTH["sources"])
    names = [row["id"] for row in ROWS]
    assert len(set(names)) == len(names)
    marks = [
        name
        for value in globals().values()
        for mark in getattr(value, "pytestmark", ())
        for name in mark.kwargs.get("ids", ())
    ]
    assert sorted(marks) == sorted(names)
