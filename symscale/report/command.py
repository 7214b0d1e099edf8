"""``symscale report``: choose the mesh, build the report, write the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from symscale.algebra.time import Overlap
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.showing import changed
from symscale.options import need_microbatches
from symscale.programs.program import Keep
from symscale.report.page import Report
from symscale.report.study import TrainingStudy
from symscale.report.training import training_document
from symscale.report.writing import find_tex, make_directory
from symscale.studies.meshes import placed_step
from symscale.studies.result import StepResult
from symscale.studies.training import training


@dataclass(frozen=True)
class Written:
    """The files that were written, the step they report on, and what to tell the user."""

    files: tuple[Path, ...]
    result: StepResult
    messages: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(str(path) for path in self.files)

    def to_dict(self) -> dict[str, Any]:
        """Files and the step's numbers."""
        return {"files": [str(path) for path in self.files], **self.result.to_dict()}


def write_report(
    model: str,
    *,
    chip: str,
    chips: int,
    batch: int,
    strategy: str,
    mesh: Mapping[str, int] | None,
    length: int | None,
    layout: str | None = None,
    changes: Iterable[str] = (),
    overlap: Overlap = "full",
    efficiency: Mapping[str, Any] | None = None,
    keep: Keep = "activations",
    techniques: Mapping[str, Any] = MappingProxyType({}),
    remarks: tuple[str, ...] = (),
    output: str,
    formats: tuple[str, ...],
    progress: Callable[[str], None],
) -> Written:
    """Write the report on a training step into a folder.

    ``changes`` are other figures of the chip (``"W_hbm=3.35e12"``); ``techniques`` what
    :func:`training` takes besides (``schedule``, ``microbatches``, ``remat``, ...); ``remarks`` are
    printed beside the verdict.

    Raises:
        SymscaleError: for anything in the arguments that cannot be; nothing is written then.
    """
    found = changed(find_chip(chip), changes)
    step = training(model, strategy, keep=keep, **techniques)
    need_microbatches(strategy, step.strategy.pipeline is not None, techniques)
    progress("mesh")
    result = placed_step(
        step, found, chips, batch, mesh, length, layout, overlap=overlap, efficiency=efficiency
    )
    _ = result.times  # what no time can be had for is refused before anything is written
    folder = make_directory(output)
    document = training_document(TrainingStudy(result, chips, remarks), progress)
    wanted, messages = _possible(formats)
    if result.placement is not None and result.placement.levels:
        messages = (*str(result.placement).splitlines(), *messages)
    progress("writing")
    files = Report(document).save(folder, formats=wanted)
    return Written(files, result, messages)


def _possible(formats: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The formats that can be made here, and a line on those that cannot."""
    if "pdf" not in formats or find_tex():
        return formats, ()
    left = tuple(name for name in formats if name != "pdf")
    said = (
        "no TeX engine found, so no PDF; install one, e.g. "
        "apt-get install texlive-latex-recommended texlive-pictures"
    )
    return (left if "tex" in left else ("tex", *left)), (said,)
