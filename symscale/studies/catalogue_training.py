"""Crossovers of training: batches and sizes up to which a way of splitting stays compute-bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sympy import Add, Eq, Expr, Integer

from symscale.algebra.errors import SolveError
from symscale.algebra.symbols import (
    B,
    F,
    W_dcn,
    X,
    Y,
    axis,
    links,
    m,
    n,
    quantity,
)  # fmt: skip
from symscale.hardware.networks import Switch
from symscale.models.decoder import two_matmul_experts, two_matmul_layer
from symscale.parallel.schedules.lookup import schedule
from symscale.parallel.strategy import Strategy, strategy
from symscale.solve.crossover import crossover
from symscale.solve.minimise import minimise
from symscale.studies.catalogue_common import Entry, Found, Setting, found
from symscale.studies.conditions import compute_bound

GROUP = "training"
LOSS = quantity("loss", r"\varepsilon", "share of the step that may be lost")
_AXES = ("X", "Y", "Z")


def bound(chosen: Strategy, setting: Setting, overlapped: bool = False) -> Found:
    """Where a strategy's layer turns compute-bound: a batch per chip, chips, or ways."""
    made = compute_bound(chosen, overlapped, setting.network)
    batch = made.answer.variable == B
    axes = "·".join(chosen.mesh_axes)
    per = f"B/{'n' if made.split else axes if len(axes) == 1 else f'({axes})'}"
    name = per if batch else str(made.answer.variable)
    unit = "tokens a chip" if batch else "chips" if made.split else "ways"
    return Found(name, unit, made.per_chip, made.answer, made.derivation)


def best_split(setting: Setting) -> Found:
    """The strategy's first axis in the split of the chips that communicates least."""
    chosen = setting.strategy
    made = compute_bound(chosen, False, setting.network)
    if made.split is None:
        raise SolveError(f"strategy {chosen.name} has one role; nothing to split")
    first = chosen.mesh_axes[0]
    expr = made.split[axis(first)]
    return Found(first, "ways", expr, made.answer, made.split.derivation)


def on_axes(name: str, count: int) -> Callable[[Setting], Found]:
    """A data-parallel strategy over so many physical axes, one under each mesh axis."""

    def build(setting: Setting) -> Found:
        axes = _AXES[:count]
        laid = {links(one): Integer(1) for one in axes}
        return bound(strategy(name, data="".join(axes)), setting).where(laid)

    return build


def named(name: str, overlapped: bool = False) -> Callable[[Setting], Found]:
    """A strategy by name."""
    return lambda setting: bound(strategy(name), setting, overlapped)


def weight_stationary(setting: Setting) -> Found:
    """The chips from which splitting both dims of each weight moves less than splitting one."""
    layer = two_matmul_layer()
    both = layer.shard(strategy("2d")).forward.time_on(setting.network).comms
    flat = layer.shard(strategy("tp", tensor="XY")).forward.time_on(setting.network).comms
    best = minimise(both, over=(X, Y), subject_to=Eq(X * Y, n))
    answer = crossover(flat, best.value, n)
    steps = best.derivation + answer.derivation
    threes = {links("X"): Integer(1), links("Y"): Integer(2)}
    return Found("n", "chips", _wall(answer.threshold), answer, steps, MappingProxyType(threes))


def _wall(expr: Expr | None) -> Expr:
    assert expr is not None
    return expr


def expert_parallel(setting: Setting) -> Found:
    """The expert-parallel ways up to which arithmetic hides the way to the experts and back."""
    sharded = strategy("ep", expert="X").shard(two_matmul_experts())
    time = sharded.forward.time_on(setting.network)
    ways = crossover(time.math, time.comms, X)
    if ways.thresholds:
        return found(ways, "X", "ways")
    # Behind a switch the ways cancel, and what is left is how wide an expert has to be.
    return found(crossover(time.math, time.comms, F), "F", "columns an expert")


def bubble(setting: Setting) -> Found:
    """The microbatches from which a pipeline's idle share is below a given loss."""
    made = schedule("1f1b")
    answer = crossover(LOSS * made.step, made.step - made.ideal, m)
    return found(answer, "m", "microbatches")


def across_pods(setting: Setting) -> Found:
    """The batch of a pod from which its arithmetic hides the gradients' way over the DCN."""
    layer = two_matmul_layer().shard(
        "In[B_YX, D]", "Win[D_X, F]", "Tmp[B_YX, F]", "Wout[F, D_X]", "Out[B_YX, D]"
    )
    egress = Switch(rate=W_dcn)
    moves = (move for move in layer.backward.collectives if move.axes == ("Y",))
    between = Add(*(egress.time(move.kind, move.volume, move.axes) for move in moves))
    wall = found(crossover(layer.backward.time.math, between, B), "B", "tokens")
    return wall.scaled(1 / Y, "B/Y", "tokens a pod")


def _data(name: str, words: str) -> dict[str, Entry]:
    """A data-parallel strategy on one, two and three physical axes of a torus."""
    return {
        f"{name}{'' if count == 1 else f'-{count}-axes'}": Entry(
            GROUP,
            f"From which batch is {words} over {count} physical "
            f"ax{'i' if count == 1 else 'e'}s compute-bound?",
            on_axes("dp" if name == "data-parallel" else name, count),
        )
        for count in (1, 2, 3)
    }


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "compute-bound": Entry(
            GROUP,
            "From where on is a layer under the strategy compute-bound (axes one after another)?",
            lambda setting: bound(setting.strategy, setting),
        ),
        "compute-bound-overlapped": Entry(
            GROUP,
            "From where on is a layer under the strategy compute-bound (axes at once)?",
            lambda setting: bound(setting.strategy, setting, True),
        ),
        "best-split": Entry(
            GROUP, "Which share of the chips should the strategy's first axis have?", best_split
        ),
        **_data("data-parallel", "plain data parallelism"),
        **_data("zero1", "ZeRO-1"),
        **_data("zero2", "ZeRO-2"),
        **_data("fsdp", "FSDP"),
        "tensor-limit": Entry(
            GROUP, "Up to how many ways is tensor parallelism compute-bound?", named("tp")
        ),
        "mixed": Entry(
            GROUP,
            "From which batch is FSDP with tensor parallelism compute-bound (axes one after "
            "another)?",
            named("fsdp+tp"),
        ),
        "mixed-overlapped": Entry(
            GROUP,
            "From which batch is FSDP with tensor parallelism compute-bound (axes at once)?",
            named("fsdp+tp", True),
        ),
        "2d-or-1d": Entry(
            GROUP,
            "From how many chips does 2D weight-stationary sharding move less than 1D, on three "
            "physical axes?",
            weight_stationary,
        ),
        "expert-parallel": Entry(
            GROUP, "Up to how many ways is expert parallelism compute-bound?", expert_parallel
        ),
        "pipeline-bubble": Entry(
            GROUP,
            "From how many microbatches is a pipeline's bubble below a given share of the step?",
            bubble,
        ),
        "across-pods": Entry(
            GROUP,
            "From which batch of a pod does arithmetic hide the gradients' way over the DCN?",
            across_pods,
        ),
    }
)
