"""What to do when a server is not enough: shard it, replicate it, or change what is in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Literal

from sympy import Expr, Ge, Le, S, Symbol
from sympy.core.relational import Relational

from symscale.algebra.errors import HardwareError, ShardingError, SymbolError
from symscale.algebra.substitution import evaluate, exact
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b, n, to_latex
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.models.model import Model
from symscale.studies.inference import Inference, Weights, inference
from symscale.studies.inference_memory import HBM_BYTES
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.capacity import Capacity, Doubling
from symscale.studies.serving.served import placed_step
from symscale.studies.serving.upto import up_to
from symscale.studies.serving.words import BUFFER, DEMAND, LIMIT, REPLICAS

Wall = Literal["size", "latency", "throughput", "none"]
_MOST_DOUBLINGS = 10


@dataclass(frozen=True)
class Advice:
    """Which wall a server stands at, the inequality that says so, and what to do.

    Attributes:
        wall: ``size`` (it does not fit), ``latency`` (tokens come too slowly), ``throughput``
            (too few of them), or ``none``.
        found: the server as it was asked for.
        inequality: what must hold; its left side is what can be changed.
        value: the number on its right side.
        lines: what to do, in words with numbers.
        ways: servers that do hold, by what they are called.
    """

    wall: Wall
    found: InferenceResult
    inequality: Relational | None
    value: float | None
    lines: tuple[str, ...]
    ways: Mapping[str, InferenceResult] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return "\n".join((f"wall: {self.wall}", *self.lines))

    __repr__ = __str__

    def _repr_latex_(self) -> str:
        said = "" if self.inequality is None else to_latex(self.inequality)
        return rf"$\text{{{self.wall}}}\quad {said}$"

    def to_dict(self) -> dict[str, Any]:
        """The advice, for JSON."""
        return {
            "wall": self.wall,
            "inequality": None if self.inequality is None else str(self.inequality),
            "value": self.value,
            "advice": list(self.lines),
            "ways": {name: way.to_dict() for name, way in self.ways.items()},
        }


@dataclass(frozen=True)
class _Asked:
    """A server and what is asked of it."""

    study: Inference
    chip: Chip
    chips: int
    batch: int
    context: int
    how: Mapping[str, Any]

    def at(self, times: int = 1, replicas: int = 1, batch: int | None = None) -> InferenceResult:
        """The server on so many times its chips, as replicas or sharded further."""
        per = math.ceil((batch or self.batch) / replicas)
        return self.study.at(
            self.chip,
            chips=self.chips * times,
            batch=per * replicas,
            context=self.context,
            replicas=replicas,
            method="aggregate",
            overlap="critical",
            **self.how,
        )

    def sharded(self, wanted: Callable[[InferenceResult], bool]) -> _Wider:
        """The smallest doubling that satisfies a test, and the most chips that were tried."""
        tried = self.chips
        for power in range(1, _MOST_DOUBLINGS):
            try:
                found = self.at(2**power)
            except (ShardingError, HardwareError):
                break
            tried = found.chips
            if wanted(found):
                return _Wider(found, tried)
        return _Wider(None, tried)


@dataclass(frozen=True)
class _Wider:
    """A server sharded further, if one does; ``tried`` is the most chips that have a mesh."""

    found: InferenceResult | None
    tried: int


def advise(
    model: str | PathLike[str] | Mapping[str, Any] | Model,
    chip: str | PathLike[str] | Chip,
    *,
    chips: int,
    batch: int,
    context: int,
    tokens_per_second: float | None = None,
    latency: float | None = None,
    weights: Weights = None,
    kv: str = "bf16",
    strategy: str = "tp",
    **how: Any,
) -> Advice:
    """Which wall a server stands at, and whether to shard it further or to replicate it.

    Steps follow the aggregate model; collectives that the next op waits for hide behind nothing.

    Args:
        model: a name of the zoo, a configuration, or a model.
        chip: the name of a chip, or a chip.
        chips: of the server.
        batch: sequences that are in flight at once.
        context: tokens that each has cached.
        tokens_per_second: how many are wanted, all sequences together.
        latency: most seconds between two tokens of a sequence.
        weights: how weights are stored.
        kv: element type of the cache.
        strategy: the layout.
        how: ``fidelity``, ``block``, ``share`` (see :meth:`Inference.at`).

    Raises:
        SymscaleError: as :meth:`Inference.at` does.

    >>> print(advise("llama-2-70b", "a100-80gb", chips=1, batch=8, context=4096))
    wall: size
    ...
    """
    for name, wanted in (("tokens_per_second", tokens_per_second), ("latency", latency)):
        if wanted is not None:
            exact(wanted, name)
    if not exact(batch, "batch").is_integer:
        raise SymbolError(f"batch = {batch}: a whole number is wanted")
    study = inference(model, weights=weights, kv=kv, strategy=strategy)
    asked = _Asked(study, find_chip(chip), chips, batch, context, how)
    found = asked.at()
    if not found.fits:
        return _size(asked, found)
    if latency is not None and found.step_time > latency:
        return _latency(asked, found, latency)
    if tokens_per_second is not None and found.tokens_per_second < tokens_per_second:
        return _throughput(asked, found, tokens_per_second)
    return Advice("none", found, None, None, (_speed("it holds", found),))


def _walls(found: InferenceResult) -> Capacity:
    return Capacity(placed_step(found))


def _known(found: InferenceResult) -> dict[Symbol, Expr]:
    """The numbers of a server's walls; the working set of a step is its buffer."""
    working = found.memory.get("working", 0)
    held_back = float(found.chip.hbm_bytes) - found.usable_bytes
    return {
        HBM_BYTES: exact(found.chip.hbm_bytes, "hbm"),
        BUFFER: exact(working + held_back, "buffer") if working + held_back else S.Zero,
        b: exact(found.batch, "batch"),
        KEYS: exact(found.context, "context"),
        n: exact(found.chips, "chips"),
    }


