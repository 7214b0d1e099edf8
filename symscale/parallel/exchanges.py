"""The exchanges of context parallelism held against each other, and against attention itself.

Volumes and times are read off :func:`attention_layer` under the strategies ``cp`` (keys and values
gathered), ``ulysses`` (sequence exchanged for heads) and ``ring`` (keys and values passed round);
conditions are solved for, not quoted.
"""

from __future__ import annotations

from typing import Literal

from sympy import Add, Expr, S, Symbol, cancel

from symscale.algebra.links import IDEAL, Network
from symscale.algebra.symbols import T, Z, symbol
from symscale.models.scores import Causal, is_score, mean_keys
from symscale.parallel.attention_layer import attention_layer
from symscale.parallel.balance import Order, hottest_keys
from symscale.parallel.ring import passes
from symscale.parallel.sequence import core
from symscale.parallel.strategy import strategy
from symscale.programs.collectives import Collective
from symscale.programs.ops import Einsum
from symscale.programs.phase import Phase
from symscale.programs.sharded import ShardedProgram
from symscale.solve.answer import Crossover
from symscale.solve.crossover import crossover

Exchange = Literal["cp", "ulysses", "ring"]
Pass = Literal["forward", "backward"]

#: Tokens of one sequence on one device.
BLOCK = symbol("T_blk")


def _layer(name: Exchange) -> ShardedProgram:
    return strategy(name).shard(attention_layer())


def _moves(name: Exchange, which: Pass) -> tuple[Collective, ...]:
    """What attention moves along the context axis; gradients of weights are no part of it."""
    layer = _layer(name)
    phase: Phase = getattr(layer, which)
    weights = {f"d{weight}" for weight in layer.program.weights}
    return tuple(move for move in phase.collectives if move.before.name not in weights)


def exchange_volume(name: Exchange, which: Pass = "forward") -> Expr:
    """Bytes that attention moves on one device, by the convention of volumes.

    Gathered keys and values are kept for the backward pass; those that go round are sent again.

    >>> exchange_volume("cp"), exchange_volume("ulysses")
    (4*B*H*K, 4*B*H*K/Z + 4*B*H*N/Z)
    """
    return Add(*(move.volume for move in _moves(name, which)))


def exchange_time(name: Exchange, which: Pass = "forward", network: Network = IDEAL) -> Expr:
    """Seconds that attention's movements take on a network.

    >>> exchange_time("cp")
    4*B*H*K/(M_Z*W_ici)
    """
    return Add(*(move.seconds(network) for move in _moves(name, which)))


def score_time(
    name: Exchange,
    which: Pass = "forward",
    causal: Causal = False,
    order: Order = "contiguous",
) -> Expr:
    """Seconds of matrix arithmetic of attention's scores on the hottest device.

    All pairs are counted unless ``causal``; then ranks that hold queries differ by the ``order`` of
    their tokens (:mod:`symscale.parallel.balance`), and those that hold heads do not.

    >>> score_time("cp"), score_time("cp", causal=True, order="zigzag")
    (4*B*H*N*T/(C*Z), 2*B*H*N*T/(C*Z))
    >>> score_time("cp", causal=True).subs(Z, 4) / score_time("ulysses", causal=True).subs(Z, 4)
    7/4
    """
    phase: Phase = getattr(_layer(name), which)
    steps = [step for step in phase.computes if isinstance(step.op, Einsum) and is_score(step)]
    mean = name == "ulysses"
    keys = mean_keys(T, causal=causal) if mean else hottest_keys(Z, order, causal)
    return keys / T * sum((step.flops / step.op.rate for step in steps), S.Zero)  # type: ignore[attr-defined]


def ring_hides(
    which: Pass = "forward",
    network: Network = IDEAL,
    causal: Causal = False,
    order: Order = "zigzag",
) -> Crossover:
    """From how many tokens of a sequence on a device on does a ring hide behind arithmetic?

    Pass by pass: while a device works on one block of keys and values, the next ones arrive (in the
    backward pass, gradients of both as well). Pairs are counted in full unless ``causal``; in
    zigzag order each block then has about half of its pairs, so it takes twice the tokens.

    Source: Ring Attention, https://arxiv.org/abs/2310.01889, section 3.

    >>> ring_hides().threshold, ring_hides(causal=True).threshold
    (C*K/(M_Z*N*W_ici), 2*C*K/(M_Z*N*W_ici))
    """
    found = passes(getattr(_layer("ring"), which))
    one = Add(*(network.time(move.kind, move.block.bytes, move.axes) for move in found))
    work = score_time("ring", which, causal, order) / (found[0].hops + 1)
    return crossover(_by_block(work), _by_block(one), BLOCK)


def gather_hides(which: Pass = "forward", network: Network = IDEAL) -> Crossover:
    """From which sequence length on do attention's scores take longer than gathering their keys?

    Llama 3 gathers rather than passes round for this reason: scores grow with the square of the
    length, keys and values with the length alone.

    >>> gather_hides().threshold
    C*K*Z/(M_Z*N*W_ici)
    """
    return crossover(score_time("cp", which), exchange_time("cp", which, network), T)


def ring_blocks() -> Expr:
    """Blocks that a device holds in ring attention: its queries, keys, values and results, and the
    keys and values that arrive meanwhile, in units of a block of keys.

    With as many key heads as query heads there are six.

    >>> ring_blocks()
    (4*K + 2*N)/K
    """
    layer = _layer("ring")
    held = [layer.sharding(name) for name in core(layer.program) if name not in layer.program.fused]
    found = passes(layer.forward)
    buffers = (move.buffer for move in found)
    return cancel(Add(*(array.bytes for array in held), *buffers) / found[0].buffer)


def ulysses_moves_less(v: Symbol = Z, which: Pass = "forward") -> Crossover:
    """From how many ways on does exchanging heads move fewer bytes than gathering keys and values?

    >>> ulysses_moves_less().threshold
    (K + N)/K
    """
    return crossover(exchange_volume("cp", which), exchange_volume("ulysses", which), v)


def ulysses_is_faster(v: Symbol, which: Pass = "forward", network: Network = IDEAL) -> Crossover:
    """Where is exchanging heads faster than gathering keys and values, on a network?

    On the textbook's network, a bidirectional ring, neither depends on the number of ways: ask in
    heads there.

    >>> from symscale.algebra.symbols import N
    >>> print(ulysses_is_faster(N))
    N <= 3*K
    """
    return crossover(
        exchange_time("cp", which, network), exchange_time("ulysses", which, network), v
    )


def _by_block(cost: Expr) -> Expr:
    """A cost for so many tokens of a sequence on each device."""
    return cancel(cost.subs(T, Z * BLOCK))
