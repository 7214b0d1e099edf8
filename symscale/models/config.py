"""Reading a Hugging Face ``config.json`` into what costs depend on.

The file is plain JSON from a stranger: it is size-limited, its types are checked, nothing in it is
ever run. No SymPy here, so that a bad file is refused before anything heavy is imported.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from symscale.algebra.errors import ModelError, near
from symscale.models.blocks import Attention, Body, Ends, Experts, Latent, Mlp, NormKind
from symscale.models.families.dense import NAMES, layer
from symscale.models.families.registry import SAME, TEXT_OF, known_model_types, readers
from symscale.models.families.towers import tower
from symscale.models.jsonfile import kind, load_object, one_line, plain_copy, show
from symscale.models.keys import Keys

__all__ = ["Dtype", "ModelConfig", "known_model_types", "read_config"]

Dtype = Literal["bf16", "f16", "f32"]

_DTYPES: Mapping[str, Dtype] = MappingProxyType(
    {"bfloat16": "bf16", "float16": "f16", "half": "f16", "float32": "f32", "float": "f32"}
)
_DTYPE_WHEN_ABSENT: Dtype = "bf16"
#: Where a multimodal configuration keeps its text model.
_TEXT_PARTS = ("text_config", "language_config", "llm_config")
#: Keys that would change a count, refused where the family's reader does not ask for them.
_EXPERT_KEYS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_OFF = (None, 0, 1, False)


@dataclass(frozen=True)
class ModelConfig:
    """What a model is made of, and where that comes from.

    The sizes are those of the most common layer; ``body`` has every layer.

    Attributes:
        name: what to call the model.
        source: where the numbers come from: a URL, a path, or "given mapping".
        model_type: the Hugging Face family that says how the keys are read.
        layers: number of (decoder) layers.
        width: the model's width (``hidden_size``).
        ff: the MLP's inner width, or an expert's where there is no dense MLP; 0 without either.
        heads: query heads; 0 (and the next two) in a model without attention.
        kv_heads: key/value heads; divides ``heads``.
        head_dim: width of one head; ``heads * head_dim`` need not be ``width``.
        vocab: rows of the embedding as stored.
        context: longest sequence in tokens (``max_position_embeddings``), or None if not given.
        tied: whether the output head is the input embedding.
        gated: whether the MLP has a gate beside its up projection (SwiGLU type).
        norm: the kind of the last norm.
        dtype: storage type of the unquantised weights.
        plan: every layer, the ends, and what stands beside them; None for the usual decoder, whose
            layers all have the sizes above.
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
    norm: NormKind
    dtype: Dtype
    plan: Body | None = field(default=None, repr=False)
    defaulted: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(
        default_factory=lambda: MappingProxyType({}), repr=False, compare=False
    )

    @property
    def body(self) -> Body:
        """Every layer, the ends, and what stands beside them."""
        return self.plan or _usual(self)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the formulas cover and what they leave out."""
        return self.body.notes

    def to_dict(self) -> dict[str, Any]:
        """All attributes but ``raw`` and ``plan``, JSON-able."""
        hidden = ("raw", "plan")
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in hidden}
        return values | {"defaulted": list(self.defaulted), "notes": list(self.notes)}

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


def read_config(
    source: str | os.PathLike[str] | Mapping[str, Any], name: str | None = None
) -> ModelConfig:
    """Read a Hugging Face configuration of a known family.

    A nested ``text_config`` wins over the top level, whose sizes may be a vision tower's. Keys that
    are absent take the default of the family's class where it is known, and are reported
    (``defaulted``); the main sizes never do, but in the text part of a multimodal configuration,
    which lists only what differs from its class.

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
    ('hidden_act', 'head_dim', 'tie_word_embeddings', 'torch_dtype')
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
    return _read(where, config, name, origin)


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


def _read(where: str, config: dict[str, Any], name: str | None, origin: str) -> ModelConfig:
    text = _text_part(where, config)
    model_type, family = _family(where, config, text)
    outer = config.get("model_type")
    wrapped = text is not config and isinstance(outer, str) and outer != text.get("model_type")
    keys = Keys(where, text, config, family, sizes_default=wrapped)
    body = readers()[family](keys)
    _refuse_unread(keys, body)
    body = tower(keys, config, body)
    mixer = _most_common(body, (Attention, Latent))
    feed = _most_common(body, (Mlp, Experts))
    heads, kv_heads, head_dim = _heads(mixer)
    dtype = _dtype(keys)
    made = ModelConfig(
        name=name or _own_name(keys),
        source=origin,
        model_type=model_type,
        layers=len(body.layers),
        width=body.width,
        ff=feed.width if feed else 0,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=body.ends.vocab,
        context=body.context,
        tied=body.ends.tied,
        gated=bool(feed and feed.gated),
        norm=body.ends.final_norm,
        dtype=dtype,
        defaulted=tuple(keys.defaulted),
        raw=MappingProxyType(config),
    )
    return made if body == _usual(made) else replace(made, plan=body)


