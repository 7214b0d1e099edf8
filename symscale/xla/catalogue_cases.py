"""The catalogue: sharded programs on which the partitioner is held against XLA's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from symscale.models.decoder import SIZES, decoder
from symscale.models.zoo import find_config
from symscale.parallel.strategy import strategy
from symscale.programs.program import Keep, Program, program
from symscale.programs.sharded import ShardedProgram
from symscale.xla.check import Subject
from symscale.xla.check_lines import split_lines
from symscale.xla.emit import Pass
from symscale.xla.emit_setting import Setting, default_sizes

#: Sizes of the dims of single products: all different, divided by every mesh here.
PRODUCT_SIZES = MappingProxyType({"I": 7168, "J": 1536, "K": 5120, "E": 64})


@dataclass(frozen=True)
class Case:
    """One program, its shardings, a mesh, and the pass that is compared."""

    group: str
    title: str
    whole: Program
    shards: tuple[str, ...]
    mesh: Mapping[str, int]
    which: Pass = "forward"
    keep: Keep = "activations"
    sizes: Mapping[str, int] = field(default_factory=dict)
    pinned: bool = False

    @property
    def name(self) -> str:
        """What identifies the case."""
        mesh = ",".join(f"{name}={size}" for name, size in self.mesh.items())
        pinned = ", pinned" if self.pinned else ""
        return f"{self.group}: {self.title} [{mesh}] {self.which}{pinned}"

    @property
    def sharded(self) -> ShardedProgram:
        """The program under its shardings."""
        return self.whole.shard(*self.shards, keep="all" if self.which == "joint" else self.keep)

    @property
    def setting(self) -> Setting:
        """Mesh and sizes, those not given chosen so that arrays differ in bytes."""
        return Setting(self.mesh, default_sizes(self.whole, self.mesh, self.sizes))

    def subject(self, explicit: bool = False) -> Subject:
        """What is to be checked."""
        return Subject(self.name, self.sharded, self.setting, self.which, explicit, self.pinned)


#: Backward passes that are compared with only the arrays' own shardings stated, too. Where gradients
#: of one array are added XLA needs more; a few show what it does without.
_FREE = frozenset(
    (
        *(f"plain, {way}" for way in ("dp", "fsdp", "tp", "tp+sp", "fsdp+tp", "2d", "zero2",
                                      "activations replicated")),
        *(f"plain, {way}" for way in ("fsdp over XYZ", "tp over XYZ", "fsdp+tp over X, YZ",
                                      "fsdp+tp over XZ, Y")),
        *(f"with its norm, {way}" for way in ("tp", "tp+sp", "fsdp", "fsdp+tp")),
        "gated, dp", "gated, fsdp", "gated, tp", "gated, fsdp+tp", "heads split", "batch split",
        "split", "split, each over Y", "dp", "fsdp", "tp",
    )
)  # fmt: skip


def catalogue() -> tuple[Case, ...]:
    """All cases.

    >>> cases = catalogue()
    >>> len(cases) >= 60, len({case.name for case in cases}) == len(cases)
    (True, True)
    """
    layers = (*_mlps(), *_attention(), *_experts(), *_decoders())
    free = (case for case in layers if case.which != "backward" or case.title in _FREE)
    pinned = (replace(case, pinned=True) for case in layers if case.which != "joint")
    return (*_products(), *_reshards(), *free, *pinned)


_XY = MappingProxyType({"X": 4, "Y": 2})
_XYZ = MappingProxyType({"X": 4, "Y": 2, "Z": 2})
_X = MappingProxyType({"X": 8})

_PRODUCTS = (
    (
        _XY,
        (
            "A[I_X, J] * B[J, K_Y] -> C[I_X, K_Y]",
            "A[I_XY, J] * B[J, K] -> C[I_XY, K]",
            "A[I_X, J_Y] * B[J, K] -> C[I_X, K]",
            "A[I, J_X] * B[J, K_Y] -> C[I, K_Y]",
            "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K]",
            "A[I_X, J_Y] * B[J_Y, K] -> C[I_XY, K]",
            "A[I_X, J_Y] * B[J_Y, K] -> C[I_X, K_Y]",
            "A[I, J_XY] * B[J_XY, K] -> C[I, K]",
            "A[I, J_XY] * B[J_XY, K] -> C[I_XY, K]",
            "A[I, J_XY] * B[J_XY, K] -> C[I_X, K]",
            "A[I, J_XY] * B[J_XY, K] -> C[I_X, K_Y]",
            "A[I, J_XY] * B[J_X, K] -> C[I, K]",
            "A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K]",
            "A[I_X, J_Y] * B[J_Y, K_X] -> C[I_X, K_Y]",
            "A[I_X, J] * B[J_Y, K_X] -> C[I_X, K_Y]",
            "A[E_X, I, J_Y] * B[E_X, J_Y, K] -> C[E_X, I, K]",
            "A[E_X, I_Y, J] * B[E_X, J, K] -> C[E_X, I_Y, K]",
            "A[I_X, J] * B[J_X, K_Y] -> C[I_X, K_Y]",
            "A[I_X, J] * B[J_XY, K] -> C[I_X, K]",
            "A[I_XY, J] * B[J_X, K] -> C[I_XY, K]",
            "A[I_X, J] * B[J, K_Y] -> C[I, K_Y]",
            "A[I_X, J] * B[J, K_Y] -> C[I_X, K]",
            "A[I, J_Y] * B[J_Y, K_X] -> C[I, K_X]",
            "A[I, J_Y] * B[J_Y, K_X] -> C[I, K_XY]",
            "A[I, J_XY] * B[J_XY, K] -> C[I, K_XY]",
        ),
    ),
    (
        _XYZ,
        (
            "A[I_X, J_Z] * B[J_Z, K_Y] -> C[I_X, K_Y]",
            "A[I_X, J_Z] * B[J_Z, K_Y] -> C[I_X, K_YZ]",
            "A[I_XYZ, J] * B[J, K] -> C[I_XYZ, K]",
            "A[I_X, J_YZ] * B[J_YZ, K] -> C[I_X, K]",
            "A[I_X, J_YZ] * B[J_YZ, K] -> C[I_X, K_YZ]",
            "A[I, J_XYZ] * B[J_XYZ, K] -> C[I_XYZ, K]",
            "A[I_XZ, J] * B[J_X, K_Y] -> C[I_XZ, K_Y]",
            "A[E_Z, I_X, J] * B[E_Z, J_X, K_Y] -> C[E_Z, I_X, K_Y]",
            "A[E_X, I_Y, J_Z] * B[E_X, J_Z, K] -> C[E_X, I_Y, K]",
            "A[E_X, I_Y, J_Z] * B[E_X, J_Z, K] -> C[E_X, I_Y, K_Z]",
            "A[I_X, J_Y] * B[J_Y, K_Z] -> C[I_XY, K_Z]",
            "A[I_X, J_YZ] * B[J_YZ, K] -> C[I_XYZ, K]",
            "A[I_XY, J_Z] * B[J_Z, K] -> C[I_XY, K_Z]",
            "A[I, J_XYZ] * B[J_XYZ, K] -> C[I, K]",
        ),
    ),
)

_RESHARDS = (
    (
        _X,
        (
            "A[I_X, J] -> [I, J]",
            "A[I, J_X] -> [I, J]",
            "A[I, J] -> [I_X, J]",
            "A[I_X, J] -> [I, J_X]",
            "A[I, J_X] -> [I_X, J]",
        ),
    ),
    (
        _XY,
        (
            "A[I_X, J_Y] -> [I_X, J]",
            "A[I_X, J_Y] -> [I, J]",
            "A[I_XY, J] -> [I, J]",
            "A[I_XY, J] -> [I_X, J]",
            "A[I_XY, J] -> [I_Y, J]",
            "A[I_YX, J] -> [I_Y, J]",
            "A[I_XY, J] -> [I_YX, J]",
            "A[I_X, J] -> [I_X, J_Y]",
            "A[I_X, J] -> [I_Y, J_X]",
            "A[I_XY, J] -> [I_X, J_Y]",
            "A[I_XY, J] -> [I, J_XY]",
            "A[I_XY, J] -> [I_Y, J_X]",
            "A[I_X, J_Y] -> [I_XY, J]",
            "A[I_X, J_Y] -> [I_Y, J_X]",
        ),
    ),
    (
        _XYZ,
        (
            "A[I_XYZ, J] -> [I_X, J]",
            "A[I_XYZ, J] -> [I_XY, J_Z]",
            "A[I_XYZ, J] -> [I_X, J_YZ]",
            "A[I_XY, J_Z] -> [I_X, J_YZ]",
            "A[I_XY, J_Z] -> [I, J_Z]",
        ),
    ),
)


#: At these sizes the result is smaller than the operand that would be gathered.
_SMALL_RESULT = MappingProxyType({"I": 3072, "J": 5120, "K": 7168})


def _products() -> Iterator[Case]:
    for text in _one_axis_products():
        yield _product(text, _X)
    for mesh, statements in _PRODUCTS:
        for text in statements:
            yield _product(text, mesh)
    yield _product("A[I, J] * B[J_X, K] -> C[I, K]", _X, _SMALL_RESULT, "small result: ")
    yield _product("A[I, J_X] * B[J, K_Y] -> C[I, K_Y]", _XY, _SMALL_RESULT, "small result: ")


def _one_axis_products() -> Iterator[str]:
    """Every way to lay one mesh axis on the arrays of a product, and on a batching dim."""
    for left in ("I, J", "I_X, J", "I, J_X"):
        for right in ("J, K", "J_X, K", "J, K_X"):
            for out in ("I, K", "I_X, K", "I, K_X"):
                yield f"A[{left}] * B[{right}] -> C[{out}]"
    yield "A[E_X, I, J] * B[E_X, J, K] -> C[E_X, I, K]"


def _product(
    text: str, mesh: Mapping[str, int], sizes: Mapping[str, int] = PRODUCT_SIZES, note: str = ""
) -> Case:
    plain, shards = split_lines((text,))
    whole = program(*plain, inputs=("A", "B"))
    chosen = {name: sizes[name] for name in _dims(whole)}
    title = note + text.replace(" * ", " · ")
    return Case("product", title, whole, shards or _whole(whole), mesh, sizes=chosen)


def _whole(whole: Program) -> tuple[str, ...]:
    return tuple(array.unsharded.short for array in whole.arrays.values())


def _dims(whole: Program) -> tuple[str, ...]:
    return tuple(dict.fromkeys(d.name for array in whole.arrays.values() for d in array.dims))


def _reshards() -> Iterator[Case]:
    whole = program("copy(A[I, J]) -> C[I, J]")
    sizes = {name: PRODUCT_SIZES[name] for name in ("I", "J")}
    for mesh, statements in _RESHARDS:
        for text in statements:
            before, _, after = text.partition(" -> ")
            yield Case("reshard", text, whole, (before, f"C{after}"), mesh, sizes=sizes)


_PLAIN = (
    "In[B, D] * Win[D, F] -> Up[B, F]",
    "relu(Up[B, F]) -> Act[B, F]",
    "Act[B, F] * Wout[F, D] -> Out[B, D]",
)
_GATED = (
    "In[B, D] * Wgate[D, F] -> Gate[B, F]",
    "In[B, D] * Win[D, F] -> Up[B, F]",
    "swiglu(Gate[B, F], Up[B, F]) -> Act[B, F]",
    "Act[B, F] * Wout[F, D] -> Out[B, D]",
)
_NORMED = ("rmsnorm(Res[B, D], g[D]; D) -> In[B, D]", *_PLAIN)
#: Strategies with the axes that play their roles.
_SPLITS = (
    ("dp", {"data": "XY"}), ("fsdp", {"data": "XY"}), ("tp", {"tensor": "XY"}),
    ("tp+sp", {"tensor": "XY"}), ("fsdp+tp", {}), ("2d", {}), ("zero2", {"data": "XY"}),
)  # fmt: skip
_BOTH: tuple[Pass, ...] = ("forward", "backward")
_ALL: tuple[Pass, ...] = (*_BOTH, "joint")


def _mlps() -> Iterator[Case]:
    for kind, lines, passes in (("plain", _PLAIN, _ALL), ("gated", _GATED, _BOTH)):
        whole = program(*lines)
        ways = [(name, strategy(name, **axes).lines(whole)) for name, axes in _SPLITS]
        ways.append(("activations replicated", _replicated(whole, "Y")))
        for title, shards in ways:
            for which in passes:
                yield Case("mlp", f"{kind}, {title}", whole, shards, _XY, which)
        both = strategy("fsdp+tp+sp").lines(whole)
        for which in _BOTH:
            yield Case("mlp", f"{kind}, fsdp+tp+sp", whole, both, _XY, which)
    yield from _three_axes()
    yield from _normed()


def _replicated(whole: Program, axes: str) -> tuple[str, ...]:
    """Megatron's first form: hidden width split, activations between blocks whole, batch over X."""
    out = []
    for name, array in whole.arrays.items():
        weight = name in whole.weights
        dims = [f"F_{axes}" if d == "F" else "B_X" if d == "B" and not weight else d
                for d in array.labels]  # fmt: skip
        out.append(f"{name}[{', '.join(dims)}]")
    return tuple(out)


