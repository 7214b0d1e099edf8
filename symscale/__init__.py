"""symscale: a symbolic cost algebra for scaling language models.

Names are loaded when first used, so that ``import symscale`` (and ``symscale --help``) is quick;
type checkers and editors read them from ``__init__.pyi``.
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from types import MappingProxyType
from typing import Any

__version__ = "0.1.0"


def _read_only(held: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(held)


# Results hold read-only mappings; without this they could not be copied or sent to a process.
copyreg.pickle(MappingProxyType, lambda view: (_read_only, (dict(view),)))

# Each name's module. Classes and symbols are the real ones; functions load when they are called.
_SYMBOLS = (
    "B", "T", "S", "D", "L", "F", "N", "K", "G", "H", "V", "E", "k",
    "X", "Y", "Z", "n", "M_X", "M_Y", "M_Z",
    "C", "C_f32", "C_fp8", "C_fp4", "C_int8", "C_int4",
    "W_hbm", "W_vmem", "W_ici", "W_nvlink", "W_dcn", "W_pcie", "t_hop",
)  # fmt: skip
_OBJECTS: dict[str, str] = {
    **dict.fromkeys(_SYMBOLS, "symscale.algebra.symbols"),
    "Eq": "sympy",
    "Mesh": "symscale.arrays.mesh",
    "SymscaleError": "symscale.algebra.errors",
}
_FUNCTIONS: dict[str, str] = {
    "array": "symscale.arrays.array",
    "chip": "symscale.hardware.chips",
    "chips": "symscale.hardware.chips",
    "crossover": "symscale.solve.crossover",
    "einsum": "symscale.programs.einsum",
    "leading": "symscale.solve.leading",
    "minimise": "symscale.solve.minimise",
    "maximise": "symscale.solve.minimise",
    "given": "symscale.solve.assume",
    "model": "symscale.models.model",
    "numeric": "symscale.solve.numeric",
    "program": "symscale.programs.program",
    "regimes": "symscale.solve.regimes",
    "schedule": "symscale.parallel.schedules.lookup",
    "schedules": "symscale.parallel.schedules.lookup",
    "strategies": "symscale.parallel.table",
    "strategy": "symscale.parallel.strategy",
    "inference": "symscale.studies.inference",
    "training": "symscale.studies.training",
    "budget": "symscale.studies.budget",
    "strong_scaling": "symscale.studies.scaling",
    "speculative": "symscale.studies.serving.speculative",
    "disaggregate": "symscale.studies.serving.disaggregation",
    "batching": "symscale.studies.serving.batching",
    "prefix_cache": "symscale.studies.serving.prefix",
    "server_step": "symscale.studies.serving.step",
    "sweep": "symscale.studies.serving.served",
    "pareto": "symscale.studies.serving.pareto",
    "advise": "symscale.studies.serving.advice",
}
# Modules; the report room can itself be called.
_MODULES: dict[str, str] = {"report": "symscale.report", "symbols": "symscale.algebra.symbols"}

__all__ = [*_OBJECTS, *_FUNCTIONS, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _OBJECTS:
        value: Any = getattr(importlib.import_module(_OBJECTS[name]), name)
    elif name in _FUNCTIONS:
        from symscale.deferred import Deferred

        value = Deferred(_FUNCTIONS[name], name)
    elif name in _MODULES:
        value = importlib.import_module(_MODULES[name])
        if name == "symbols" and "IPython" in sys.modules:
            importlib.import_module("symscale.algebra.notebook").typeset_in_notebook()
    else:
        raise AttributeError(f"module 'symscale' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