def _size(asked: _Asked, found: InferenceResult) -> Advice:
    known = _known(found)
    need = _walls(found).for_all.threshold or S.Infinity
    value = float(evaluate(need, known))
    lines = [
        f"{found.memory_bytes:,} bytes on each of {found.chips} chips of {found.usable_bytes:,}",
        f"n >= {need} = {value:.2f} chips, were everything shared out evenly",
    ]
    ways: dict[str, InferenceResult] = {}
    most = found.largest_batch
    wide = asked.sharded(lambda one: one.fits)
    lines += _add(ways, wide, "holds it")
    if most:
        count = math.ceil(found.batch / most)
        ways[f"{count} replicas of {found.chips} chips"] = asked.at(count, count)
        lines.append(f"b <= {most} sequences fit these chips")
    else:
        lines.append("not even one sequence fits these chips: a replica would not fit either")
    return Advice("size", found, Ge(n, need), value, (*lines, *_chosen(ways)), ways)


def _latency(asked: _Asked, found: InferenceResult, latency: float) -> Advice:
    context = {KEYS: exact(found.context, "context")}
    wall = up_to(LIMIT, placed_step(found).seconds(), b, {**context, LIMIT: exact(latency, "s")})
    value = 0.0 if wall is None else float(wall)
    lines = [
        f"a step takes {found.step_time:.4g} s, of {latency:.4g} s allowed",
        f"b <= {value:.1f} sequences would be soon enough"
        if value >= 1
        else "not even one sequence would be soon enough on these chips",
    ]
    ways: dict[str, InferenceResult] = {}
    wide = asked.sharded(lambda one: one.fits and one.step_time <= latency)
    lines += _add(ways, wide, "is soon enough")
    if value >= 1:
        count = math.ceil(found.batch / math.floor(value))
        many = asked.at(count, count)
        if many.step_time <= latency:
            ways[f"{count} replicas of {found.chips} chips"] = many
    lines += _doubled(asked, found)
    bound = Le(b, wall) if value else None
    return Advice("latency", found, bound, value, (*lines, *_chosen(ways)), ways)


def _throughput(asked: _Asked, found: InferenceResult, wanted: float) -> Advice:
    known = {**_known(found), DEMAND: exact(wanted, "tokens_per_second")}
    need = _walls(found).replicas.threshold or S.Infinity
    value = float(evaluate(need, known))
    count = max(2, math.ceil(value))
    lines = [
        f"{found.tokens_per_second:,.0f} tokens/s, of {wanted:,.0f} wanted",
        f"r >= {value:.2f} replicas, each with {found.batch} sequences",
    ]
    ways = {f"{count} replicas of {found.chips} chips": asked.at(count, count, found.batch * count)}
    wide = asked.sharded(lambda one: one.tokens_per_second >= wanted)
    lines += _add(ways, wide, f"gives as much with {found.batch} sequences")
    lines += _doubled(asked, found)
    most = found.largest_batch
    if most > found.batch:
        lines.append(f"up to {most} sequences fit: a larger batch gives more, at a longer step")
    return Advice("throughput", found, Ge(REPLICAS, need), value, (*lines, *_chosen(ways)), ways)


def _add(ways: dict[str, InferenceResult], wide: _Wider, does: str) -> list[str]:
    """A server sharded further among the ways, or a line that says how far was looked."""
    if wide.found is None:
        return [f"no doubling of the chips {does}, up to {wide.tried}"]
    ways[f"shard over {wide.found.chips} chips"] = wide.found
    return []


def _doubled(asked: _Asked, found: InferenceResult) -> list[str]:
    """What twice the chips give, sharded: less than twice as much, and up to which batch more."""
    try:
        two = asked.at(2)
    except (ShardingError, HardwareError):
        return []
    pair = Doubling(placed_step(found), placed_step(two))
    gain = found.step_time / two.step_time
    less = ", not 2" if gain < 1.995 else ""
    lines = [f"twice the chips, sharded: {gain:.3g} times as fast{less}"]
    context = {KEYS: exact(found.context, "context")}
    wall = up_to(pair.one.seconds(sequences=b / 2), pair.two.seconds(), b, context)
    if wall is not None and wall.is_finite and wall > 0:
        lines.append(f"sharding beats two replicas up to b <= {float(wall):.0f}")
    return lines


def _chosen(ways: Mapping[str, InferenceResult]) -> list[str]:
    """Every way with its numbers, the one with most tokens/s a chip first."""
    order = sorted(ways, key=lambda name: -ways[name].tokens_per_second_per_chip)
    heads = ["do: ", *["or: "] * len(order)]
    return [_speed(head + name, ways[name]) for head, name in zip(heads, order, strict=False)]


def _speed(name: str, found: InferenceResult) -> str:
    return (
        f"{name}: {found.step_time:.4g} s a token, {found.tokens_per_second:,.0f} tokens/s, "
        f"{found.tokens_per_second_per_chip:,.0f} a chip"
    )
