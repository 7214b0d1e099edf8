"""A layer's program with its tokens written as sequences, so that a sequence can be sharded.

Programs hold tokens in one dim B and regroup it to (b, T) where attention needs sequences; a
regrouped dim can be sharded on its major factor alone, so B holds whole sequences. Here B is
written as the two dims b and T from end to end: T is then a dim like any other, and attention
merely calls the keys' T by another name, S. Nothing else changes: the same products, bytes and
weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sympy import Expr

from symscale.algebra.errors import StrategyError
from symscale.algebra.symbols import symbol
from symscale.arrays.array import Array, Dim
from symscale.programs.ops import Einsum, Lookup, Op, Pointwise, View, describe
from symscale.programs.pool import Pool
from symscale.programs.program import Program
from symscale.programs.routing import Combine, Dispatch, Pick

#: Dims of tokens, and the sequences and positions that each is made of. The tokens of an encoder's
#: output, B_x, are keys alone.
TOKENS: Mapping[str, tuple[str, str]] = MappingProxyType({"B": ("b", "T"), "B_x": ("b", "S_x")})

#: Dims along which attention looks at keys.
KEYS = ("S", "S_x")

#: The state before each token: what a recurrence hands from token to token.
_STATE = "Before"


def _as_it_is(array: Array) -> Array:
    return array


def is_flat(program: Program) -> bool:
    """Whether a program holds tokens in one dim, sequences not told apart.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> is_flat(two_matmul_layer()), is_flat(by_sequence(two_matmul_layer()))
    (True, False)
    """
    return any(
        label in TOKENS
        for op in program.ops
        if isinstance(op, Einsum | Pointwise | Lookup)
        for label in op.output.labels
    )


def by_sequence(program: Program, lying: Callable[[Array], Array] = _as_it_is) -> Program:
    """The program with every dim of tokens written as sequences and positions.

    What takes tokens in any order (the way to experts, a table whose rows are tokens) takes them as
    one pool, in the order in which devices hold them (see :mod:`symscale.programs.pool`): for that,
    ``lying`` says how an array will be sharded.

    Raises:
        StrategyError: for a recurrence, whose state passes from token to token: no line says how it
            would pass between the parts of a cut sequence.

    >>> from symscale.parallel.attention_layer import attention_layer
    >>> print(str(by_sequence(attention_layer())).partition("-> Ks")[0])
    In[b, T, D] · Wq[D, N, H] -> Q[b, T, N, H]
    In[b, T, D] · Wk[D, K, H] -> Keys[b, T, K, H]
    In[b, T, D] · Wv[D, K, H] -> Vals[b, T, K, H]
    Q[b, T, N, H] -> Qs[b, T, K, G, H]
    Keys[b, T, K, H]
    """
    if not is_flat(program):
        return program
    if _STATE in program.inputs:
        raise StrategyError(
            "a recurrence passes its state from token to token, so its sequences cannot be "
            f"sharded: {_first_use(program, _STATE)}"
        )
    made = _Writer(_sizes(program), lying)
    for op in program.ops:
        made.write(op)
    return Program(tuple(made.ops), program.inputs, program.fused)


def _first_use(program: Program, name: str) -> str:
    return next(describe(op) for op in program.ops if any(a.name == name for a in op.inputs))


def _sizes(program: Program) -> dict[str, Expr]:
    """The sizes of the dims that tokens are written in: the program's own where it has them."""
    known = {dim.name: dim.size for array in program.arrays.values() for dim in array.dims}
    sizes: dict[str, Expr] = {}
    for flat, (major, minor) in TOKENS.items():
        if flat in known:
            length = known.get(minor, known.get("T", symbol("T")))
            sizes[minor] = length
            sizes.setdefault(major, known.get(major, known[flat] / length))
    return sizes


@dataclass
class _Writer:
    """Writes ops anew, one after another."""

    sizes: Mapping[str, Expr]
    lying: Callable[[Array], Array]
    ops: list[Op] = field(default_factory=list)

    def write(self, op: Op) -> None:
        if isinstance(op, Lookup) and op.row in TOKENS:
            ids, table = op.inputs
            self.ops.append(
                replace(
                    op, inputs=(self.array(ids), self.pooled(table)), output=self.array(op.output)
                )
            )
        elif isinstance(op, Einsum | Pointwise | View | Lookup):
            self.ops.append(self.split(op))
        elif isinstance(op, Dispatch):
            self.ops.append(replace(op, inputs=(op.inputs[0], self.pooled(op.inputs[1]))))
        elif isinstance(op, Combine):
            self.write_pooled(op, op.inputs[1])
        elif isinstance(op, Pick):
            self.write_pooled(op, self.pooled(op.inputs[1]))
        else:
            raise StrategyError(f"{describe(op)}: no rule says how sequences are sharded here")

    def split(self, op: Op) -> Op:
        inputs = tuple(map(self.array, op.inputs))
        return replace(op, inputs=inputs, output=self.array(op.output))

    def array(self, array: Array) -> Array:
        """The same array, its tokens written as sequences and positions."""
        return replace(array, dims=tuple(self.dims(array.dims)))

    def dims(self, dims: tuple[Dim, ...]) -> list[Dim]:
        out: list[Dim] = []
        for dim in dims:
            names = TOKENS.get(dim.name, (dim.name,))
            out += [Dim(name, self.sizes.get(name, dim.size)) for name in names]
        return out

    def pooled(self, array: Array) -> Array:
        """An array of tokens as one pool."""
        made = self.in_pool(array)
        if not any(op.output == made for op in self.ops):
            self.ops.append(self.pool(self.array(array), made))
        return made

    def in_pool(self, array: Array) -> Array:
        return replace(array, name=f"{array.name}_pool")

    def pool(self, source: Array, result: Array) -> Pool:
        """The regrouping between an array and its pool, one way or the other."""
        whole = max(source, result, key=lambda array: len(array.dims))
        major, minor = (dim.axes for dim in self.lying(whole).dims[:2])
        return Pool((source,), result, major=major, minor=minor)

    def write_pooled(self, op: Combine | Pick, rows: Array) -> None:
        """What comes back for a pool's tokens, put back into sequences."""
        made = self.in_pool(op.output)
        self.ops.append(replace(op, inputs=(op.inputs[0], rows), output=made))
        self.ops.append(self.pool(made, self.array(op.output)))


def core(program: Program) -> frozenset[str]:
    """The activations of attention itself, between the projections: what meets the keys' dim.

    >>> from symscale.models.model import model
    >>> sorted(core(model("llama-3-8b").programs.layer))
    ['Ks', 'Os', 'Probs', 'Qs', 'Scores', 'Vs']
    """
    found: set[str] = set()
    for op in program.ops:
        if not isinstance(op, View) and any(label in KEYS for label in op.labels):
            found.update(array.name for array in (*op.inputs, op.output))
    return frozenset(found.difference(program.weights))
