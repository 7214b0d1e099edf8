"""Programs: lines of notation checked for agreement, before anything is sharded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sympy import Add, Expr

from symscale.algebra.errors import NotationError, ProgramError, near
from symscale.arrays.array import Array, from_text, given_sizes
from symscale.arrays.dtype import DEFAULT, DTYPES
from symscale.arrays.notation import ArrayText, StatementText, parse_statement
from symscale.programs.functions import FUNCTIONS
from symscale.programs.ops import Einsum, Lookup, Op, Pointwise, View, describe
from symscale.programs.routing import ROUTES, Routed, routed

if TYPE_CHECKING:
    from symscale.programs.sharded import ShardedProgram

Keep = Literal["activations", "all", "none"]


@dataclass(frozen=True)
class Program:
    """Operations on whole arrays, in order.

    ``inputs`` are the activations that come from outside; every other array that no line makes is a
    weight. Arrays named in ``fused`` stay on chip and cost no HBM traffic.
    """

    ops: tuple[Op, ...]
    inputs: tuple[str, ...]
    fused: frozenset[str] = frozenset()

    @property
    def arrays(self) -> dict[str, Array]:
        """Every array by name, in order of appearance."""
        return {a.name: a for op in self.ops for a in (*op.inputs, op.output)}

    @property
    def made(self) -> tuple[str, ...]:
        """The arrays that lines make."""
        return tuple(op.output.name for op in self.ops)

    @property
    def weights(self) -> tuple[str, ...]:
        """The arrays that no line makes and that are not activations."""
        outside = (*self.made, *self.inputs)
        return tuple(name for name in self.arrays if name not in outside)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The made arrays that no line uses."""
        used = {array.name for op in self.ops for array in op.inputs}
        return tuple(name for name in self.made if name not in used)

    @property
    def slots(self) -> frozenset[str]:
        """Dims of experts' slots: even shares of the tokens, which need not be whole."""
        return frozenset(op.slots for op in self.ops if isinstance(op, Routed))

    @property
    def parameters(self) -> Expr:
        """The number of weights' elements."""
        return Add(*(self.arrays[name].size for name in self.weights))

    def shard(
        self,
        *lines: Any,
        keep: Keep = "activations",
        sizes: Mapping[str, int] | None = None,
    ) -> ShardedProgram:
        """This program under shardings, one line of notation an array (``"In[B_X, D]"``).

        A strategy (anything with a ``lines(program)`` method) may stand for its lines. Inputs and
        weights not named are replicated; other arrays not named take the sharding their op yields,
        with partial sums reduced. A line ``"dW[D, F]{U_X}"`` shards a gradient apart from its
        array.

        ``keep`` says which gathered copies of the forward pass the backward pass finds again:
        ``"activations"`` (weights are gathered anew), ``"all"`` or ``"none"``.

        ``sizes`` gives every dim and mesh axis a number, by name. The plan is the same without
        them, whatever the sizes; with them the partitioner also decides what turns with the sizes:
        which operand of a product moves, and whether an operand cut along a summed dim is gathered
        or its partial results reduced (where the result is the smaller of the two).

        Raises:
            NotationError: pointing at the character.
            ProgramError: for an array that the program does not have, or other dims than it has.
            SymbolError: for ``sizes`` that leave out a dim or a mesh axis.

        >>> mm = program("In[B, D] * W[D, F] -> Out[B, F]")
        >>> mm.shard("In[B_X, D]", "Out[B_X, F]").forward.flops
        2*B*D*F/X
        >>> small = {"B": 512, "D": 8192, "F": 1024, "X": 8}
        >>> [move.name for move in mm.shard("In[B, D_X]").forward.collectives]
        ['AllGather_X']
        >>> [move.name for move in mm.shard("In[B, D_X]", sizes=small).forward.collectives]
        ['AllReduce_X']
        """
        from symscale.programs.sharded import ShardedProgram

        return ShardedProgram.of(self, lines, keep, sizes)

    def __str__(self) -> str:
        return "\n".join(describe(op) for op in self.ops)

    def __repr__(self) -> str:
        return f"Program of {len(self.ops)} lines:\n{self}"

    def to_dict(self) -> dict[str, Any]:
        """Lines, inputs and weights as plain text."""
        return {
            "lines": [describe(op) for op in self.ops],
            "inputs": list(self.inputs),
            "weights": list(self.weights),
        }


def program(
    *lines: str,
    inputs: Iterable[str] | None = None,
    fused: Iterable[str] = (),
    sizes: Mapping[str, Expr | int] | None = None,
) -> Program:
    """A program from lines of notation.

    A line is a product ``A[B, D] * W[D, F] -> Out[B, F]``, a sum ``A[B] + C[B] -> R[B]``, a
    function ``relu(A[B, F]) -> R[B, F]`` (along dims: ``softmax(P[B, S]; S) -> Q[B, S]``), a table
    lookup ``lookup(Ids[B], Table[V, D]) -> Out[B, D]``, a step of the way to experts and back
    (:mod:`symscale.programs.routing`) or a regrouping of dims ``A[B, D] -> C[b, T, D]``.

    Args:
        lines: the lines, in order.
        inputs: names of the activations that come from outside; the first array unless given.
        fused: names of arrays that never leave the chip.
        sizes: sizes of dims that are not the symbol of their name.

    Raises:
        NotationError: pointing at the character.
        ProgramError: when lines do not agree.

    >>> mlp = program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")
    >>> mlp.parameters
    2*D*F
    >>> program("In[B, D] * W[D, F] -> Tmp[B, F]", "Tmp[B, D] * V[D, F] -> Out[B, F]")
    Traceback (most recent call last):
    symscale.algebra.errors.ProgramError: line 2: Tmp[B, D] was Tmp[B, F] before
    """
    if not lines:
        raise ProgramError("a program needs at least one line")
    given = given_sizes(sizes)
    known: dict[str, Array] = {}
    ops: list[Op] = []
    for number, line in enumerate(lines, 1):
        ops.append(_op(parse_statement(line), known, given, number, {o.output.name for o in ops}))
    first = ops[0].inputs[0].name
    chosen = (first,) if inputs is None else tuple(inputs)
    made = Program(tuple(ops), chosen, frozenset(fused))
    _check_names(made)
    return made