def _three_axes() -> Iterator[Case]:
    whole = program(*_PLAIN)
    ways = (
        ("fsdp", {"data": "XYZ"}), ("tp", {"tensor": "XYZ"}), ("fsdp+tp", {"tensor": "YZ"}),
        ("fsdp+tp", {"data": "XZ"}),
    )  # fmt: skip
    for name, axes in ways:
        made = strategy(name, **axes)
        for which in _BOTH:
            shards = made.lines(whole)
            title = f"plain, {name} over {', '.join(map(''.join, made.axes.values()))}"
            yield Case("mlp", title, whole, shards, {"X": 2, "Y": 4, "Z": 2}, which)


def _normed() -> Iterator[Case]:
    whole = program(*_NORMED)
    for name, mesh in (("tp", {"Y": 4}), ("tp+sp", {"Y": 4}), ("fsdp", {"X": 4}), ("fsdp+tp", _XY)):
        for which in _BOTH:
            shards = strategy(name).lines(whole)
            yield Case("mlp", f"with its norm, {name}", whole, shards, mesh, which)
    idle = strategy("tp").lines(whole)
    yield Case("mlp", "with its norm, tp, X idle", whole, idle, _XY)


#: Attention after its projections are regrouped; heads apart from groups, so that both can be split.
_HEADS = (
    "In[b, T, D] * Wq[D, K, G, H] -> Q[b, T, K, G, H]",
    "In[b, T, D] * Wk[D, K, H] -> Keys[b, T, K, H]",
    "In[b, T, D] * Wv[D, K, H] -> Vals[b, T, K, H]",
    "Keys[b, T, K, H] -> Ks[b, S, K, H]",
    "Vals[b, T, K, H] -> Vs[b, S, K, H]",
    "Q[b, T, K, G, H] * Ks[b, S, K, H] -> P[b, K, G, T, S]",
    "softmax(P[b, K, G, T, S]; S) -> R[b, K, G, T, S]",
    "R[b, K, G, T, S] * Vs[b, S, K, H] -> O[b, T, K, G, H]",
    "O[b, T, K, G, H] * Wo[K, G, H, D] -> Out[b, T, D]",
)
_DECODE = (
    "In[b, D] * Wq[D, K, G, H] -> Q[b, K, G, H]",
    "Q[b, K, G, H] * Ks[b, S, K, H] -> P[b, K, G, S]",
    "softmax(P[b, K, G, S]; S) -> R[b, K, G, S]",
    "R[b, K, G, S] * Vs[b, S, K, H] -> O[b, K, G, H]",
    "copy(O[b, K, G, H]) -> Oh[b, K, G, H]",
    "Oh[b, K, G, H] * Wo[K, G, H, D] -> Out[b, D]",
)


