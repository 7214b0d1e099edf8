"""Image towers of multimodal configurations: their parameters, beside those of the text model.

Source: the modelling code of each family at https://github.com/huggingface/transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from symscale.models.blocks import Attention, Body, Layer, Mlp, NormKind, Tower
from symscale.models.families import dense
from symscale.models.keys import Keys

_OTHERS = ("vision_config", "audio_config")
_COUNTED = "the image tower's parameters are counted; FLOPs and caches are those of the text model"
_LEFT_OUT = "parameters and FLOPs are those of the text model; {name} is not counted"


def tower(keys: Keys, config: Mapping[str, Any], body: Body) -> Body:
    """The body with the image tower of its configuration, or a note on what is not counted."""
    notes = body.notes
    found: Tower | None = None
    for name in _OTHERS:
        inner = config.get(name)
        if not isinstance(inner, Mapping):
            continue
        made = _read(keys, config, inner) if name == "vision_config" else None
        found = found or made
        notes = (*notes, _COUNTED if made else _LEFT_OUT.format(name=name))
    return replace(body, tower=found, notes=notes)


def _read(keys: Keys, config: Mapping[str, Any], inner: Mapping[str, Any]) -> Tower | None:
    """The tower, where both it and what joins it to the text are known."""
    reader = _TOWERS.get(str(inner.get("model_type")))
    join = _JOINTS.get(str(config.get("model_type")))
    if reader is None or join is None:
        return None
    own = Keys(keys.where, inner, inner, str(inner.get("model_type")), sizes_default=True)
    outer = Keys(keys.where, config, config, str(config.get("model_type")))
    made = reader(own)
    if made is None:
        return None
    found = join(outer, made)
    keys.defaulted += [f"vision_config.{name}" for name in own.defaulted]
    return found


def _sizes(keys: Keys) -> dict[str, int]:
    return keys.require(
        layers=("num_hidden_layers",),
        width=("hidden_size",),
        ff=("intermediate_size",),
        heads=("num_attention_heads",),
        patch=("patch_size",),
        image=("image_size",),
    )


def _layers(
    keys: Keys, found: Mapping[str, int], norm: NormKind, gated: bool, biased: bool
) -> tuple[Layer, ...]:
    heads = found["heads"]
    mixer = Attention(
        heads,
        heads,
        dense.head_dim(keys, found["width"], heads),
        biases="qkvo" if biased else "",
        causal=False,
    )
    keys.defaulted.remove("head_dim") if "head_dim" in keys.defaulted else None
    feed = Mlp(found["ff"], gated, "io" if biased else "", "silu" if gated else "gelu")
    return (dense.layer("pre", norm, mixer, feed),) * found["layers"]


def _siglip(keys: Keys) -> Tower | None:
    # The pooling head, which text models do not read, is part of the class unless switched off.
    return None if keys.flag("vision_use_head", default=True) else _plain(keys)


def _plain(keys: Keys) -> Tower:
    found = _sizes(keys)
    return Tower(
        found["width"],
        _layers(keys, found, "layernorm", gated=False, biased=True),
        keys.a_size("num_channels", default=3) * found["patch"] ** 2,
        positions=(found["image"] // found["patch"]) ** 2,
        after="layernorm",
    )


def _clip(keys: Keys) -> Tower:
    made = _plain(keys)
    return replace(
        made,
        positions=made.positions + 1,
        patch_bias=False,
        class_token=True,
        before="layernorm",
    )


def _pixtral(keys: Keys) -> Tower:
    found = _sizes(keys)
    return Tower(
        found["width"],
        _layers(keys, found, "rmsnorm", gated=True, biased=False),
        keys.a_size("num_channels", default=3) * found["patch"] ** 2,
        patch_bias=False,
        before="rmsnorm",
    )


def _joined(joint: Literal["one", "two"], norm: NormKind, bias: bool) -> Callable[..., Tower]:
    def join(keys: Keys, made: Tower) -> Tower:
        return replace(made, joint=joint, joint_norm=norm, joint_bias=bias)

    return join


def _llava(keys: Keys, made: Tower) -> Tower:
    bias = keys.flag("multimodal_projector_bias", default=True)
    return replace(made, joint="two", joint_bias=bias)


def _mistral3(keys: Keys, made: Tower) -> Tower:
    bias = keys.flag("multimodal_projector_bias")
    merged = keys.a_size("spatial_merge_size", default=2) ** 2
    return replace(made, joint="two", joint_norm="rmsnorm", joint_bias=bias, merged=merged)


_TOWERS: Mapping[str, Callable[[Keys], Tower | None]] = {
    "siglip_vision_model": _siglip,
    "clip_vision_model": _clip,
    "pixtral": _pixtral,
}
#: What joins tower and text, by the type of the whole.
_JOINTS: Mapping[str, Callable[[Keys, Tower], Tower]] = {
    "gemma3": _joined("one", "rmsnorm", bias=False),
    "paligemma": _joined("one", "none", bias=True),
    "llava": _llava,
    "mistral3": _mistral3,
}
