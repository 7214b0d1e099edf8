"""What the commands ``params`` and ``flops`` print: text for a terminal, one object as JSON."""

from __future__ import annotations

from textwrap import wrap
from typing import Any

from symscale.algebra.errors import ModelError
from symscale.models.flops import FlopsPerToken, decode_flops, flops_per_token
from symscale.models.model import Model, model
from symscale.models.quantised import stored_formats
from symscale.models.storage import Format, storage_format

GB, GIB = 10**9, 2**30


def params_report(
    source: str,
    *,
    stored: str | None = None,
    experts: str | None = None,
    cache: str = "bf16",
    context: int | None = None,
) -> tuple[dict[str, Any], str]:
    """A model's parameters, stored bytes and cache, as data and as text.

    Args:
        source: a name of the zoo, or a path.
        stored: the format of the stored weights; as the configuration says unless given.
        experts: the format of the experts' weights, where it is another.
        cache: the element type of the KV cache.
        context: tokens of the sequence whose cache is counted; the model's context unless given.

    Raises:
        ModelError: an unknown model or format.
    """
    found = model(source)
    formats: dict[str, str | Format] = {"experts": experts} if experts else {}
    if stored is None:
        known = found.params.components
        for name, kind in stored_formats(found.config).items():
            if name in known:
                formats.setdefault(name, kind)
    plain = storage_format(stored or found.config.dtype)
    weights = found.weight_bytes(plain, formats)
    data: dict[str, Any] = {
        "model": found.name,
        **found.params.to_dict(),
        "defaulted": list(found.config.defaulted),
        "notes": list(found.notes),
        "stored": {
            "format": plain.to_dict(),
            "quantised": {name: storage_format(kind).to_dict() for name, kind in formats.items()},
            "bytes": float(weights.subs(found)),
        },
        "cache": _cache(found, cache, context or found.context),
    }
    return data, "\n".join([repr(found.params), "", *_lines(found, data)])


def _cache(found: Model, kind: str, context: int | None) -> dict[str, Any]:
    each = found.kv_bytes_per_token(kind)
    made: dict[str, Any] = {
        "dtype": kind,
        "bytes_per_token": float(each.subs(found)),
        "formula": str(each),
        "state_bytes_per_sequence": float(found.state_bytes().subs(found)),
    }
    if context is not None:
        made["context"] = context
        made["bytes_of_sequence"] = float(found.kv_bytes(context, kind).subs(found))
    return made


def _lines(found: Model, data: dict[str, Any]) -> list[str]:
    stored, cache = data["stored"], data["cache"]
    kind = stored["format"]["name"]
    other = "".join(f", {name} {one['name']}" for name, one in stored["quantised"].items())
    rows = [
        f"stored, {kind}{other}: {_size(stored['bytes'])}",
        f"KV cache, {cache['dtype']}: {cache['bytes_per_token']:,.0f} bytes a token = "
        f"{cache['formula']}",
    ]
    if "context" in cache:
        size = _size(cache["bytes_of_sequence"])
        rows.append(f"KV cache of one sequence of {cache['context']:,} tokens: {size}")
    if cache["state_bytes_per_sequence"]:
        rows.append(f"state of one sequence, f32: {_size(cache['state_bytes_per_sequence'])}")
    if data["defaulted"]:
        rows.append(f"keys that took their class's default: {', '.join(data['defaulted'])}")
    rows += [f"covers: {note}" for note in found.notes]
    return [line for row in rows for line in wrap(row, 80, subsequent_indent="  ")]


def _size(amount: float) -> str:
    """Bytes in decimal GB and in GiB, so that neither is taken for the other.

    >>> _size(2**30)
    '1,073,741,824 bytes (1.074 GB, 1 GiB)'
    """
    return f"{amount:,.0f} bytes ({amount / GB:,.4g} GB, {amount / GIB:,.4g} GiB)"


def flops_report(
    source: str, length: int, *, decode: bool = False, naive: bool = False, **conventions: Any
) -> FlopsPerToken:
    """FLOPs of a token in a sequence, or of a new one behind it.

    Raises:
        ModelError: an unknown model, or conventions that contradict each other.
    """
    if naive and not decode:
        raise ModelError("--naive says how latent attention decodes; give it with --decode")
    if decode:
        asked = [name for name in ("training", "mtp") if conventions.get(name)]
        if conventions.get("recompute", "none") not in (None, "none"):
            asked.append("recompute")
        if asked:
            raise ModelError(f"--decode is one forward step; it goes without --{asked[0]}")
        return decode_flops(source, length, absorbed=not naive)
    return flops_per_token(source, length, **conventions)
