"""The keys of one configuration: typed, checked, and remembered where a default stood in.

No SymPy here, so that a bad file is refused before anything heavy is imported.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping
from importlib import resources
from typing import Any, NoReturn

from symscale.algebra.errors import ModelError, near
from symscale.models.jsonfile import kind, show

# Beyond this an integer is no longer exact as a float64, which numeric evaluation uses.
MAX_SIZE = 2**53
MAX_LAYERS = 10_000

#: Keys whose default is worth reporting even where it is false or nothing.
_TELLING = ("head_dim", "num_key_value_heads", "hidden_act", "tie_word_embeddings")


@functools.cache
def class_defaults() -> Mapping[str, Mapping[str, Any]]:
    """What the class of each ``model_type`` takes for keys that a file leaves out."""
    text = resources.files("symscale.models").joinpath("data/defaults.json").read_text("utf-8")
    found: Mapping[str, Mapping[str, Any]] = json.loads(text)["defaults"]
    return found


class Keys:
    """One object of a configuration, read key by key.

    Args:
        where: what to call the configuration in messages.
        own: the object itself.
        outer: the object around it, for the few keys that may stand at either level.
        model_type: whose class defaults apply.
        sizes_default: whether even the main sizes may take the class's default (a text part of
            a multimodal configuration lists only what differs from them).
    """

    def __init__(
        self,
        where: str,
        own: Mapping[str, Any],
        outer: Mapping[str, Any],
        model_type: str,
        sizes_default: bool = False,
    ) -> None:
        self.where = where
        self.own = own
        self.outer = outer
        self.model_type = model_type
        self.sizes_default = sizes_default
        self.defaulted: list[str] = []
        self.asked: set[str] = set()
        self._class = class_defaults().get(model_type, {})

    @property
    def part(self) -> str:
        """What the object is called in messages."""
        return "config" if self.own is self.outer else "text_config"

    def fail(self, why: str) -> NoReturn:
        """Refuse the configuration in one line.

        Raises:
            ModelError: always.
        """
        raise ModelError(f"{self.where}: {why}")

    def wrong(self, key: str, value: object, right: str) -> NoReturn:
        """Refuse a value in one line that says what would be right."""
        self.fail(f"{key} is {show(value)}; it must be {right}")

    def present(self, *names: str) -> str | None:
        """The first of the names that is given and not null."""
        self.asked.update(names)
        return next((n for n in names if self.own.get(n) is not None), None)

    def has_default(self, key: str) -> bool:
        """Whether the family's class has a default for a key."""
        return key in self._class

    def sub(self, key: str) -> Keys | None:
        """An object within, with the same defaults; None where it is not given."""
        value = self.own.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.wrong(key, value, "an object")
        inner = Keys(self.where, value, value, self.model_type)
        inner.defaulted = self.defaulted
        return inner

    def _absent(self, names: tuple[str, ...], value: Any) -> Any:
        """What stands in for an absent key, and a note of it where it matters."""
        key = next((name for name in names if name in self._class), names[0])
        value = self._class.get(key, value)
        if (value or key in _TELLING) and key not in self.defaulted:
            self.defaulted.append(key)
        return value

    def require(self, **groups: tuple[str, ...]) -> dict[str, int]:
        """Main sizes, each under the first of its names that is given.

        Raises:
            ModelError: listing every one that is missing.
        """
        missing, found = [], {}
        for attribute, names in groups.items():
            name = self.present(*names)
            if name is not None:
                found[attribute] = self.size(name)
            elif self.sizes_default and any(name in self._class for name in names):
                found[attribute] = self._absent(names, None)
            else:
                missing.append(names[0])
        if missing:
            needed = ", ".join(names[0] for names in groups.values())
            self.fail(
                f"missing {', '.join(missing)}; a {self.part} of model_type "
                f"{self.model_type} needs all of {needed}"
            )
        if found.get("layers", 0) > MAX_LAYERS:
            self.fail(f"{found['layers']} layers; it must be at most {MAX_LAYERS}")
        return found

    def size(self, key: str) -> int:
        """A given whole number above zero."""
        return self._whole(key, self.own[key], 1)

    def _whole(self, key: str, value: object, least: int) -> int:
        if type(value) is not int or not least <= value <= MAX_SIZE:
            self.wrong(key, value, f"a whole number from {least} to 2**53, not {_fault(value)}")
        return value

    def optional(self, *names: str, default: int | None = None) -> int | None:
        """A whole number above zero, or None where it is null; absent, the class's default."""
        name = self.present(*names)
        if name is not None:
            return self.size(name)
        if any(n in self.own for n in names):
            return None
        found: int | None = self._absent(names, default)
        return found

    def a_size(self, *names: str, default: int | None = None) -> int:
        """A whole number above zero that must come from somewhere.

        Raises:
            ModelError: it is not given and no default is known.
        """
        name = self.present(*names)
        if name is not None:
            return self.size(name)
        found: int | None = self._absent(names, default)
        if found is None:
            self.fail(f"missing {names[0]}; {self.model_type} has no default for it")
        return found

    def number_of(self, *names: str, default: int = 0) -> int:
        """A count that may be zero; null and absent are the default."""
        name = self.present(*names)
        if name is None:
            found: int | None = self._absent(names, default)
            return found or 0
        return self._whole(name, self.own[name], 0)

    def flag(self, *names: str, default: bool = False) -> bool:
        """A switch."""
        name = self.present(*names)
        if name is None:
            return bool(self._absent(names, default))
        value = self.own[name]
        if not isinstance(value, bool):
            self.wrong(name, value, "true or false")
        return value

    def ratio(self, key: str, default: float) -> float:
        """A finite number above zero."""
        value = self.own.get(key)
        if value is None:
            value = self._absent((key,), default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong(key, value, "a number")
        if not 0 < value <= MAX_SIZE or not math.isfinite(value):
            self.wrong(key, value, "a finite number above zero")
        return float(value)

    def word(self, key: str, known: Iterable[str], default: str | None = None) -> str:
        """One of some known words."""
        given = self.own.get(key)
        if given is None:
            given = self._absent((key,), default)
        options = tuple(known)
        if given not in options:
            hint = near(given, options) if isinstance(given, str) else ""
            self.fail(f"{key} {show(given)} is unknown; known: {', '.join(options)}{hint}")
        return str(given)

    def words(self, key: str, layers: int, known: Iterable[str]) -> tuple[str, ...] | None:
        """One known word a layer, or None where the list is not given."""
        given = self.own.get(key)
        if given is None:
            return None
        if not isinstance(given, list) or len(given) != layers:
            self.wrong(key, given, f"a list of {layers} words, one a layer")
        options = tuple(known)
        for entry in given:
            if entry not in options:
                self.fail(f"{key} holds {show(entry)}; known: {', '.join(options)}")
        return tuple(given)

    def indices(self, key: str) -> tuple[int, ...]:
        """A list of layer numbers; empty where it is null or absent."""
        given = self.own.get(key)
        if given is None:
            return ()
        if not isinstance(given, list) or any(type(i) is not int for i in given):
            self.wrong(key, given, "a list of layer numbers")
        return tuple(given)

    def either(self, *names: str) -> Any:
        """The first of the names that is not null, this object before the one around it."""
        levels = (self.own, self.outer)
        return next((at[n] for at in levels for n in names if at.get(n) is not None), None)

    def tied(self) -> bool:
        """Whether the head is the embedding: given at either level, else the class's default."""
        key = "tie_word_embeddings"
        value = self.either(key)
        if value is None:
            return bool(self._absent((key,), False))
        if not isinstance(value, bool):
            self.wrong(key, value, "true or false")
        return value


def _fault(value: object) -> str:
    if type(value) is not int:
        return kind(value)
    if value > MAX_SIZE:
        return "larger"
    return "zero" if value == 0 else "negative"
