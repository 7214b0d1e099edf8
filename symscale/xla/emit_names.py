"""How arrays, shardings and element types are written in JAX."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from symscale.arrays.array import Array
from symscale.arrays.dtype import DType
from symscale.programs.sharded import ShardedProgram
from symscale.xla.emit_functions import FUNCTIONS

_OTHER = re.compile(r"\W+", re.ASCII)
_TAKEN = frozenset(
    (
        *keyword.kwlist, *dir(builtins), *FUNCTIONS,
        "jax", "jnp", "np", "os", "lax", "P", "Mesh", "NamedSharding", "AxisType",
        "MESH", "SPECS", "ARGUMENTS", "PROGRAM", "RESULTS", "argument", "placed", "forward",
        "backward", "functools", "operator", "joint", "local", "sharding",
    )
)  # fmt: skip
_DTYPES = {
    "f32": "float32", "bool": "bool_", "bf16": "bfloat16", "f16": "float16", "fp8": "float8_e4m3fn",
    "fp4": "float4_e2m1fn", "int32": "int32", "int8": "int8", "int4": "int4",
}  # fmt: skip


@dataclass
class Names:
    """Variables for arrays of any name (``dXn(Q)``), each its own, none a word of Python or JAX.

    >>> names = Names()
    >>> names.of("dXn(Q)"), names.of("dXn_Q"), names.of("lambda"), names.of("dXn(Q)")
    ('dXn_Q', 'dXn_Q_2', 'lambda_2', 'dXn_Q')
    """

    given: dict[str, str] = field(default_factory=dict)

    def of(self, text: str) -> str:
        """The variable of this text."""
        if text not in self.given:
            self.given[text] = self._fresh(_OTHER.sub("_", text).strip("_") or "array")
        return self.given[text]

    def _fresh(self, stem: str) -> str:
        name, count = stem, 1
        while name in _TAKEN or name in self.given.values():
            count += 1
            name = f"{stem}_{count}"
        return name


def quoted(name: str) -> str:
    """A name as a string of the source; names of the notation hold no quotes."""
    return f'"{name}"'


def axes_source(axes: Iterable[str]) -> str:
    """Mesh axes as JAX takes them: one name, or a tuple from major to minor.

    >>> print(axes_source(["X"]), axes_source("XY"))
    "X" ("X", "Y")
    """
    names = [quoted(name) for name in axes]
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def spec_source(array: Array, unreduced: bool = False) -> str:
    """A sharding as a PartitionSpec; partial sums are said (``unreduced``) in Explicit mode only.

    >>> from symscale.arrays.array import array
    >>> print(spec_source(array("W[D_XY, F, H_Z]")))
    P(("X", "Y"), None, "Z")
    >>> print(spec_source(array("O[B_X, D]{U_Y}"), unreduced=True))
    P("X", None, unreduced={"Y"})
    """
    parts = [axes_source(dim.axes) if dim.axes else "None" for dim in array.dims]
    if unreduced and array.unreduced:
        parts.append(f"unreduced={{{', '.join(map(quoted, array.unreduced))}}}")
    return f"P({', '.join(parts)})"


def dtype_source(kind: DType) -> str:
    """An element type of ``jax.numpy``."""
    return f"jnp.{_DTYPES[kind.name]}"


def partition_specs(sharded: ShardedProgram) -> dict[str, str]:
    """The PartitionSpec of every parameter, activation and cache of a program, as JAX source.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> from symscale.parallel.strategy import strategy
    >>> print(partition_specs(two_matmul_layer().shard(strategy("fsdp")))["Win"])
    P("X", None)
    """
    return {name: spec_source(sharded.sharding(name)) for name in sharded.program.arrays}
