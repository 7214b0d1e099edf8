"""symscale: a symbolic cost algebra for scaling language models.

Names are loaded when first used, so that ``import symscale`` (and ``symscale --help``) is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_SYMBOL_NAMES = (
    "B", "T", "S", "D", "L", "F", "N", "K", "G", "H", "V", "E", "k",
    "X", "Y", "Z", "n", "M_X", "M_Y", "M_Z",
    "C", "C_f32", "C_fp8", "C_fp4", "C_int8", "C_int4",
    "W_hbm", "W_vmem", "W_ici", "W_nvlink", "W_dcn", "W_pcie", "t_hop",
)  # fmt: skip
_WHERE: dict[str, str] = dict.fromkeys(_SYMBOL_NAMES, "symscale.algebra.symbols")
_WHERE |= {
    "SymscaleError": "symscale.algebra.errors",
    "Mesh": "symscale.arrays.mesh",
    "array": "symscale.arrays.array",
    "einsum": "symscale.programs.einsum",
    "program": "symscale.programs.program",
    "crossover": "symscale.solve.crossover",
    "leading": "symscale.solve.leading",
    "minimise": "symscale.solve.minimise",
    "regimes": "symscale.solve.regimes",
    "numeric": "symscale.solve.numeric",
    "chip": "symscale.hardware.chips",
    "chips": "symscale.hardware.chips",
    "model": "symscale.models.model",
    "strategy": "symscale.parallel.strategy",
    "strategies": "symscale.parallel.strategy",
    "training": "symscale.studies.training",
}

__all__ = ["Eq", "report", "symbols", *_WHERE]


def __getattr__(name: str) -> Any:
    if name == "Eq":
        value: Any = importlib.import_module("sympy").Eq
    elif name == "symbols":
        value = importlib.import_module("symscale.algebra.symbols")
    elif name == "report":
        # The room itself, which can be called.
        value = importlib.import_module("symscale.report")
    elif name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
    else:
        raise AttributeError(f"module 'symscale' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
