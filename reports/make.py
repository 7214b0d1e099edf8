"""Render every report definition of this folder: ``python reports/make.py [NAME...]``.

A definition is ``NAME/definition.json``: a model (a zoo name, or a config.json beside it), a chip,
the number of chips, the batch, and perhaps a strategy, a mesh, other figures of the chip (``set``),
what is kept of gathered copies (``keep``), the options of the step (``techniques``) and sentences
to print beside the verdict (``remarks``). The pages are written beside it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from symscale.algebra.counts import count
from symscale.report.command import write_report


def render(folder: Path) -> None:
    """Write the report that a folder defines."""
    given = json.loads((folder / "definition.json").read_text("utf-8"))
    beside = folder / given["model"]
    written = write_report(
        beside.as_posix() if beside.exists() else given["model"],
        chip=given["chip"],
        chips=given["chips"],
        batch=count(str(given["batch"])),
        strategy=given.get("strategy", "fsdp+tp"),
        mesh=given.get("mesh"),
        length=given.get("length"),
        changes=given.get("set", ()),
        keep=given.get("keep", "activations"),
        techniques=_techniques(given.get("techniques", {})),
        remarks=tuple(given.get("remarks", ())),
        output=str(folder),
        formats=("tex", "html", "pdf"),
        progress=lambda stage: None,
    )
    for line in (*map(str, written.files), *written.messages):
        print(line)


def _techniques(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a step; JSON has lists where they are tuples."""
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


if __name__ == "__main__":
    # Paths in a report are as they were given: relative to this folder.
    os.chdir(Path(__file__).parent)
    for definition in sorted(Path().glob("*/definition.json")):
        if not sys.argv[1:] or definition.parent.name in sys.argv[1:]:
            render(definition.parent)
