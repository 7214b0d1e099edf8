"""A layer as it serves: one query a sequence over a cache, or a whole prompt, in its own types.

Nothing is written anew: the layer's own program is rewritten. In generation T is 1, so that a token
is a sequence, and what attention reads of the tokens before it comes from the cache instead of from
this step's products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from sympy import Expr, Integer

from symscale.algebra.errors import ModelError
from symscale.algebra.symbols import B, S, T, symbol
from symscale.arrays.array import Array, Dim
from symscale.arrays.dtype import DType
from symscale.models.cache import kept_tokens
from symscale.models.decoder import LayerKind, Reach
from symscale.models.scores import Causal, keys_of, mean_keys
from symscale.programs.ops import Einsum, Op, Pointwise, View
from symscale.programs.program import Program

#: The dim of keys that a product meets though attention proper does not (an indexer's).
ALL_KEYS = "S_all"


@dataclass(frozen=True)
class Served:
    """A program with what serving needs to know of its arrays.

    Attributes:
        program: the rewritten program.
        cache: its inputs that are read from the cache, keys of earlier tokens.
        appended: what it makes of the new token and writes into the cache.
        state: the states of recurrent layers, read and written.
        kept: arrays as the cache keeps them, one entry a kept token of a sequence.
        attention: activations of the ops that meet cached keys.
        share: of products that pair queries with keys, the part that a mask leaves, by result.
        count: how often a model has the layer.
    """

    program: Program
    count: Expr
    cache: frozenset[str] = frozenset()
    appended: frozenset[str] = frozenset()
    state: frozenset[str] = frozenset()
    kept: tuple[Array, ...] = ()
    attention: frozenset[str] = frozenset()
    share: Mapping[str, Expr] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Types:
    """The element types of a step: of each weight by name, of the cache, of states, of products."""

    weight: Callable[[str], DType]
    cache: DType
    state: DType
    math: DType | None = None


def base(label: str) -> str:
    """A dim's name without the number that sets it apart from one of another size.

    >>> base("K_2"), base("F_e")
    ('K', 'F_e')
    """
    head, _, tail = label.rpartition("_")
    return head if tail.isdigit() else label


def is_keys(label: str) -> bool:
    """Whether a dim counts keys of cached tokens."""
    return label in ("S", ALL_KEYS)


def served_layer(
    kind: LayerKind, types: Types, generation: bool = True, causal: Causal = "exact"
) -> Served:
    """A layer of a kind in generation (T = 1, S cached keys a sequence) or in prefill.

    ``causal`` says how prefill counts a causal mask (see :func:`mean_keys`).

    Raises:
        ModelError: for a layer that reads an encoder, or that sees tokens after its own.
    """
    arrays = kind.program.arrays
    if not kind.reach.causal or any("S_x" in array.labels for array in arrays.values()):
        raise ModelError(
            f"layers of kind {kind.name!r} see an encoder or later tokens; only decoders are served"
        )
    return _Rewriter(kind, types, generation, causal).run()


def served_ends(program: Program, types: Types, rows: Expr, last: Expr) -> Served:
    """Embedding and head: ``rows`` tokens are looked up, ``last`` get logits."""
    weights = frozenset(program.weights)
    below, found = _below_head(program), []
    for op in program.ops:
        count = rows if op.output.name in below else last

        def sized(array: Array, count: Expr = count) -> Array:
            dims = tuple(replace(d, size=d.size.xreplace({B: count})) for d in array.dims)
            kind = types.weight(array.name) if array.name in weights else array.dtype
            return replace(array, dims=dims, dtype=kind)

        # The two parts are apart, so that their rows may differ.
        found.append(_typed(_with(op, sized), weights, types))
    made = Program(tuple(found), program.inputs, program.fused)
    return Served(made, Integer(1))


def ends_apart(ends: Served) -> tuple[Served, Served]:
    """Embedding and head as two programs, as the first and the last stage of a pipeline have them.

    A table that both use is in both.
    """
    program, below = ends.program, _below_head(ends.program)
    parts = []
    for first in (True, False):
        ops = tuple(op for op in program.ops if (op.output.name in below) == first)
        names = {array.name for op in ops for array in op.inputs}
        inputs = tuple(name for name in program.inputs if name in names)
        parts.append(replace(ends, program=Program(ops, inputs, program.fused)))
    return parts[0], parts[1]


def _below_head(program: Program) -> frozenset[str]:
    """Arrays that follow from the looked-up tokens."""
    reached = {name for name in program.inputs if name != "Last"}
    for op in program.ops:
        if any(array.name in reached for array in op.inputs):
            reached.add(op.output.name)
    return frozenset(reached)


def _with(op: Op, change: Callable[[Array], Array]) -> Op:
    return replace(op, inputs=tuple(map(change, op.inputs)), output=change(op.output))


def _typed(op: Op, weights: frozenset[str], types: Types) -> Op:
    """A product with a weight runs in the type that was asked for."""
    if isinstance(op, Einsum) and types.math and any(a.name in weights for a in op.inputs):
        return replace(op, math=types.math)
    return op


class _Rewriter:
    """Rewrites one layer's ops, array by array."""

    def __init__(self, kind: LayerKind, types: Types, generation: bool, causal: Causal) -> None:
        self.kind, self.types, self.generation = kind, types, generation
        self.causal: Causal = causal
        self.weights = frozenset(kind.program.weights)
        self.whole = _meets_all(kind)
        self.pairs = _head_pairs(kind.program)
        self.made = {op.output.name: op for op in kind.program.ops}
        self.cache: dict[str, None] = {}
        self.appended: dict[str, None] = {}

    def run(self) -> Served:
        ops: list[Op] = []
        for op in self.kind.program.ops:
            ops += self.rewritten(op)
        state = frozenset((*self.kind.state, "Before")) & frozenset(self.kind.program.arrays)
        chosen = state if self.generation else frozenset()
        inputs = (*self.kind.program.inputs, *self.cache)
        present = {a.name for op in ops for a in (*op.inputs, op.output)}
        fused = self.kind.program.fused - chosen
        program = Program(
            tuple(_typed(op, self.weights, self.types) for op in ops),
            tuple(name for name in inputs if name in present),
            fused & present,
        )
        return Served(
            program,
            self.kind.count,
            frozenset(self.cache),
            frozenset(self.appended),
            chosen,
            tuple(self.kept(name) for name in self.kind.cached),
            _around_keys(program),
            MappingProxyType({} if self.generation else self.shares(program)),
        )

    def shares(self, program: Program) -> dict[str, Expr]:
        """Of scores and their use, the pairs that a causal mask and a window leave, over all."""
        found: dict[str, Expr] = {}
        for op in program.ops:
            if isinstance(op, Einsum) and {"T", "S"} <= set(op.labels):
                whole = any(array.name in self.whole for array in (*op.inputs, op.output))
                reach = Reach() if whole else self.kind.reach
                found[op.output.name] = keys_of(reach, self.causal) / T
        return found

    def rewritten(self, op: Op) -> tuple[Op, ...]:
        if self.generation and isinstance(op, View) and _turns_to_keys(op):
            return self.from_cache(op)
        if self.generation and self.is_remade(op.output.name):
            return ()
        return (self.changed(op),)

    def from_cache(self, op: View) -> tuple[Op, ...]:
        """What attention reads of earlier tokens: an input, or made anew of a cached array."""
        source, target = op.inputs[0].name, op.output.name
        if not self.is_remade(source):
            self.cache[target] = None
            self.appended[source] = None
            return ()
        product = self.made[source]
        cached = next(a for a in product.inputs if a.name in self.kind.cached)
        rows = self.array(self.kind.program.arrays[cached.name])
        name = f"{cached.name}s"
        held = self.cached_rows(name, rows)
        self.cache[name] = None
        self.appended[cached.name] = None
        inputs = tuple(held if a.name == cached.name else self.array(a) for a in product.inputs)
        return (replace(product, inputs=inputs, output=self.array(op.output)),)

    def is_remade(self, name: str) -> bool:
        """Whether keys or values of every cached token are made again by a product."""
        product = self.made.get(name)
        if name in self.kind.cached or not isinstance(product, Einsum):
            return False
        return any(array.name in self.kind.cached for array in product.inputs) and any(
            isinstance(op, View) and _turns_to_keys(op) and op.inputs[0].name == name
            for op in self.kind.program.ops
        )

    def cached_rows(self, name: str, rows: Array) -> Array:
        dims = (Dim("B", B), Dim("S", self.keys(name)), *rows.dims[1:])
        return Array(name, dims, self.types.cache)

    def kept(self, name: str) -> Array:
        """A cached array with all tokens that are kept of each sequence."""
        array = self.array(self.kind.program.arrays[name])
        whole = name in self.whole
        tokens = S if whole else kept_tokens(self.kind, S)
        rest = tuple(dim for dim in array.dims if dim.name not in ("B", "T"))
        dims = (Dim("B", B if self.generation else B / T), Dim("S", tokens), *rest)
        return Array(f"{name}.kept", dims, self.types.cache)

    def changed(self, op: Op) -> Op:
        made = _with(op, self.array)
        if isinstance(made, Einsum) and isinstance(op, Einsum) and self.meets_state(op):
            # A state is kept in more bits than its products run in.
            return replace(made, math=op.math_dtype)
        if isinstance(made, Pointwise):
            return replace(made, over=tuple(self.labels(made.over, op)))
        return made

    def meets_state(self, op: Op) -> bool:
        """Whether an op reads a recurrent state."""
        return any(array.name in (*self.kind.state, "Before") for array in op.inputs)

    def labels(self, over: tuple[str, ...], op: Op) -> list[str]:
        whole = any(array.name in self.whole for array in (*op.inputs, op.output))
        out: list[str] = []
        for label in over:
            out += [dim.name for dim in self.dims(Dim(label, symbol(label)), whole)]
        return out

    def array(self, array: Array) -> Array:
        """An array in its serving dims and type."""
        whole = array.name in self.whole
        dims = tuple(made for dim in array.dims for made in self.dims(dim, whole))
        return replace(array, dims=dims, dtype=self.dtype(array))

    def dims(self, dim: Dim, whole: bool) -> tuple[Dim, ...]:
        if dim.name in self.pairs:
            return tuple(Dim(name, size) for name, size in self.pairs[dim.name])
        if not self.generation:
            return (dim,)
        if dim.name == "T":
            return ()
        if dim.name == "b":
            return (Dim("B", B),)
        if dim.name == "S":
            name = ALL_KEYS if whole and self.kind.whole else "S"
            return (Dim(name, S if whole else self.keys("")),)
        return (dim,)

    def keys(self, name: str) -> Expr:
        """How many keys a new token meets."""
        reach = self.kind.reach
        return mean_keys(S, window=reach.window, chunk=reach.chunk, causal=False)

    def dtype(self, array: Array) -> DType:
        name = array.name
        if name in self.weights:
            return self.types.weight(name)
        turned = {op.output.name for op in self.kind.program.ops if _turns_to_keys(op)}
        if self.generation and name in turned and not self.is_remade(self.source(name)):
            return self.types.cache
        if self.generation and name in (*self.kind.state, "Before"):
            return self.types.state
        return array.dtype

    def source(self, name: str) -> str:
        return self.made[name].inputs[0].name if name in self.made else ""


