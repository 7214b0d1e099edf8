"""Every ``model_type`` that is read, with its reader."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType

from symscale.models.blocks import Body
from symscale.models.families import dense
from symscale.models.families.encoders import ENCODERS
from symscale.models.families.hybrid import HYBRID
from symscale.models.families.latent import LATENT
from symscale.models.families.plain import PLAIN
from symscale.models.families.sparse import SPARSE
from symscale.models.families.special import SPECIAL
from symscale.models.keys import Keys

Reader = Callable[[Keys], Body]

#: A multimodal configuration's text part where it does not name its own type.
TEXT_OF: Mapping[str, str] = MappingProxyType(
    {
        "llava": "llama",
        "llava_next": "llama",
        "paligemma": "gemma",
        "gemma3": "gemma3_text",
        "llama4": "llama4_text",
        "mistral3": "mistral",
        "pixtral": "mistral",
        "qwen3_vl": "qwen3_vl_text",
        "qwen3_vl_moe": "qwen3_vl_moe_text",
        "qwen2_5_vl": "qwen2",
        "qwen2_vl": "qwen2",
        "qwen3_5": "qwen3_5_text",
        "qwen3_5_moe": "qwen3_5_moe_text",
        "kimi_k25": "kimi_k2",
    }
)

#: Text parts that are read as another family.
SAME: Mapping[str, str] = MappingProxyType(
    {
        "qwen2_vl": "qwen2",
        "qwen2_5_vl": "qwen2",
        "qwen2_vl_text": "qwen2",
        "qwen2_5_vl_text": "qwen2",
        "qwen3_vl_text": "qwen3",
        "qwen3_vl_moe_text": "qwen3_moe",
        "grok_1": "grok-1",
        "kimi_k25": "kimi_k2",
        "mixtral_text": "mixtral",
    }
)


@functools.cache
def readers() -> Mapping[str, Reader]:
    """The reader of each family."""
    made: dict[str, Reader] = {
        name: functools.partial(dense.read, family=family) for name, family in PLAIN.items()
    }
    for group in (SPECIAL, SPARSE, LATENT, HYBRID, ENCODERS):
        made |= group
    return MappingProxyType(dict(sorted(made.items())))


def known_model_types() -> tuple[str, ...]:
    """The values of ``model_type`` whose models are counted, multimodal ones included.

    >>> {"llama", "gpt2", "mixtral", "deepseek_v3", "gemma3", "t5"} <= set(known_model_types())
    True
    """
    return tuple(sorted({*readers(), *TEXT_OF, *SAME}))
