"""Hypothesis strategies: meshes, shardings, einsums and short programs, all with small numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from hypothesis import strategies as st
from sympy import Expr, Symbol

from symscale.algebra.symbols import symbol
from symscale.arrays.array import Array
from symscale.programs.program import Keep, Program, program
from symscale.programs.sharded import ShardedProgram

LABELS = ("I", "J", "M", "P", "Q", "R")
SPLITS = {label: (f"{label}a", f"{label}b") for label in LABELS}
SMALL = 4
MESHES = (
    {"X": 2}, {"X": 3}, {"X": 2, "Y": 2}, {"X": 2, "Y": 3}, {"X": 1, "Y": 2}, {"X": 3, "Y": 1},
    {"X": 2, "Y": 2, "Z": 2}, {"X": 2, "Y": 1, "Z": 2}, {"X": 2, "Y": 2, "Z": 3},
)  # fmt: skip


def meshes() -> st.SearchStrategy[dict[str, int]]:
    return st.sampled_from(MESHES)


def ways(mesh: Mapping[str, int]) -> int:
    return prod(mesh.values())


def numbers(mesh: Mapping[str, int]) -> dict[Symbol, int]:
    """A size for every dim: divisible by all axes together.

    Minor halves of splits are so on small meshes only, to keep arrays small; elsewhere they are not
    sharded.
    """
    out = {}
    for major, minor in SPLITS.values():
        out[symbol(major)] = ways(mesh)
        out[symbol(minor)] = ways(mesh) if ways(mesh) <= SMALL else 2
    return out


def split_sizes() -> dict[str, Expr]:
    """Each whole dim as the product of its halves."""
    return {label: symbol(a) * symbol(b) for label, (a, b) in SPLITS.items()}


@st.composite
def placements(draw: st.DrawFn, whole: Array, mesh: Mapping[str, int], partial: bool) -> Array:
    """An array under a random sharding; ``partial`` allows partial sums too."""
    axes: dict[str, tuple[str, ...]] = {}
    unreduced: tuple[str, ...] = ()
    for name in draw(st.permutations(list(mesh))):
        fits = [x for x in whole.labels if x[-1] != "b" or ways(mesh) <= SMALL]
        choices = [None, *fits, *fits, *(["{U}"] if partial else [])]
        where = draw(st.sampled_from(choices))
        if where == "{U}":
            unreduced += (name,)
        elif where:
            axes[where] = (*axes.get(where, ()), name)
    return whole.placed(axes, unreduced)


@st.composite
def einsum_lines(draw: st.DrawFn) -> str:
    """A product of two arrays with batching, contracting and free dims, at least one in each."""
    roles = draw(
        st.lists(st.sampled_from(["batch", "sum", "left", "right"]), min_size=1, max_size=4)
    )
    named = list(zip(LABELS, roles, strict=False))
    left = [x for x, role in named if role != "right"]
    right = [x for x, role in named if role != "left"]
    out = draw(st.permutations([x for x, role in named if role != "sum"]))
    left, right = draw(st.permutations(left)), draw(st.permutations(right))
    return f"A[{', '.join(left)}] * W[{', '.join(right)}] -> Out[{', '.join(out)}]"


@dataclass
class _Draft:
    """A program while it grows: what arrays there are, and who made which."""

    draw: st.DrawFn
    widest: int
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    weights: int = 0

    def pick(self, least: int = 0) -> tuple[str, tuple[str, ...]]:
        fit = [(n, x) for n, x in self.arrays.items() if len(x) >= least and "Ids" not in n]
        return self.draw(st.sampled_from(fit))

    def some(self, labels: tuple[str, ...], least: int = 0) -> tuple[str, ...]:
        kept = self.draw(st.sets(st.sampled_from(labels), min_size=least)) if labels else set()
        return tuple(label for label in labels if label in kept)

    def fresh(self, taken: tuple[str, ...]) -> str:
        free = [x for x in LABELS if not any(x == y[0] for y in taken)]
        return self.draw(st.sampled_from(free))

    def weight(self, labels: tuple[str, ...]) -> str:
        self.weights += 1
        name = f"W{self.weights}"
        self.arrays[name] = tuple(self.draw(st.permutations(labels)))
        return text(name, self.arrays[name])

    def result(self, labels: tuple[str, ...]) -> str:
        name = f"A{len(self.lines) + 1}"
        self.arrays[name] = labels
        return text(name, labels)

    def add(self, left: str, labels: tuple[str, ...]) -> None:
        self.lines.append(f"{left} -> {self.result(labels)}")


def text(name: str, labels: tuple[str, ...]) -> str:
    return f"{name}[{', '.join(labels)}]"


def _product(draft: _Draft) -> None:
    name, labels = draft.pick()
    lost, batch = draft.some(labels), draft.some(labels)
    free = (draft.fresh(labels),) if draft.draw(st.booleans()) else ()
    right = tuple(dict.fromkeys((*lost, *batch, *free)))
    out = tuple(x for x in (*labels, *free) if x not in lost)
    weight = draft.weight(right)
    draft.add(f"{text(name, labels)} * {weight}", tuple(draft.draw(st.permutations(out))))


def _inner(draft: _Draft) -> None:
    """A product of two arrays at hand, perhaps of one with itself."""
    (name, labels), (other, others) = draft.pick(), draft.pick()
    if len({*labels, *others}) > draft.widest or _halves_mix(labels, others):
        return _unary(draft)
    lost = draft.some(tuple(x for x in labels if x in others))
    out = tuple(x for x in dict.fromkeys((*labels, *others)) if x not in lost)
    draft.add(f"{text(name, labels)} * {text(other, others)}", out)
    return None


def _halves_mix(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    names = {*left, *right}
    return any(label in names and set(SPLITS[label]) & names for label in LABELS)


def _unary(draft: _Draft) -> None:
    name, labels = draft.pick()
    functions = ["relu", "gelu", "silu", "copy"]
    function = draft.draw(st.sampled_from(functions))
    draft.add(f"{function}({text(name, labels)})", labels)


def _binary(draft: _Draft) -> None:
    name, labels = draft.pick()
    function = draft.draw(st.sampled_from(["add", "mul", "swiglu", "geglu"]))
    fits = [(n, x) for n, x in draft.arrays.items() if set(x) <= set(labels) and "Ids" not in n]
    old = draft.draw(st.booleans())
    other = text(*draft.draw(st.sampled_from(fits))) if old else draft.weight(draft.some(labels))
    draft.add(f"{function}({text(name, labels)}, {other})", labels)


def _along(draft: _Draft) -> None:
    name, labels = draft.pick(1)
    over = draft.some(labels, 1)
    function = draft.draw(st.sampled_from(["softmax", "rmsnorm", "layernorm", "shift"]))
    gains = {"rmsnorm": 1, "layernorm": 2}.get(function, 0)
    over = over[:1] if function == "shift" else over
    operands = [text(name, labels), *(draft.weight(over) for _ in range(gains))]
    draft.add(f"{function}({', '.join(operands)}; {', '.join(over)})", labels)


def _reduction(draft: _Draft) -> None:
    name, labels = draft.pick(1)
    over = draft.some(labels, 1)
    function = draft.draw(st.sampled_from(["sum", "mean", "max"]))
    left = f"{function}({text(name, labels)}; {', '.join(over)})"
    draft.add(left, tuple(x for x in labels if x not in over))


def _view(draft: _Draft) -> None:
    name, labels = draft.pick(1)
    label = draft.draw(st.sampled_from(labels))
    at = labels.index(label)
    if label in SPLITS:
        out = (*labels[:at], *SPLITS[label], *labels[at + 1 :])
    elif label.endswith("a") and labels[at + 1 : at + 2] == SPLITS[label[0]][1:]:
        out = (*labels[:at], label[0], *labels[at + 2 :])
    else:
        return _unary(draft)
    draft.add(text(name, labels), out)
    return None


def _lookup(draft: _Draft) -> None:
    draft.arrays = {"Ids": draft.arrays["In"]}
    table = ("V", *([draft.fresh(draft.arrays["Ids"])] if draft.draw(st.booleans()) else []))
    draft.weights += 1
    name = f"W{draft.weights}"
    draft.arrays[name] = table
    draft.lines.append(
        f"lookup({text('Ids', draft.arrays['Ids'])}, {text(name, table)}) -> "
        f"{draft.result((*draft.arrays['Ids'], *table[1:]))}"
    )


KINDS = (_product, _product, _product, _inner, _unary, _binary, _along, _reduction, _view, _view)


@st.composite
def programs(draw: st.DrawFn, widest: int = 3) -> Program:
    """Two or three lines that fit together."""
    draft = _Draft(draw, widest)
    count = draw(st.integers(1, 2))
    draft.arrays["In"] = tuple(draw(st.permutations(LABELS))[:count])
    if draw(st.integers(0, 5)) == 0:
        _lookup(draft)
    for _ in range(draw(st.integers(2, 3)) - len(draft.lines)):
        draw(st.sampled_from(KINDS))(draft)
    return program(*draft.lines, sizes=split_sizes())


@st.composite
def sharded_programs(
    draw: st.DrawFn, made: st.SearchStrategy[Program] | None = None
) -> tuple[ShardedProgram, dict[str, int], dict[Symbol, int]]:
    """A program under random shardings of its arrays, some gradients and optimizer states."""
    prog = draw(programs() if made is None else made)
    mesh = draw(meshes())
    sizes = numbers(mesh) | {symbol("V"): 2 * ways(mesh)}
    lines = []
    for name, array in prog.arrays.items():
        if draw(st.integers(0, 4)):
            partial = name in prog.inputs and draw(st.integers(0, 4)) == 0
            partial = partial and array.dtype.name != "int32"
            lines.append(str(draw(placements(array, mesh, partial))))
    for name in prog.weights:
        for prefix in "dm":
            if draw(st.integers(0, 3)) == 0:
                whole = Array(prefix + name, prog.arrays[name].dims)
                lines.append(str(draw(placements(whole, mesh, False))))
    keep: Keep = draw(st.sampled_from(["activations", "all", "none"]))
    return prog.shard(*lines, keep=keep), mesh, sizes
