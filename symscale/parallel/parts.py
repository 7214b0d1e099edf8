"""The parts that strategies are made of: each an assignment of mesh axes to dims, nothing more.

``residual`` are the dims of activations as wide as the model, ``hidden`` those inside a block,
``weights`` those of matrices. A part names roles (data, tensor, rows); a strategy puts mesh axes in
their place. What a part costs is for the partitioner to find out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

Roles = Mapping[str, tuple[str, ...]]

#: Dims along which a block is cut when its inside is split: heads, feed-forward width (of experts
#: too), vocabulary.
_INSIDE = ("F", "F_e", "F_s", "N", "K", "V")


def _none() -> Roles:
    return MappingProxyType({})


@dataclass(frozen=True)
class Part:
    """One way of splitting, by roles.

    ``gradients`` and ``optimizer`` are None where they lie as the weights do; ``partial`` are roles
    along which gradients stay partial sums until the optimizer step. ``core`` are the dims of
    attention itself, between its projections (as ``hidden`` where None); ``ring`` passes keys and
    values round instead of gathering them.
    """

    name: str
    meaning: str
    residual: Roles = field(default_factory=_none)
    hidden: Roles = field(default_factory=_none)
    weights: Roles = field(default_factory=_none)
    gradients: Roles | None = None
    optimizer: Roles | None = None
    partial: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    core: Roles | None = None
    ring: bool = False


def _split(dims: tuple[str, ...], *roles: str) -> Roles:
    return MappingProxyType(dict.fromkeys(dims, roles))


_BATCH = _split(("B", "b"), "data")
_WIDTH = _split(("D",), "data")
_HALVES = _split(_INSIDE, "tensor")
_STREAM = _split(("T", "S_x", "B"), "context")
#: Queries keep their part of a sequence; where none are, keys do.
_QUERIES = _split(("T", "S", "S_x", "B"), "context")
#: Heads are split instead, and the sequence only where there are none.
_HEADS = _split(("K", "N", "T", "S", "S_x"), "context")

PARTS: Mapping[str, Part] = MappingProxyType(
    {
        part.name: part
        for part in (
            Part("dp", "data parallel: the batch is split, weights are whole everywhere",
                 _BATCH, _BATCH, roles=("data",)),
            Part("zero1", "data parallel with the optimizer state split; gradients stay whole",
                 _BATCH, _BATCH, optimizer=_WIDTH, partial=("data",), roles=("data",)),
            Part("zero2", "data parallel with the optimizer state and the gradients split",
                 _BATCH, _BATCH, gradients=_WIDTH, optimizer=_WIDTH, roles=("data",)),
            Part("fsdp", "fully sharded data parallel (ZeRO-3): weights split as well",
                 _BATCH, _BATCH, _WIDTH, roles=("data",)),
            Part("hsdp", "hierarchical sharding: weights split within a group of data ranks, whole "
                 "groups repeat them", _split(("B", "b"), "replica", "data"),
                 _split(("B", "b"), "replica", "data"), _WIDTH, partial=("replica",),
                 roles=("replica", "data")),
            Part("tp", "tensor parallel (Megatron), activations between blocks split on D",
                 _split(("D",), "tensor"), _HALVES, _HALVES, roles=("tensor",)),
            Part("tp+sp", "tensor parallel, activations between blocks split on the sequence",
                 _split(("B", "T"), "tensor"), _HALVES, _HALVES, roles=("tensor",)),
            Part("tpwhole", "tensor parallel, activations between blocks whole on every device",
                 hidden=_HALVES, weights=_HALVES, roles=("tensor",)),
            Part("2d", "2D weight-stationary: both dims of each weight split, the batch whole",
                 _split(("D",), "rows", "tensor"), _HALVES,
                 MappingProxyType({**_split(("D",), "rows"), **_HALVES}), roles=("rows", "tensor")),
            Part("cp", "context parallel: sequences split, keys and values gathered for attention",
                 _STREAM, _QUERIES, roles=("context",)),
            Part("ulysses", "context parallel: sequences split, exchanged for heads in attention",
                 _STREAM, _QUERIES, roles=("context",), core=_HEADS),
            Part("ring", "context parallel: sequences split, keys and values passed round a ring",
                 _STREAM, _QUERIES, roles=("context",), ring=True),
            Part("ep", "expert parallel: experts split, tokens sent to them and back, batch cut",
                 _BATCH, _BATCH, roles=("expert",)),
            Part("pp", "pipeline parallel: layers split into stages", roles=("stage",)),
        )
    }
)  # fmt: skip

ALIASES: Mapping[str, str] = MappingProxyType(
    {"zero3": "fsdp", "ddp": "dp", "megatron": "tp", "ws2d": "2d", "zero": "fsdp"}
)
