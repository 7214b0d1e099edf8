"""How a model lies while it serves: mesh axes on the dims of weights, activations and the cache.

Mesh axes: Y deals out key/value heads, and with Z, where tensor parallelism goes beyond them, the
query heads of each; both cut feed-forward widths and the vocabulary. X is a layout's other axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from symscale.algebra.errors import StrategyError, near
from symscale.arrays.array import Array
from symscale.models.params import component_of
from symscale.programs.ops import Lookup
from symscale.programs.program import Program
from symscale.programs.sharded import ShardedProgram
from symscale.studies.inference_mix import mixed
from symscale.studies.inference_program import Served, base, is_keys

Axes = tuple[str, ...]
CacheCut = Literal["heads", "batch", "sequence"]
ExpertCut = Literal["width", "whole", "exchange"]

#: Where the cache lies beyond its heads: repeated, or cut along sequences in flight or their keys.
CACHE_CUTS: tuple[CacheCut, ...] = ("heads", "batch", "sequence")


@dataclass(frozen=True)
class ServingLayout:
    """Mesh axes by role.

    Attributes:
        name: ``tp``, ``2d``...
        meaning: the same in words.
        heads: axes that deal out key/value heads.
        over: axes beyond those, which deal out the query heads of one key/value head.
        rows: axes that cut the width D of weights.
        residual: axes that cut D of the activations between blocks.
        batch: axes that cut the batch.
        experts: what of experts is cut: their width, their number, or their number with tokens
            exchanged between the parts of the batch.
        cache: what the axes beyond the heads cut in the cache.
    """

    name: str
    meaning: str
    heads: Axes = ("Y",)
    over: Axes = ()
    rows: Axes = ()
    residual: Axes = ()
    batch: Axes = ()
    experts: ExpertCut = "width"
    cache: CacheCut = "heads"

    @property
    def tensor(self) -> Axes:
        """All axes of tensor parallelism."""
        return self.heads + self.over

    @property
    def mesh_axes(self) -> Axes:
        """All mesh axes, each once."""
        return tuple(dict.fromkeys((*self.rows, *self.batch, *self.tensor)))

    @property
    def experts_over(self) -> Axes:
        """The axes that deal out whole experts."""
        return {"width": (), "whole": self.tensor, "exchange": self.batch}[self.experts]

    def without(self, trivial: frozenset[str]) -> ServingLayout:
        """The same where some axes have one device and cut nothing."""

        def left(axes: Axes) -> Axes:
            return tuple(name for name in axes if name not in trivial)

        return replace(
            self,
            heads=left(self.heads),
            over=left(self.over),
            rows=left(self.rows),
            residual=left(self.residual),
            batch=left(self.batch),
        )

    def shard(self, served: Served) -> ShardedProgram:
        """A layer's program under this layout."""
        program = served.program if self.experts == "exchange" else mixed(served.program)
        weights = frozenset(program.weights)
        placed = {
            name: self.weight(array)
            if name in weights
            else self.activation(array, name in served.attention)
            for name, array in program.arrays.items()
        }
        return ShardedProgram(program, MappingProxyType(placed | self._whole_ids(program)))

    def _whole_ids(self, program: Program) -> dict[str, Array]:
        """Ids that look up a table cut along D: where X cuts the batch, too, all have all of them.

        They are few bytes: a device looks up its part of every row, and rows are exchanged, so that
        no table is gathered.
        """
        if not set(self.rows) & set(self.batch):
            return {}
        looks = (op for op in program.ops if isinstance(op, Lookup))
        return {op.inputs[0].name: op.inputs[0].placed({}) for op in looks}

    def weight(self, array: Array) -> Array:
        """A weight: vectors along D lie as the activations that they meet."""
        whole = len(array.dims) == 1
        placing = {
            label: self.residual if whole and base(label) == "D" else self._weight_axes(label)
            for label in array.labels
        }
        if component_of(array.name) == "router":
            # Every token asks about every expert.
            placing = {label: axes for label, axes in placing.items() if base(label) != "E"}
        return array.placed(_once(placing))

    def _weight_axes(self, label: str) -> Axes:
        kinds: Mapping[str, Axes] = {"D": self.rows, "D_l": self.rows, "E": self.experts_over}
        name = base(label)
        return kinds[name] if name in kinds else self._inside(name)

    def _inside(self, name: str) -> Axes:
        if name in ("F", "F_s", "V", "N"):
            return self.tensor
        if name == "F_e":
            return () if self.experts == "whole" else self.tensor
        return {"K": self.heads, "G": self.over}.get(name, ())

    def activation(self, array: Array, attention: bool) -> Array:
        """An activation, or what attention reads of the cache."""
        labels = array.labels
        if attention:
            return self.around_cache(array)
        if "c" in labels:
            return self._in_slots(array)
        placing: dict[str, Axes] = {}
        for label in labels:
            name = base(label)
            if name in ("B", "b"):
                placing[label] = self.batch
                placing[label] += self._scattered(labels)
            elif name == "D":
                placing[label] = self.residual
            else:
                placing[label] = self._inside(name)
                # Sums over rows are scattered, and gathered before they are summed again.
                placing[label] += self.rows if name == "F" and not self.batch else ()
        return array.placed(_once(placing))

    def _scattered(self, labels: Axes) -> Axes:
        """Axes of rows along which heads' sums are scattered over a batch cut there anyway."""
        heads = {"K", "N"} & set(map(base, labels))
        return self.rows if heads and self.cache == "batch" and not self.batch else ()

    def _in_slots(self, array: Array) -> Array:
        """Tokens in the slots of their experts."""
        placing: dict[str, Axes] = {}
        for label in array.labels:
            name = base(label)
            placing[label] = {"E": self.experts_over, "D": self.rows}.get(name, self._inside(name))
        ids = len(array.dims) == 2
        if self.experts == "exchange" and not ids:
            return array.placed(_once(placing))
        if ids and self.batch:
            placing = {"E": ()}
        return array.placed(_once({**placing, "c": self.batch}))

    def around_cache(self, array: Array) -> Array:
        """An array of attention proper, or the cache itself: KV[B_Z, S, K_Y, H] and its like."""
        dealt = "K" in map(base, array.labels)
        beyond = self.over if dealt else self.tensor
        placing: dict[str, Axes] = {}
        for label in array.labels:
            name = base(label)
            if name in ("B", "b"):
                more = (*self.rows, *beyond) if self.cache == "batch" else ()
                placing[label] = self.batch + tuple(a for a in more if a not in self.batch)
            elif is_keys(label):
                placing[label] = beyond if self.cache == "sequence" else ()
            elif name == "K":
                placing[label] = self.heads
            elif name in ("G", "N"):
                placing[label] = self._query_heads(array, name)
        return array.placed(_once(placing))

    def _query_heads(self, array: Array, name: str) -> Axes:
        """Query heads beyond the key/value heads: apart, unless batch or keys are cut instead."""
        axes = self.over if name == "G" else self.tensor
        if self.cache == "heads":
            return axes
        meets_keys = any(is_keys(label) for label in array.labels)
        return () if self.cache == "batch" or meets_keys else axes


