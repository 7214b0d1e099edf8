"""The chapter on a chip's roofs: on a torus and on nodes beyond one switch."""

from __future__ import annotations

import pytest

from symscale import training
from symscale.hardware.roofline import roofline
from symscale.report.chapters.roofline import OpPoint, layer_points, roofline_chapter, roofline_plot
from symscale.report.study import TrainingStudy


@pytest.mark.parametrize(
    ("chip", "mesh", "roof"),
    [("tpu-v5p", {"X": 256, "Y": 4}, "links"), ("h100", {"X": 128, "Y": 8}, "network")],
)
def test_ops_lie_on_the_roof_they_load(chip: str, mesh: dict[str, int], roof: str) -> None:
    result = training("llama-3-8b", "fsdp+tp").at(chip=chip, B=2**22, **mesh)
    chapter = roofline_chapter(TrainingStudy(result, result.chips))
    plot = next(block for block in chapter[0].blocks if hasattr(block, "spots"))
    names = {one.label for one in plot.spots}
    assert {"layer over X", "layer over Y"} <= names
    points = layer_points(
        result.step.layer.forward, result.seconds, lambda axes: roof if "X" in axes else "links"
    )
    roofs = roofline(chip)
    for one in points:
        # Of products close together one is drawn.
        drawn = next((spot for spot in plot.spots if spot.label == one.name), None)
        if drawn is None:
            assert one.roof == "hbm"
            continue
        assert drawn.y == pytest.approx(one.height(roofs))
        assert drawn.y <= float(roofs.peak) * 1.0001
    assert len(plot.series) == len(roofs.roofs)


def test_height_is_attainable() -> None:
    roofs = roofline("b200")
    for intensity in (1.0, 300.0, 1e6):
        for one in roofs.roofs:
            name = one.name.replace(" ", "_").replace("-", "_")
            point = OpPoint("op", one.name, intensity)
            wanted = float(roofs.attainable(**{name: int(intensity)}))
            assert point.height(roofs) == pytest.approx(wanted)
    assert roofline_plot(roofs).spots == ()