def _split(whole: Program, **axes: str) -> tuple[str, ...]:
    """Every array split alike: the axes of each dim, on weights without those of the batch."""
    out = []
    for name, array in whole.arrays.items():
        own = {d: a for d, a in axes.items() if not (name in whole.weights and d in "bB")}
        used = "".join(own.get(d, "") for d in array.labels if d != "D")
        dims = []
        for d in array.labels:
            mine = own.get(d, "")
            fits = d != "D" or not set(mine) & set(used)
            dims.append(f"{d}_{mine}" if mine and fits else d)
        out.append(f"{name}[{', '.join(dims)}]")
    return tuple(out)


def _attention() -> Iterator[Case]:
    whole = program(*_HEADS, sizes={"S": SIZES["S"]})
    ways = (
        ("heads split", {"K": "Y", "b": "X"}, _XY, {}),
        ("heads split, D too", {"K": "Y", "D": "Y", "b": "X"}, _XY, {}),
        ("K below the degree: groups split", {"K": "Y", "G": "Z", "b": "X"}, _XYZ, {"K": 2}),
        ("multi-query: groups alone split", {"G": "Y", "b": "X"}, _XY, {"K": 1}),
        ("keys split along the context", {"S": "Y", "b": "X"}, _XY, {}),
        ("batch split", {"b": "XY"}, _XY, {}),
        ("batch and weights split", {"b": "X", "D": "X"}, {"X": 4}, {}),
    )
    for title, axes, mesh, sizes in ways:
        for which in _BOTH if "S" not in axes else _BOTH[:1]:
            shards = _split(whole, **axes)
            yield Case("attention", title, whole, shards, mesh, which, sizes=sizes)
    yield from _decode()


