"""A server with more chips: the same question asked again, sharded further or as replicas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from symscale.algebra.errors import SymscaleError
from symscale.studies.inference_result import InferenceResult

_MOST_DOUBLINGS = 10
#: What belongs to one mesh: another number of chips has a mesh and a layout of its own.
_OF_A_MESH = frozenset(("X", "Y", "Z", "M_X", "M_Y", "M_Z", "layout"))


@dataclass(frozen=True)
class Server:
    """A server as it was found; everything that it was asked with stays, unless it must change.

    >>> from symscale.studies.inference import inference
    >>> server = Server(inference("llama-3-8b").at("h100", chips=1, batch=6, context=4096))
    >>> server.wider(2).mesh["Y"], server.replicated(4).batch
    (2, 8)
    """

    found: InferenceResult

    @property
    def chips_each(self) -> int:
        """Chips of one replica."""
        return prod(self.found.mesh.values())

    @property
    def pinned(self) -> bool:
        """Whether a mesh or a layout of it was given."""
        return any(self.found.asked.get(name) is not None for name in _OF_A_MESH)

    def asked(self, *without: str) -> Mapping[str, Any]:
        """The numbers of the question, some left out."""
        return {name: value for name, value in self.found.asked.items() if name not in without}

    def again(self, keep_mesh: bool = True, **changes: Any) -> InferenceResult:
        """The question with some numbers changed; the mesh is chosen anew unless kept.

        Raises:
            SymscaleError: as the question itself.
        """
        study = self.found.origin or self.found.study
        kept = self.asked() if keep_mesh else self.asked(*_OF_A_MESH)
        return study.at(self.found.chip, **{**kept, **changes})

    def wider(self, times: int) -> InferenceResult:
        """Each replica sharded over so many times its chips.

        Raises:
            SymscaleError: where no mesh of them divides the model, or fits the network.
        """
        return self.again(keep_mesh=False, chips=self.found.chips * times)

    def replicated(self, count: int, batch: int | None = None) -> InferenceResult:
        """So many replicas in all, each like one of these; sequences are dealt out evenly.

        The batch is filled up to a multiple of the replicas.

        Raises:
            SymscaleError: as the question itself.
        """
        each = math.ceil((batch or self.found.batch) / count)
        return self.again(batch=each * count, chips=self.chips_each * count, replicas=count)

    def sharded(
        self, wanted: Callable[[InferenceResult], bool]
    ) -> tuple[InferenceResult | None, int]:
        """The smallest doubling that satisfies a test, if one does, and the most chips tried."""
        tried = self.found.chips
        for power in range(1, _MOST_DOUBLINGS):
            try:
                found = self.wider(2**power)
            except SymscaleError:
                break
            tried = found.chips
            if wanted(found):
                return found, tried
        return None, tried
