"""Derivations and results to LaTeX, HTML and text; ``report(step, ...)`` makes a whole report.

The room and the function share their name, so the module itself can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symscale.report.page import Report
    from symscale.studies.training import TrainingStep


class _Room(ModuleType):
    def __call__(self, step: TrainingStep, **numbers: Any) -> Report:
        """A report on a training step: ``report(step, chip="tpu-v5p", B=2**22, X=2048, Y=4)``.

        ``chips`` may say that more chips are at hand than the mesh uses. ``.save(folder)`` writes
        it.

        Raises:
            SymscaleError: as :meth:`TrainingStep.at` does.
        """
        from symscale.report.training import training_report

        return training_report(step, **numbers)


sys.modules[__name__].__class__ = _Room
