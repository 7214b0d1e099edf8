"""Schedules by name, and the table of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sympy import Expr, S, sympify

from symscale.algebra import symbols as s
from symscale.algebra.errors import StrategyError, near
from symscale.algebra.table import Table
from symscale.parallel.schedules.catalogue import ONE_WAY
from symscale.parallel.schedules.catalogue_pairs import PAIRED
from symscale.parallel.schedules.load import Load
from symscale.parallel.schedules.recipe import Recipe
from symscale.parallel.schedules.schedule import Schedule, Times

RECIPES: Mapping[str, Recipe] = MappingProxyType({r.name: r for r in (*ONE_WAY, *PAIRED)})
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "pipedream-flush": "1f1b",
        "interleaved-1f1b": "interleaved",
        "vpp": "interleaved",
        "zbh1": "zb-h1",
        "zb1p": "zb-h1",
        "zbh2": "zb-h2",
        "dualpipe-v": "dualpipev",
    }
)
NAMES = tuple(RECIPES)
_SIZE = {"p": "devices", "m": "microbatches", "v": "chunks a device"}


def schedule(
    name: str | Schedule, p: Any = s.p, m: Any = s.m, v: Any = None, *,
    forward: Any = s.t_F, backward: Any = s.t_B, weights: Any = s.t_W, pair: Any = None,
    layers: Any = None, first: Any = 0, last: Any = 0,
) -> Schedule:  # fmt: skip
    """A pipeline schedule: gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipe or dualpipev.

    Sizes are symbols unless given. Durations (seconds) are those of one microbatch on one device's
    share of the layers; ``pair``, a forward and a whole backward overlapped, is their sum unless
    given. ``layers`` that do not divide, and extra work of the ``first`` and ``last`` stage (the
    embedding, the head; counted in layers), slow the step down to the pace of the slowest stage.

    Raises:
        StrategyError: for an unknown name or sizes that cannot be.

    >>> schedule("interleaved").bubble_of_ideal
    (p - 1)/(m*v)
    >>> schedule("interleaved", p=8, m=12, v=2)
    Traceback (most recent call last):
    symscale.algebra.errors.StrategyError: schedule 'interleaved' with p = 8, m = 12, v = 2: it \
needs m a multiple of p
    >>> schedule("1f1")
    Traceback (most recent call last):
    symscale.algebra.errors.StrategyError: unknown schedule '1f1'; one of gpipe, 1f1b, \
interleaved, zb-h1, zb-h2, dualpipe, dualpipev; did you mean 1f1b?
    """
    if isinstance(name, Schedule):
        return name
    recipe = _recipe(name)
    sizes = {"p": _size(recipe, "p", p), "m": _size(recipe, "m", m), "v": _chunks(recipe, v)}
    _check(recipe, sizes)
    f, b, w = (_time(recipe, key, time) for key, time in
               (("forward", forward), ("backward", backward), ("weights", weights)))  # fmt: skip
    times = Times(f, b, w, f + b + w if pair is None else _time(recipe, "pair", pair))
    _check_pair(recipe, times)
    load = Load(None if layers is None else _size(recipe, "layers", layers),
                _extra(recipe, "first", first), _extra(recipe, "last", last))  # fmt: skip
    made = Schedule(recipe, times=times, load=load, **sizes)
    load.check(recipe.name, made.stages)
    return made


def _recipe(name: str) -> Recipe:
    key = str(name).lower().replace("_", "-").replace(" ", "")
    key = ALIASES.get(key, key)
    if key not in RECIPES:
        raise StrategyError(
            f"unknown schedule {name!r}; one of {', '.join(NAMES)}{near(key, (*NAMES, *ALIASES))}"
        )
    return RECIPES[key]


def _expression(recipe: Recipe, key: str, value: Any) -> Expr:
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Expr):
        raise StrategyError(f"schedule {recipe.name!r}: {key} = {value!r} is not a number")
    made = sympify(value, strict=True, rational=True)
    s.check_known(made)
    return made


def _size(recipe: Recipe, key: str, value: Any) -> Expr:
    """A whole number above zero, or an expression."""
    made = _expression(recipe, key, value)
    if made.is_number and not (made.is_integer and made.is_positive):
        raise StrategyError(
            f"schedule {recipe.name!r}: {key} = {value} {_SIZE.get(key, '')}".rstrip()
            + "; a whole number of 1 or more is wanted"
        )
    return made


def _chunks(recipe: Recipe, value: Any) -> Expr:
    if recipe.chunked:
        return s.v if value is None else _size(recipe, "v", value)
    if value is not None and value != 1:
        raise StrategyError(
            f"schedule {recipe.name!r} has no chunks to choose (v = {value}); interleaved has"
        )
    return S.One


def _time(recipe: Recipe, key: str, value: Any) -> Expr:
    made = _expression(recipe, key, value)
    if made.is_number and not made.is_positive:
        raise StrategyError(f"schedule {recipe.name!r}: {key} = {value} s; it must be above zero")
    return made


def _check_pair(recipe: Recipe, times: Times) -> None:
    """Two things done at once take no less than the longer of them."""
    for part in (times.forward, times.backward + times.weights):
        if (part - times.pair).is_positive:
            raise StrategyError(
                f"schedule {recipe.name!r}: pair = {times.pair} s is shorter than one of its two "
                f"parts ({part} s)"
            )


def _extra(recipe: Recipe, key: str, value: Any) -> Expr:
    made = _expression(recipe, key, value)
    if made.is_number and made.is_negative:
        raise StrategyError(f"schedule {recipe.name!r}: {key} = {value} layers; it cannot be less "
                            "than none")  # fmt: skip
    return made


def _check(recipe: Recipe, sizes: Mapping[str, Expr]) -> None:
    """The recipe's rules, as far as the sizes they speak of are numbers."""
    shown = [key for key in "pmv" if key != "v" or recipe.chunked]
    known = {key: int(sizes[key]) for key in "pmv" if sizes[key].is_number}
    for rule in recipe.rules:
        if all(key in known for key in rule.about) and not rule.holds(
            *(known.get(key, 1) for key in "pmv")
        ):
            given = ", ".join(f"{key} = {sizes[key]}" for key in shown)
            raise StrategyError(f"schedule {recipe.name!r} with {given}: it needs {rule.text}")


def schedules(names: Iterable[str] = NAMES, **given: Any) -> Table:
    """All schedules side by side; ``given`` are arguments of :func:`schedule` (p=8, m=64, ...).

    Both gradients take as long as the forward unless durations are given: a whole backward of
    twice the forward.

    >>> print(schedules(("1f1b", "zb-h1", "dualpipe")).rows[1][1:4])
    (t_F*(p - 1), (p - 1)/(3*m), (p - 1)/(3*m + p - 1))
    """
    durations = dict.fromkeys(("forward", "backward", "weights"), given.get("forward", s.t_F))
    rows = []
    for name in names:
        chosen = {k: x for k, x in given.items() if k != "v" or _recipe(name).chunked}
        made = schedule(name, **{**durations, **chosen})
        rows.append((made.name, made.bubble, made.bubble_of_ideal, made.bubble_of_total,
                     made.in_flight(0), made.messages["inner"], made.recipe.weights,
                     made.recipe.meaning))  # fmt: skip
    columns = ("schedule", "bubble", "of ideal", "of total", "in flight", "messages", "weights",
               "meaning")  # fmt: skip
    return Table(columns, tuple(rows))
