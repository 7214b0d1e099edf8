"""What a step's numbers leave out or take in, in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from sympy import Expr

from symscale.algebra.substitution import evaluate
from symscale.algebra.symbols import B, T
from symscale.arrays.array import Array
from symscale.models.remat import rematerialise
from symscale.models.scores import masked
from symscale.programs.ops import Einsum
from symscale.programs.phase import Phase
from symscale.studies.efficiency import Efficiency
from symscale.studies.share import Share

if TYPE_CHECKING:
    from symscale.studies.result import StepResult


def notes(result: StepResult) -> Iterator[str]:
    """The notes of a step with numbers, most telling first."""
    yield from _on_host(result)
    yield from _again(result)
    yield from _schedule(result)
    yield from _left_out(result)
    yield from cut_sequences(result)


def _on_host(result: StepResult) -> Iterator[str]:
    """What a device keeps on its host."""
    kinds = result.step.strategy.techniques.offload
    if kinds:
        held = result.seconds(result.step.stage_memory.on_host.total)
        yield f"on the host lie {' and '.join(kinds)}, {held / 1e9:.4g} GB a device"


def _again(result: StepResult) -> Iterator[str]:
    """Arithmetic done more than once: by policy, or by several devices."""
    at_peak = replace(result.step, efficiency=Efficiency())
    repeated = result.seconds(at_peak.time.math) / result.useful_math
    remat = result.step.strategy.techniques.remat
    if remat != "none":
        share = _recomputed_share(result)
        if share:
            yield f"rematerialisation computes {share:.1%} of the arithmetic a second time"
        repeated -= share
    factor = float(evaluate(result.step.model.capacity, result.values))
    if factor != 1:
        yield (
            f"the experts of the hottest rank work on {factor:g} times their even share of tokens; "
            "all others wait for it"
        )
    elif repeated > 1.001:
        yield (
            f"devices repeat work: {repeated:.3g} times the arithmetic of the model is done, of "
            "which the compute fraction counts the useful part"
        )


def _recomputed_share(result: StepResult) -> float:
    """What the policy repeats over the arithmetic of the model, both on one device."""
    again, whole = (
        0.0,
        sum(
            result.seconds(phase.flops) for phase in result.step.model.programs.ends.shard().phases
        ),
    )
    for share in result.step.shares:
        count = float(evaluate(share.kind.count, result.values))
        flops = masked(_repeated(share), share.kind, share.causal).flops
        again += count * result.seconds(flops)
        whole += count * sum(result.seconds(phase.flops) for phase in share.whole)
    return again / whole


def _repeated(share: Share) -> Phase:
    """The repeated ops of the unsharded layer."""
    return Phase("recompute", rematerialise(share.kind.program, share.remat).steps)


def _schedule(result: StepResult) -> Iterator[str]:
    """Devices that are never all busy, and layers that do not divide."""
    step, pipeline = result.step, result.step.strategy.pipeline
    if pipeline is None:
        return
    devices = result.mesh[pipeline.axis]
    yield from pipeline.schedule.at(p=devices).notes
    head = int(evaluate(step.pace.head_in_layers, result.values))
    stages = devices * int(pipeline.schedule.pieces)
    layers, ends = len(step.model.config.body.layers), sum(pipeline.slots(head))
    dealt = layers + ends
    if dealt % stages:
        counted = f" (and the ends, counted as {ends})" if ends else ""
        yield (
            f"{layers} layers{counted} do not divide into {stages} stages; the slowest holds "
            f"{-(-dealt // stages)}"
        )


def _left_out(result: StepResult) -> Iterator[str]:
    """Sums over copies of weights that a pipeline makes."""
    pipeline = result.step.strategy.pipeline
    if pipeline is None or result.mesh[pipeline.axis] == 1:
        return
    if any(memory != 0 for memory in result.step.stage_memory.common.values()):
        yield (
            "embedding and head are one table on two stages: the sum of its gradients between them "
            "is not counted"
        )
    if pipeline.schedule.recipe.weights > 1:
        yield "each stage lies on two devices: the sum of their gradients is not counted"


def cut_sequences(result: StepResult) -> Iterator[str]:
    """A batch that is no whole number of sequences, or sequences that lie on several chips."""
    count = result.step.strategy.techniques.microbatches
    sequences = result.values[B] / count / result.values[T]
    what = "a batch" if count == 1 else "a microbatch"
    if not sequences.is_integer:
        yield (
            f"{what} of {result.values[B] / count} tokens is no whole number of sequences of "
            f"{result.values[T]}: {float(sequences):g}, counted in proportion"
        )
        return
    for ways in filter(None, map(_ways_of_sequences, _attention(result))):
        number = evaluate(ways, result.values)
        if not (sequences / number).is_integer:
            yield (
                f"{what} has {float(sequences):g} sequences of {result.values[T]} tokens, cut "
                f"over {number} ways: a sequence lies on several chips, and the exchange of keys "
                "and values between them is not counted (context parallelism, +cp, counts it)"
            )
            return


def _attention(result: StepResult) -> Iterator[Array]:
    """Where the first product of queries and keys has its queries, in each kind of layer."""
    for share in result.step.shares:
        for step in share.sharded.forward.computes:
            labels = step.output.labels
            if isinstance(step.op, Einsum) and labels[:1] == ("b",) and "T" in labels:
                yield step.output
                break


def _ways_of_sequences(array: Array) -> Expr:
    """Over how many ways the sequences are dealt out."""
    dim = array.dims[0]
    return dim.size / dim.local
