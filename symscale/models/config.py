"""Reading a Hugging Face ``config.json`` into the few sizes that costs depend on.

The file is plain JSON from a stranger: it is size-limited, its types are checked, nothing in it is
ever run. No SymPy here, so that a bad file is refused before anything heavy is imported.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from symscale.algebra.errors import ModelError, near
from symscale.models.jsonfile import kind, load_object, one_line, plain_copy, show

Dtype = Literal["bf16", "f16", "f32"]

# Beyond this an integer is no longer exact as a float64, which numeric evaluation uses.
_MAX_SIZE = 2**53

_SIZES = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "ff": "intermediate_size",
    "heads": "num_attention_heads",
    "vocab": "vocab_size",
}
# What the class of each model_type takes when a key is absent; an explicit null means "as heads".
_KV_HEADS_WHEN_ABSENT: Mapping[str, int | None] = MappingProxyType({"llama": None, "mistral": 8})
_WINDOW_WHEN_ABSENT: Mapping[str, int | None] = MappingProxyType({"llama": None, "mistral": 4096})
_ACTIVATIONS = ("silu", "swish", "swiglu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
_DTYPES: Mapping[str, Dtype] = MappingProxyType(
    {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32"}
)
_DTYPE_WHEN_ABSENT: Dtype = "bf16"
_SWITCHES_NOT_COUNTED = ("attention_bias", "mlp_bias")
_EXPERTS_NOT_COUNTED = ("num_local_experts", "num_experts", "n_routed_experts")


@dataclass(frozen=True)
class ModelConfig:
    """The sizes of a decoder that its costs depend on, and where they come from.

    Attributes:
        name: what to call the model.
        source: where the numbers come from: a URL, a path, or "given mapping".
        model_type: the Hugging Face family that says how the keys are read.
        layers: number of decoder layers.
        width: the model's width (``hidden_size``).
        ff: the MLP's inner width (``intermediate_size``).
        heads: query heads.
        kv_heads: key/value heads; divides ``heads``.
        head_dim: width of one head; ``heads * head_dim`` need not be ``width``.
        vocab: rows of the embedding as stored.
        context: longest sequence in tokens (``max_position_embeddings``), or None if not given.
        tied: whether the output head is the input embedding.
        gated: whether the MLP has a gate beside its up projection (SwiGLU type).
        norm: the kind of norm.
        dtype: storage type of the unquantised weights.
        defaulted: keys that were absent and took the class default (``torch_dtype``: bf16 assumed).
        raw: the mapping that was read, the text part of a multimodal one included as it stood.
    """

    name: str
    source: str
    model_type: str
    layers: int
    width: int
    ff: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int | None
    tied: bool
    gated: bool
    norm: Literal["rmsnorm"]
    dtype: Dtype
    defaulted: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    def to_dict(self) -> dict[str, Any]:
        """All attributes but ``raw``, JSON-able."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "raw"}
        return values | {"defaulted": list(self.defaulted)}

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(key)}</th><td>{html.escape(_cell(value))}</td></tr>"
            for key, value in self.to_dict().items()
        )
        return f"<table>{rows}</table>"


