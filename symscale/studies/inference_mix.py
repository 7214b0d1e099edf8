"""The experts' last product and the way back to the tokens as one op.

Where tokens are whole on every device that holds a part of the experts, nothing is exchanged: each
device adds what its own experts, or its part of all experts, give each token, and the sums are
reduced once. As separate ops the partial results of all k choices would be reduced one by one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sympy import Expr, Mul

from symscale.programs.ops import Einsum, Op
from symscale.programs.program import Program
from symscale.programs.routing import Combine


@dataclass(frozen=True)
class Mix(Einsum):
    """``Ae[E, c, F] * Eout[E, F, D] -> Out[B, D]``, each slot's row added to its token's."""

    def __post_init__(self) -> None:
        """Slots stand for tokens, so that the rules of a plain product do not hold."""

    @property
    def name(self) -> str:
        """What a cost record calls it."""
        return "mix"

    @property
    def summed(self) -> tuple[str, ...]:
        """Experts and their width; slots become tokens."""
        return tuple(x for x in super().summed if x in self.inputs[1].labels)

    def flops(self, local: dict[str, Expr]) -> Expr:
        """The product's alone: twice its own dims."""
        own = dict.fromkeys((*self.inputs[0].labels, *self.inputs[1].labels))
        return 2 * Mul(*(local[label] for label in own))


def mixed(program: Program) -> Program:
    """The program with every way back from experts as one op (biases of the last product go)."""
    for op in program.ops:
        if isinstance(op, Combine):
            return mixed(_one(program, op))
    return program


def _one(program: Program, combine: Combine) -> Program:
    made = {op.output.name: op for op in program.ops}
    gone: list[Op] = [combine]
    product = made[combine.inputs[1].name]
    while not isinstance(product, Einsum):
        gone.append(product)
        product = made[product.inputs[0].name]
    last: Op = combine
    while "k" in last.output.labels:
        last = next(op for op in program.ops if last.output in op.inputs)
        gone.append(last)
    joint = Mix(product.inputs, last.output, product.math)
    ops = [joint if op is product else op for op in program.ops if op not in gone]
    return replace(
        program, ops=tuple(ops), inputs=tuple(n for n in program.inputs if _used(n, ops))
    )


def _used(name: str, ops: list[Op]) -> bool:
    return any(array.name == name for op in ops for array in op.inputs)
