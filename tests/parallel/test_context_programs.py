"""Programs written by sequences: the same products, bytes and weights, with a dim to shard."""

from __future__ import annotations

from itertools import chain

import pytest
from sympy import cancel

from symscale import model, strategy
from symscale.algebra.errors import ShardingError, StrategyError
from symscale.algebra.substitution import bindings
from symscale.algebra.symbols import B, D, H, K, N, T, V, Z, b
from symscale.models.decoder import two_matmul_layer
from symscale.models.model import Model
from symscale.parallel.attention_layer import attention_layer
from symscale.parallel.context import check_heads
from symscale.parallel.sequence import TOKENS, by_sequence, core, is_flat
from symscale.programs.pool import Pool
from symscale.programs.program import Program, program

#: Grouped queries, windows and sinks with experts, latent attention, encoders, norms everywhere.
MODELS = (
    "llama-3-8b", "gpt2", "gemma-2-9b", "qwen3-8b", "gpt-oss-20b", "deepseek-v3", "mixtral-8x7b",
    "t5-base", "bert-base",
)  # fmt: skip


def programs_of(made: Model) -> list[Program]:
    found = made.programs
    kinds = chain(found.kinds, found.encoder, found.mtp)
    return [*dict.fromkeys(kind.program for kind in kinds), found.ends]


@pytest.mark.parametrize("name", MODELS)
def test_nothing_else_changes(name: str) -> None:
    for plain in programs_of(model(name)):
        written = by_sequence(plain)
        assert is_flat(plain)
        assert not is_flat(written)
        assert written.inputs == plain.inputs
        assert written.weights == plain.weights
        assert written.parameters == plain.parameters
        for before, after in zip(plain.shard().phases, written.shard().phases, strict=True):
            for kind in ("flops", "vector_flops", "hbm_bytes"):
                assert cancel(getattr(before, kind) - getattr(after, kind)) == 0, (name, kind)
            assert dict(after.volume()) == {}


@pytest.mark.parametrize("name", MODELS)
def test_tokens_are_left_in_pools_alone(name: str) -> None:
    for plain in programs_of(model(name)):
        written = by_sequence(plain)
        merged = [op for op in written.ops if isinstance(op, Pool)]
        pools = {array.name for op in merged for array in (op.output, *op.inputs)}
        for array in written.arrays.values():
            named = array.name in pools or array.dtype.name == "int32"
            assert named or not TOKENS.keys() & set(array.labels), array


def test_written_twice_is_written_once() -> None:
    written = by_sequence(attention_layer())
    assert by_sequence(written) is written


def test_sizes_of_the_programs_own() -> None:
    own = program("In[B, D] * Wq[D, N, H] -> Q[B, N, H]", sizes={"B": b * T})
    assert by_sequence(own).arrays["Q"].global_shape == (b, T, N, H)
    assert by_sequence(two_matmul_layer()).arrays["In"].global_shape == (B / T, T, D)


def test_the_core_is_what_meets_keys() -> None:
    assert core(attention_layer()) == {"Qs", "Ks", "Vs", "Scores", "Probs", "Os"}
    assert core(by_sequence(attention_layer())) == core(attention_layer())
    assert core(two_matmul_layer()) == frozenset()


@pytest.mark.parametrize("name", ["mamba-2.8b", "qwen3-next-80b-a3b"])
def test_a_recurrence_is_refused(name: str) -> None:
    found = [k for k in model(name).programs.kinds if "Before" in k.program.inputs]
    with pytest.raises(StrategyError, match="recurrence passes its state from token to token"):
        strategy("cp").shard(found[0].program)


def test_a_flat_program_is_refused() -> None:
    with pytest.raises(StrategyError, match=r"'dp\+cp' shards sequences.*use strategy.shard"):
        attention_layer().shard(strategy("dp+cp"))


# --- heads that cannot be exchanged ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("ulysses", {K: 8, N: 64, Z: 16}, "Z = 16 ways do not divide K = 8: at most 8 ways work"),
        ("ulysses", {K: 1, N: 16, Z: 2}, "K = 1: at most 1 ways"),
        ("fsdp+tp+sp+ulysses", {K: 8, N: 64, Z: 4, "Y": 4},
         r"Z = 4 ways do not divide K = 8 \(2 on a device\): at most 2 ways work"),
    ],
)  # fmt: skip
def test_too_many_ways_for_the_heads(name: str, numbers: dict, message: str) -> None:
    values = bindings(**{str(key): value for key, value in numbers.items()})
    sharded = strategy(name).shard(attention_layer())
    with pytest.raises(StrategyError, match=message) as caught:
        check_heads(sharded, values)
    assert "gather keys and values (cp) or pass them round (ring)" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["cp", "ring"])
def test_any_number_of_ways_without_an_exchange(name: str) -> None:
    sharded = strategy(name).shard(attention_layer())
    check_heads(sharded, {K: 1, N: 16, Z: 64})
    for array in map(sharded.sharding, sharded.program.arrays):
        array.check({K: 1, N: 16, H: 128, D: 2048, B: 8192, T: 4096, Z: 64, V: 2})


def test_sizes_are_checked_at_once() -> None:
    sizes = {"B": 4096, "T": 1024, "D": 512, "N": 8, "K": 2, "H": 64, "Z": 4}
    with pytest.raises(StrategyError, match="Z = 4 ways do not divide K = 2"):
        strategy("ulysses").shard(attention_layer(), sizes=sizes)
    assert strategy("cp").shard(attention_layer(), sizes=sizes).forward.flops


def test_ways_that_do_not_divide_the_sequence() -> None:
    sharded = strategy("cp").shard(attention_layer())
    with pytest.raises(ShardingError, match="mesh axis Z = 3 does not divide T = 1024"):
        sharded.sharding("Q").check({T: 1024, Z: 3, B: 2048, N: 4, H: 2})
