"""The training report: chapters put together into one document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from symscale.report.chapters.attention import attention_chapter
from symscale.report.chapters.hardware import hardware_chapter, notation_chapter
from symscale.report.chapters.memory import memory_chapter
from symscale.report.chapters.model import model_chapter
from symscale.report.chapters.pipeline import pipeline_chapter
from symscale.report.chapters.plots import plots_chapter
from symscale.report.chapters.scaling import scaling_chapter
from symscale.report.chapters.split import split_chapter
from symscale.report.chapters.step import mesh_text, step_chapter
from symscale.report.chapters.strategies import strategies_chapter
from symscale.report.chapters.summary import abstract, recommendation
from symscale.report.document import Document
from symscale.report.page import Report
from symscale.report.study import TrainingStudy
from symscale.studies.training import TrainingStep


def quiet(stage: str) -> None:
    """Progress that nobody watches."""


def training_document(study: TrainingStudy, tick: Callable[[str], None] = quiet) -> Document:
    """The whole report on a training step."""
    sections = []
    tick("recommendation")
    sections += recommendation(study)
    tick("model and chip")
    sections += model_chapter(study) + hardware_chapter(study) + notation_chapter(study)
    sections += strategies_chapter(study, tick)
    tick("best split")
    sections += split_chapter(study)
    tick("step")
    sections += step_chapter(study)
    if study.step.strategy.pipeline is not None:
        tick("pipeline")
        sections += pipeline_chapter(study)
    tick("memory")
    sections += memory_chapter(study)
    tick("scaling")
    sections += scaling_chapter(study)
    tick("attention")
    sections += attention_chapter(study)
    tick("plots")
    sections += plots_chapter(study)
    return Document(
        f"Training {study.model.name} on {study.chip.title}",
        f"{study.batch:,} tokens a step, {study.step.strategy.name}, {mesh_text(study)}",
        abstract(study),
        tuple(sections),
    )


def training_report(
    step: TrainingStep,
    chip: Any,
    chips: int | None = None,
    tick: Callable[[str], None] = quiet,
    **numbers: Any,
) -> Report:
    """A report on a training step with numbers in (see :meth:`TrainingStep.at`).

    ``chips`` are the chips at hand where the mesh uses fewer.
    """
    result = step.at(chip, **numbers)
    study = TrainingStudy(result, chips or result.chips)
    return Report(training_document(study, tick))
