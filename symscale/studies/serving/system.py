"""A server in its system: what continuous batching, servers apart, chunks and drafts make of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import S, floor

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import evaluate, exact
from symscale.algebra.symbols import B, b
from symscale.algebra.symbols import S as KEYS
from symscale.algebra.table import Table
from symscale.solve.crossover import crossover
from symscale.studies.inference_prefill import Prefill, prefill
from symscale.studies.inference_result import InferenceResult
from symscale.studies.serving.batching import BatchingResult, batching
from symscale.studies.serving.chunked import Chunked, ChunkedResult, chunked
from symscale.studies.serving.disaggregation import DisaggregationResult, disaggregate
from symscale.studies.serving.prefix import PrefixResult, placed_prefix
from symscale.studies.serving.served import placed_step
from symscale.studies.serving.speculative import BestDraft, Speculation, speculative
from symscale.studies.serving.transfer import TransferResult, transfer
from symscale.studies.serving.upto import up_to
from symscale.studies.serving.words import CHUNK, REUSES


@dataclass(frozen=True)
class ServingSystem:
    """One replica of a server that answers prompts of ``prompt`` tokens with ``answer`` each.

    Every step takes as long as the result's, at its context.

    Attributes:
        result: the server.
        prefill: a prompt's prefill, on the same chips.
        answer: tokens of an answer.
        link: bytes/s from a server that reads prompts to one that answers them; None if not said.
        alpha: chance that a drafted token is accepted; None without a draft.
        draft: seconds of a step of the draft over one of the model.
        prefix: tokens that prompts share; None where they share none.
        hit: the share of prompts that find them cached.
    """

    result: InferenceResult
    prefill: Prefill
    answer: int
    link: float | None = None
    alpha: float | None = None
    draft: float = 0.05
    prefix: int | None = None
    hit: float = 0.9

    @property
    def batch(self) -> int:
        """Sequences in flight on one replica."""
        return self.result.batch // self.result.replicas

    @property
    def prompt(self) -> int:
        """Tokens of a prompt."""
        return self.prefill.prompt

    @property
    def prompt_seconds(self) -> float:
        """Seconds of one prompt's prefill, those that run beside it in proportion."""
        return self.prefill.time / self.prefill.prompts

    @property
    def _numbers(self) -> dict[str, Any]:
        return {
            "b": self.batch,
            "S_in": self.prompt,
            "S_out": self.answer,
            "t_step": self.result.step_time,
            "t_prefill": self.prompt_seconds,
        }

    @property
    def batching(self) -> BatchingResult:
        """Prefills between the steps of a full batch."""
        return batching().at(**self._numbers)

    @property
    def disaggregation(self) -> DisaggregationResult:
        """Prefills on servers of their own."""
        return disaggregate().at(**self._numbers)

    @property
    def cache_bytes(self) -> int:
        """Bytes that a prompt leaves behind: keys and values, and states of recurrent layers."""
        study = self.result.study
        kept = study.model.kv_bytes(self.prompt, study.kv) + study.model.state_bytes()
        return round(float(evaluate(kept, study.model)))

    @property
    def transfer(self) -> TransferResult | None:
        """A prompt's cache on the link, where one is said."""
        if self.link is None:
            return None
        sent = transfer(self.cache_bytes)
        return sent.at(t_prefill=self.prompt_seconds, W_link=self.link)

    @property
    def smallest_link(self) -> float:
        """Bytes/s from which on sending a prompt's cache hides behind its prefill."""
        return self.cache_bytes / self.prompt_seconds

    @cached_property
    def chunks(self) -> Chunked:
        """Chunks of prompts on the steps of the server, in its context ``S`` and a prompt's own."""
        return chunked(placed_step(self.result))

    def chunk(self, tokens: int) -> ChunkedResult:
        """Chunks of so many tokens beside the server's sequences.

        Raises:
            SymbolError: for a number that is not whole and above zero.

        >>> from symscale.studies.inference import inference
        >>> server = inference("llama-3-8b").at("h100", chips=1, batch=8, context=4096)
        >>> found = serving_system(server, prompt=2048, answer=128)
        >>> found.chunk(512).first_token < found.chunk(128).first_token
        True
        """
        if not exact(tokens, "chunk").is_integer:
            raise SymbolError(f"chunk = {tokens}: a whole number of tokens is wanted")
        numbers = {"b": self.batch, "S": self.result.context, "S_in": self.prompt}
        return self.chunks.at(S_chunk=tokens, **numbers)

    @cached_property
    def riding(self) -> ChunkedResult | None:
        """The largest chunks that ride free, no longer than a prompt; None where none do."""
        most = min(self.largest_free_chunk, self.prompt)
        return self.chunk(most) if most else None

    @property
    def largest_free_chunk(self) -> int:
        """Tokens of prompts that ride on a step before it waits for arithmetic; 0 if none do."""
        step, tokens = self.chunks.step, self.batch + CHUNK
        wall = up_to(step.weights.subs(B, tokens), step.math.subs(B, tokens), CHUNK, {})
        return 0 if wall is None or wall is S.Infinity else int(floor(wall))

    @cached_property
    def speculation(self) -> Speculation:
        """Drafting on the steps of the server."""
        step = placed_step(self.result).formula
        known = {KEYS: exact(self.result.context, "context"), b: exact(self.batch, "batch")}
        return speculative(step.xreplace(known))

    @cached_property
    def best_draft(self) -> BestDraft | None:
        """The best number of drafted tokens, where a chance is said."""
        if self.alpha is None:
            return None
        return self.speculation.best_gamma(alpha=self.alpha, c_draft=self.draft)

    @cached_property
    def prefix_cache(self) -> PrefixResult | None:
        """What a shared prefix saves, where one is said.

        Of ``m`` prompts that share one, all but the first find it: a share of 1 - 1/m.
        """
        if self.prefix is None:
            return None
        share = exact(self.hit, "hit")
        reuses = crossover(1 - 1 / REUSES, share, REUSES).threshold
        numbers = {name: self._numbers[name] for name in ("b", "S_in", "S_out")}
        made = placed_prefix(self.result, self.prefill.mfu)
        return made.at(S_prefix=self.prefix, m_reuse=reuses, **numbers)

    def table(self) -> Table:
        """The numbers."""
        flows, apart = self.batching, self.disaggregation
        rows: list[tuple[str, str | float | int]] = [
            ("sequences that finish in a step", flows.finishing),
            ("tokens evicted in a step", flows.evicted),
            ("requests/s, prefills between steps", flows.requests),
            ("tokens wait, times as long", flows.slowdown),
            ("longest wait between two tokens, s", flows.longest_gap),
            ("prefill servers for a generate server", apart.ratio),
            ("bytes of cache of a prompt", self.cache_bytes),
            ("sending hides from, bytes/s", self.smallest_link),
            ("prompt tokens that ride free on a step", self.largest_free_chunk),
        ]
        rows += self._riding_rows()
        sent = self.transfer
        if sent is not None:
            rows.append(("seconds on the link", sent.time))
        best = self.best_draft
        if best is not None:
            rows += [("best drafted tokens", best.gamma), ("speed-up by drafts", best.speedup)]
        return Table(("serving system", "value"), tuple(rows))

    def _riding_rows(self) -> list[tuple[str, str | float | int]]:
        """What chunks that ride free make of a first token, and of those after it."""
        if self.riding is None:
            return []
        return [
            ("first token in such chunks, s", self.riding.first_token),
            ("a token beside such a chunk, s", self.riding.token_time),
        ]

    def __repr__(self) -> str:
        found = self.prefix_cache
        return str(self.table()) if found is None else f"{self.table()}\n\n{found!r}"

    def _repr_html_(self) -> str:
        return self.table()._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        sent, best = self.transfer, self.best_draft
        return {
            "answer": self.answer,
            "batching": self.batching.to_dict(),
            "disaggregation": self.disaggregation.to_dict(),
            "cache_bytes_per_prompt": self.cache_bytes,
            "smallest_link_bytes_per_s": self.smallest_link,
            "transfer": None if sent is None else sent.to_dict(),
            "largest_free_chunk": self.largest_free_chunk,
            "chunked": None if self.riding is None else self.riding.to_dict(),
            "drafted_tokens": None if best is None else best.gamma,
            "draft_speedup": None if best is None else best.speedup,
            "prefix_cache": None if self.prefix_cache is None else self.prefix_cache.to_dict(),
        }


