"""The least seconds that a sharded program can take on a chip, by the kinds that a trace has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sympy import Expr, S

from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.time import Time
from symscale.hardware.chip import Chip
from symscale.programs.phase import Phase
from symscale.programs.sharded import ShardedProgram


def derived_bounds(
    sharded: ShardedProgram,
    chip: Chip,
    mesh: Mapping[str, int],
    sizes: Mapping[str, int],
    training: bool = False,
) -> dict[str, float]:
    """Seconds of one run, forward or (``training``) forward and backward.

    ``matmul`` is arithmetic at the chip's rate; each collective's name, its time on the chip's
    links; ``comms`` their sum; ``step`` the lower bound, in which everything overlaps.

    Raises:
        SymbolError: naming each dim without a size.
        HardwareError: for a mesh that does not fit the chip.

    >>> from symscale.hardware.chips import chip
    >>> from symscale.models.decoder import two_matmul_layer
    >>> layer = two_matmul_layer().shard("In[B_X, D]", "Win[D_X, F]", "Wout[F, D_X]", "Out[B_X, D]")
    >>> found = derived_bounds(layer, chip("tpu-v5e"), {"X": 4}, {"B": 4096, "D": 512, "F": 2048})
    >>> sorted(found)
    ['AllGather', 'comms', 'compute', 'matmul', 'step']
    """
    axes = tuple(mesh)
    network = chip.network(axes, sizes=mesh)
    values = bindings(chip, chip.layout(axes, mesh).bindings, **{**sizes, **mesh})
    phases = (sharded.forward, sharded.backward) if training else (sharded.forward,)
    parts: dict[str, Expr] = {}
    for phase in phases:
        time = phase.time_on(network)
        _add(parts, "matmul", time.math)
        _add(parts, "compute", _busiest(time))
        _add(parts, "step", time.lower)
        for kind, seconds in _by_collective(phase, network).items():
            _add(parts, kind, seconds)
            _add(parts, "comms", seconds)
    return {name: float(evaluate(expr, values)) for name, expr in parts.items()}


def _add(parts: dict[str, Expr], name: str, amount: Expr) -> None:
    parts[name] = parts.get(name, S.Zero) + amount


def _busiest(time: Time) -> Expr:
    """Arithmetic or HBM, whichever takes longer."""
    kept = tuple(term for term in time.terms if not term.is_comm)
    return Time.of(*kept).lower


def _by_collective(phase: Phase, network: Any) -> dict[str, Expr]:
    out: dict[str, Expr] = {}
    for move in phase.collectives:
        _add(out, move.kind, network.time(move.kind, move.volume, move.axes))
    return out
