"""The chapter on more chips and the bill: its numbers are those of the studies."""

from __future__ import annotations

import json

import pytest

from symscale import training
from symscale.report.chapters.scaling import scaling_chapter, scaling_plot
from symscale.report.plots import LinePlot
from symscale.report.study import TrainingStudy
from symscale.studies.run import training_run
from symscale.studies.scaling import strong_scaling

STEP = training("llama-3-70b", "fsdp+tp")
STUDY = TrainingStudy(STEP.at("h100", B=2**20, X=32, Y=8), 256)


@pytest.fixture(scope="module")
def said() -> str:
    sections = [section.to_dict() for section in scaling_chapter(STUDY)]
    return json.dumps(sections, ensure_ascii=False)


def test_it_says(said: str) -> None:
    curve = strong_scaling(STEP, "h100", B=2**20, Y=8, sizes=(4, 8, 16, 32, 64, 128))
    run = training_run(STUDY.result, 10**12, 0.4)
    for words in (
        *curve.words,
        "With Y innermost its links give 450 GB/s (node)",
        "n_bend",
        f"{round(run.chip_hours):,}",
        "10.8 USD an hour",
    ):
        assert words in said, words


def test_the_plot_has_the_corner() -> None:
    curve = strong_scaling(STEP, "h100", B=2**20, Y=8, sizes=(32, 64, 128))
    plot = scaling_plot(curve, 256)
    ideal, reached = (series.points for series in plot.series)
    assert curve.bend is not None
    assert [x for x, _ in ideal] == [256, 512, 1024]
    assert curve.bend.chips in [x for x, _ in reached]
    corner = next(y for x, y in reached if x == curve.bend.chips)
    assert corner == pytest.approx(curve.ideal[0] * curve.bend.chips / 256)
    assert {marker.value for marker in plot.vertical} == {256, curve.bend.chips}
    assert "<svg" in plot._repr_html_()


def test_a_chip_without_a_price_and_one_axis() -> None:
    study = TrainingStudy(training("llama-3-8b", "fsdp").at("tpu-v4p", B=2**20, X=64), 64)
    sections = scaling_chapter(study)
    assert "not on file" in json.dumps([one.to_dict() for one in sections])
    assert sum(isinstance(block, LinePlot) for one in sections for block in one.blocks) == 1