def _once(placing: Mapping[str, Axes]) -> dict[str, Axes]:
    """No axis twice: the first dim that claims it has it."""
    used: set[str] = set()
    out: dict[str, Axes] = {}
    for label, axes in placing.items():
        out[label] = tuple(name for name in axes if name not in used)
        used.update(out[label])
    return out


LAYOUTS: Mapping[str, ServingLayout] = MappingProxyType(
    {
        made.name: made
        for made in (
            ServingLayout(
                "tp",
                "tensor parallel (1D weight-stationary): heads, widths and vocabulary cut, "
                "activations between blocks whole",
                over=("Z",),
            ),
            ServingLayout(
                "tp+ep",
                "tensor parallel, with whole experts dealt out instead of their widths",
                over=("Z",),
                experts="whole",
            ),
            ServingLayout(
                "2d",
                "2D weight-stationary: both dims of each weight cut",
                over=("Z",),
                rows=("X",),
                residual=("X", "Y", "Z"),
            ),
            ServingLayout(
                "wg",
                "weight-gathered: batch and weights cut along X, weights gathered for each layer",
                rows=("X",),
                batch=("X",),
            ),
            ServingLayout(
                "ep",
                "expert parallel: batch cut along X, experts dealt out along it, tokens exchanged",
                batch=("X",),
                experts="exchange",
            ),
        )
    }
)


def serving_layout(name: str | ServingLayout, cache: CacheCut = "heads") -> ServingLayout:
    """A layout by name: ``tp``, ``tp+ep``, ``2d``, ``wg`` or ``ep``.

    Source: Pope et al., Efficiently Scaling Transformer Inference,
    https://arxiv.org/abs/2211.05102, section 3.

    Raises:
        StrategyError: for another name, or another cut of the cache.

    >>> serving_layout("2d").mesh_axes
    ('X', 'Y', 'Z')
    >>> serving_layout("pt")
    Traceback (most recent call last):
    symscale.algebra.errors.StrategyError: unknown serving strategy 'pt'; one of tp, tp+ep, 2d, \
wg, ep; did you mean tp or ep?
    """
    if cache not in CACHE_CUTS:
        raise StrategyError(f"cache cut {cache!r} is none of {', '.join(CACHE_CUTS)}")
    if isinstance(name, ServingLayout):
        return replace(name, cache=cache)
    if not isinstance(name, str):
        raise StrategyError(f"serving strategy {name!r}: one of {', '.join(LAYOUTS)} is wanted")
    key = name.lower().replace(" ", "")
    if key not in LAYOUTS:
        raise StrategyError(
            f"unknown serving strategy {name!r}; one of {', '.join(LAYOUTS)}{near(key, LAYOUTS)}"
        )
    return replace(LAYOUTS[key], cache=cache)
