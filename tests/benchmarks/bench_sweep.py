"""How much processor time a sweep of a million points takes, beside the same points one by one.

Run it by hand: ``python tests/benchmarks/bench_sweep.py`` (``--json`` for the numbers). Nothing
here is collected with the tests: a time is no fact of the code alone. Ratios within one run are.
"""

from __future__ import annotations

import json
import sys
from time import process_time
from typing import Any

from symscale.algebra.symbols import S as KEYS
from symscale.algebra.symbols import b
from symscale.studies.inference import inference
from symscale.studies.serving.bar import Bar
from symscale.studies.serving.options import Option
from symscale.studies.serving.pareto import pareto
from symscale.studies.serving.served import served_options
from symscale.studies.serving.sweep import sweep_options

TYPES = [(w, kv) for w in ("bf16", "int8", "int4") for kv in ("bf16", "int8")]
CHIPS = (8, 16, 32, 64)
BATCHES = range(1, 257)
CONTEXTS = range(88, 8193, 88)
MOST_SECONDS = 2.0


def made_options() -> tuple[Option, ...]:
    made: list[Option] = []
    for weights, kv in TYPES:
        study = inference("llama-3-70b", weights=weights, kv=kv)
        made += served_options(study, "tpu-v5e", CHIPS, method="aggregate")
    return tuple(made)


def one_by_one(chosen: Option, count: int) -> float:
    """Seconds a point with SymPy alone."""
    start = process_time()
    for batch in range(1, count + 1):
        known = {**chosen.values, b: batch, KEYS: 8192}
        float(chosen.seconds.xreplace(known))
        float(chosen.bytes.xreplace(known))
    return (process_time() - start) / count


def results() -> dict[str, Any]:
    """Points, seconds of formulas, sweep and frontier, and of a point by itself."""
    start = process_time()
    chosen = made_options()
    formulas = process_time() - start
    start = process_time()
    with Bar("sweep", sys.stderr) as bar:
        found = sweep_options(chosen, BATCHES, CONTEXTS, progress=bar)
    swept = process_time() - start
    start = process_time()
    front = pareto(found, CONTEXTS[-1])
    frontier = process_time() - start
    single = one_by_one(chosen[0], 200)
    return {
        "points": len(found),
        "on_frontier": len(front),
        "formulas_s": formulas,
        "sweep_s": swept,
        "frontier_s": frontier,
        "points_per_s": len(found) / swept,
        "one_by_one_s": single * len(found),
        "times_faster": single * len(found) / swept,
    }


def main() -> None:
    """Print the numbers."""
    found = results()
    if "--json" in sys.argv:
        print(json.dumps(found, indent=1))
        return
    whole = found["formulas_s"] + found["sweep_s"]
    print(
        f"{'ok ' if whole <= MOST_SECONDS else 'SLOW'} {found['points']:,} points in {whole:.2f} s "
        f"(formulas {found['formulas_s']:.2f}, sweep {found['sweep_s']:.2f}, frontier of one "
        f"context {found['frontier_s']:.3f}); most {MOST_SECONDS:g}"
    )
    print(f"one by one: {found['one_by_one_s']:.0f} s, {found['times_faster']:.0f} times as long")


if __name__ == "__main__":
    main()
