"""How a schedule's time was reached, step by step; and its results as a mapping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from symscale.algebra.derivation import Derivation

if TYPE_CHECKING:
    from symscale.parallel.schedules.schedule import Schedule


def derive(schedule: Schedule) -> Derivation:
    """Each path leg by leg, then step, ideal, bubble and its two fractions."""
    made = Derivation()
    times = schedule.times.by_kind(1 / schedule.pieces)
    for number, walk in enumerate(schedule.walks, 1):
        name = f"path {number}: " if len(schedule.walks) > 1 else ""
        for leg in walk.legs:
            made = made.then(name + leg.why, leg.count * times[leg.kind], "one after another")
    reason = "the longest path" if schedule.recipe.barrier else \
        "the longest path, from a device's own first work: no barrier parts the steps"  # fmt: skip
    made = made.then("the step takes", schedule.step, reason)
    made = made.then("the work of one device", schedule.ideal, "no gap in it")
    made = made.then("the bubble", schedule.bubble, "step less work")
    made = made.then("the bubble over the ideal time", schedule.bubble_of_ideal, "")
    made = made.then("the bubble over the whole step", schedule.bubble_of_total, "")
    return made.then("activations in flight on the first stage", schedule.in_flight(0),
                     "in microbatches of one device's share of the layers")  # fmt: skip


def facts(schedule: Schedule) -> dict[str, Any]:
    """Formulas as text, for JSON."""
    hops = schedule.hops
    return {
        "name": schedule.name,
        "meaning": schedule.recipe.meaning,
        "source": schedule.recipe.source,
        "sizes": {key: str(size) for key, size in zip("pmv", schedule.sizes, strict=True)},
        "load": schedule.load.to_dict(),
        "makespan": str(schedule.makespan),
        "span": str(schedule.span),
        "step": str(schedule.step),
        "ideal": str(schedule.ideal),
        "bubble": str(schedule.bubble),
        "bubble_of_ideal": str(schedule.bubble_of_ideal),
        "bubble_of_total": str(schedule.bubble_of_total),
        "in_flight": str(schedule.in_flight(0)),
        "messages": {key: str(count) for key, count in schedule.messages.items()},
        "hops": None if hops is None else str(hops),
        "weights": schedule.recipe.weights,
        "exact_for": schedule.recipe.exact,
        "needs": [rule.text for rule in schedule.recipe.rules],
        "notes": list(schedule.notes),
    }