def _cell(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(value) if isinstance(value, list) else str(value)


def known_model_types() -> tuple[str, ...]:
    """The values of ``model_type`` that :func:`read_config` counts.

    >>> known_model_types()
    ('llama', 'mistral')
    """
    return tuple(_KV_HEADS_WHEN_ABSENT)


def read_config(
    source: str | os.PathLike[str] | Mapping[str, Any], name: str | None = None
) -> ModelConfig:
    """Read a llama-type Hugging Face configuration.

    A nested ``text_config`` wins over the top level, whose sizes may be a vision tower's.
    Rules for absent keys: those of ``LlamaConfig`` and ``MistralConfig`` of
    https://github.com/huggingface/transformers; sizes themselves are never defaulted.

    Args:
        source: path of a ``config.json`` or of a directory that holds one, or the mapping itself.
        name: what to call the model; else the file's directory, or ``_name_or_path``.

    Raises:
        ModelError: one line that names the source, what was wrong, and what would be right.

    >>> tiny = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 100,
    ...         "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
    >>> config = read_config(tiny, name="tiny")
    >>> config.head_dim, config.kv_heads, config.dtype
    (16, 2, 'bf16')
    >>> config.defaulted
    ('head_dim', 'hidden_act', 'tie_word_embeddings', 'torch_dtype')
    """
    try:
        if isinstance(source, Mapping):
            where, origin, config = "config", "given mapping", plain_copy(source)
        elif isinstance(source, str | os.PathLike):
            path = _config_path(source)
            where, origin = repr(os.fspath(source)), os.fspath(source)
            config = load_object(path, where)
            name = name or _name_of(path)
        else:
            raise ModelError(
                f"a config is a path or a mapping, not {type(source).__name__}: {show(source)}"
            )
    except RecursionError:
        raise ModelError("config is nested too deeply to be a model's config.json") from None
    return _Reader(where, config).read(name, origin)


def _config_path(source: str | os.PathLike[str]) -> Path:
    path = Path(source)
    try:
        if path.is_dir():
            path = path / "config.json"
        found = path.exists()
    except (OSError, ValueError):
        found = False
    if not found:
        raise ModelError(f"no file {str(path)!r}; give a config.json or a directory that holds one")
    return path


def _name_of(path: Path) -> str:
    named = path.parent.resolve().name if path.name == "config.json" else path.stem
    return named or "config"


class _Reader:
    """Checks one configuration key by key and remembers which keys took a default."""

    def __init__(self, where: str, config: dict[str, Any]) -> None:
        nested = config.get("text_config")
        if nested is not None and not isinstance(nested, Mapping):
            raise ModelError(f"{where}: text_config is {kind(nested)}; it must be an object")
        self.where = where
        self.config = config
        self.text: Mapping[str, Any] = config if nested is None else nested
        self.defaulted: list[str] = []

    def read(self, name: str | None, origin: str) -> ModelConfig:
        model_type = self.model_type()
        sizes = self.sizes()
        self.refuse_not_counted(model_type)
        heads = sizes["heads"]
        return ModelConfig(
            name=name or self.own_name(),
            source=origin,
            model_type=model_type,
            **sizes,
            kv_heads=self.kv_heads(model_type, heads),
            head_dim=self.head_dim(sizes["width"], heads),
            context=self.optional_size("max_position_embeddings"),
            gated=self.gated(),
            tied=self.flag("tie_word_embeddings"),
            norm="rmsnorm",
            dtype=self.dtype(),
            defaulted=tuple(self.defaulted),
            raw=MappingProxyType(self.config),
        )

    def own_name(self) -> str:
        given = self.either("_name_or_path")
        last = one_line(given).rstrip("/").rpartition("/")[2] if isinstance(given, str) else ""
        return last or "custom"

    def either(self, *keys: str) -> Any:
        """The first of the keys that is not null, the text part before the top level."""
        levels = (self.text, self.config)
        return next((level[k] for level in levels for k in keys if level.get(k) is not None), None)

    def model_type(self) -> str:
        given = self.either("model_type")
        known = known_model_types()
        if given is None:
            raise ModelError(f"{self.where}: missing model_type; known: {', '.join(known)}")
        if given not in known:
            hint = near(given, known) if isinstance(given, str) else ""
            raise ModelError(
                f"{self.where}: model_type {show(given)} is not counted yet; "
                f"known: {', '.join(known)}{hint}"
            )
        return cast(str, given)

    def sizes(self) -> dict[str, int]:
        missing = [key for key in _SIZES.values() if self.text.get(key) is None]
        if missing:
            part = "text_config" if self.text is not self.config else "config"
            raise ModelError(
                f"{self.where}: missing {', '.join(missing)}; a {part} needs all of "
                f"{', '.join(_SIZES.values())}"
            )
        return {attribute: self.size(key) for attribute, key in _SIZES.items()}

    def size(self, key: str) -> int:
        value = self.text[key]
        if type(value) is not int or not 0 < value <= _MAX_SIZE:
            raise ModelError(
                f"{self.where}: {key} is {show(value)}; it must be a whole number "
                f"from 1 to 2**53, not {_fault(value)}"
            )
        return value

    def optional_size(self, key: str) -> int | None:
        return None if self.text.get(key) is None else self.size(key)

    def kv_heads(self, model_type: str, heads: int) -> int:
        key = "num_key_value_heads"
        given = self.optional_size(key)
        if given is None:
            self.defaulted.append(key)
            absent = None if key in self.text else _KV_HEADS_WHEN_ABSENT[model_type]
            given = absent or heads
        if heads % given:
            raise ModelError(
                f"{self.where}: num_attention_heads {heads} is not a multiple of {key} {given}"
            )
        return given

    def head_dim(self, width: int, heads: int) -> int:
        given = self.optional_size("head_dim")
        if given is not None:
            return given
        self.defaulted.append("head_dim")
        if width % heads:
            raise ModelError(
                f"{self.where}: hidden_size {width} is not a multiple of num_attention_heads "
                f"{heads}; give head_dim"
            )
        return width // heads

    def flag(self, key: str) -> bool:
        value = self.either(key)
        if value is None:
            self.defaulted.append(key)
            return False
        if not isinstance(value, bool):
            raise ModelError(f"{self.where}: {key} is {show(value)}; it must be true or false")
        return value

    def gated(self) -> bool:
        """True: the MLP class of these families has a gate whatever its activation."""
        given = self.text.get("hidden_act")
        if given is None:
            self.defaulted.append("hidden_act")
        elif given not in _ACTIVATIONS:
            hint = near(given, _ACTIVATIONS) if isinstance(given, str) else ""
            raise ModelError(
                f"{self.where}: hidden_act {show(given)} is unknown; "
                f"known: {', '.join(_ACTIVATIONS)}{hint}"
            )
        return True

    def dtype(self) -> Dtype:
        given = self.either("dtype", "torch_dtype")
        if given is None or given == "auto":
            self.defaulted.append("torch_dtype")
            return _DTYPE_WHEN_ABSENT
        known = _DTYPES.get(given.removeprefix("torch.")) if isinstance(given, str) else None
        if known is None:
            raise ModelError(
                f"{self.where}: torch_dtype {show(given)} is unknown; "
                "known: bfloat16, float16, float32"
            )
        return known

    def refuse_not_counted(self, model_type: str) -> None:
        """Refuse what would change a count that the formulas do not have yet."""
        for key in _SWITCHES_NOT_COUNTED:
            if self.text.get(key) not in (None, False):
                self.not_counted(key, "false")
        for key in _EXPERTS_NOT_COUNTED:
            if self.text.get(key) not in (None, 0, 1):
                self.not_counted(key, "absent (a dense model)")
        kinds = self.text.get("layer_types")
        if kinds is not None and (
            not isinstance(kinds, list) or any(entry != "full_attention" for entry in kinds)
        ):
            self.not_counted("layer_types", "all full_attention")
        self.refuse_window(model_type)

    def refuse_window(self, model_type: str) -> None:
        """A window narrower than the context changes attention's FLOPs and the KV cache."""
        key = "sliding_window"
        if key not in self.text and _WINDOW_WHEN_ABSENT[model_type] is not None:
            raise ModelError(
                f"{self.where}: {key} is absent, for {model_type} a window of "
                f"{_WINDOW_WHEN_ABSENT[model_type]}, not counted yet; set it to null if "
                "attention is full"
            )
        window = self.optional_size(key)
        context = self.optional_size("max_position_embeddings")
        if window is not None and (context is None or window < context):
            self.not_counted(key, "null (full attention)")

    def not_counted(self, key: str, expected: str) -> None:
        raise ModelError(
            f"{self.where}: {key} {show(self.text[key])} is not counted yet; it must be {expected}"
        )


def _fault(value: object) -> str:
    if type(value) is not int:
        return kind(value)
    if value > _MAX_SIZE:
        return "larger"
    return "zero" if value == 0 else "negative"