def _decode() -> Iterator[Case]:
    whole = program(*_DECODE, inputs=("In", "Ks", "Vs"))
    heads = _split(whole, K="Y")
    cached = _split(whole, b="Y")
    mixed = tuple(
        split if split.partition("[")[0] in ("Ks", "Vs", "P", "R", "O") else plain
        for split, plain in zip(cached, heads, strict=True)
    )
    for title, shards, sizes in (
        ("decode, heads split", heads, {}),
        ("decode, cache split along the batch", cached, {}),
        ("decode, heads split, cache split along the batch", mixed, {}),
        ("decode, cache split along the context", _split(whole, S="Y"), {}),
    ):
        yield Case("attention", title, whole, shards, {"Y": 4}, sizes=sizes)


_EXPERTS = (
    "copy(Sent[E, c, D]) -> Got[E, c, D]",
    "Got[E, c, D] * Win[E, D, F] -> Up[E, c, F]",
    "relu(Up[E, c, F]) -> Act[E, c, F]",
    "Act[E, c, F] * Wout[E, F, D] -> Res[E, c, D]",
    "copy(Res[E, c, D]) -> Back[E, c, D]",
)


def _experts() -> Iterator[Case]:
    whole = program(*_EXPERTS)
    plain = ("Sent[E, c_X, D]", "Got[E_X, c, D]", "Up[E_X, c, F]", "Act[E_X, c, F]",
             "Res[E_X, c, D]", "Back[E, c_X, D]", "Win[E_X, D, F]", "Wout[E_X, F, D]")  # fmt: skip
    tensor = ("Sent[E, c_X, D]", "Got[E_X, c, D]", "Up[E_X, c, F_Y]", "Act[E_X, c, F_Y]",
              "Res[E_X, c, D]", "Back[E, c_X, D]", "Win[E_X, D, F_Y]", "Wout[E_X, F_Y, D]")  # fmt: skip
    for title, shards, mesh in (("split", plain, _X), ("split, each over Y", tensor, _XY)):
        for which in _ALL:
            yield Case("experts", title, whole, shards, mesh, which)


def _decoders() -> Iterator[Case]:
    whole = decoder(find_config("llama-3-8b")).layer
    ways = (
        ("dp", {"X": 4}), ("fsdp", {"X": 4}), ("tp", {"Y": 4}), ("tp+sp", {"Y": 4}), ("fsdp+tp", _XY),
    )  # fmt: skip
    for name, mesh in ways:
        shards = strategy(name).lines(whole)
        for which in _BOTH:
            yield Case("decoder layer", name, whole, shards, mesh, which)