def _check_names(made: Program) -> None:
    for name in (*made.inputs, *made.fused):
        if name not in made.arrays:
            raise ProgramError(f"no line has an array {name!r}{near(name, made.arrays)}")
    for name in made.arrays:
        if name[0] == "d" and name[1:] in made.arrays:
            raise ProgramError(f"{name} is the name of {name[1:]}'s gradient; rename the array")
    for op_number, op in enumerate(made.ops, 1):
        later = {later_op.output.name for later_op in made.ops[op_number - 1 :]}
        for array in op.inputs:
            if array.name in later:
                raise ProgramError(f"line {op_number}: {array.name} is used before it is made")


def _op(
    text: StatementText,
    known: dict[str, Array],
    sizes: Mapping[str, Expr],
    number: int,
    made: set[str],
) -> Op:
    operands = tuple(_agreed(part, known, sizes, number) for part in text.operands)
    if text.result.name in made:
        raise ProgramError(f"line {number}: {text.result.name} is made a second time")
    result = _agreed(text.result, known, sizes, number)
    try:
        return _build(text, operands, result)
    except ProgramError as error:
        raise ProgramError(f"line {number}: {error}") from None


def _agreed(
    text: ArrayText, known: dict[str, Array], sizes: Mapping[str, Expr], number: int
) -> Array:
    """The whole array, checked against what earlier lines said of it."""
    if text.unreduced or any(dim.axes for dim in text.dims):
        raise NotationError(
            f"line {number}: {text} is sharded; a program's lines are not, .shard(...) is"
        )
    default = DTYPES["int32"] if text.name.endswith("Ids") else DEFAULT
    found = known.get(text.name)
    array = from_text(text, sizes, found.dtype if found else default)
    if found and found.labels != array.labels:
        raise ProgramError(f"line {number}: {array.short} was {found.short} before")
    if found and found.dtype != array.dtype:
        raise ProgramError(
            f"line {number}: {array.name} is {array.dtype} but was {found.dtype} before"
        )
    known[text.name] = array
    return array


def _build(text: StatementText, operands: tuple[Array, ...], result: Array) -> Op:
    if text.op == "*":
        if len(operands) != 2:
            raise ProgramError("a product takes two arrays; write one line for each")
        return Einsum(operands, result)
    if text.op == "":
        made = View(operands, result)
        if not made.groups:
            raise ProgramError(f"{describe(made)}: nothing to regroup")
        return made
    if text.op == "lookup":
        return _lookup(operands, result)
    if text.op in ROUTES:
        return routed(text.op, operands, result)
    return _pointwise("add" if text.op == "+" else text.op, text.over, operands, result)


def _lookup(operands: tuple[Array, ...], result: Array) -> Lookup:
    if len(operands) != 2:
        raise ProgramError("lookup takes ids and a table")
    ids, table = operands
    if ids.dtype != DTYPES["int32"]:
        raise ProgramError(f"lookup: {ids.name} is {ids.dtype}; write {ids.name}: int32[...]")
    if not table.dims:
        raise ProgramError(f"lookup: the table {table.short} has no rows")
    if result.labels != ids.labels + table.labels[1:]:
        raise ProgramError(
            f"lookup of {ids.short} in {table.short} makes "
            f"[{', '.join(ids.labels + table.labels[1:])}], not {result.short}"
        )
    return Lookup(operands, result)


def _pointwise(
    name: str, over: tuple[str, ...], operands: tuple[Array, ...], result: Array
) -> Pointwise:
    if name not in FUNCTIONS:
        raise ProgramError(f"unknown function {name!r}{near(name, FUNCTIONS)}")
    function = FUNCTIONS[name]
    made = Pointwise(operands, result, function=function, over=over)
    if len(operands) != function.arity:
        plural = "" if function.arity == 1 else "s"
        raise ProgramError(f"{name} takes {function.arity} array{plural}, not {len(operands)}")
    if function.along and not over:
        raise ProgramError(f"{name} works along a dim; name it: {name}(...; dim)")
    if over and not function.along:
        raise ProgramError(f"{name} is elementwise and takes no dims after ';'")
    lost = over if function.reduces else ()
    expected = tuple(label for label in operands[0].labels if label not in lost)
    if result.labels != expected:
        raise ProgramError(f"{describe(made)}: the result should be [{', '.join(expected)}]")
    stray = [label for part in operands for label in part.labels if label not in operands[0].labels]
    if stray or any(label not in operands[0].labels for label in over):
        raise ProgramError(
            f"{describe(made)}: dim {(stray or over)[0]} is not in the first operand"
        )
    return made
