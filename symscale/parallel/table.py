"""The table of strategies: what each shards, and what it moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from symscale.algebra.table import Table
from symscale.models.decoder import two_matmul_experts, two_matmul_layer
from symscale.parallel.attention_layer import attention_layer
from symscale.parallel.strategy import Strategy, strategy
from symscale.programs.program import Program

#: The strategies of the table, in its order.
NAMES = ("dp", "zero1", "zero2", "fsdp", "tp", "tp+sp", "fsdp+tp", "fsdp+tp+sp", "2d")

#: Relatives of these: whole groups of data ranks, whole activations, stages.
MORE_NAMES = ("hsdp", "tpwhole", "pp")

#: Those behind them, which are shown on a layer with attention.
CONTEXT_NAMES = ("cp", "ulysses", "ring")

#: And those on a layer with experts.
EXPERT_NAMES = ("ep", "zero1+ep", "fsdp+ep", "tp+ep", "fsdp+tp+ep")


def strategies(
    program: Program | None = None,
    names: Iterable[str] = (*NAMES, *MORE_NAMES, *CONTEXT_NAMES, *EXPERT_NAMES),
) -> Table:
    """All strategies on one layer: sharding, and the bytes that enter each device's collectives,
    forward, backward and in the optimizer step.

    The layer is the textbook's two matmuls unless given; for strategies that split sequences it is
    attention with its projections, for those that deal out experts it is two matmuls an expert.
    A stage of a pipeline sends its result on, and the gradient of what it was given back.

    >>> print(strategies(names=("fsdp",)).rows[0][1:])
    ('In[B_X, D] Win[D_X, F] Tmp[B_X, F] Wout[F, D_X] Out[B_X, D]', 'X: 4*D*F', 'X: 8*D*F', '0')
    """
    rows = []
    for name in names:
        made = strategy(name)
        sharded = made.shard(program or _shown(made))
        named = " ".join(sharded.sharding(n).short for n in sharded.program.arrays)
        volumes = [dict(phase.volume()) for phase in sharded.phases]
        for volume, array in zip(volumes, ("Out", "dIn"), strict=False):
            if made.pipeline is not None:
                volume[made.pipeline.devices] = sharded.sharding(array).bytes
        rows.append((name, named, *map(volume_text, volumes)))
    columns = ("strategy", "sharding", "forward bytes", "backward bytes", "update bytes")
    return Table(columns, tuple(rows))


def _shown(made: Strategy) -> Program:
    """The smallest layer that shows what a strategy does."""
    if "context" in made.axes:
        return attention_layer()
    return two_matmul_experts() if "expert" in made.axes else two_matmul_layer()


def volume_text(volume: Mapping[Any, Any]) -> str:
    """Bytes by mesh axis on one line.

    >>> from symscale.algebra.symbols import D, X
    >>> volume_text({X: 2 * D})
    'X: 2*D'
    """
    rows = [
        f"{''.join(s.name for s in key) if isinstance(key, tuple) else key}: {value}"
        for key, value in sorted(volume.items(), key=lambda item: str(item[0]))
    ]
    return ", ".join(rows) or "0"
