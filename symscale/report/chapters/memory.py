"""What a chip holds: memory by kind on the fullest one, what a policy saves, what lies outside."""

from __future__ import annotations

from sympy import Expr, together

from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import W_pcie
from symscale.algebra.time import MATH, Time
from symscale.arrays.array import Array
from symscale.models.remat import POLICIES
from symscale.parallel.techniques import Remat
from symscale.programs.collectives import AllReduce, Collective, ReduceScatter
from symscale.programs.reverse import gradient_name
from symscale.report.chapters.layers import kind_text
from symscale.report.chapters.summary import remedy_text
from symscale.report.document import (
    Block,
    Cell,
    Section,
    callout,
    display,
    equation,
    section,
    table,
    text,
)
from symscale.report.numbers import count, memory, number, percent, rate, seconds
from symscale.report.rich import Code, Math, Part
from symscale.report.study import TrainingStudy
from symscale.solve.crossover import crossover
from symscale.studies.pace import PCIE
from symscale.studies.saved import recomputed, saved
from symscale.studies.share import Share

_PASSES = ("forward pass", "backward pass", "optimizer step")


def memory_chapter(study: TrainingStudy) -> list[Section]:
    """Memory of the fullest chip, activations by policy, the host, gradient accumulation."""
    used = study.step.strategy.techniques
    made = [section("Memory of a chip", *_held(study))]
    made.append(section("Saved and computed again", *_policies(study), level=2))
    if used.offload:
        made.append(section("On the host", *_host(study), level=2))
    if used.accumulates:
        made.append(section("Microbatches", *_accumulated(study), level=2))
    return made


def whose(study: TrainingStudy) -> str:
    """The chip that holds most, in words.

    A pipeline's devices differ; all others hold the same.
    """
    pipeline = study.step.strategy.pipeline
    if pipeline is None:
        return "every chip"
    device = study.result.held.device
    stages = pipeline.stages_of(device, study.result.mesh[pipeline.axis])
    named = f"device {device} of axis {pipeline.axis}, which holds most"
    if stages == (device,):
        return named
    return f"{named} (stages {', '.join(map(str, stages))})"


def _held(study: TrainingStudy) -> list[Block]:
    result, used = study.result, study.step.strategy.techniques
    formulas = study.step.formulas.stage_memory.formula(result.held.device, result.values)
    rows: list[tuple[Cell, Cell, Cell]] = [
        (kind, "" if size == 0 else Math(together(formulas[kind])), memory(size))
        for kind, size in result.memory.items()
    ]
    rows.append(("total", "", memory(result.memory_bytes)))
    layers = "" if study.step.strategy.pipeline is None else (
        " Numbers of layers and of microbatches in flight are those of this device."
    )  # fmt: skip
    room = int(study.chip.hbm_bytes)
    fitting = (
        callout("good", "It fits the chip's ", memory(room), ".", title="Size")
        if result.fits
        else callout(
            "bad", "It does not fit the chip's ", memory(room), ": ", memory(result.missing_bytes),
            f" too many. The least change that is enough: {remedy_text(study)}.", title="Size",
        )
    )  # fmt: skip
    return [
        table(
            ["kind", "formula", ("bytes", "right")],
            rows,
            f"Memory by kind on {whose(study)}.",
        ),
        text(
            f"Optimizer state is {used.state_bytes} bytes for each parameter (",
            Code(used.optimizer),
            "). Activations are those that wait for the backward pass; buffers are gathered "
            "weights, gradients not yet reduced, and what is being computed again." + layers,
        ),
        fitting,
    ]


# --- Policies ----------------------------------------------------------------------------------


def _policies(study: TrainingStudy) -> list[Block]:
    """What each policy would save and repeat, and the step's own in detail."""
    remat = study.step.strategy.techniques.remat
    named = ", ".join(remat) if isinstance(remat, tuple) else remat
    blocks: list[Block] = [
        text(
            "The backward pass reads forward arrays. A policy saves some of them; what is missing "
            "is made again by the steps of the forward pass that lead to it. This step's policy: ",
            Code(named),
            ".",
        )
    ]
    for share in study.step.shares:
        blocks += [_saved(study, share), _choices(study, share)]
    return blocks


def _bytes(study: TrainingStudy, expr: Expr) -> Part:
    return memory(study.result.seconds(study.of_microbatch(expr)))


def _saved(study: TrainingStudy, share: Share) -> Block:
    arrays = saved(share.sharded, share.remat)
    rows: list[tuple[Cell, ...]] = [
        (Code(one.short), Math(one.bytes), _bytes(study, one.bytes)) for one in arrays
    ]
    whole = _total(arrays)
    rows.append(("all", Math(together(whole)), _bytes(study, whole)))
    return table(
        ["saved array", "formula", ("bytes", "right")],
        rows,
        f"What one {kind_text(share)} saves for its backward pass"
        f"{_of_microbatch(study)}, per device.",
    )


def _of_microbatch(study: TrainingStudy) -> str:
    return (
        " for one microbatch (B is its batch)" if study.step.strategy.techniques.accumulates else ""
    )


def _total(arrays: tuple[Array, ...]) -> Expr:
    total: Expr = sum((one.bytes for one in arrays[1:]), arrays[0].bytes)
    return total


