"""Sending a prompt's cache from the server that read it to the one that answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr, Symbol, sympify

from symscale.algebra.derivation import Derivation
from symscale.algebra.substitution import bindings, evaluate
from symscale.algebra.symbols import L, b, to_latex
from symscale.algebra.table import Table
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.serving.numbers import Numbers
from symscale.studies.serving.words import KV, S_IN, S_OUT, T_PREFILL, T_STEP, W_LINK


@dataclass(frozen=True)
class Transfer:
    """The cache of one prompt, sent over a link of ``W_link`` bytes/s.

    Attributes:
        bytes: what is sent for a prompt.
        prefill: seconds in which the prompt is read; a layer's part can leave when it is done.
        step: seconds of a step of the server that generates.
    """

    bytes: Expr = KV * S_IN
    prefill: Expr = T_PREFILL
    step: Expr = T_STEP

    @property
    def time(self) -> Expr:
        """Seconds on the link.

        >>> Transfer().time
        S_in*kv_bytes/W_link
        """
        return self.bytes / W_LINK

    @cached_property
    def hides(self) -> Crossover:
        """The bandwidth from which on it hides behind the prefill, sent layer by layer.

        >>> Transfer().hides
        W_link >= S_in*kv_bytes/t_prefill
        """
        return crossover(self.prefill, self.time, W_LINK)

    @property
    def exposed(self) -> Expr:
        """Seconds that a first token waits though it hides: the last layer's part still has to go.

        >>> Transfer().exposed
        S_in*kv_bytes/(L*W_link)
        """
        return self.time / L

    @cached_property
    def keeps_up(self) -> Crossover:
        """The bandwidth into a server that keeps ``b`` places filled.

        A prompt's cache must arrive in the time in which one of the sequences finishes.

        >>> Transfer().keeps_up
        W_link >= S_in*b*kv_bytes/(S_out*t_step)
        """
        return crossover(self.step * S_OUT / b, self.time, W_LINK)

    @property
    def derivation(self) -> Derivation:
        """The steps of both bandwidths."""
        steps = Derivation().then("seconds on the link", self.time, "bytes over bandwidth")
        return steps + self.hides.derivation + self.keeps_up.derivation

    def at(self, *sources: Mapping[Symbol, Any], **numbers: Any) -> TransferResult:
        """The transfer with numbers in it.

        Raises:
            SymbolError: for a symbol of the transfer without a number.

        >>> Transfer().at(kv_bytes=2**17, S_in=8192, W_link=50e9, t_prefill=0.9).hidden
        True
        """
        values = bindings(*sources, **numbers)
        evaluate(self.time + self.prefill, values)
        return TransferResult(self, values)

    def __repr__(self) -> str:
        return f"cache sent in {self.time} s; hidden where {self.hides}"

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.time)}$"

    def to_dict(self) -> dict[str, Any]:
        """The formulas as plain text."""
        return {
            "bytes": str(self.bytes),
            "time": str(self.time),
            "hides": self.hides.to_dict(),
            "keeps_up": self.keeps_up.to_dict(),
        }


@dataclass(frozen=True, repr=False)
class TransferResult(Numbers):
    """The transfer in numbers."""

    of: Transfer
    values: Mapping[Symbol, Expr]

    @property
    def time(self) -> float:
        """Seconds on the link."""
        return self.number(self.of.time)

    @property
    def prefill(self) -> float:
        """Seconds in which the prompt is read."""
        return self.number(self.of.prefill)

    @property
    def hidden(self) -> bool:
        """Whether the link is fast enough to send layers as fast as they are computed."""
        return self.of.hides.holds(self.values)

    @property
    def smallest_link(self) -> float:
        """Bytes/s from which on the transfer hides."""
        return self.number(self.of.bytes / self.of.prefill)

    def table(self) -> Table:
        """The numbers."""
        return Table(
            ("", "value"),
            (
                ("seconds on the link", self.time),
                ("seconds of the prefill", self.prefill),
                ("hides from, bytes/s", self.smallest_link),
                ("hidden", "yes" if self.hidden else "no"),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON."""
        return {
            "seconds": self.time,
            "prefill_s": self.prefill,
            "hidden": self.hidden,
            "smallest_link_bytes_per_s": self.smallest_link,
        }


def transfer(
    cache_bytes: Any = KV * S_IN, prefill: Any = T_PREFILL, step: Any = T_STEP
) -> Transfer:
    """A prompt's cache on its way from one server to another.

    Args:
        cache_bytes: what is sent for a prompt, ``kv_bytes`` for a token unless given.
        prefill: seconds of its prefill.
        step: seconds of a step of the server that generates.
    """
    made = (sympify(part, strict=True) for part in (cache_bytes, prefill, step))
    return Transfer(*made)
