"""How long a training step of many kinds of parallelism takes to derive and to evaluate.

Run as ``python -m tests.benchmarks.bench_training``. Times are printed over that of the two-matmul
layer in the same run, so that machines compare; seconds stand beside them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from symscale import chip, model, numeric, strategy, training
from symscale.algebra.symbols import B, T, axis, links, m
from symscale.models.decoder import two_matmul_layer

AXES = ("P", "X", "Y", "Z", "W")
POINT = (15 * 2**22, 32, 4096, 4, 2, 4, 16, 2)
POINTS = 10**6


def timed(run: Callable[[], Any], times: int = 1) -> tuple[float, Any]:
    """The mean seconds of a run, and what the last one gave."""
    start, out = time.perf_counter(), None
    for _ in range(times):
        out = run()
    return (time.perf_counter() - start) / times, out


def derived() -> Any:
    """A step of DeepSeek-V3 under data, tensor, expert, context and pipeline parallelism."""
    split = strategy("fsdp+tp+sp+ep+cp+pp", expert="Z", context="W", microbatches=m)
    made = training("deepseek-v3", split)
    return made.seconds(), made.memory.total


def main() -> None:
    """Print a line for each."""
    model("deepseek-v3")
    base, _ = timed(lambda: strategy("fsdp+tp").shard(two_matmul_layer()).backward.volume(), 20)
    build, (seconds, _) = timed(derived)
    variables = (B, m, T, *map(axis, AXES))
    compiled, step = timed(lambda: numeric(seconds, *variables))
    known = {links(name): 1 for name in AXES}
    rates = {**chip("tpu-v5p")}
    step(*POINT, rates, known)
    point, _ = timed(lambda: step(*POINT, rates, known), 200)
    batches = np.random.default_rng(0).integers(1, 64, POINTS) * 2.0**20
    columns = [batches, *(np.full(POINTS, float(value)) for value in POINT[1:])]
    sweep, _ = timed(lambda: step(*columns, rates, known))
    for name, found in (("two matmuls, both passes", base), ("derive the step", build),
                        ("compile it", compiled), ("one point", point),
                        (f"{POINTS:,} points", sweep)):  # fmt: skip
        print(f"{name:<26} {found:10.5f} s  {found / base:10.2f} x")


if __name__ == "__main__":
    main()
