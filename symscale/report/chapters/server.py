"""A server in its system: prompts, chunks, a second server, a shared prefix, drafts, advice."""

from __future__ import annotations

from sympy import Basic, Float, Rational

from symscale.algebra.table import Table as Rows
from symscale.report.document import Block, Section, display, listing, section, table, text
from symscale.report.document import DerivationBlock as Steps
from symscale.report.numbers import number, seconds
from symscale.studies.inference_prefill import Prefill
from symscale.studies.serving.advice import Advice
from symscale.studies.serving.batching import batching
from symscale.studies.serving.disaggregation import disaggregate
from symscale.studies.serving.prefix import PrefixResult
from symscale.studies.serving.speculative import speculative
from symscale.studies.serving.system import ServingSystem
from symscale.studies.serving.transfer import transfer
from symscale.studies.serving.words import CHUNK

_DIGITS = 4


def rounded(expr: Basic) -> Basic:
    """An expression with its fractions as decimals, for a reader.

    >>> from sympy import Rational
    >>> rounded(Rational(1, 3))
    0.3333
    """
    fractions = (one for one in expr.atoms(Rational) if not one.is_Integer)
    return expr.xreplace({one: Float(one, _DIGITS) for one in fractions})


def prompt_chapter(prompt: Prefill) -> Section:
    """The prefill of a prompt: its arithmetic as a formula, its time to a first token."""
    result = prompt.result
    formulas = result.study.formulas.prefill
    reached = "" if prompt.mfu is None else f", of which {prompt.mfu:.0%} is reached"
    busy = [(name, seconds(value)) for name, value in prompt.busy.items()]
    return section(
        "A prompt's prefill",
        text(
            f"A prompt of {prompt.prompt:,} tokens is read in one pass; only its last token gets "
            "logits, and each query meets the keys before it. Arithmetic, and the weights that "
            f"the pass reads{reached}:"
        ),
        display(
            ("seconds of arithmetic", formulas.total("math")),
            ("seconds for the weights", formulas.all_weights),
        ),
        text(
            "Kernel by kernel, each no sooner than its arithmetic and its traffic, a first token "
            "comes after ", seconds(prompt.time), f"; it waits for {prompt.bottleneck}.",
        ),
        table(["resource", ("busy", "right")], busy, "What takes a prompt."),
    )  # fmt: skip


def advice_chapter(advice: Advice) -> Section:
    """The wall that a server stands at: its inequality, and what to do."""
    blocks: list[Block] = []
    if advice.inequality is not None:
        blocks = [text(f"The wall is {advice.wall}. What must hold:"), display(advice.inequality)]
    return section("What to do", *blocks, listing(advice.lines))


def system_chapters(system: ServingSystem) -> list[Section]:
    """Continuous batching, chunks, servers of two kinds, prefixes, drafts: formulas and numbers."""
    flows, apart, sent, drafts = batching(), disaggregate(), transfer(), speculative()
    return [
        section(
            "The server in its system",
            text(
                f"Prompts of {system.prompt:,} tokens are answered with {system.answer:,} tokens "
                "each. A full batch drops as many tokens from its cache as it adds:"
            ),
            display(
                ("tokens evicted in a step", flows.evicted),
                ("seconds from step to step", flows.cycle),
                ("requests a second", flows.requests),
            ),
            _numbers(system.table(), "One replica, with its own step and prefill."),
        ),
        _chunks(system),
        section("Servers apart", Steps(apart.derivation), level=2),
        section("Sending a prompt's cache", Steps(sent.derivation), level=2),
        *_prefix(system),
        section("Drafts", Steps(drafts.derivation), level=2),
    ]


def _chunks(system: ServingSystem) -> Section:
    """Pieces of prompts on the steps of this server, in numbers but for batch and pieces."""
    found = system.chunks
    return section(
        "Chunked prefill",
        text("With a chunk of a prompt on every step, in numbers for this server:"),
        display(
            ("steps of a prompt", found.steps),
            ("seconds of such a step", rounded(found.step.seconds(beside=CHUNK))),
            ("seconds to read a prompt's own cache again", rounded(found.read_again)),
        ),
        text(
            "A first token comes after all steps and all reading again; tokens of others wait for "
            "one step and its share of the reading."
        ),
        level=2,
    )


def _prefix(system: ServingSystem) -> list[Section]:
    """What a shared prefix saves, where one is said."""
    found = system.prefix_cache
    if found is None:
        return []
    return [
        section(
            "A shared prefix",
            Steps(found.of.derivation),
            *_break_evens(found),
            _numbers(found.table(), "What the prefix saves on this server."),
            level=2,
        )
    ]


def _break_evens(found: PrefixResult) -> list[Block]:
    """From which bandwidth on to fetch a prefix, and for how long to keep it."""
    if found.saved_seconds <= 0:
        return [text("A hit saves no time: prompts wait for the weights.")]
    made = found.numbered
    walls = (
        ("worth fetching, in bytes/s", made.worth_loading),
        ("worth keeping between uses, in s", made.worth_keeping),
    )
    return [display(*((said, rounded(one.at(found.values).condition)) for said, one in walls))]


def _numbers(rows: Rows, caption: str) -> Block:
    """A study's own table, its words left out."""
    said = [(name, number(value, digits=4)) for name, value in rows if not isinstance(value, str)]
    return table(["", ("value", "right")], said, caption)
