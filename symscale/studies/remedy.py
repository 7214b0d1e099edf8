"""The least change that makes a training step fit: techniques first, then another way to split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from symscale.algebra.errors import SymscaleError
from symscale.parallel.strategy import Strategy, strategy
from symscale.parallel.techniques import OPTIONS
from symscale.studies.notes import cut_sequences

if TYPE_CHECKING:
    from symscale.studies.result import StepResult
    from symscale.studies.training import TrainingStep

#: Ways to hold the states of data ranks, each with less on a device than the one before.
_SPLITS = ("dp", "zero1", "zero2", "fsdp")
_POLICIES = ("none", "selective", "matmul", "block")


@dataclass(frozen=True)
class Change:
    """One change: in words, by technique, another data part, or a mesh axis made larger."""

    text: str
    options: tuple[tuple[str, Any], ...] = ()
    split: tuple[str, str] | None = None
    doubled: str | None = None


@dataclass(frozen=True)
class Remedy:
    """Changes under which the step fits, and the step with them."""

    changes: tuple[Change, ...]
    result: StepResult

    def __str__(self) -> str:
        words = " and ".join(change.text for change in self.changes)
        result, room = self.result, int(self.result.chip.hbm_bytes)
        return (
            f"{words}: {result.memory_bytes / 1e9:.4g} GB of {room / 1e9:.4g} GB, "
            f"{result.time:.4g} s a step on {result.chips:,} chips"
        )

    def to_dict(self) -> dict[str, Any]:
        """The changes in words, and what comes of them."""
        return {
            "changes": [change.text for change in self.changes],
            "memory_bytes": self.result.memory_bytes,
            "step_time_s": self.result.time,
            "chips": self.result.chips,
        }


def remedy(result: StepResult) -> Remedy | None:
    """The fewest changes that make a step fit; of several, the one with the fastest step.

    One or two changes that need no further chip come first; then one mesh axis is doubled; then
    three changes. None if nothing of this is enough.

    >>> from symscale.studies.training import training
    >>> tight = training("llama-3-8b", "dp").at("tpu-v5p", B=2**20, X=64)
    >>> tight.fits, str(remedy(tight)).partition(":")[0]
    (False, 'split weights too (fsdp)')
    """
    here, more = tuple(_changes(result)), tuple(_growth(result))
    for tried in (*_sets(here, 1), *_sets(here, 2)), (*_sets(more, 1),), (*_sets(here, 3),):
        found: list[Remedy] = []
        for changes in tried:
            if found and len(changes) > len(found[0].changes):
                break
            made = _made(result, changes)
            if made is not None:
                found.append(Remedy(changes, made))
        if found:
            return min(found, key=lambda one: one.result.time)
    return None


def _sets(changes: tuple[Change, ...], count: int) -> Iterator[tuple[Change, ...]]:
    """So many changes, no two of one sort."""
    for chosen in combinations(changes, count):
        sorts = [_sort(change) for change in chosen]
        if len(set(sorts)) == len(sorts):
            yield chosen


def _sort(change: Change) -> str:
    return change.options[0][0] if change.options else "split"


def _changes(result: StepResult) -> Iterator[Change]:
    """What can be changed on the same chips."""
    used = result.step.strategy.techniques
    place = _POLICIES.index(used.remat) if used.remat in _POLICIES else len(_POLICIES) - 2
    for policy in _POLICIES[place + 1 :]:
        yield Change(f"compute again (remat {policy})", (("remat", policy),))
    yield from _splits(result.step)
    if "optimizer" not in used.offload:
        yield Change("keep the optimizer on the host",
                     (("offload", (*used.offload, "optimizer")),))  # fmt: skip
    if "activations" not in used.offload:
        yield Change("keep activations on the host",
                     (("offload", (*used.offload, "activations")),))  # fmt: skip
    count = int(used.microbatches)
    for factor in (2, 4, 8):
        yield Change(f"{count * factor} microbatches", (("microbatches", count * factor),))


def _splits(step: TrainingStep) -> Iterator[Change]:
    """More of the states split over the data ranks."""
    names = {"zero1": "the optimizer state", "zero2": "optimizer state and gradients",
             "fsdp": "weights too"}  # fmt: skip
    held = next((part.name for part in step.strategy.parts if part.name in _SPLITS), None)
    if held is not None:
        for name in _SPLITS[_SPLITS.index(held) + 1 :]:
            yield Change(f"split {names[name]} ({name})", split=(held, name))


def _growth(result: StepResult) -> Iterator[Change]:
    for name, size in result.mesh.items():
        yield Change(f"double {name} to {2 * size}", doubled=name)


def _made(result: StepResult, changes: tuple[Change, ...]) -> StepResult | None:
    """The step with changes; None where it cannot be so, or still does not fit."""
    mesh: dict[str, int] = {}
    options: dict[str, Any] = {}
    for change in changes:
        options.update(change.options)
        if change.doubled is not None:
            mesh[change.doubled] = 2 * result.mesh[change.doubled]
    count = options.get("microbatches")
    given = {**mesh, **({"m": count} if count is not None and "m" in result.asked else {})}
    try:
        chosen = result.step.strategy
        for change in changes:
            chosen = chosen if change.split is None else _otherwise_split(chosen, *change.split)
        made = result.again(chosen.using(**options) if options else chosen, **given)
        # Smaller microbatches may not cut sequences that were whole. A rate that the chip does not
        # state (PCIe, say) shows when the step is timed.
        cut = any(cut_sequences(made)) and not any(cut_sequences(result))
        return made if made.fits and not cut and made.time else None
    except SymscaleError:
        return None


def _otherwise_split(chosen: Strategy, before: str, after: str) -> Strategy:
    """The strategy with another data part, all else as it was."""
    names = [part.name for part in chosen.parts]
    name = "+".join(after if one == before else one for one in names)
    used = {option: getattr(chosen.techniques, option) for option in OPTIONS}
    pipe = chosen.pipeline
    if pipe is not None:
        chunks = pipe.schedule.v if pipe.schedule.recipe.chunked else None
        used |= {"schedule": pipe.schedule.name, "chunks": chunks, "ends": pipe.ends}
    return strategy(name, **chosen.axes, **used)
