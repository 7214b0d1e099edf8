"""Options of the commands about serving: what serves, on what, and how its step is counted."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

Parse = Callable[[str], Any]

_STRATEGIES = "tp, tp+ep, 2d, wg or ep (tp)"


def add_serve_options(made: argparse.ArgumentParser, count: Parse, mesh: Parse) -> None:
    """The arguments of ``symscale serve`` behind the model."""
    made.add_argument("--chip", required=True, help="a chip, e.g. tpu-v5e (see symscale chips)")
    made.add_argument("--chips", type=count, metavar="N", help="chips, of all replicas")
    made.add_argument("--batch", type=count, required=True, metavar="B", help="sequences in flight")
    made.add_argument("--context", type=count, metavar="S", help="tokens cached of each sequence")
    made.add_argument(
        "--prefill", type=count, metavar="P", help="and the prefill of so many tokens"
    )
    made.add_argument("--mfu", type=float, metavar="SHARE", help="utilisation in prefill")
    made.add_argument("--replicas", type=count, default=1, metavar="R", help="that share the batch")
    made.add_argument("--stages", type=count, metavar="P", help="layers dealt out to so many")
    made.add_argument("--groups", type=count, metavar="M", help="of sequences in the pipeline (P)")
    made.add_argument("--mesh", type=mesh, metavar="Y=..,Z=..", help="the best one unless given")
    made.add_argument("--layout", help="order of the axes (Z,Y), links (Y=2), pods (X=dcn)")
    made.add_argument("--explain", action="store_true", help="why the two models of a step differ")
    for name, words in (
        ("method", ("per-op", "aggregate")),
        ("overlap", ("full", "critical", "none")),
        ("fidelity", ("ideal", "ring", "latency")),
        ("activations", ("on chip", "hbm")),
    ):
        made.add_argument(f"--{name}", choices=words, default=words[0], help=f"({words[0]})")
    _add_types(made, count)
    _add_system(made, count)


def add_fit_options(made: argparse.ArgumentParser, count: Parse) -> None:
    """The arguments of ``symscale fit`` behind the model."""
    made.add_argument("--chip", required=True, help="a chip, e.g. h100 (see symscale chips)")
    made.add_argument(
        "--batch", type=count, default=1, metavar="B", help="sequences to be in flight (1)"
    )
    made.add_argument("--context", type=count, metavar="S", help="tokens cached of each sequence")
    _add_types(made, count)


def _add_types(made: argparse.ArgumentParser, count: Parse) -> None:
    """What weights and cache are stored in, how they lie, and what of a chip they may fill."""
    made.add_argument("--weights", metavar="FORMAT", help="e.g. int8 (as the config says)")
    made.add_argument("--experts", metavar="FORMAT", help="of the experts' weights, e.g. mxfp4")
    made.add_argument("--kv", default="bf16", metavar="DTYPE", help="of the KV cache (bf16)")
    made.add_argument("--compute", metavar="DTYPE", help="of products with weights, e.g. fp8")
    made.add_argument("--strategy", default="tp", help=_STRATEGIES)
    made.add_argument(
        "--cache", choices=("heads", "batch", "sequence"), help="what is cut beyond its heads"
    )
    made.add_argument("--naive", action="store_true", help="latent attention not absorbed")
    made.add_argument("--block", type=count, default=1, metavar="N", help="tokens of a page (1)")
    made.add_argument("--share", type=float, default=1.0, help="of HBM that may be used (1)")
    made.add_argument("--beyond", action="store_true", help="count a context beyond the model's")
    made.add_argument("--buffers", type=count, default=0, metavar="BYTES", help="set aside a chip")


def _add_system(made: argparse.ArgumentParser, count: Parse) -> None:
    """What is asked of a server in its system, and of the sweep around it."""
    group = made.add_argument_group("the server in its system")
    group.add_argument(
        "--answer", type=count, metavar="G", help="tokens generated for a prompt of --prefill P"
    )
    for name, metavar, text in (
        ("link", "BYTES/S", "between a server that reads prompts and one that answers"),
        ("alpha", "CHANCE", "that a drafted token is accepted"),
        ("draft", "SHARE", "a step of the draft over one of the model (0.05)"),
        ("want", "TOKENS/S", "tokens a second that are wanted: what to do to have them"),
        ("within", "SECONDS", "most time between two tokens: what to do to have it"),
    ):
        group.add_argument(f"--{name}", type=float, metavar=metavar, help=text)
    group.add_argument("--prefix", type=count, metavar="TOKENS", help="that prompts share")
    group.add_argument(
        "--hit", type=float, metavar="SHARE", help="of prompts that find them cached (0.9)"
    )
    swept = made.add_argument_group("a sweep: batches, fewer chips, shorter contexts, other types")
    swept.add_argument("--strategies", metavar="S,S", help="other layouts in the sweep, too")
    swept.add_argument("--against", metavar="CHIP,CHIP", help="other chips in the sweep, too")
    swept.add_argument("--sweep", action="store_true", help="the best batch of every option")
    swept.add_argument("--pareto", action="store_true", help="what no other point beats")
    swept.add_argument("-o", "--output", metavar="DIR", help="write a report with the frontier")
