"""Makes the trace beside this file: a sharded MLP on four virtual CPU devices, profiled by JAX.

    python tests/xla/data/make_trace.py

Needs JAX. Times differ from run to run; ops, devices and their number do not. File paths and
events of the Python interpreter are taken out.
"""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

HERE = Path(__file__).parent
TRACE = HERE / "mlp.trace.json.gz"
PROGRAM = HERE / "mlp.hlo.txt"
STEPS = 3
KEPT = ("hlo_op", "hlo_module", "device_ordinal", "name", "sort_index")


def main() -> None:
    """Compile, run once to warm up, then profile."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("X", "Y"))

    def placed(shape: tuple[int, ...], *spec: str | None) -> jax.Array:
        return jax.device_put(jnp.ones(shape), NamedSharding(mesh, PartitionSpec(*spec)))

    def mlp(x: jax.Array, w_in: jax.Array, w_out: jax.Array) -> jax.Array:
        return jax.nn.relu(x @ w_in) @ w_out

    out = NamedSharding(mesh, PartitionSpec("X", None))
    arguments = (
        placed((256, 384), "X", None),
        placed((384, 512), "X", "Y"),
        placed((512, 384), "Y", "X"),
    )
    compiled = jax.jit(mlp, out_shardings=out).lower(*arguments).compile()
    compiled(*arguments).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(STEPS):
                compiled(*arguments).block_until_ready()
        (made,) = Path(folder).rglob("*.trace.json.gz")
        document = json.loads(gzip.decompress(made.read_bytes()))
    write(document, compiled.as_text())


def write(document: dict[str, object], program: str) -> None:
    """Ops and names only, in a file that does not depend on when it was made."""
    events = [cleaned(event) for event in document["traceEvents"] if kept(event)]  # type: ignore[attr-defined]
    content = json.dumps({"displayTimeUnit": "ns", "traceEvents": events}, separators=(",", ":"))
    TRACE.write_bytes(gzip.compress(content.encode(), mtime=0))
    # The tables of source locations name this machine's folders.
    start = program.index("\n\n\n") if "\n\n\n" in program else program.index("\n")
    PROGRAM.write_text(program[: program.index("\n")] + "\n" + program[start:].strip("\n") + "\n")


def kept(event: dict[str, object]) -> bool:
    arguments = event.get("args")
    named = isinstance(arguments, dict) and "hlo_op" in arguments
    return event.get("ph") == "M" or (event.get("ph") == "X" and named)


def cleaned(event: dict[str, object]) -> dict[str, object]:
    arguments = event.get("args")
    assert isinstance(arguments, dict)
    return {**event, "args": {key: arguments[key] for key in KEPT if key in arguments}}


if __name__ == "__main__":
    main()
