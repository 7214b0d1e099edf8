"""Model and hardware FLOPs utilisation: what a measured rate comes to, with its conventions.

Source: PaLM, https://arxiv.org/abs/2204.02311, appendix B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr, Rational

from symscale.algebra.substitution import exact


@dataclass(frozen=True)
class Utilisation:
    """A share of a chip's peak, and how it was counted.

    ``counted`` is ``"model"`` (MFU: what the model needs) or ``"hardware"`` (HFU: what was computed
    again is counted too).
    """

    value: Rational
    counted: str
    conventions: Mapping[str, str]

    def __float__(self) -> float:
        return float(self.value)

    def __repr__(self) -> str:
        name = {"model": "MFU", "hardware": "HFU"}[self.counted]
        said = "; ".join(f"{key}: {text}" for key, text in self.conventions.items())
        return f"{name} {100 * float(self.value):.2f}% ({said})"

    def to_dict(self) -> dict[str, Any]:
        """Value and conventions."""
        return {
            "counted": self.counted,
            "value": float(self.value),
            "conventions": dict(self.conventions),
        }


def utilisation(
    flops_per_token: Expr | float,
    tokens_per_second: Expr | float,
    peak: Expr | float,
    *,
    chips: int = 1,
    recomputed: Expr | float | None = None,
    peak_is: str = "dense",
) -> Utilisation:
    """Model FLOPs utilisation; hardware FLOPs utilisation where recomputed FLOPs are given.

    Args:
        flops_per_token: training FLOPs of a token, nothing counted twice.
        tokens_per_second: of all chips together.
        peak: FLOP/s of one chip; state with ``peak_is`` whether dense or sparse.
        chips: number of chips.
        recomputed: FLOPs of a token that were computed a second time.
        peak_is: ``"dense"`` or ``"sparse"``; printed with the number.

    Raises:
        SymbolError: for a number that is not above zero.

    >>> utilisation(6 * 7e9, 3000, 312e12)
    MFU 40.38% (recompute: not counted; peak: dense)
    >>> utilisation(6 * 7e9, 3000, 312e12, recomputed=2 * 7e9)
    HFU 53.85% (recompute: counted; peak: dense)
    """
    work = exact(flops_per_token, "flops_per_token")
    if recomputed is not None:
        work += exact(recomputed, "recomputed")
    rate = work * exact(tokens_per_second, "tokens_per_second")
    share = rate / (exact(peak, "peak") * exact(chips, "chips"))
    said = {
        "recompute": "not counted" if recomputed is None else "counted",
        "peak": peak_is,
    }
    counted = "model" if recomputed is None else "hardware"
    return Utilisation(share, counted, MappingProxyType(said))


def against_peak(value: float, assumed: float, true: float) -> Rational:
    """A utilisation stated against one peak, restated against another.

    >>> round(float(against_peak(1.04, 312e12, 989.4e12)), 3)
    0.328
    """
    return exact(value, "value") * exact(assumed, "assumed") / exact(true, "true")
