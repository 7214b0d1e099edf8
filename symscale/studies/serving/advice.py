"""What to do when a server is not enough: shard it, replicate it, or change what is in it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal

from sympy import Expr, Ge, Le, S, Symbol
from sympy.core.relational import Relational

from symscale.algebra.errors import SymscaleError
from symscale.algebra.substitution import evaluate, exact
from symscale.algebra.symbols import B, b, n, to_latex
from symscale.algebra.symbols import S as KEYS
from symscale.hardware.chip import Chip
from symscale.models.model import Model
from symscale.studies.inference import Weights, inference
from symscale.studies.inference_layout import CacheCut
from symscale.studies.inference_memory import HBM_BYTES
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.capacity import Capacity, Doubling
from symscale.studies.serving.served import option_of, placed_step
from symscale.studies.serving.server import Server
from symscale.studies.serving.upto import up_to
from symscale.studies.serving.words import BUFFER, DEMAND, LIMIT, REPLICAS, T_STEP

Wall = Literal["size", "latency", "throughput", "none"]
#: More chips than anybody has together: advice does not go there.
_MOST_CHIPS = 10**7


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
    compute: str | None = None,
    cache: CacheCut | None = None,
    absorbed: bool = True,
    **how: Any,
) -> Advice:
    """Which wall a server stands at, and whether to shard it further or to replicate it.

    Steps follow the aggregate model, and collectives that the next op waits for hide behind
    nothing, unless ``method`` and ``overlap`` are given.

    Args:
        model: a name of the zoo, a configuration, or a model.
        chip: the name of a chip, or a chip.
        chips: of the server, all its replicas together.
        batch: sequences that are in flight at once.
        context: tokens that each has cached.
        tokens_per_second: how many are wanted, all sequences together.
        latency: most seconds between two tokens of a sequence.
        weights: how weights are stored.
        kv: element type of the cache.
        strategy: the layout.
        compute: the type of products with weights (see :func:`inference`).
        cache: where the cache lies beyond its heads.
        absorbed: latent attention reads the latent vectors themselves.
        how: ``replicas``, ``fidelity``, ``block``, ``share``... (see :meth:`Inference.at`).

    Raises:
        SymscaleError: as :meth:`Inference.at` does.

    >>> print(advise("llama-2-70b", "a100-80gb", chips=1, batch=8, context=4096))
    wall: size
    ...
    """
    study = inference(model, weights, kv, compute, strategy, cache, absorbed=absorbed)
    asked = {"method": "aggregate", "overlap": "critical", **how}
    found = study.at(chip, chips=chips, batch=batch, context=context, **asked)
    return advise_on(found, tokens_per_second=tokens_per_second, latency=latency)


def advise_on(
    found: InferenceResult,
    *,
    tokens_per_second: float | None = None,
    latency: float | None = None,
) -> Advice:
    """The same about a server that is there, with all that it was asked with.

    Raises:
        SymbolError: for a wish that is not above zero.

    >>> from symscale.studies.inference import inference
    >>> server = inference("llama-3-8b").at("h100", chips=1, batch=8, context=4096)
    >>> advise_on(server, latency=0.02).wall
    'none'
    """
    for name, wanted in (("tokens_per_second", tokens_per_second), ("latency", latency)):
        if wanted is not None:
            exact(wanted, name)
    server = Server(found)
    if not found.fits:
        return _size(server)
    if latency is not None and found.step_time > latency:
        return _latency(server, latency)
    if tokens_per_second is not None and found.tokens_per_second < tokens_per_second:
        return _throughput(server, tokens_per_second)
    return Advice("none", found, None, None, (_speed("it holds", found),))


def _walls(found: InferenceResult) -> Capacity:
    """The walls of a server whose weights and cache are held once: cut by nothing, in blocks."""
    study = found.study
    layout = study.layout.without(frozenset(study.layout.mesh_axes))
    once = replace(study, layout=layout).memory.paged(found.block)
    cached = (once.cache + once.state).xreplace({B: b})
    return Capacity(replace(placed_step(found), weight_bytes=once.weights, cache_bytes=cached))


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


def _size(server: Server) -> Advice:
    found = server.found
    need = _walls(found).for_all.threshold or S.Infinity
    value = float(evaluate(need, _known(found)))
    lines = [
        f"{found.memory_bytes:,} bytes on each of {found.chips} chips of {found.usable_bytes:,}",
        f"n >= {need} = {value:.2f} chips, were everything shared out evenly and held once",
    ]
    ways: dict[str, InferenceResult] = {}
    most = found.largest_batch
    lines += _sharded(ways, server, lambda one: one.fits, "holds it")
    if most:
        lines.append(f"b <= {most} sequences fit these chips")
        needed = math.ceil(found.batch * found.replicas / most)
        lines += _replicas(ways, server, needed, lambda one: one.fits, "holds it")
    else:
        lines.append("not even one sequence fits these chips: a replica would not fit either")
    return Advice("size", found, Ge(n, need), value, (*lines, *_chosen(ways)), ways)


def _latency(server: Server, latency: float) -> Advice:
    found = server.found
    wall = up_to(LIMIT, _seconds(found), b, {LIMIT: exact(latency, "s")})
    value = 0.0 if wall is None else float(wall)
    each = " on each replica" if found.replicas > 1 else ""
    lines = [
        f"a step takes {found.step_time:.4g} s, of {latency:.4g} s allowed",
        f"b <= {value:.1f} sequences{each} would be soon enough"
        if value >= 1
        else "not even one sequence would be soon enough on these chips",
    ]
    ways: dict[str, InferenceResult] = {}

    def soon(one: InferenceResult) -> bool:
        return one.fits and one.step_time <= latency

    lines += _sharded(ways, server, soon, "is soon enough")
    if value >= 1:
        needed = math.ceil(found.batch / math.floor(value))
        lines += _replicas(ways, server, needed, soon, "is soon enough")
    lines += _doubled(server)
    bound = Le(b, wall) if value else None
    return Advice("latency", found, bound, value, (*lines, *_chosen(ways)), ways)


def _throughput(server: Server, wanted: float) -> Advice:
    found = server.found
    each = found.batch // found.replicas
    known = {DEMAND: exact(wanted, "wanted"), b: exact(each, "b"),
             T_STEP: exact(found.step_time, "t_step")}  # fmt: skip
    need = _walls(found).replicas.threshold
    value = float(evaluate(need, known))
    count = max(found.replicas + 1, math.ceil(value))
    lines = [
        f"{found.tokens_per_second:,.0f} tokens/s, of {wanted:,.6g} wanted",
        f"r >= {need} = {value:,.6g} replicas, each with {each} sequences",
    ]
    ways: dict[str, InferenceResult] = {}

    def enough(one: InferenceResult) -> bool:
        return one.fits and one.tokens_per_second >= wanted

    lines += _replicas(ways, server, count, enough, "gives as much", each * count)
    lines += _sharded(ways, server, enough, f"gives as much with {found.batch} sequences")
    lines += _doubled(server)
    most = found.largest_batch
    if most > found.batch:
        lines.append(f"up to {most} sequences fit: a larger batch gives more, at a longer step")
    return Advice("throughput", found, Ge(REPLICAS, need), value, (*lines, *_chosen(ways)), ways)


def _seconds(found: InferenceResult) -> Expr:
    """A step of one replica at its context, in sequences ``b``: by the server's own time model."""
    option = option_of(found, "own")
    known = {**option.values, KEYS: exact(found.context, "context")}
    return option.seconds.xreplace(known)