def _turns_to_keys(op: Op) -> bool:
    """Whether rows of tokens become keys that other tokens meet."""
    return isinstance(op, View) and "S" in op.output.labels and "S" not in op.inputs[0].labels


def _meets_all(kind: LayerKind) -> frozenset[str]:
    """Arrays whose keys are all tokens, though attention proper meets fewer."""
    found: set[str] = set(kind.whole)
    for op in kind.program.ops:
        here = {array.name for array in op.inputs if "S" in array.labels}
        if op.output.name in kind.whole:
            found |= here
        elif here & found and "S" in op.output.labels:
            found.add(op.output.name)
    for op in kind.program.ops:
        if _turns_to_keys(op) and op.output.name in found:
            found.add(op.inputs[0].name)
    return frozenset(found)


def _head_pairs(program: Program) -> Mapping[str, tuple[tuple[str, Expr], ...]]:
    """Query heads by key/value head and head within it, wherever a view regroups them so."""
    found: dict[str, tuple[tuple[str, Expr], ...]] = {}
    for op in program.ops:
        if not isinstance(op, View):
            continue
        for left, right in op.groups:
            one, many = (left, right) if len(left) == 1 else (right, left)
            if len(one) == 1 and len(many) == 2 and base(one[0]) == "N" and base(many[0]) == "K":
                array = op.output if one is left else op.inputs[0]
                found[one[0]] = tuple((label, array.dim(label).size) for label in many)
    return MappingProxyType(found)


def _around_keys(program: Program) -> frozenset[str]:
    """Activations of the ops that meet cached keys: attention proper."""
    found: set[str] = set()
    for op in program.ops:
        every = (*op.inputs, op.output)
        if any(is_keys(label) for array in every for label in array.labels):
            found.update(array.name for array in every)
    return frozenset(found - set(program.weights))
