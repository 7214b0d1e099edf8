"""HLO text of a partitioned module, read without JAX.

The text is what ``compiled.as_text()`` prints, or a dump after a pass of XLA: collectives over
groups of partition ids come back as collectives over mesh axes, with bytes by the convention of
:mod:`symscale.programs.collectives`, and dots with their FLOPs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from symscale.xla.hlo_calls import Calls, follow_calls
from symscale.xla.hlo_chains import find_chains
from symscale.xla.hlo_collectives import KINDS, CollectiveReader
from symscale.xla.hlo_dots import read_dots
from symscale.xla.hlo_error import HloError
from symscale.xla.hlo_text import Module, parse_module
from symscale.xla.readings import Chain, Dot, Emitted, HloReport

__all__ = ["MAX_DEVICES", "Chain", "Dot", "Emitted", "HloError", "HloReport", "read_hlo"]

MAX_DEVICES = 2**16


def read_hlo(text: str, mesh: Mapping[str, int]) -> HloReport:
    """The collectives and dots of one HLO module, on one device.

    ``mesh`` gives the axes and sizes in the order of ``mesh.devices``: partition ids are its
    row-major index. Loops are multiplied out, asynchronous pairs counted once, combined
    collectives taken apart, an AllReduce of which every device keeps its part read as the
    ReduceScatter that it is. What is not understood is listed in ``unread``.

    Raises ``HloError``, one line, for text that is cut off, too long or not HLO, and for a mesh of
    another number of devices.

    >>> report = read_hlo('''HloModule m, num_partitions=4
    ... ENTRY %main (p: bf16[8,6]) -> bf16[16,6] {
    ...   %p = bf16[8,6]{1,0} parameter(0)
    ...   ROOT %g = bf16[16,6]{1,0} all-gather(%p), replica_groups={{0,1},{2,3}}, dimensions={0}
    ... }''', {"X": 2, "Y": 2})
    >>> report
    HLO on X=2, Y=2: 0 dot FLOPs, 1 collectives
      AllGather_Y  bf16[8,6]  192 B
    """
    devices = _devices(mesh)
    module = parse_module(text)
    if module.partitions is not None and module.partitions != devices:
        raise HloError(
            f"HLO module is partitioned over {module.partitions} devices, but the mesh "
            f"{_mesh_text(mesh)} has {devices}"
        )
    return _read(module, follow_calls(module), MappingProxyType(dict(mesh)))


def _devices(mesh: Mapping[str, int]) -> int:
    for name, size in mesh.items():
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise HloError(f"mesh axis {name} has size {size!r}; sizes are whole numbers from 1")
    devices = math.prod(mesh.values())
    if devices > MAX_DEVICES:
        raise HloError(f"mesh {_mesh_text(mesh)} has {devices} devices; at most {MAX_DEVICES}")
    return devices


def _mesh_text(mesh: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in mesh.items()) or "of no axes"


def _read(module: Module, calls: Calls, mesh: Mapping[str, int]) -> HloReport:
    reader = CollectiveReader(module, calls, mesh)
    collectives: list[Emitted] = []
    dots: list[Dot] = []
    chains: list[Chain] = []
    unread = list(calls.unread)
    for computation in module:
        visit = calls.visits.get(computation.name)
        if visit is None:
            continue
        found, chained = find_chains(
            module, calls, computation, list(reader.read(computation, visit))
        )
        collectives += found
        chains += chained
        dots += read_dots(computation, visit, unread)
    return HloReport(
        mesh=mesh,
        collectives=tuple(collectives),
        dots=tuple(dots),
        unread=(*unread, *reader.unread, *_never_called(module, calls)),
        notes=tuple(reader.notes),
        chains=tuple(chains),
    )


def _never_called(module: Module, calls: Calls) -> list[str]:
    """Computations with something to count that nothing is seen to call."""
    counted = {"dot", *KINDS, *(f"{kind}-start" for kind in KINDS)}
    return [
        f"computation {computation.name}: holds {instruction.name}, and nothing is seen to call it"
        for computation in module
        if computation.name not in calls.visits
        for instruction in computation.instructions.values()
        if instruction.opcode in counted
    ]
