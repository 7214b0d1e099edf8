"""More chips at the same batch, and what a run takes: the curve, its bend, days and the bill."""

from __future__ import annotations

from sympy import Expr

from symscale.algebra.symbols import T
from symscale.report.document import Block, Cell, Section, display, equation, section, table, text
from symscale.report.numbers import count, number, percent, seconds
from symscale.report.plots import LinePlot, line, vline
from symscale.report.rich import Math
from symscale.report.study import TrainingStudy
from symscale.studies.budget import budget
from symscale.studies.innermost import innermost
from symscale.studies.run import TrainingRun, training_run
from symscale.studies.scaling import Scaling, given_of, scaling_of
from symscale.studies.walls import wall_text

#: Tokens of the run in the table: a round number that any other scales from.
_TOKENS = 10**12


def scaling_chapter(study: TrainingStudy) -> list[Section]:
    """Tokens a second against chips, what more of them buy, and the bill of a trillion tokens."""
    curve = scaling_of(study.result)
    blocks: list[Block] = [text(" ".join((wall_text(study.result), *curve.words)))]
    if curve.bend is not None and curve.bend.symbols is not None:
        bend = number(curve.bend.chips, "chips")
        blocks.append(display(equation(Math.name("n_bend"), curve.bend.symbols, bend)))
    blocks += [scaling_plot(curve, study.result.chips), _growths(curve)]
    if sum(size > 1 for size in study.result.mesh.values()) > 1:
        result = study.result
        inner = innermost(result.step, result.chip, **given_of(result), **result.mesh)
        blocks.append(text(inner.words))
    return [
        section("More chips at the same batch", *blocks),
        section("Days and the bill", *_bill(study), level=2),
    ]


def scaling_plot(curve: Scaling, here: int) -> LinePlot:
    """Tokens a second against chips, beside the line that chips at their peak would give."""
    marks = [vline(here, f"{here:,} chips")]
    bend = curve.bend
    if bend is not None and curve.chips[0] <= bend.chips <= curve.chips[-1]:
        marks.append(vline(bend.chips, "the bend"))
    reached: list[tuple[float, float]] = list(
        zip(curve.chips, curve.tokens_per_second, strict=True)
    )
    if bend is not None and not bend.jump and curve.chips[0] < bend.chips < curve.chips[-1]:
        # Up to the bend the curve is the line: a corner that no power of two need hit.
        first, rate = reached[0]
        reached = sorted([*reached, (bend.chips, rate * bend.chips / first)])
    return LinePlot(
        "Tokens a second against chips at the same batch",
        "chips",
        "tokens/s",
        (
            line("chips at their peak", zip(curve.chips, curve.ideal, strict=True), "dashed"),
            line("this step", reached),
        ),
        xlog=True,
        ylog=True,
        markers=tuple(marks),
    )


def _growths(curve: Scaling) -> Block:
    rows: list[tuple[Cell, ...]] = [
        (count(one.before.chips), count(one.after.chips), number(one.speedup, digits=3),
         percent(one.efficiency), number(one.cost, digits=3))
        for one in curve.growths
    ]  # fmt: skip
    return table(
        [("from", "right"), ("to chips", "right"), ("times as fast", "right"),
         ("of the chips' worth", "right"), ("cost of a token, times", "right")],
        rows, "What more chips buy at the same batch.",
    )  # fmt: skip


def _bill(study: TrainingStudy) -> list[Block]:
    """A trillion tokens at the step's bound, and at utilisations that runs reach."""
    runs: list[tuple[str, TrainingRun]] = [
        ("the step's bound", training_run(study.result, _TOKENS)),
        *((f"MFU {share}%", training_run(study.result, _TOKENS, share / 100)) for share in (50, 40)
          if share / 100 <= study.result.compute_fraction),
    ]  # fmt: skip
    rows = [
        (name, percent(run.mfu), seconds(86_400 * run.days), number(run.chip_hours),
         _amount(run.cost_usd), _amount(run.energy_kwh))
        for name, run in runs
    ]  # fmt: skip
    said = runs[0][1].budget.conventions
    notes = [f"{key}: {words}" for key, words in said.items() if key in ("price", "power")]
    return [
        text("A run takes its work over its rate; at a utilisation, the chips cancel in the bill:"),
        display(*((label, formula) for label, formula in _formulas(study))),
        table(
            ["pace", ("MFU", "right"), ("time", "right"), ("chip-hours", "right"),
             ("USD", "right"), ("kWh", "right")],
            rows, "A run of 1,000,000,000,000 tokens; another scales with its tokens.", notes,
        ),
    ]  # fmt: skip


def _formulas(study: TrainingStudy) -> list[tuple[str, Expr]]:
    made = budget(study.model, length=int(study.result.values[T])).formulas
    return [("seconds", made["seconds"]), ("chip-hours", made["chip_hours"])]


def _amount(value: float | None) -> Cell:
    return "not on file" if value is None else number(value)
