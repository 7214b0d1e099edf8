"""Crossovers of single products: from which size on arithmetic takes longer than moving bytes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sympy import Symbol

from symscale.algebra.symbols import (
    B,
    C,
    C_int8,
    D,
    F,
    W_hbm,
    W_pcie,
    W_vmem,
    X,
)  # fmt: skip
from symscale.hardware.networks import Torus
from symscale.models.decoder import two_matmul_layer
from symscale.programs.einsum import Product, einsum
from symscale.solve.crossover import crossover
from symscale.solve.leading import leading
from symscale.studies.catalogue_common import Entry, Found, Setting, found

GROUP = "one product"
_WHERE = {W_hbm: "HBM", W_vmem: "VMEM", W_pcie: "host memory"}


def product(left: str = "bf16", right: str = "bf16") -> Product:
    """Activations times weights, in these types."""
    return einsum(f"A: {left}[B, D] * W: {right}[D, F] -> Out: {left}[B, F]")


def critical_batch(
    left: str = "bf16", right: str = "bf16", rate: Symbol = C, memory: Symbol = W_hbm,
    exact: bool = False,
) -> Found:  # fmt: skip
    """The batch from which a product is compute-bound, its arrays coming out of a memory."""
    made = product(left, right)
    answer = crossover(made.time.math, made.bytes / memory, B)
    wall = found(answer, "B", "tokens")
    if exact:
        return wall
    order = leading(wall.expr, small=[rate / (D * memory), rate / (F * memory)])
    return Found("B", "tokens", order.term, answer, wall.derivation + order.derivation)


def two_chips(setting: Setting) -> Found:
    """The contracted dim from which two chips' arithmetic hides the exchange of their sums."""
    made = einsum("A[B, D_X] * W[D_X, F] -> Out[B, F]")
    pair = Torus("ring", wrap={"X": False}, links={"X": 1})
    time = made.forward.time_on(pair)
    return found(crossover(time.math.subs(X, 2), time.comms.subs(X, 2), D), "D", "columns")


def gather_or_reduce(setting: Setting) -> Found:
    """The output width up to which multiplying first and reducing moves fewer bytes."""
    gathers = einsum("A[B, D_X] * W[D, F_X] -> Out[B, F_X]")
    reduces = einsum("A[B, D_X] * W[D_X, F] -> Out[B, F_X]")
    first, second = (made.forward.time_on(setting.network).comms for made in (gathers, reduces))
    return found(crossover(first, second, F), "F", "columns")


def host_layer(setting: Setting) -> Found:
    """The batch from which a layer's arithmetic hides its weights' way over PCIe."""
    layer = two_matmul_layer().shard()
    weights = sum(layer.sharding(name).bytes for name in layer.program.weights)
    return found(crossover(layer.forward.time.math, weights / W_pcie, B), "B", "tokens")


def _entry(question: str, **how: object) -> Entry:
    return Entry(GROUP, question, lambda setting: critical_batch(**how))  # type: ignore[arg-type]


ENTRIES: Mapping[str, Entry] = MappingProxyType(
    {
        "critical-batch": _entry(
            "From which batch is a bf16 matmul compute-bound, to leading order?"
        ),
        "critical-batch-exact": _entry(
            "From which batch is a bf16 matmul compute-bound, exactly?", exact=True
        ),
        "critical-batch-int8": _entry(
            "From which batch is an int8 matmul compute-bound, to leading order?",
            left="int8", right="int8", rate=C_int8,
        ),
        "critical-batch-int8-exact": _entry(
            "From which batch is an int8 matmul compute-bound, exactly?",
            left="int8", right="int8", rate=C_int8, exact=True,
        ),
        "critical-batch-mixed": _entry(
            "From which batch is a matmul of bf16 activations and int8 weights compute-bound?",
            right="int8",
        ),
        "critical-batch-mixed-exact": _entry(
            "From which batch is a matmul of bf16 activations and int8 weights compute-bound, "
            "exactly?",
            right="int8", exact=True,
        ),
        "critical-batch-vmem": _entry(
            "From which batch is a bf16 matmul out of VMEM compute-bound, exactly?",
            memory=W_vmem, exact=True,
        ),
        "critical-batch-int8-vmem": _entry(
            "From which batch is an int8 matmul out of VMEM compute-bound, exactly?",
            left="int8", right="int8", rate=C_int8, memory=W_vmem, exact=True,
        ),
        "critical-batch-pcie": _entry(
            "From which batch is a bf16 matmul with all arrays in host memory compute-bound?",
            memory=W_pcie, exact=True,
        ),
        "weights-over-pcie": Entry(
            GROUP,
            "From which batch does a layer's arithmetic hide its weights' way over PCIe?",
            host_layer,
        ),
        "two-chips": Entry(
            GROUP,
            "From which contracted dim does arithmetic on two chips hide the exchange of sums?",
            two_chips,
        ),
        "gather-or-reduce": Entry(
            GROUP,
            "Up to which output width does multiplying first and reducing move fewer bytes than "
            "gathering first?",
            gather_or_reduce,
        ),
    }
)  # fmt: skip
