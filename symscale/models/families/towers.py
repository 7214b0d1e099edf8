"""Image towers of multimodal configurations: their parameters, beside those of the text model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from symscale.models.blocks import Body
from symscale.models.keys import Keys

_NOT_COUNTED = (
    "parameters and FLOPs are those of the text model; the configuration's {name} is not counted"
)
_OTHERS = ("vision_config", "audio_config")


def tower(keys: Keys, config: Mapping[str, Any], body: Body) -> Body:
    """The body with what stands beside the text model, or a note that it is not counted."""
    notes = body.notes
    for name in _OTHERS:
        if isinstance(config.get(name), Mapping):
            notes = (*notes, _NOT_COUNTED.format(name=name))
    return replace(body, notes=notes)