def _usual(config: ModelConfig) -> Body:
    """The decoder of the Llama type that has the sizes of a configuration."""
    mixer = Attention(config.heads, config.kv_heads, config.head_dim)
    feed = Mlp(config.ff, config.gated, activation="silu" if config.gated else "gelu")
    one = layer("pre", config.norm, mixer, feed)
    ends = Ends(config.vocab, config.tied, final_norm=config.norm)
    return Body(config.width, (one,) * config.layers, ends, config.context)


def _most_common(body: Body, kinds: tuple[type, ...]) -> Any:
    found = Counter(part for part in body.find(kinds)).most_common(1)
    return found[0][0] if found else None


def _heads(mixer: Attention | Latent | None) -> tuple[int, int, int]:
    """Query heads, key/value heads and head width; zeros in a model without attention."""
    if mixer is None:
        return 0, 0, 0
    if isinstance(mixer, Attention):
        return mixer.heads, mixer.kv_heads, mixer.head_dim
    return mixer.heads, mixer.heads, mixer.nope + mixer.rope


def _text_part(where: str, config: dict[str, Any]) -> dict[str, Any]:
    name = next((n for n in _TEXT_PARTS if config.get(n) is not None), None)
    if name is None:
        return config
    nested = config[name]
    if not isinstance(nested, dict):
        raise ModelError(f"{where}: {name} is {kind(nested)}; it must be an object")
    return nested


def _family(where: str, config: dict[str, Any], text: dict[str, Any]) -> tuple[str, str]:
    """The model_type that decides, and the family it is read as."""
    outer, own = config.get("model_type"), text.get("model_type")
    known = known_model_types()
    given = own or (TEXT_OF.get(outer, outer) if isinstance(outer, str) else outer)
    if given in (None, ""):
        raise ModelError(f"{where}: missing model_type; known: {', '.join(known)}")
    family = given
    for names in (TEXT_OF, SAME, SAME):
        family = names.get(family, family) if isinstance(family, str) else family
    if not isinstance(family, str) or family not in readers():
        hint = near(given, known) if isinstance(given, str) else ""
        missing = [names[0] for names in NAMES.values() if not any(text.get(n) for n in names)]
        lacks = f"; of the usual sizes it lacks {', '.join(missing)}" if missing else ""
        raise ModelError(
            f"{where}: model_type {show(given)} is not known; "
            f"known: {', '.join(known)}{hint}{lacks}"
        )
    return str(given), family


def _own_name(keys: Keys) -> str:
    given = keys.either("_name_or_path")
    last = one_line(given).rstrip("/").rpartition("/")[2] if isinstance(given, str) else ""
    return last or "custom"


def _dtype(keys: Keys) -> Dtype:
    given = keys.either("dtype", "torch_dtype")
    if given is None or given == "auto":
        keys.defaulted.append("torch_dtype")
        return _DTYPE_WHEN_ABSENT
    known = _DTYPES.get(given.removeprefix("torch.")) if isinstance(given, str) else None
    if known is None:
        keys.fail(f"torch_dtype {show(given)} is unknown; known: bfloat16, float16, float32")
    return known


def _refuse_unread(keys: Keys, body: Body) -> None:
    """Refuse keys that would change a count but that the family's class does not read."""
    for key in _EXPERT_KEYS:
        if keys.own.get(key) not in _OFF and not body.find(Experts):
            keys.fail(
                f"{key} {show(keys.own[key])}: a {keys.model_type} has no experts; "
                f"it must be absent, or the model_type another"
            )
    window = keys.own.get("sliding_window")
    if window is None or "sliding_window" in keys.asked:
        return
    width = keys.size("sliding_window")
    if body.context is None or width < body.context:
        keys.fail(
            f"sliding_window {width}: a {keys.model_type} sees all keys; it must be null, or "
            "layer_types say which layers have it"
        )
