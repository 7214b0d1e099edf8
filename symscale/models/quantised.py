"""What a configuration says of its stored weights: which components are quantised, and how.

Parameters are counted as they are; only bytes follow from this.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from symscale.algebra.errors import ModelError
from symscale.models.config import ModelConfig
from symscale.models.jsonfile import show
from symscale.models.storage import FORMATS, Format

#: Components whose matrices quantisation replaces; embeddings, head, norms and router stay.
_MATRICES = ("attention", "cross attention", "mlp", "experts", "shared experts")
_SCALE_BITS = 16


def stored_formats(config: ModelConfig) -> Mapping[str, Format]:
    """The format of each quantised component, by the file's ``quantization_config``.

    Empty where there is none. Read are ``mxfp4`` (experts), ``fp8`` in blocks or with one scale a
    tensor, and ``gptq``, ``awq`` and ``compressed-tensors`` with their bits and groups.

    Raises:
        ModelError: another method, or bits or groups that are no whole numbers.

    >>> from symscale.models.zoo import find_config
    >>> stored_formats(find_config("gpt-oss-20b"))["experts"].bits_per_weight
    17/4
    """
    given = _given(config.raw)
    if given is None:
        return MappingProxyType({})
    method = given.get("quant_method")
    if method == "mxfp4":
        return MappingProxyType({"experts": FORMATS["mxfp4"]})
    if method == "fp8":
        kind = FORMATS["fp8-block128" if given.get("weight_block_size") else "fp8"]
    elif method in ("gptq", "awq"):
        kind = _grouped(given.get("bits"), given.get("group_size"))
    elif method == "compressed-tensors":
        kind = _compressed(given)
    else:
        raise ModelError(
            f"{config.name}: quant_method {show(method)} is not known; known: mxfp4, fp8, gptq, "
            "awq, compressed-tensors; name a storage format instead"
        )
    return MappingProxyType(dict.fromkeys(_MATRICES, kind))


def _given(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for level in (raw, raw.get("text_config")):
        found = level.get("quantization_config") if isinstance(level, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return None


def _compressed(given: Mapping[str, Any]) -> Format:
    groups = given.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    if not isinstance(weights, Mapping):
        return _grouped(given.get("num_bits"), given.get("group_size"))
    return _grouped(weights.get("num_bits"), weights.get("group_size"))


def _grouped(bits: object, group: object) -> Format:
    """Whole-number weights with a 16-bit scale a group; no group: a scale a row, left out."""
    if type(bits) is not int or not 1 <= bits <= 16:
        raise ModelError(f"quantization_config: bits are {show(bits)}; they must be from 1 to 16")
    if group in (None, -1, 0):
        return Format(f"int{bits}", bits)
    if type(group) is not int or group < 1:
        raise ModelError(f"quantization_config: group_size is {show(group)}; it must be above zero")
    return Format(f"int{bits}-g{group}", bits, group, _SCALE_BITS)
