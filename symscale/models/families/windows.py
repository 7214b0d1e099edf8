"""Which layers see every key and which only near ones: the rules of each family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from symscale.models.keys import Keys

#: Words of ``layer_types`` for softmax attention, and for layers that keep a state instead.
SOFTMAX = ("full_attention", "sliding_attention", "chunked_attention")
STATE = ("linear_attention", "conv", "mamba", "recurrent")

Rule = Callable[[Keys, int], tuple[str, ...]]


@dataclass(frozen=True)
class Reach:
    """How far one layer's attention sees: a window, a chunk, or everything."""

    window: int | None = None
    chunk: int | None = None


def every(word: str) -> Rule:
    """All layers alike."""
    return lambda keys, layers: (word,) * layers


def all_keys(keys: Keys, layers: int) -> tuple[str, ...]:
    """Every layer sees every key."""
    return ("full_attention",) * layers


def alternate(first: str, second: str) -> Rule:
    """Two kinds in turn.

    >>> alternate("a", "b")(None, 3)
    ('a', 'b', 'a')
    """
    return lambda keys, layers: tuple((first, second)[i % 2] for i in range(layers))


def last_of(key: str, default: int) -> Rule:
    """Windows but for the last of every few layers, which sees everything."""

    def rule(keys: Keys, layers: int) -> tuple[str, ...]:
        step = keys.a_size(key, default=default)
        return tuple(_sliding(bool((i + 1) % step)) for i in range(layers))

    return rule


def from_max_window_layers(keys: Keys, layers: int) -> tuple[str, ...]:
    """Qwen: with ``use_sliding_window``, layers from ``max_window_layers`` on have a window."""
    keys.asked.add("sliding_window")
    if not keys.flag("use_sliding_window"):
        return ("full_attention",) * layers
    first = keys.number_of("max_window_layers", default=layers)
    return tuple(_sliding(i >= first) for i in range(layers))


def no_rope_every_fourth(keys: Keys, layers: int) -> tuple[str, ...]:
    """Llama 4: chunks where positions rotate, everything where they do not."""
    given = keys.indices("no_rope_layers")
    if given and len(given) != layers:
        keys.wrong("no_rope_layers", list(given), f"a list of {layers} numbers")
    step = keys.a_size("no_rope_layer_interval", default=4)
    rotates = given or tuple(int((i + 1) % step != 0) for i in range(layers))
    return tuple("chunked_attention" if one else "full_attention" for one in rotates)


def _sliding(near: bool) -> str:
    return "sliding_attention" if near else "full_attention"


def layer_words(
    keys: Keys, layers: int, rule: Rule, known: tuple[str, ...] = SOFTMAX
) -> tuple[str, ...]:
    """What each layer's mixer is: ``layer_types`` where given, else the family's rule."""
    given = keys.words("layer_types", layers, known)
    if given is None:
        return rule(keys, layers)
    keys.asked.add("sliding_window")
    for word, key in (
        ("sliding_attention", "sliding_window"),
        ("chunked_attention", "attention_chunk_size"),
    ):
        if word in given and key not in keys.own and not keys.has_default(key):
            keys.fail(f"layer_types has {word} but {key} is missing; it must be given")
    return given


def reaches(
    keys: Keys, words: tuple[str, ...], context: int | None, window_key: str = "sliding_window"
) -> tuple[Reach, ...]:
    """How far each layer sees; a window as wide as the context is none."""
    window = chunk = None
    if "sliding_attention" in words:
        window = _narrow(keys.optional(window_key), context)
    if "chunked_attention" in words:
        chunk = _narrow(keys.optional("attention_chunk_size"), context)
    by_word = {"sliding_attention": Reach(window=window), "chunked_attention": Reach(chunk=chunk)}
    return tuple(by_word.get(word, Reach()) for word in words)


def _narrow(size: int | None, context: int | None) -> int | None:
    return None if size is None or (context is not None and size >= context) else size
