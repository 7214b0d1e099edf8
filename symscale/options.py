"""Options of the command line that several commands share: how a model is split and trained."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from symscale.algebra.errors import StrategyError

#: Option, its metavariable, its help; each is an option of ``strategy`` of the same name.
_TECHNIQUES = (
    ("schedule", "NAME", "of the pipeline of a strategy with pp, e.g. zb-h1 (1f1b)"),
    ("chunks", "V", "chunks of layers a device, of an interleaved schedule"),
    ("ends", "E,H", "layers that embedding and head count for when layers are dealt out"),
    ("microbatches", "M", "parts of a batch, one after another (1)"),
    ("remat", "POLICY", "none, selective, matmul, block, or saved arrays: In,Gate,Up (none)"),
    ("optimizer", "NAME", "adam, adam+master, adam-bf16, adam-bf16+master or sgd (adam)"),
    ("gradients", "DTYPE", "type gradients are kept in (that of the weights)"),
    ("reduce", "WHEN", "gradients reduced after each or the last microbatch"),
    ("offload", "KINDS", "optimizer, parameters, activations: kept on the host"),
)
_NUMBERS = ("chunks", "microbatches")
_LISTS = ("ends", "offload")


def add_techniques(made: argparse.ArgumentParser, count: Callable[[str], Any]) -> None:
    """What a training step keeps, repeats, splits in time and moves to the host."""
    group = made.add_argument_group("how it is trained")
    for name, metavar, text in _TECHNIQUES:
        kind: Callable[[str], Any] = count if name in _NUMBERS else str
        group.add_argument(f"--{name}", type=kind, metavar=metavar, help=text)
    group.add_argument(
        "--imbalance",
        type=float,
        metavar="R",
        help="of experts: the hottest rank over the mean (1)",
    )
    group.add_argument(
        "--capacity", type=float, metavar="C", help="of experts' buffers over their even share (1)"
    )
    group.add_argument(
        "--keep",
        choices=("activations", "all", "none"),
        default="activations",
        help="gathered copies that the backward pass finds again (activations)",
    )


def techniques_of(options: argparse.Namespace) -> dict[str, Any]:
    """The options that were given, as ``training`` takes them.

    Raises:
        StrategyError: for ends that are not two whole numbers.
        SymbolError: for an imbalance or a capacity that is not above zero.
    """
    given = {name: getattr(options, name) for name, _, _ in _TECHNIQUES}
    out = {name: value for name, value in given.items() if value is not None}
    if "," in out.get("remat", ""):
        out["remat"] = tuple(part.strip() for part in out["remat"].split(","))
    for name in _LISTS:
        if name in out:
            out[name] = tuple(part.strip() for part in out[name].split(","))
    if "ends" in out:
        if not all(part.isdigit() for part in out["ends"]):
            raise StrategyError(f"--ends {given['ends']}: two whole numbers are wanted, e.g. 1,1")
        out["ends"] = tuple(int(part) for part in out["ends"])
    from symscale.algebra.substitution import exact

    stretch = exact(1, "capacity")
    for name in ("imbalance", "capacity"):
        given_one = getattr(options, name)
        if given_one is not None:
            stretch *= exact(given_one, name)
    return {**out, "capacity": stretch}


def need_microbatches(strategy: str, staged: bool, given: Mapping[str, Any]) -> None:
    """Refuse a strategy with stages but no number of microbatches.

    Raises:
        StrategyError: naming the option.
    """
    if staged and "microbatches" not in given:
        raise StrategyError(f"strategy {strategy} has stages: give --microbatches")
