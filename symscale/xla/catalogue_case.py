"""One case of the catalogue, and the meshes that the cases share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from symscale.programs.program import Keep, Program
from symscale.programs.sharded import ShardedProgram
from symscale.xla.check import Subject
from symscale.xla.emit import Pass
from symscale.xla.emit_setting import Setting, default_sizes

MESH_XY = MappingProxyType({"X": 4, "Y": 2})
MESH_XYZ = MappingProxyType({"X": 4, "Y": 2, "Z": 2})
MESH_X = MappingProxyType({"X": 8})


@dataclass(frozen=True)
class Case:
    """One program, its shardings, a mesh, and the pass that is compared.

    ``pinned`` states every sharding of the derived pass; ``complete`` marks a case that is not
    pinned and states all of them nevertheless, since nothing lies other than its arrays do.
    ``by_size``: the derived plan weighs the sizes where they decide, as XLA does.
    """

    group: str
    title: str
    whole: Program
    shards: tuple[str, ...]
    mesh: Mapping[str, int]
    which: Pass = "forward"
    keep: Keep = "activations"
    sizes: Mapping[str, int] = field(default_factory=dict)
    pinned: bool = False
    complete: bool = False
    by_size: bool = False

    @property
    def name(self) -> str:
        """What identifies the case."""
        mesh = ",".join(f"{name}={size}" for name, size in self.mesh.items())
        pinned = ", pinned" if self.pinned else ""
        return f"{self.group}: {self.title} [{mesh}] {self.which}{pinned}"

    @property
    def sharded(self) -> ShardedProgram:
        """The program under its shardings."""
        setting = self.setting
        sizes = {**setting.sizes, **setting.mesh} if self.by_size else None
        keep = "all" if self.which == "joint" else self.keep
        return self.whole.shard(*self.shards, keep=keep, sizes=sizes)

    @property
    def setting(self) -> Setting:
        """Mesh and sizes, those not given chosen so that arrays differ in bytes."""
        return Setting(self.mesh, default_sizes(self.whole, self.mesh, self.sizes))

    def subject(self, explicit: bool = False) -> Subject:
        """What is to be checked."""
        return Subject(self.name, self.sharded, self.setting, self.which, explicit, self.pinned)
