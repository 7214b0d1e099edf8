"""The catalogue's layers: feed-forward blocks, attention, experts, a whole decoder layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from symscale.models.decoder import SIZES, decoder
from symscale.models.zoo import find_config
from symscale.parallel.strategy import strategy
from symscale.programs.program import Program, program
from symscale.xla.catalogue_case import MESH_X, MESH_XY, MESH_XYZ, Case
from symscale.xla.catalogue_pipeline import pipelines
from symscale.xla.emit import Pass

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
_SPLITS: tuple[tuple[str, Mapping[str, str]], ...] = (
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
                yield Case("mlp", f"{kind}, {title}", whole, shards, MESH_XY, which)
        both = strategy("fsdp+tp+sp").lines(whole)
        for which in _BOTH:
            yield Case("mlp", f"{kind}, fsdp+tp+sp", whole, both, MESH_XY, which)
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
    ways: tuple[tuple[str, Mapping[str, str]], ...] = (
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
    for name, mesh in (
        ("tp", {"Y": 4}),
        ("tp+sp", {"Y": 4}),
        ("fsdp", {"X": 4}),
        ("fsdp+tp", MESH_XY),
    ):
        for which in _BOTH:
            shards = strategy(name).lines(whole)
            yield Case("mlp", f"with its norm, {name}", whole, shards, mesh, which)


#: Attention with heads apart from the groups that share one, so that both can be split.
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
    ways: tuple[tuple[str, Mapping[str, str], Mapping[str, int], Mapping[str, int]], ...] = (
        ("heads split", {"K": "Y", "b": "X"}, MESH_XY, {}),
        ("heads split, D too", {"K": "Y", "D": "Y", "b": "X"}, MESH_XY, {}),
        ("K below the degree: groups split", {"K": "Y", "G": "Z", "b": "X"}, MESH_XYZ, {"K": 2}),
        ("multi-query: groups alone split", {"G": "Y", "b": "X"}, MESH_XY, {"K": 1}),
        ("keys split along the context", {"S": "Y", "b": "X"}, MESH_XY, {}),
        ("batch split", {"b": "XY"}, MESH_XY, {}),
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
    for title, shards in (
        ("decode, heads split", heads),
        ("decode, cache split along the batch", cached),
        ("decode, heads split, cache split along the batch", mixed),
        ("decode, cache split along the context", _split(whole, S="Y")),
    ):
        yield Case("attention", title, whole, shards, {"Y": 4})


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
              "Res[E_X, c, D]", "Back[E, c_X, D]", "Win[E_X, D, F_Y]",
              "Wout[E_X, F_Y, D]")  # fmt: skip
    for title, shards, mesh in (("split", plain, MESH_X), ("split, each over Y", tensor, MESH_XY)):
        for which in _ALL:
            yield Case("experts", title, whole, shards, mesh, which)


def _decoders() -> Iterator[Case]:
    whole = decoder(find_config("llama-3-8b")).layer
    ways = (
        ("dp", {"X": 4}), ("fsdp", {"X": 4}), ("tp", {"Y": 4}), ("tp+sp", {"Y": 4}),
        ("fsdp+tp", MESH_XY),
    )  # fmt: skip
    for name, mesh in ways:
        shards = strategy(name).lines(whole)
        for which in _BOTH:
            yield Case("decoder layer", name, whole, shards, mesh, which)


def layers() -> Iterator[Case]:
    """All layers, a pass at a time."""
    yield from _mlps()
    yield from _attention()
    yield from _experts()
    yield from _decoders()
    yield from pipelines()
