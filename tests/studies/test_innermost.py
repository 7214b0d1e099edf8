"""Which axis belongs inside: traffic against counts by hand, and both orders timed."""

from __future__ import annotations

import pytest

from symscale import training
from symscale.algebra.errors import StrategyError
from symscale.algebra.substitution import evaluate
from symscale.studies.innermost import innermost, traffic

MIXED = training("llama-3-70b", "fsdp+tp")


def test_traffic_by_hand() -> None:
    """Seven weights of a layer gathered twice and reduced once; activations twice a pass each."""
    result = training("llama-2-7b", "fsdp").at("h100", B=2**20, X=16)
    (one,) = traffic(result)
    weights = 2 * 6_738_415_616
    assert one.axis == "X"
    # Gathered forward and backward, reduced once: three times the weights, but for the embedding,
    # which its rows' gradients alone read again.
    assert 2.9 * weights < one.bytes < 3.01 * weights
    assert one.collectives >= 3 * 7 * 32
    assert one.waiting == 0


def test_traffic_along_an_axis_is_what_the_network_is_given() -> None:
    result = MIXED.at("tpu-v5p", B=2**20, X=32, Y=8)
    volumes: dict[str, float] = {"X": 0.0, "Y": 0.0}
    for share in result.step.shares:
        for phases in share.passes:
            for phase in phases:
                for key, value in phase.volume().items():
                    for axis in key if isinstance(key, tuple) else (key,):
                        count = evaluate(share.kind.count * value, result.values)
                        volumes[str(axis)] += float(count)
    for phase in result.step.ends.phases:
        for key, value in phase.volume().items():
            for axis in key if isinstance(key, tuple) else (key,):
                volumes[str(axis)] += float(evaluate(value, result.values))
    assert {one.axis: one.bytes for one in traffic(result)} == pytest.approx(volumes)


def test_the_axis_that_is_waited_for_belongs_inside_a_node() -> None:
    found = innermost(MIXED, "h100", B=2**20, X=32, Y=8)
    assert found.best == ("X", "Y")
    fast = MIXED.at("h100", B=2**20, X=32, Y=8, layout="X,Y")
    slow = MIXED.at("h100", B=2**20, X=32, Y=8, layout="Y,X")
    assert found.gain == pytest.approx(slow.time / fast.time)
    assert found.gain > 3
    x, y = found.traffic
    assert y.waiting > 0 == x.waiting
    assert y.bytes > x.bytes
    assert "With Y innermost its links give 450 GB/s (node)" in found.words
    assert "with X innermost they give 50 GB/s (leaf)" in found.words
    assert len(found.table()) == 2
    assert found.words in repr(found)
    assert found.to_dict()["gain"] == found.gain


def test_on_a_torus_each_axis_has_links_of_its_own() -> None:
    found = innermost(MIXED, "tpu-v5p", B=2**20, X=32, Y=8)
    assert found.gain == pytest.approx(1)
    assert "Their order changes nothing" in found.words


def test_what_cannot_be() -> None:
    with pytest.raises(StrategyError, match="no two mesh axes"):
        innermost(MIXED, "h100", B=2**20, X=32, Y=1)
    with pytest.raises(StrategyError, match="every order of the mesh axes is tried"):
        innermost(MIXED, "h100", B=2**20, X=32, Y=8, layout="X,Y")


def test_messages_between_stages_are_traffic() -> None:
    """Sixteen microbatches there and back: a data rank's tokens, bf16, 4,096 wide, twice."""
    made = training("llama-3-8b", "fsdp+pp", microbatches=16)
    found = {one.axis: one for one in traffic(made.at("h100", B=2**20, T=8192, X=8, P=4))}
    assert found["P"].collectives == 32
    assert found["P"].bytes == 2 * 2 * 4096 * 2**20 / 8
    assert found["P"].waiting == 0
