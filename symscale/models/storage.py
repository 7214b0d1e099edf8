"""Bytes of stored weights, scales included; kept apart from the number of parameters.

A format has bits a weight and, for every group of weights, bits of scale. Packing several weights
into one stored number changes neither the parameters nor the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sympy import Expr, Rational, S

from symscale.algebra.errors import ModelError, near
from symscale.models.params import Parameters


@dataclass(frozen=True)
class Format:
    """How a weight is stored: ``bits`` each, and ``scale_bits`` for every ``group`` of them."""

    name: str
    bits: int
    group: int = 0
    scale_bits: int = 0

    @property
    def bits_per_weight(self) -> Rational:
        """Bits for one weight, its share of the scale included.

        >>> storage_format("mxfp4").bits_per_weight
        17/4
        """
        share = Rational(self.scale_bits, self.group) if self.group else Rational(0)
        return Rational(self.bits) + share

    def to_dict(self) -> dict[str, Any]:
        """All attributes, JSON-able."""
        return {"name": self.name, "bits_per_weight": float(self.bits_per_weight)}


#: The formats of published checkpoints: mxfp4 after the OCP microscaling specification, nvfp4 after
#: NVIDIA's; int4 with a bf16 scale for 128 (or 32) weights; fp8 with an f32 scale for a 128 x 128
#: block.
FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        made.name: made
        for made in (
            Format("f32", 32),
            Format("bf16", 16),
            Format("f16", 16),
            Format("fp8", 8),
            Format("fp8-block128", 8, 128 * 128, 32),
            Format("int8", 8),
            Format("int8-g128", 8, 128, 16),
            Format("int4", 4),
            Format("int4-g128", 4, 128, 16),
            Format("int4-g32", 4, 32, 16),
            Format("mxfp4", 4, 32, 8),
            Format("mxfp8", 8, 32, 8),
            Format("nvfp4", 4, 16, 8),
        )
    }
)


def storage_format(name: str | Format) -> Format:
    """A format by name.

    Raises:
        ModelError: the name is unknown; near names are given.

    >>> storage_format("int4-g128").bits_per_weight
    33/8
    """
    if isinstance(name, Format):
        return name
    if not isinstance(name, str):
        raise ModelError(f"storage format {name!r}: a name is wanted, such as 'int8'")
    if name not in FORMATS:
        raise ModelError(
            f"unknown storage format {name!r}; known: {', '.join(FORMATS)}{near(name, FORMATS)}"
        )
    return FORMATS[name]


def stored_bytes(
    params: Parameters,
    default: str | Format = "bf16",
    by_component: Mapping[str, str | Format] | None = None,
    biases: str | Format | None = None,
) -> Expr:
    """Bytes of all stored weights, by component where formats differ.

    Args:
        params: the parameters.
        default: the format of every component not named.
        by_component: formats by component, e.g. ``{"experts": "mxfp4"}``.
        biases: the format of the experts' biases, which stay as they are when their matrices are
            packed; the default's unless given.

    Raises:
        ModelError: a component that the model does not have.

    >>> from symscale.models.model import model
    >>> llama = model("llama-3-8b")
    >>> stored_bytes(llama.params, "int8").subs(llama)
    8030261248
    """
    chosen = dict(by_component or {})
    for name in chosen:
        if name not in params.components:
            known = ", ".join(params.components)
            raise ModelError(f"no component {name!r}; the model has {known}")
    plain = storage_format(default)
    total: Expr = S.Zero
    for name, amount in params.components.items():
        kind = storage_format(chosen.get(name, plain))
        left = params.biases.get(name, S.Zero) if name in chosen else S.Zero
        other = storage_format(biases or plain)
        total += (amount - left) * kind.bits_per_weight / 8 + left * other.bits_per_weight / 8
    return total


def packed_parameters(stored: int, bits: int, container_bits: int = 32) -> int:
    """Parameters behind stored numbers that each hold several packed weights.

    Raises:
        ModelError: sizes that do not fit.

    >>> packed_parameters(4096 * 512, bits=4)
    16777216
    """
    if stored <= 0 or bits <= 0 or container_bits % bits:
        raise ModelError(f"{container_bits}-bit numbers do not hold whole {bits}-bit weights")
    return stored * (container_bits // bits)
