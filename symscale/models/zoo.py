"""Models by name: configurations as published, kept as data with their sources."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from types import MappingProxyType
from typing import Any

from symscale.algebra.errors import ModelError, near
from symscale.models.config import ModelConfig, read_config


@dataclass(frozen=True)
class ZooEntry:
    """One model of the zoo.

    Attributes:
        name: its name here.
        aliases: other names it answers to, its Hugging Face id among them.
        source: URL of the configuration on the Hub.
        license: the licence of what the source publishes.
        config: the Hugging Face keys that costs depend on, as published.
        checked: the public files its sizes were compared with, and the keys that none of
            them confirms; None where the sizes are recalled and were compared with nothing.
    """

    name: str
    aliases: tuple[str, ...]
    source: str
    license: str
    config: Mapping[str, Any]
    checked: str | None = None

    def __post_init__(self) -> None:
        if self.checked is not None and not (isinstance(self.checked, str) and self.checked):
            raise ModelError(
                f"{self.name}: checked is the name of a file or None, not {self.checked!r}"
            )

    def to_dict(self) -> dict[str, Any]:
        """All attributes, JSON-able."""
        return {
            "name": self.name,
            "aliases": list(self.aliases),
            "source": self.source,
            "checked": self.checked,
            "license": self.license,
            "config": dict(self.config),
        }


@functools.cache
def _entries() -> Mapping[str, ZooEntry]:
    text = resources.files("symscale.models").joinpath("data/zoo.json").read_text("utf-8")
    made = (
        ZooEntry(
            row["name"],
            tuple(row["aliases"]),
            row["source"],
            row["license"],
            MappingProxyType(row["config"]),
            row["checked"],
        )
        for row in json.loads(text)
    )
    return MappingProxyType({entry.name: entry for entry in made})


@functools.cache
def _by_any_name() -> Mapping[str, ZooEntry]:
    every = _entries().values()
    return MappingProxyType({name: e for e in every for name in (e.name, *e.aliases)})


def zoo_names() -> tuple[str, ...]:
    """Names of all models of the zoo, aliases left out.

    >>> "llama-3-70b" in zoo_names()
    True
    """
    return tuple(_entries())


def zoo_entry(name: str) -> ZooEntry:
    """The entry of a name or alias, whatever its case.

    Raises:
        ModelError: the name is unknown; near names are given.

    >>> zoo_entry("Meta-Llama/Llama-3.1-405B").name
    'llama-3.1-405b'
    >>> zoo_entry("lama-3-70b")
    Traceback (most recent call last):
    symscale.algebra.errors.ModelError: unknown model 'lama-3-70b'; did you mean llama-3-70b ...
    """
    found = _find(name)
    if found is None:
        # Canonical names only: near aliases would name one model twice.
        hint = near(name, _entries()) or f"; known: {', '.join(_entries())}"
        raise ModelError(f"unknown model {name!r}{hint}")
    return found


def _find(name: str) -> ZooEntry | None:
    return _by_any_name().get(name.strip().lower())


def find_config(model: str | os.PathLike[str] | Mapping[str, Any]) -> ModelConfig:
    """The configuration of a zoo name, of a path, or of a mapping of Hugging Face keys.

    A zoo name wins over a file of the same name; write ``./name`` for the file.

    Raises:
        ModelError: an unknown name (with near names), or a configuration that cannot be read.

    >>> config = find_config("llama-3-70b")
    >>> config.layers, config.width, config.kv_heads, config.context
    (80, 8192, 8, 8192)
    >>> find_config({"model_type": "llama"})
    Traceback (most recent call last):
    symscale.algebra.errors.ModelError: config: missing num_hidden_layers, hidden_size, ...
    """
    if not isinstance(model, str):
        return read_config(model)
    if _find(model) is None and _looks_like_path(model):
        return read_config(model)
    entry = zoo_entry(model)
    return replace(read_config(entry.config, entry.name), source=entry.source)


def compared_with(config: ModelConfig) -> str | None:
    """What the sizes of a zoo configuration were compared with; None outside the zoo.

    >>> compared_with(find_config("dbrx"))
    'https://github.com/databricks/dbrx/blob/HEAD/model/config.json (every size)'
    """
    entry = _find(config.name)
    return entry.checked if entry is not None and entry.source == config.source else None


def _looks_like_path(text: str) -> bool:
    if "/" in text or os.sep in text or text.lower().endswith(".json"):
        return True
    try:
        return bool(text) and os.path.exists(text)
    except ValueError:  # an embedded null character
        return False