def serving_system(
    result: InferenceResult,
    prompt: int,
    answer: int,
    *,
    mfu: float | None = None,
    link: float | None = None,
    alpha: float | None = None,
    draft: float = 0.05,
    prefix: int | None = None,
    hit: float = 0.9,
) -> ServingSystem:
    """A server in its system, with its own step and prefill.

    Args:
        result: the server.
        prompt: tokens of a prompt.
        answer: tokens generated for it.
        mfu: utilisation in prefill (see :func:`prefill`).
        link: bytes/s between servers.
        alpha: chance that a drafted token is accepted.
        draft: seconds of a step of the draft over one of the model.
        prefix: tokens that prompts share.
        hit: the share of prompts that find them cached.

    Raises:
        SymbolError: for a number that is not above zero, an answer of no whole tokens, a prefix
            as long as the prompt, or a share of hits that is not below one.
        ModelError: for a prompt beyond the model's context.

    >>> from symscale.studies.inference import inference
    >>> llama = inference("llama-3-70b", weights="int8", kv="int8")
    >>> server = llama.at("tpu-v5e", chips=8, batch=32, context=8192)
    >>> serving_system(server, prompt=4096, answer=512).batching.evicted
    288.0
    """
    for name, value in (("link", link), ("draft", draft), ("hit", hit)):
        if value is not None:
            exact(value, name)
    for name, count in (("answer", answer), ("prefix", prefix)):
        if count is not None and not exact(count, name).is_integer:
            raise SymbolError(f"{name} = {count}: a whole number of tokens is wanted")
    if hit >= 1:
        raise SymbolError(f"hit = {hit}: the first prompt finds nothing; a share below 1 is wanted")
    if prefix is not None and prefix >= prompt:
        raise SymbolError(
            f"prefix = {prefix}: at least one token of a prompt of {prompt} has to be read; the "
            f"longest prefix is {prompt - 1}"
        )
    read = prefill(result, prompt, mfu=mfu)
    return ServingSystem(result, read, answer, link, alpha, draft, prefix, hit)
