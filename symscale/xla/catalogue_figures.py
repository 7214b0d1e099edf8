"""The figures of the agreement: how many programs of each kind agree, and where FLOPs differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sympy import S

from symscale.programs.ops import Einsum
from symscale.xla.catalogue import Agreement
from symscale.xla.catalogue_cases import Case
from symscale.xla.check import Check


@dataclass(frozen=True)
class Figure:
    """How many programs of one kind there are and how many agree exactly."""

    title: str
    exact: int
    programs: int

    @property
    def share(self) -> float:
        """The part that agrees exactly."""
        return self.exact / self.programs if self.programs else 1.0

    def __str__(self) -> str:
        return f"{self.exact} of {self.programs} ({self.share:.1%})"

    def to_dict(self) -> dict[str, object]:
        """Title and both counts."""
        return {"title": self.title, "exact": self.exact, "programs": self.programs}


def _kind(case: Case) -> str:
    return case.group if case.group in ("product", "reshard") else "layer"


def _alone(kind: str, which: str = "forward") -> Callable[[Case], bool]:
    """A pass with the arrays' shardings alone."""
    return lambda case: _kind(case) == kind and not case.pinned and case.which == which


def _stated(kind: str, which: str = "forward") -> Callable[[Case], bool]:
    """A pass with every sharding of the derived plan stated."""
    return lambda case: _kind(case) == kind and plan_given(case) and case.which == which


def plan_given(case: Case) -> bool:
    """Whether a case says all that the derived plan says: it is pinned, or nothing lies other than
    its arrays do. A reshard's two ends are all there is to say.
    """
    return case.pinned or case.complete or case.group == "reshard"


_KINDS: tuple[tuple[str, Callable[[Case], bool]], ...] = (
    ("single products, arrays alone", _alone("product")),
    ("single products, pinned", _stated("product")),
    ("reshards: both ends stated", _alone("reshard")),
    ("layers, forward, arrays alone", _alone("layer")),
    ("layers, backward, arrays alone", _alone("layer", "backward")),
    ("layers, forward and gradient in one program, arrays alone", _alone("layer", "joint")),
    ("layers, forward, pinned", _stated("layer")),
    ("layers, backward, pinned", _stated("layer", "backward")),
    ("**the plan given**: reshards, pinned products and layers", plan_given),
    ("**arrays alone**: the plan left to XLA's partitioner", lambda case: not case.pinned),
    ("**all programs**", lambda case: True),
)


def figures(found: Agreement) -> tuple[Figure, ...]:
    """A figure for each kind of program, the explicit ones and the sweep last."""
    made = [_figure(title, found.chosen(wanted)) for title, wanted in _KINDS]
    made.append(_figure("derived collectives written out (`shard_map`)", found.explicit))
    if found.sweep:
        made.append(_figure("all reshards of a matrix on X=4, Y=2 (a full sweep)", found.sweep))
    return tuple(made)


def _figure(title: str, checks: Sequence[Check]) -> Figure:
    return Figure(title, sum(found.comparison.exact for found in checks), len(checks))


def least_flops(check: Check) -> int:
    """Matrix FLOPs a device if every device does an equal share and nothing is done twice."""
    total = S.Zero
    for phase in check.subject.phases:
        for step in phase.computes:
            if isinstance(step.op, Einsum):
                arrays = (*step.op.inputs, step.op.output)
                total += step.op.flops({d.name: d.size for a in arrays for d in a.dims})
    return check.subject.setting.number(total) // check.subject.setting.devices


def other_flops(found: Agreement) -> tuple[Check, ...]:
    """The checks in which XLA's matrix FLOPs are not the derived ones."""
    every = (*found.automatic, *found.explicit)
    return tuple(c for c in every if c.comparison.derived_flops != c.comparison.emitted_flops)
