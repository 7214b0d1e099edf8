"""The command line: parses, calls one study or report, prints.

Nothing heavy is imported until a command runs, so that help and argument errors come at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from symscale import __version__, commands, commands_serving
from symscale.algebra import counts
from symscale.algebra.errors import SymscaleError
from symscale.options import add_techniques
from symscale.options_serving import add_fit_options, add_serve_options

FORMATS = ("tex", "html", "pdf")


class _Parser(argparse.ArgumentParser):
    """Errors in one line, exit status 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status.

    >>> main(["params", "llama-2-7b", "--json"])
    {"active": 6738415616, ...}
    0
    """
    options = _parser().parse_args(arguments)
    try:
        status: int | None = options.run(options)
    except SymscaleError as error:
        print(f"symscale: {_one_line(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"symscale: cannot write: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("symscale: interrupted", file=sys.stderr)
        return 130
    return status or 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """An argparse type whose message is the parser's own."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


_count = _argument(counts.count)
_mesh = _argument(counts.mesh)
_numbers = _argument(counts.numbers)


def _formats(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in FORMATS:
            raise argparse.ArgumentTypeError(f"format {name!r} is none of {', '.join(FORMATS)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="symscale",
        description="Symbolic costs of language models at scale: formulas, crossovers, reports.",
    )
    parser.add_argument("--version", action="version", version=f"symscale {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for add in (
        _add_report,
        _add_train,
        _add_serve,
        _add_fit,
        _add_params,
        _add_flops,
        _add_crossover,
        _add_chips,
        _add_models,
        _add_check,
        _add_trace,
    ):
        add(parsers)
    return parser


def _command(
    parsers: Any, name: str, run: Callable[[argparse.Namespace], int | None], help_text: str
) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = parsers.add_parser(name, help=help_text, description=help_text)
    made.add_argument("--json", action="store_true", help="print one JSON object")
    made.set_defaults(run=run)
    return made


def _add_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a name of the zoo, or a config.json")


def _add_report(parsers: Any) -> None:
    made = _command(
        parsers, "report", commands.report, "Write a report on training a model on a chip."
    )
    _add_model(made)
    made.add_argument("--chip", required=True, help="a chip, e.g. tpu-v5p (see symscale chips)")
    made.add_argument("--chips", type=_count, required=True, metavar="N", help="chips at hand")
    made.add_argument("--batch", type=_count, required=True, metavar="TOKENS", help="e.g. 4Mi")
    made.add_argument("--strategy", default="fsdp+tp", help="e.g. fsdp+tp (the default)")
    made.add_argument("--mesh", type=_mesh, metavar="X=..,Y=..", help="the best one unless given")
    made.add_argument(
        "--seq", type=_count, metavar="T", help="sequence length; the model's context"
    )
    made.add_argument("--layout", help="order of the axes (Y,X), links (X=2), pods (X=dcn)")
    made.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write to")
    made.add_argument("--format", type=_formats, default=FORMATS, metavar="tex,html,pdf")
    _add_pace(made)
    add_techniques(made, _count)


def _add_pace(made: argparse.ArgumentParser) -> None:
    """How well a chip does, and its figures."""
    made.add_argument(
        "--overlap", choices=("full", "critical", "none"), default="full", help="(full)"
    )
    made.add_argument(
        "--efficiency",
        type=_numbers,
        metavar="math=..,X=..",
        help="measured shares of the peaks: math, hbm, links, a mesh axis",
    )
    made.add_argument(
        "--set", action="append", default=[], metavar="FIGURE=NUMBER", help="of the chip, another"
    )


def _add_train(parsers: Any) -> None:
    made = _command(
        parsers, "train", commands.train, "Step time, memory, days and cost of training a model."
    )
    _add_model(made)
    made.add_argument("--chip", required=True, help="a chip, e.g. tpu-v5p (see symscale chips)")
    made.add_argument("--chips", type=_count, required=True, metavar="N", help="chips at hand")
    made.add_argument("--batch", type=_count, required=True, metavar="TOKENS", help="e.g. 4Mi")
    made.add_argument("--strategy", required=True, help="e.g. fsdp+tp")
    made.add_argument("--mesh", type=_mesh, metavar="X=..,Y=..", help="the best one unless given")
    made.add_argument(
        "--seq", type=_count, metavar="T", help="sequence length; the model's context"
    )
    made.add_argument("--layout", help="order of the axes (Y,X), links (X=2), pods (X=dcn)")
    made.add_argument("--tokens", type=_count, metavar="N", help="tokens of the run, e.g. 15T")
    made.add_argument(
        "--scaling", action="store_true", help="tokens/s on fewer and more chips at this batch"
    )
    _add_pace(made)
    add_techniques(made, _count)
    _add_budget(made)


def _add_budget(made: argparse.ArgumentParser) -> None:
    """Pace, price and power of a run."""
    for flag, unit, text in (
        ("--mfu", "SHARE", "utilisation, instead of the step's bound"),
        ("--tflops", "TF", "or useful TFLOP/s measured on a chip"),
        ("--step-seconds", "S", "or the measured time of a step"),
        ("--price", "USD", "of a chip for an hour; the one on file"),
        ("--power", "W", "of a chip with its share of the host; its TDP"),
        ("--pue", "P", "power of the building over that of its machines (1)"),
        ("--carbon", "KG", "kilograms of carbon dioxide for a kWh"),
    ):
        made.add_argument(flag, type=float, metavar=unit, help=text)


def _add_serve(parsers: Any) -> None:
    made = _command(
        parsers,
        "serve",
        commands_serving.serve,
        "A step of generation: its time, throughput, memory and bottleneck; with --prefill, the "
        "time to a prompt's first token.",
    )
    _add_model(made)
    add_serve_options(made, _count, _mesh)


def _add_fit(parsers: Any) -> None:
    made = _command(
        parsers,
        "fit",
        commands_serving.fit,
        "The fewest chips that hold a model: its weights alone, and with the cache of a batch.",
    )
    _add_model(made)
    add_fit_options(made, _count)


def _add_params(parsers: Any) -> None:
    made = _command(
        parsers, "params", commands.params, "Parameters by component, as formulas and counts."
    )
    _add_model(made)
    made.add_argument("--stored", metavar="FORMAT", help="e.g. int4-g128 (as the config says)")
    made.add_argument("--experts", metavar="FORMAT", help="of the experts' weights, e.g. mxfp4")
    made.add_argument("--cache", default="bf16", metavar="DTYPE", help="of the KV cache (bf16)")
    made.add_argument("--context", type=_count, metavar="T", help="sequence whose cache is counted")


def _add_flops(parsers: Any) -> None:
    made = _command(
        parsers, "flops", commands.flops, "FLOPs for one token, with their conventions."
    )
    _add_model(made)
    made.add_argument("--context", type=_count, required=True, metavar="T", help="sequence length")
    made.add_argument("--training", action="store_true", help="forward and backward")
    made.add_argument(
        "--causal",
        nargs="?",
        const="half",
        default=False,
        choices=("half", "exact"),
        help="count half of the attention scores, or every pair once",
    )
    made.add_argument(
        "--recompute",
        metavar="POLICY",
        help="count what it repeats: none, selective, matmul, block or full",
    )
    made.add_argument("--capacity", type=float, default=1, metavar="C", help="experts' buffers (1)")
    for flag, text in (
        ("--no-head", "leave the output head out"),
        ("--embeddings", "the lookup as a product"),
        ("--mtp", "count multi-token prediction"),
        ("--decode", "one new token, T tokens cached"),
        ("--naive", "decode latent attention without absorbing its matrices"),
    ):
        made.add_argument(flag, action="store_true", help=text)


def _add_crossover(parsers: Any) -> None:
    made = _command(
        parsers,
        "crossover",
        commands.crossover,
        "A named crossover, as formula and number; without a name, the list of them.",
    )
    made.add_argument("name", nargs="?", metavar="NAME")
    made.add_argument("--strategy", default="fsdp+tp", help="whose sharding (default fsdp+tp)")
    made.add_argument("--model", help="whose sizes (a name or a config.json)")
    made.add_argument("--chip", help="whose rates")
    made.add_argument("--set", type=_numbers, metavar="S=..,Y=..", help="any other symbol's number")
    made.add_argument("--chips", type=_count, metavar="N", help="number of chips")
    made.add_argument("--batch", type=_count, metavar="TOKENS", help="batch in tokens")


def _add_chips(parsers: Any) -> None:
    made = _command(
        parsers, "chips", commands.chips, "The chips, or one with all figures and sources."
    )
    made.add_argument("name", nargs="?", metavar="NAME", help="a name, or a file of the same form")
    made.add_argument("--edition", help="the numbers that one source prints, e.g. book")
    made.add_argument(
        "--set", action="append", default=[], metavar="FIGURE=NUMBER", help="another number"
    )
    made.add_argument(
        "--roofline", nargs="?", const="bf16", metavar="DTYPE", help="its roofs and ridge points"
    )
    made.add_argument("--mesh", type=_mesh, metavar="X=..,Y=..", help="where these axes lie on it")
    made.add_argument("--layout", help="order of the axes (Y,X), links (X=2), pods (X=dcn)")


def _add_models(parsers: Any) -> None:
    made = _command(
        parsers, "models", commands.models, "The zoo, or one model with its sizes and source."
    )
    made.add_argument("name", nargs="?", metavar="NAME")


def _add_trace(parsers: Any) -> None:
    made = _command(
        parsers,
        "trace",
        commands.trace,
        "Measured time by kind of op in a profile; beside the derived "
        "bounds of a sharded program when --chip names what it ran on.",
    )
    made.add_argument("file", metavar="FILE", help="a Chrome or TensorBoard trace, or its folder")
    made.add_argument("--steps", type=_count, default=1, metavar="N", help="steps it holds")
    made.add_argument("--chip", help="the chip it ran on")
    made.add_argument("--strategy", default="fsdp", help="of the two-matmul layer (fsdp)")
    made.add_argument("--mesh", type=_mesh, default={"X": 4}, metavar="X=..", help="the mesh (X=4)")
    made.add_argument("--sizes", type=_mesh, default={}, metavar="B=..,D=..", help="sizes of dims")
    made.add_argument("--training", action="store_true", help="the backward pass too")


def _add_check(parsers: Any) -> None:
    made = _command(
        parsers,
        "check",
        commands.check,
        "Hold a sharded program against what XLA makes of it; exit "
        "status 1 when a difference has no known reason. Needs the extra xla.",
    )
    made.add_argument("lines", nargs="*", metavar="LINE", help="a program; the two-matmul layer")
    made.add_argument("--model", help="a decoder layer of this model instead, at small sizes")
    made.add_argument("--strategy", help="a strategy's name, e.g. fsdp+tp")
    made.add_argument(
        "--shard", action="append", default=[], metavar="ARRAY", help="e.g. In[B_X,D]"
    )
    made.add_argument("--mesh", type=_mesh, metavar="X=..,Y=..", help="the mesh (X=4,Y=2)")
    made.add_argument("--sizes", type=_mesh, default={}, metavar="B=..,D=..", help="sizes of dims")
    made.add_argument("--inputs", metavar="A,B", help="activations from outside; the first array")
    which = made.add_mutually_exclusive_group()
    for name, text in (("backward", "the backward pass alone"), ("joint", "forward and gradient")):
        which.add_argument(f"--{name}", dest="which", action="store_const", const=name, help=text)
    made.add_argument("--explicit", action="store_true", help="collectives written out (shard_map)")
    made.add_argument("--pinned", action="store_true", help="state where each op computes, too")
    made.add_argument(
        "--by-size", action="store_true", help="derive the plan that these sizes make cheapest"
    )
    made.add_argument("--source", action="store_true", help="print the JAX source and stop")
    made.add_argument(
        "--catalogue", action="store_true", help="check all programs of the catalogue"
    )
    made.add_argument("-o", "--output", metavar="FILE", help="write the catalogue's page here")


if __name__ == "__main__":
    sys.exit(main())
