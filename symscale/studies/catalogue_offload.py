"""Crossovers of offload: when arithmetic hides what comes over PCIe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sympy import Add, Expr

from symscale.algebra.symbols import B, F, W_pcie
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.strategy import strategy
from symscale.programs.reverse import gradient_name
from symscale.programs.sharded import ShardedProgram
from symscale.solve.crossover import crossover
from symscale.studies.catalogue_common import Entry, Found, Setting, found
from symscale.studies.saved import read_back

GROUP = "training"


def _bytes(sharded: ShardedProgram, names: tuple[str, ...]) -> Expr:
    return Add(*(sharded.sharding(name).bytes for name in names))


def _layer() -> ShardedProgram:
    return strategy("fsdp").shard(two_matmul_layer())


def optimizer(setting: Setting) -> Found:
    """Gradients go down and new weights come up once a step, beside both passes."""
    sharded = _layer()
    weights = sharded.program.weights
    moved = _bytes(sharded, (*weights, *map(gradient_name, weights)))
    math = Add(*(phase.time.math for phase in (sharded.forward, sharded.backward)))
    return found(crossover(math, moved / W_pcie, B), "B", "tokens")


def parameters(setting: Setting) -> Found:
    """A device's share of the weights comes up in each pass; the forward one is the shorter."""
    sharded = _layer()
    moved = _bytes(sharded, sharded.program.weights) / W_pcie
    return found(crossover(sharded.forward.time.math, moved, B), "B", "tokens")


def activations(setting: Setting) -> Found:
    """What the backward pass reads goes down in the forward pass; the batch cancels."""
    sharded = _layer()
    moved = Add(*(array.bytes for array in read_back(sharded))) / W_pcie
    answer = crossover(sharded.forward.time.math, moved, F)
    return found(answer, "F", "columns")


def _entry(question: str, derive: Callable[[Setting], Found]) -> Entry:
    return Entry(GROUP, question, derive)


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "offload-optimizer": _entry(
            "From which batch does arithmetic hide an optimizer that lies on the host, under FSDP?",
            optimizer,
        ),
        "offload-parameters": _entry(
            "From which batch does arithmetic hide weights that lie on the host, under FSDP?",
            parameters,
        ),
        "offload-activations": _entry(
            "From which feed-forward width on does arithmetic hide activations that go to the "
            "host?",
            activations,
        ),
    }
)
