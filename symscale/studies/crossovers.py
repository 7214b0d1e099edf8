"""The catalogue of named crossovers: each a few lines over the engine, none a typed-in answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from symscale.algebra.errors import SolveError, near
from symscale.algebra.links import IDEAL, Network
from symscale.algebra.table import Table
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.parallel.strategy import Strategy
from symscale.parallel.strategy import strategy as find_strategy
from symscale.studies import (
    catalogue_attention,
    catalogue_inference,
    catalogue_matmul,
    catalogue_network,
    catalogue_offload,
    catalogue_training,
)
from symscale.studies.catalogue_common import Entry, NamedCrossover, Setting

__all__ = ["ENTRIES", "NamedCrossover", "crossovers", "named_crossover"]

ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        **catalogue_matmul.ENTRIES,
        **catalogue_training.ENTRIES,
        **catalogue_offload.ENTRIES,
        **catalogue_attention.ENTRIES,
        **catalogue_inference.ENTRIES,
        **catalogue_network.ENTRIES,
    }
)


def named_crossover(
    name: str,
    model: str | Model = "llama-3-70b",
    strategy: str | Strategy = "fsdp+tp",
    network: Network = IDEAL,
) -> NamedCrossover:
    """A crossover of the catalogue.

    Args:
        name: its name; :func:`crossovers` lists them.
        model: whose layer is compared, where a layer is.
        strategy: whose sharding is compared, where one is.
        network: what collectives run on, where the question does not name it itself.

    Raises:
        SolveError: for an unknown name.

    >>> named_crossover("critical-batch").expr
    C/W_hbm
    >>> named_crossover("compute-bound", strategy="fsdp").expr
    C/(M_X*W_ici)
    >>> named_crossover("2d-or-1d").expr
    4*F*(M_X + M_Y)**2/(D*M_X*M_Y)
    """
    if name not in ENTRIES:
        raise SolveError(
            f"unknown crossover {name!r}{near(name, ENTRIES) or '; see: symscale crossover'}"
        )
    setting = Setting(find_model(model), find_strategy(strategy), network)
    entry = ENTRIES[name]
    return entry.build(setting).named(name, entry.question)


def crossovers() -> Table:
    """The catalogue: names, what they are about, and questions."""
    rows = tuple((name, entry.group, entry.question) for name, entry in ENTRIES.items())
    return Table(("name", "about", "question"), rows)
