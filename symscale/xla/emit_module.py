"""The frame of a written program: a mesh, shardings, arguments, one jitted function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from symscale.arrays.array import Array
from symscale.xla.emit_functions import needed
from symscale.xla.emit_names import Names, dtype_source, quoted, spec_source
from symscale.xla.emit_setting import Setting

_HEAD = '''"""{title}

Runs as it is: prints the module that XLA compiles for one device.
"""

import functools
import operator
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count={devices}")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

MESH = Mesh(
    np.array(jax.devices()[:{devices}]).reshape({shape}),
    {axes},
    axis_types=(AxisType.Auto,) * {rank},
)

SPECS = {{
{specs}
}}


def sharding(name):
    """Where an array lies."""
    return NamedSharding(MESH, SPECS[name])


def argument(name, shape, dtype):
    """An argument by shape and sharding; nothing is allocated."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding(name))
'''
_MAIN = """

if __name__ == "__main__":
    print(PROGRAM.lower(*ARGUMENTS).compile().as_text())
"""


@dataclass(frozen=True)
class Written:
    """A program as Python source: ``text`` defines ``PROGRAM`` (jitted) and its ``ARGUMENTS``."""

    name: str
    text: str
    setting: Setting

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Written({self.name!r}: {len(self.text.splitlines())} lines of JAX)"

    def to_dict(self) -> dict[str, Any]:
        """Name, source and the numbers it was written under."""
        return {"name": self.name, "source": self.text, **self.setting.to_dict()}


@dataclass
class Module:
    """Collects what a module needs: specs by array, arguments in order, lines of its function."""

    setting: Setting
    names: Names = field(default_factory=Names)
    specs: dict[str, str] = field(default_factory=dict)
    arguments: list[tuple[str, tuple[int, ...], str]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def spec(self, key: str, array: Array) -> str:
        """Note an array's sharding under a key; the key."""
        self.setting.local(array)
        self.specs.setdefault(key, spec_source(array))
        return key

    def take(self, key: str, array: Array) -> str:
        """Make an array an argument; its variable."""
        variable = self.names.of(key)
        self.spec(key, array)
        self.arguments.append((key, self.setting.shape(array), dtype_source(array.dtype)))
        self.parameters.append(variable)
        return variable

    def text(
        self, title: str, called: set[str], body: str, program: str, results: Sequence[str]
    ) -> str:
        """The whole module: ``body`` defines the functions, ``program`` jits one of them."""
        mesh = self.setting.mesh
        head = _HEAD.format(
            title=title,
            devices=self.setting.devices,
            shape=tuple(mesh.values()),
            axes=tuple_source([quoted(name) for name in mesh]),
            rank=len(mesh),
            specs="\n".join(f'    "{key}": {spec},' for key, spec in self.specs.items()),
        )
        helpers = "".join(f"\n\n{text}\n" for text in needed(called))
        listed = "\n".join(
            f'    argument("{key}", {shape}, {kind}),' for key, shape, kind in self.arguments
        )
        tail = f"\n\n\nARGUMENTS = (\n{listed}\n)\nRESULTS = {names_source(results, '    ')}\n"
        tail += f"PROGRAM = {program}\n"
        return f"{head}{helpers}\n\n{body}{tail}{_MAIN}"


def function_source(name: str, parameters: Sequence[str], lines: Sequence[str]) -> str:
    """A function's source.

    >>> print(function_source("f", ["x"], ["return x"]))
    def f(x):
        return x
    """
    inside = "\n".join(f"    {line}" for line in lines)
    return f"def {name}({', '.join(parameters)}):\n{inside}"


def tuple_source(items: Sequence[str]) -> str:
    """A tuple's source, right for one item too.

    >>> tuple_source(["a"]), tuple_source(["a", "b"])
    ('(a,)', '(a, b)')
    """
    return f"({', '.join(items)},)" if len(items) == 1 else f"({', '.join(items)})"


def names_source(names: Sequence[str], indent: str) -> str:
    """A list of names, one a line.

    >>> print(names_source(["In", "W"], "    "))
    [
        "In",
        "W",
    ]
    """
    inside = "".join(f"{indent}{quoted(name)},\n" for name in names)
    return f"[\n{inside}{indent[4:]}]"
