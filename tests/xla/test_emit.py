"""Written JAX: sound as Python, faithful to the shardings, and right when run."""

from __future__ import annotations

import ast
import keyword
import re
import subprocess
import sys
from pathlib import Path

import pytest

from symscale.algebra.errors import ShardingError
from symscale.models.decoder import decoder, two_matmul_layer
from symscale.models.zoo import find_config
from symscale.parallel.strategy import strategy
from symscale.programs.program import Program, program
from symscale.programs.sharded import ShardedProgram
from symscale.xla.catalogue_cases import Case, catalogue
from symscale.xla.catalogue_pipeline import gpipe
from symscale.xla.compile import environment
from symscale.xla.emit import auto, partition_specs
from symscale.xla.emit_explicit import explicit, permutation
from symscale.xla.emit_functions import FUNCTIONS, needed
from symscale.xla.emit_module import Written
from symscale.xla.emit_names import Names
from symscale.xla.emit_setting import Setting, XlaError, default_sizes

CASES = catalogue()
MESH = {"X": 4, "Y": 2}


def setting(sharded: object, mesh: dict[str, int] = MESH) -> Setting:
    return Setting(mesh, default_sizes(sharded.program, mesh))  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_name_of_a_written_program_is_bound(case: Case) -> None:
    texts = [case.subject().written().text]
    if case.which != "joint":
        texts.append(case.subject(explicit=True).written().text)
    for text in texts:
        tree = ast.parse(text)
        bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)
                 and isinstance(n.ctx, ast.Store)}  # fmt: skip
        bound |= {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
        bound |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
        bound |= {(a.asname or a.name) for n in ast.walk(tree)
                  if isinstance(n, ast.Import | ast.ImportFrom) for a in n.names}  # fmt: skip
        loaded = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        assert loaded <= bound | set(dir(__import__("builtins"))) | {"__name__"}


def test_partition_specs_of_a_mixed_strategy() -> None:
    found = partition_specs(two_matmul_layer().shard(strategy("fsdp+tp")))
    assert found == {
        "In": 'P("X", "Y")', "Win": 'P("X", "Y")', "Tmp": 'P("X", "Y")', "Wout": 'P("Y", "X")',
        "Out": 'P("X", "Y")',
    }  # fmt: skip


def test_names_are_distinct_identifiers() -> None:
    names = Names()
    hard = ["dXn(Q)", "dXn_Q", "dIn.stat", "lambda", "jnp", "P", "dX(Q)+", "placed", "A'", "A''"]
    made = [names.of(text) for text in hard]
    assert len(set(made)) == len(made)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in made)


def test_functions_carry_all_that_they_call() -> None:
    for name in FUNCTIONS:
        texts = "\n".join(needed([name]))
        for called in re.findall(r"\b([a-z]+)\(", FUNCTIONS[name]):
            if called in FUNCTIONS:
                assert f"def {called}(" in texts


def test_partial_sums_are_refused_where_jax_cannot_say_them() -> None:
    sharded = two_matmul_layer().shard("In[B_X, D]", "dWin[D, F]{U_X}")
    with pytest.raises(XlaError, match=r"dWin\[D, F\]\{U_X\} holds partial sums"):
        auto(sharded, setting(sharded), "backward")
    assert "psum" not in explicit(sharded, setting(sharded), "backward").text.split("dWin_D")[1]


def test_an_axis_that_does_not_divide_is_refused() -> None:
    sharded = two_matmul_layer().shard("In[B_X, D]")
    with pytest.raises(ShardingError, match="does not divide B = 10"):
        auto(sharded, Setting(MESH, {"B": 10, "D": 8, "F": 8}))


def test_an_axis_that_the_mesh_lacks_is_refused() -> None:
    sharded = two_matmul_layer().shard("In[B_Z, D]")
    with pytest.raises(ShardingError, match="the mesh has no axis Z; it has X, Y"):
        auto(sharded, setting(sharded))


def test_a_permutation_is_one_and_moves_blocks_home() -> None:
    from symscale.arrays.array import array

    pairs = permutation(array("A[I_XY, J_Z]"), array("A[I_YX, J_Z]"), {"X": 3, "Y": 2})
    assert sorted(a for a, _ in pairs) == sorted(b for _, b in pairs) == list(range(6))
    for a, b in pairs:
        assert a == (b % 2) * 3 + b // 2 or a // 2 * 2 + a % 2 == a
        x, y = divmod(a, 2)
        there_x, there_y = divmod(b, 2)
        assert x * 2 + y == there_y * 3 + there_x