def _choices(study: TrainingStudy, share: Share) -> Block:
    """Bytes against FLOPs for every policy."""
    own = study.step.strategy.techniques.remat
    listed: list[Remat] = [policy for policy in POLICIES if policy != "full"]
    if isinstance(own, tuple):
        listed.append(share.remat)
    whole = share.sharded.forward.flops + share.sharded.backward.flops
    rows: list[tuple[Cell, ...]] = []
    for policy in listed:
        kept = _total(saved(share.sharded, policy))
        again = recomputed(share.sharded, policy).flops
        flops, every = (study.result.seconds(study.of_microbatch(e)) for e in (again, whole))
        name = "these arrays" if isinstance(policy, tuple) else policy
        rows.append(
            (Code(name) if isinstance(policy, str) else name, _bytes(study, kept),
             Math(together(again)), number(flops), percent(flops / every))
        )  # fmt: skip
    return table(
        ["policy", ("saves", "right"), "FLOPs again", ("number", "right"),
         ("of the layer", "right")],
        rows,
        f"One {kind_text(share)} under each policy{_of_microbatch(study)}, per device. "
        "Under none, what stays on chip is made again within its kernel and not counted.",
    )  # fmt: skip


# --- Host --------------------------------------------------------------------------------------


def _host(study: TrainingStudy) -> list[Block]:
    """What lies on the host, and whether the way to it hides behind arithmetic."""
    step, result = study.step, study.result
    kinds = step.formulas.stage_memory.on_host
    rows: list[tuple[Cell, ...]] = [
        (kind, Math(together(expr)), memory(result.seconds(expr)))
        for kind, expr in kinds.items()
        if expr != 0
    ]
    where = "a chip" if step.strategy.pipeline is None else "the first stage (an even share)"
    blocks: list[Block] = [
        table(["kind", "formula", ("bytes", "right")], rows, f"What {where} keeps on its host."),
        text(
            "It comes and goes over PCIe beside the pass that needs it, and hides while it takes "
            "less time than the pass's arithmetic."
        ),
    ]
    passes, walls = [], []
    for position, name in enumerate(_PASSES):
        busy = _by_resource(step.pass_time(position))
        if PCIE in busy:
            passes.append(_pass_row(study, name, busy))
            walls += _pcie_wall(study, name, position)
    blocks.append(
        table(
            ["pass", ("PCIe", "right"), ("arithmetic", "right"), "so"],
            passes, "Time on PCIe beside arithmetic, all microbatches.",
        )
    )  # fmt: skip
    return [*blocks, *walls]


def _by_resource(time: Time) -> dict[str, Expr]:
    return dict(time.stages[0].by_resource()) if time.stages else {}


def _pass_row(study: TrainingStudy, name: str, busy: dict[str, Expr]) -> tuple[Cell, ...]:
    moved = study.result.seconds(busy[PCIE])
    math = study.result.seconds(busy[MATH]) if MATH in busy else 0.0
    said = "it hides" if moved <= math else "it does not hide" if math else "nothing to hide behind"
    return name, seconds(moved), seconds(math), said


def _pcie_wall(study: TrainingStudy, name: str, position: int) -> list[Block]:
    """The PCIe bandwidth from which a pass's arithmetic hides it, solved."""
    busy = _by_resource(study.step.formulas.pass_time(position))
    if MATH not in busy:
        return []
    try:
        answer = crossover(busy[MATH], busy[PCIE], W_pcie)
    except SolveError:
        return []
    if answer.threshold is None:
        return []
    least = study.result.seconds(answer.threshold)
    return [
        text(f"In the {name} it hides from this PCIe bandwidth of a chip on:"),
        display(equation(W_pcie, answer.threshold, rate(least, "B/s"))),
    ]


# --- Microbatches ------------------------------------------------------------------------------


def _accumulated(study: TrainingStudy) -> list[Block]:
    """What moves with every microbatch, and what once a step."""
    used = study.step.strategy.techniques
    blocks: list[Block] = [
        text(
            f"A step takes {used.microbatches} microbatches of "
            f"{study.batch // int(used.microbatches):,} tokens one after another and adds their "
            "gradients up. What a layer moves with each of them it moves as often; what belongs "
            f"to the optimizer step it moves once. {_reduced(study)}"
        )
    ]
    for share in study.step.shares:
        rows = _moved(study, share)
        if rows:
            blocks.append(
                table(
                    ["pass", "axis", "formula", ("bytes", "right"), ("times a step", "right"),
                     ("bytes a step", "right")],
                    rows,
                    f"What one {kind_text(share)} moves, per device (B is the microbatch's).",
                )
            )  # fmt: skip
    return blocks


def _reduced(study: TrainingStudy) -> str:
    """When gradients are reduced, read off the passes."""
    found = {
        position
        for share in study.step.shares
        for position, phases in enumerate(share.passes)
        for phase in phases
        if any(_reduces(move, share) for move in phase.collectives)
    }
    if not found:
        return ""
    when = (
        "after the last microbatch only" if len(_PASSES) - 1 in found else "with every microbatch"
    )
    return f"Gradients are reduced over data ranks {when}."


def _reduces(move: Collective, share: Share) -> bool:
    """Whether a movement adds up the gradient of a weight."""
    weights = {gradient_name(name) for name in share.sharded.program.weights}
    return isinstance(move, AllReduce | ReduceScatter) and move.before.name in weights


def _moved(study: TrainingStudy, share: Share) -> list[tuple[Cell, ...]]:
    parts = int(study.step.strategy.techniques.microbatches)
    rows: list[tuple[Cell, ...]] = []
    for position, (name, phases) in enumerate(zip(_PASSES, share.passes, strict=True)):
        times = 1 if position == len(_PASSES) - 1 else parts
        for phase in phases:
            for key, volume in phase.volume(statistics=False).items():
                each = study.result.seconds(study.of_microbatch(volume))
                names = "".join(s.name for s in key) if isinstance(key, tuple) else key.name
                again = name if phase is phases[-1] else f"{name}, computed again"
                rows.append(
                    (again, names, Math(together(volume)), memory(each), count(times),
                     memory(each * times))
                )  # fmt: skip
    return rows
