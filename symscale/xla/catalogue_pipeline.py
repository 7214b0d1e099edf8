"""The catalogue's pipelines: stages along a dim of their own, results passed on by a shift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symscale.programs.program import Program, program
from symscale.xla.catalogue_case import MESH_X, MESH_XY, Case
from symscale.xla.emit import Pass

_SHIFT = "shift(A[P, B, D]; P) -> C[P, B, D]"
_SHIFTS: tuple[tuple[str, Mapping[str, int]], ...] = (
    ("[P_X, B, D]", MESH_X),
    ("[P_XY, B, D]", MESH_XY),
    ("[P_YX, B, D]", MESH_XY),
    ("[P_X, B_Y, D]", MESH_XY),
    ("[P_X, B, D_Y]", MESH_XY),
    ("[P, B_X, D]", MESH_X),
)
_STAGES = 4
_MICROBATCHES = 2


def gpipe(stages: int, microbatches: int) -> Program:
    """All steps of a pipeline of two-matmul stages, a line each: results move on, a microbatch
    enters at the first stage, every stage computes (idle ones on zeros).

    >>> gpipe(2, 1).made
    ('Up1', 'Act1', 'Out1', 'Got2', 'In2', 'Up2', 'Act2', 'Out2')
    """
    lines: list[str] = []
    steps = stages + microbatches - 1
    for step in range(1, steps + 1):
        entering = f"Feed{step}" if step == 1 else f"In{step}"
        if step > 1:
            lines.append(f"shift(Out{step - 1}[P, B, D]; P) -> Got{step}[P, B, D]")
            lines.append(f"Got{step}[P, B, D] + Feed{step}[P, B, D] -> In{step}[P, B, D]")
        lines += [
            f"{entering}[P, B, D] * Win[P, D, F] -> Up{step}[P, B, F]",
            f"relu(Up{step}[P, B, F]) -> Act{step}[P, B, F]",
            f"Act{step}[P, B, F] * Wout[P, F, D] -> Out{step}[P, B, D]",
        ]
    return program(*lines, inputs=[f"Feed{step}" for step in range(1, steps + 1)])


def _split(whole: Program, **axes: str) -> tuple[str, ...]:
    """Every array split alike, by the axes of each dim."""
    return tuple(
        f"{name}[{', '.join(f'{d}_{axes[d]}' if d in axes else d for d in array.labels)}]"
        for name, array in whole.arrays.items()
    )


def pipelines() -> Iterator[Case]:
    """A shift alone with one row and several rows a device, and whole pipelines."""
    both: tuple[Pass, ...] = ("forward", "backward")
    alone = program(_SHIFT)
    for text, mesh in _SHIFTS:
        for which in both:
            yield Case("pipeline", f"shift of {text}", alone, (f"A{text}", f"C{text}"), mesh, which)
    one = {"P": MESH_X["X"]}
    ends = ("A[P_X, B, D]", "C[P_X, B, D]")
    for which in both:
        yield Case("pipeline", "shift, a row a device", alone, ends, MESH_X, which, sizes=one)
    whole = gpipe(_STAGES, _MICROBATCHES)
    ways: tuple[tuple[str, Mapping[str, str], Mapping[str, int]], ...] = (
        ("stages", {"P": "X"}, {"X": 4}),
        ("stages, batch over Y", {"P": "X", "B": "Y"}, MESH_XY),
        ("stages, hidden width over Y", {"P": "X", "F": "Y"}, MESH_XY),
    )
    for title, axes, mesh in ways:
        for step in both:
            shards = _split(whole, **axes)
            name = f"{_MICROBATCHES} microbatches, {_STAGES} {title}"
            yield Case("pipeline", name, whole, shards, mesh, step, sizes={"P": _STAGES})