def test_quotients_get_whole_sizes() -> None:
    layer = decoder(find_config("llama-3-8b")).layer
    sizes = default_sizes(layer, MESH)
    assert sizes["B"] % (8 * sizes["T"]) == 0
    assert sizes["N"] % (8 * sizes["K"]) == 0


RUN = """
import importlib.util, sys
import numpy as np

def load(path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

def values(path, by_name):
    import jax, jax.numpy as jnp
    module = load(path)
    names = [line.split('"')[1] for line in open(path) if line.startswith('    argument("')]
    args = []
    for name, argument in zip(names, module.ARGUMENTS, strict=True):
        key = name.partition("[")[0]
        if key not in by_name:
            seed = np.random.default_rng(sum(map(ord, key)))
            by_name[key] = 0.5 + 0.1 * seed.standard_normal(argument.shape)
        args.append(jax.device_put(jnp.asarray(by_name[key], argument.dtype), argument.sharding))
    out = module.PROGRAM(*args)
    return {name.partition("[")[0]: np.asarray(v, np.float64)
            for name, v in zip(module.RESULTS, out, strict=True)}

shared = {}
first, *others = [values(path, shared) for path in sys.argv[1:]]
for other in others:
    assert set(first) == set(other), (set(first), set(other))
    for name, value in first.items():
        scale = np.abs(value).max()
        assert np.abs(value - other[name]).max() <= 2e-4 * scale, name
        assert scale > 0, name
print("agree", len(first))
"""


def in_f32(written: Written) -> str:
    return written.text.replace("jnp.bfloat16", "jnp.float32")


LINES = (
    "rmsnorm(Res[B, D], g[D]; D) -> In[B, D]",
    "In[B, D] * Wgate[D, F] -> Gate[B, F]",
    "In[B, D] * Win[D, F] -> Up[B, F]",
    "swiglu(Gate[B, F], Up[B, F]) -> Act[B, F]",
    "Act[B, F] * Wout[F, D] -> Mlp[B, D]",
    "softmax(Mlp[B, D]; D) -> P[B, D]",
    "Res[B, D] + P[B, D] -> Out[B, D]",
)


@pytest.mark.xla
@pytest.mark.parametrize("name", ["fsdp", "tp", "tp+sp", "fsdp+tp", "2d"])
@pytest.mark.parametrize("which", ["forward", "backward"])
def test_written_programs_compute_the_same(name: str, which: str, tmp_path: Path) -> None:
    whole = program(*LINES)
    sharded = whole.shard(strategy(name))
    numbers = Setting(MESH, {"B": 16, "D": 32, "F": 48})
    _compute_the_same(whole, sharded, numbers, which, "Res[B, D]", tmp_path)


@pytest.mark.xla
@pytest.mark.parametrize("stages", ["P_X", "P_XY", "P_YX"])
@pytest.mark.parametrize("which", ["forward", "backward"])
def test_written_pipelines_compute_the_same(stages: str, which: str, tmp_path: Path) -> None:
    whole = gpipe(4, 2)
    lines = [f"{array.name}[{', '.join(stages if d == 'P' else d for d in array.labels)}]"
             for array in whole.arrays.values()]  # fmt: skip
    numbers = Setting(MESH, {"P": 16, "B": 4, "D": 6, "F": 10})
    _compute_the_same(whole, whole.shard(*lines), numbers, which, "Feed1[P, B, D]", tmp_path)


def _compute_the_same(
    whole: Program, sharded: ShardedProgram, numbers: Setting, which: str, line: str, tmp_path: Path
) -> None:
    """On one device, left to XLA, pinned, and with the collectives written out."""
    single = whole.shard(line)
    written = [
        auto(single, numbers, which), auto(sharded, numbers, which),  # type: ignore[arg-type]
        auto(sharded, numbers, which, pinned=True),  # type: ignore[arg-type]
        explicit(sharded, numbers, which),  # type: ignore[arg-type]
    ]  # fmt: skip
    paths = []
    for number, one in enumerate(written):
        path = tmp_path / f"program{number}.py"
        path.write_text(in_f32(one), "utf-8")
        paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", RUN, *paths], env=environment(8),
                          capture_output=True, text=True, timeout=200, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.startswith("agree")
