"""Compiles written programs in a process of its own: ``python compile_worker.py FOLDER``.

The folder holds ``0.py``, ``1.py``, ...; beside each come ``0.spmd.txt`` (the module after SPMD
partitioning), ``0.final.txt`` (after optimisation) or ``0.error.txt``. Imports nothing of symscale.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

# The machine code is never run: what makes it fast to run only costs time here.
_QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}


def main(folder: Path) -> None:
    """Compile every source of the folder, in order of their numbers."""
    jax: Any = importlib.import_module("jax")
    (folder / "version.txt").write_text(jax.__version__, "utf-8")
    for source in sorted(folder.glob("*.py"), key=lambda path: int(path.stem)):
        try:
            spmd, final = _compiled(source)
        except Exception as error:
            traceback.print_exc()
            source.with_suffix(".error.txt").write_text(f"{type(error).__name__}: {error}", "utf-8")
        else:
            source.with_suffix(".spmd.txt").write_text(spmd, "utf-8")
            source.with_suffix(".final.txt").write_text(final, "utf-8")


def _compiled(source: Path) -> tuple[str, str]:
    module = _loaded(source)
    dump = source.with_suffix(".dump")
    options = {
        "xla_dump_to": str(dump), "xla_dump_hlo_pass_re": "spmd-partitioning", **_QUICK,
    }  # fmt: skip
    compiled = module.PROGRAM.lower(*module.ARGUMENTS).compile(compiler_options=options)
    found = sorted(dump.glob("*after_spmd-partitioning*.txt"))
    if len(found) != 1:
        raise RuntimeError(f"XLA wrote {len(found)} modules after SPMD partitioning, not one")
    text = found[0].read_text("utf-8")
    shutil.rmtree(dump)
    return text, compiled.as_text()


def _loaded(source: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"written_{source.stem}", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(Path(sys.argv[1]))
