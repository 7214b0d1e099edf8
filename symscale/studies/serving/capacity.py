"""The walls of a server: its size, its latency and its throughput, each as a solved inequality."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sympy import Expr

from symscale.algebra.symbols import b, n
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover
from symscale.studies.inference_memory import HBM_BYTES
from symscale.studies.serving.step import ServerStep
from symscale.studies.serving.words import BUFFER, DEMAND, REPLICAS, T_STEP


@dataclass(frozen=True)
class Capacity:
    """A server of ``n`` chips of ``M_hbm`` bytes, of which ``M_buffer`` are for other things.

    >>> from symscale.studies.serving.step import server_step
    >>> walls = Capacity(server_step("llama-2-70b"))
    >>> walls.for_weights
    n >= 137953296384/(-M_buffer + M_hbm), if M_hbm > M_buffer
      otherwise never, if M_hbm <= M_buffer
    """

    step: ServerStep

    @property
    def room(self) -> Expr:
        """Bytes of all chips that weights and cache may take."""
        return n * (HBM_BYTES - BUFFER)

    @cached_property
    def for_weights(self) -> Crossover:
        """The chips that hold the weights and nothing else."""
        return crossover(self.room, self.step.weight_bytes, n)

    @cached_property
    def for_all(self) -> Crossover:
        """The chips that hold the weights, and the cache of ``b`` sequences of ``S`` tokens."""
        return crossover(self.room, self.step.memory, n)

    @cached_property
    def batch(self) -> Crossover:
        """The sequences whose cache fits beside the weights."""
        return crossover(self.room, self.step.memory, b)

    @cached_property
    def replicas(self) -> Crossover:
        """The replicas that give the tokens a second that are wanted, by whatever step they take.

        >>> Capacity(ServerStep(b, b)).replicas
        n_replicas >= t_step*v_tokens/b
        """
        return crossover(REPLICAS * b / T_STEP, DEMAND, REPLICAS)

    def to_dict(self) -> dict[str, Any]:
        """The inequalities as plain text."""
        names = ("for_weights", "for_all", "batch", "replicas")
        return {name: getattr(self, name).to_dict() for name in names}


@dataclass(frozen=True)
class Doubling:
    """A server beside one of twice as many chips.

    Attributes:
        one: seconds of a step of ``b`` sequences on the server.
        two: seconds of the same on the server of twice its chips.
    """

    one: Expr
    two: Expr

    @property
    def gain(self) -> Expr:
        """How much sooner a step of the same sequences is done on twice the chips."""
        return self.one / self.two

    @property
    def halves(self) -> Expr:
        """Seconds where two servers share the sequences; each reads all weights."""
        return self.one.subs(b, b / 2)

    @cached_property
    def less_than_double(self) -> Crossover:
        """The sequences for which twice the chips are less than twice as fast.

        Work is halved, exchanges are not: with any exchange the answer is always.
        """
        return crossover(2 * self.two, self.one, b)

    @cached_property
    def sharding_wins(self) -> Crossover:
        """The sequences for which one server of twice the chips is sooner done than two servers.

        One server reads the weights once, but exchanges activations of all sequences among more
        chips.
        """
        return crossover(self.halves, self.two, b)


def doubling(step: ServerStep) -> Doubling:
    """A server of ``n`` chips beside one of twice as many.

    >>> from symscale.algebra.symbols import B, C, W_hbm, W_ici
    >>> plain = ServerStep(B / (n * C), 8 / (n * W_hbm), comms=B / W_ici)
    >>> doubling(plain).less_than_double
    always
    >>> doubling(plain).sharding_wins.at(C=100, W_hbm=1, W_ici=100, n=4).condition
    b <= 200
    """
    return Doubling(step.seconds(), step.put({n: 2 * n}).seconds())
