"""Why the per-op time of a step and the textbook's aggregate differ: each reason with its seconds.

The aggregate lets all products with weights hide behind each other, keeps activations on chip, lets
attention wait for nothing but the cache, and reads every table whole. Taken away one by one, these
assumptions lead from one number to the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sympy import Add, Expr

from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import W_hbm
from symscale.algebra.table import Table
from symscale.studies.inference_kernels import Kernel, Pass

if TYPE_CHECKING:
    from symscale.studies.inference_result import InferenceResult


@dataclass(frozen=True)
class Difference:
    """Seconds of a step by both models, and what each assumption of the textbook's accounts for.

    The reasons add up to ``per_op - aggregate``.
    """

    per_op: float
    aggregate: float
    reasons: Mapping[str, float]

    @property
    def relative(self) -> float:
        """The difference over the aggregate."""
        return self.per_op / self.aggregate - 1

    @property
    def agree(self) -> bool:
        """Whether they are within one per cent."""
        return abs(self.relative) <= 0.01

    def table(self) -> Table:
        """Both times and the reasons, in milliseconds."""
        rows: list[tuple[str, float]] = [("aggregate", self.aggregate * 1e3)]
        rows += [(reason, value * 1e3) for reason, value in self.reasons.items()]
        return Table(("step", "ms"), (*rows, ("per-op", self.per_op * 1e3)))

    def __repr__(self) -> str:
        verdict = "within 1 %" if self.agree else f"{self.relative:+.1%}"
        return f"{self.table()}\nper-op against aggregate: {verdict}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Both times and the reasons, for JSON."""
        return {
            "per_op_s": self.per_op,
            "aggregate_s": self.aggregate,
            "relative": self.relative,
            "reasons_s": dict(self.reasons),
        }


def reasons(step: Pass, on_chip: bool) -> dict[str, Expr]:
    """What leads from the aggregate to the per-op time, as formulas that add up to it."""
    products = [one for one in step.kernels if not one.attention]
    attention = [one for one in step.kernels if one.attention]
    math = _sum(products, lambda one: one.math)
    traffic = _sum(products, lambda one: one.hbm(True))
    whole = Maximum(step.products, step.all_weights) + step.total("cache") / W_hbm
    cached = _sum(attention, lambda one: one.cache / W_hbm)
    separate = _sum(products, lambda one: one.seconds(True))
    return {
        "tables are looked up, not read whole": Maximum(math, traffic) + cached - whole,
        "products bound by arithmetic and products bound by HBM do not hide each other": separate
        - Maximum(math, traffic),
        "attention computes longer than it reads its cache": _sum(
            attention, lambda one: one.seconds(True)
        )
        - cached,
        "activations pass through HBM": step.compute("per-op", on_chip)
        - step.compute("per-op", True),
    }


def _sum(kernels: list[Kernel], of: Any) -> Expr:
    return Add(*(one.count * of(one) for one in kernels))


def difference(result: InferenceResult) -> Difference:
    """The two models of a step at the numbers of a result, and why they differ.

    >>> from symscale.studies.inference import inference
    >>> found = inference("llama-3-70b", "int8", "int8").at("tpu-v5e", chips=8, batch=32)
    >>> difference(found).agree
    True
    """
    per_op, aggregate = result.seconds("per-op"), result.seconds("aggregate")
    made = {
        reason: result.number(value)
        for reason, value in reasons(result.study.step, result.on_chip).items()
    }
    rest = per_op - aggregate - sum(made.values())
    made["communication outlasts one of them"] = rest
    # What is left of exact sums in floating point is no reason.
    found = {reason: value for reason, value in made.items() if abs(value) > 1e-12 * per_op}
    return Difference(per_op, aggregate, MappingProxyType(found))