def _sharded(
    ways: dict[str, InferenceResult],
    server: Server,
    wanted: Callable[[InferenceResult], bool],
    does: str,
) -> list[str]:
    """A server sharded further among the ways, or a line that says how far was looked."""
    found, tried = server.sharded(wanted)
    if found is None:
        return [f"no doubling of the chips {does}, up to {tried}"]
    anew = ", mesh and layout chosen anew" if server.pinned else ""
    ways[f"shard over {found.chips} chips{anew}"] = found
    return []


def _replicas(
    ways: dict[str, InferenceResult],
    server: Server,
    count: int,
    wanted: Callable[[InferenceResult], bool],
    does: str,
    batch: int | None = None,
) -> list[str]:
    """So many replicas of these chips among the ways, or a line that says why not."""
    each = server.chips_each
    if count * each > _MOST_CHIPS:
        return [f"replicas would take {count * each:.3g} chips: more than there are"]
    try:
        found = server.replicated(count, batch)
    except SymscaleError as error:
        return [f"{count} replicas cannot be: {error}"]
    if not wanted(found):
        return [f"{found.replicas} replicas of {each} chips: none {does}"]
    ways[f"{found.replicas} replicas of {each} chips"] = found
    return []


def _doubled(server: Server) -> list[str]:
    """What twice the chips give, sharded: less than twice as much, and up to which batch more."""
    found = server.found
    try:
        two = server.wider(2)
    except SymscaleError:
        return []
    pair = Doubling(_seconds(found), _seconds(two))
    gain = found.step_time / two.step_time
    less = ", not 2" if gain < 1.995 else ""
    lines = [f"twice the chips, sharded: {gain:.3g} times as fast{less}"]
    wall = up_to(pair.halves, pair.two, b, {})
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
