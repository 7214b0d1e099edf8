"""A model as programs: one for each kind of layer, and one for the embedding and head around them.

Dims: B tokens (b sequences of T), D width, F feed-forward width, N query heads, K key/value heads,
G query heads a key/value head, H head width, V vocabulary. In self-attention the keys are as many
as the queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sympy import Add, Expr, S, Symbol

from symscale.algebra.errors import ModelError
from symscale.algebra.symbols import G, K, L, N, symbol
from symscale.models.blocks import Body, Ends, Layer
from symscale.models.config import ModelConfig
from symscale.models.kinds import names_of, reach_of
from symscale.models.layers import (
    IMAGE_SIZES,
    SIZES,
    ends_lines,
    layer_lines,
    mtp_lines,
    with_capacity,
)
from symscale.models.lines.common import Lines, renamed
from symscale.models.lines.tower import NAMES as TOWER_NAMES
from symscale.models.lines.tower import tower_lines
from symscale.programs.program import Program, program

__all__ = [
    "COMPONENTS",
    "SIZES",
    "Decoder",
    "LayerKind",
    "Reach",
    "decoder",
    "two_matmul_experts",
    "two_matmul_layer",
]

#: The component that each weight belongs to, in the order of a parameter table. A weight that none
#: names is a norm's.
COMPONENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "embedding": ("Emb", "Widen", "Narrow", "Types"),
        "positions": ("Pos", "Bias"),
        "attention": (
            *("Wq", "Wk", "Wv", "Wo", "bq", "bk", "bv", "bo", "Wg", "Sink"),
            *("Wdq", "Wqn", "Wqr", "Wdkv", "Wkr", "Wuk", "Wuv", "bdq", "bdkv", "bkr"),
            *("Wiq", "Wik", "Wiw"),
            *("Wlq", "Wlk", "Wlv", "Wlz", "Wlb", "Wla", "Wlo", "sdt", "sA", "sD"),
            *("Convq", "Convk", "Convv", "bconvq", "bconvk", "bconvv"),
            *("Wsz", "Wsv", "Wsk", "Wsq", "Wst", "Wsr", "Wso", "Wsi"),
            *("bsz", "bsv", "bsk", "bsq", "bst", "bso", "bsi", "bsr"),
        ),
        "cross attention": ("Wqx", "Wkx", "Wvx", "Wox", "bqx", "bkx", "bvx", "box"),
        "mlp": ("Wgate", "Win", "Wout", "bgate", "bin", "bout"),
        "router": ("Wr", "br", "bc"),
        "experts": ("Egate", "Ein", "Eout", "bEgate", "bEin", "bEout"),
        "shared experts": ("Sgate", "Sin", "Sout", "Wsg", "Wlat", "Wwide"),
        "norms": (),
        "head": ("Head", "bhead", "Wtrans", "btrans", "Wpool", "bpool"),
    }
)


#: The order in which a model lists the sizes that most models have.
_ORDER = ("D", "F", "F_e", "F_s", "E", "k", "N", "K", "G", "H", "V")


@dataclass(frozen=True)
class Reach:
    """How many keys a token's query meets: a causal mask, a window, a chunk, or all.

    ``keeps`` is false where the cache keeps tokens behind the window (sparse attention).
    """

    causal: bool = True
    window: Symbol | None = None
    chunk: Symbol | None = None
    keeps: bool = True


@dataclass(frozen=True)
class LayerKind:
    """Layers that are alike.

    Attributes:
        name: what sets them apart from the model's other layers.
        program: one of them.
        count: the symbol of their number.
        number: their number.
        reach: how far their attention sees.
        cached: arrays kept for every token that was read (the KV cache).
        state: arrays of which a sequence keeps one entry instead.
        tails: arrays of which a sequence keeps the last J - 1 entries (before a convolution).
        whole: products that meet every key though ``reach`` is short (the indexer of sparse
            attention).
        layer: the description that the program was made from.
    """

    name: str
    program: Program
    count: Symbol
    number: int
    reach: Reach
    cached: tuple[str, ...]
    state: tuple[str, ...]
    tails: tuple[str, ...]
    whole: frozenset[str]
    layer: Layer


@dataclass(frozen=True)
class Decoder:
    """A model's programs.

    ``kinds`` are its kinds of layer, ``ends`` the embedding and head. An encoder has its own
    (``encoder``, ``encoder_ends``); ``mtp`` are multi-token-prediction modules, ``tower`` an image
    tower's layers. ``sizes`` has the number of every symbol.
    """

    kinds: tuple[LayerKind, ...]
    ends: Program
    sizes: Mapping[Symbol, int]
    encoder: tuple[LayerKind, ...] = ()
    encoder_ends: Program | None = None
    mtp: tuple[LayerKind, ...] = ()
    tower: tuple[LayerKind, ...] = ()
    tower_ends: Program | None = None

    @property
    def layer(self) -> Program:
        """The one program of all layers.

        Raises:
            ModelError: where layers are of several kinds (``kinds`` has them all).
        """
        if len({kind.program for kind in self.kinds}) > 1 or self.encoder:
            listed = ", ".join(
                f"{kind.number} {kind.name}" for kind in (*self.encoder, *self.kinds)
            )
            raise ModelError(f"the model has layers of several kinds ({listed}); use .kinds")
        return self.kinds[0].program


def decoder(config: ModelConfig, capacity: Expr | int = 1, absorbed: bool = False) -> Decoder:
    """The programs of a model.

    Scores and probabilities stay on chip, as in a fused attention kernel.

    Args:
        config: what the model is made of.
        capacity: experts work on buffers this many times their even share of tokens: a number, or a
            formula (a capacity factor times :data:`~symscale.algebra.symbols.imbalance`, say).
        absorbed: latent attention as it decodes (see :func:`lines.attention.latent`).

    >>> from symscale.models.zoo import find_config
    >>> decoder(find_config("llama-3-70b")).layer.weights
    ('g1', 'Wq', 'Wk', 'Wv', 'Wo', 'g2', 'Wgate', 'Win', 'Wout')
    """
    return _Builder(config.body, with_capacity(S(capacity)), absorbed).build()


class _Builder:
    """Collects the number of every dim while it makes programs."""

    def __init__(self, body: Body, sizes: Mapping[str, Expr], absorbed: bool) -> None:
        self.body = body
        self.formulas = dict(sizes)
        self.absorbed = absorbed
        self.numbers: dict[str, int] = {"D": body.width}

    def build(self) -> Decoder:
        body = self.body
        kinds = self.kinds(body.layers, "L")
        encoder = self.kinds(body.encoder, "L_enc") if body.encoder else ()
        below = None
        if body.encoder_ends is not None:
            below = self.program(ends_lines(body.encoder_ends, body.width), body.encoder_ends)
        ends = self.program(ends_lines(body.ends, body.width), body.ends)
        mtp = self.mtp()
        tower, tower_ends = self.tower()
        sizes = {symbol(name): size for name, size in self.numbers.items()}
        counts = {L: len(body.layers)} if body.layers else {}
        for kind in (*kinds, *encoder, *mtp, *tower):
            counts[kind.count] = kind.number
        if encoder:
            counts[symbol("L_enc")] = len(body.encoder)
        if K in sizes:
            sizes[G] = sizes[N] // sizes[K]
        first = {symbol(name): sizes[symbol(name)] for name in _ORDER if symbol(name) in sizes}
        ordered = {**counts, **first, **sizes}
        return Decoder(
            kinds, ends, MappingProxyType(ordered), encoder, below, mtp, tower, tower_ends
        )

    def kinds(self, layers: tuple[Layer, ...], prefix: str) -> tuple[LayerKind, ...]:
        """The kinds of layer in order of first appearance."""
        counted = Counter(layers)
        named = names_of(tuple(counted))
        out = []
        for layer, name in zip(counted, named, strict=True):
            count = symbol(f"{prefix}_{name}") if len(counted) > 1 else symbol(prefix)
            out.append(self.kind(layer, name or "layer", count, counted[layer]))
        return tuple(out)

    def kind(
        self,
        layer: Layer,
        name: str,
        count: Symbol,
        number: int,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> LayerKind:
        lines = self.fitted(renamed(layer_lines(layer, self.absorbed), names))
        return LayerKind(
            name,
            self.program(lines),
            count,
            number,
            self.reach(layer),
            lines.cached,
            lines.state,
            lines.tails,
            frozenset(lines.whole),
            layer,
        )

    def reach(self, layer: Layer) -> Reach:
        causal, window, chunk, keeps = reach_of(layer)
        return Reach(causal, self.named("S_w", window), self.named("S_c", chunk), keeps)

    def named(self, name: str, size: int | None) -> Symbol | None:
        """The symbol of a size, under a further name where the name is taken by another size."""
        return None if size is None else symbol(self.free(name, size))

    def free(self, dim: str, size: int) -> str:
        name, number = dim, 2
        while self.numbers.setdefault(name, size) != size:
            name, number = f"{dim}_{number}", number + 1
        return name

    def fitted(self, lines: Lines) -> Lines:
        """The lines, with a new name for a dim that has another size elsewhere in the model."""
        names = {}
        for dim, size in lines.sizes.items():
            name = self.free(dim, size)
            if name != dim:
                names[dim] = name
        if not names:
            return lines
        for dim, over in (("G", ("N", "K")), ("G_s", ("N_s", "K_s"))):
            if any(part in names for part in over) and all(part in lines.sizes for part in over):
                top, below = (symbol(names.get(part, part)) for part in over)
                names[dim] = (
                    f"{dim}_{names.get(over[0], over[0])}_{names.get(over[1], over[1])}".lower()
                )
                self.formulas[names[dim]] = top / below
        return renamed(lines, names)

    def tower(self) -> tuple[tuple[LayerKind, ...], Program | None]:
        """An image tower's layers and ends, in dims of their own."""
        spec = self.body.tower
        if spec is None:
            return (), None
        self.formulas |= IMAGE_SIZES
        counted = Counter(spec.layers)
        kinds = tuple(
            self.kind(layer, "image", symbol("L_img"), number, TOWER_NAMES)
            for layer, number in counted.items()
        )
        return kinds, self.program(self.fitted(renamed(tower_lines(spec), TOWER_NAMES)))

    def program(self, lines: Lines, ends: Ends | None = None) -> Program:
        if ends is not None:
            lines = self.fitted(lines)
        text = " ".join(lines.text)
        wanted = ("In", *lines.inputs)
        inputs = tuple(name for name in wanted if f"{name}[" in text)
        return program(*lines.text, inputs=inputs, fused=lines.fused, sizes=self.formulas)

    def mtp(self) -> tuple[LayerKind, ...]:
        """The modules' own part, and their layer: each as often as there are modules."""
        found = self.body.mtp
        if found is None:
            return ()
        count = symbol("L_mtp")
        layer = self.kind(found.layer, "mtp layer", count, found.modules)
        join = program(*mtp_lines(found.norm).text, inputs=mtp_lines("none").inputs, sizes=SIZES)
        return (replace(layer, name="mtp join", program=join, cached=()), layer)


def two_matmul_layer() -> Program:
    """The textbook's layer: two matmuls, nothing else.

    Source: How To Scale Your Model, "Training".

    >>> print(two_matmul_layer())
    In[B, D] · Win[D, F] -> Tmp[B, F]
    Tmp[B, F] · Wout[F, D] -> Out[B, D]
    """
    return program("In[B, D] * Win[D, F] -> Tmp[B, F]", "Tmp[B, F] * Wout[F, D] -> Out[B, D]")


def two_matmul_experts(capacity: Expr | int = 1) -> Program:
    """The same with experts: two matmuls each, the way there and back, no router.

    Args:
        capacity: slots over the even share of tokens (see :func:`decoder`).

    >>> two_matmul_experts().shard().forward.flops
    4*B*D*F*k
    """
    return program(
        "dispatch(SendIds[E, c], In[B, D]) -> Xe[E, c, D]",
        "Xe[E, c, D] * Win[E, D, F] -> Tmp[E, c, F]",
        "Tmp[E, c, F] * Wout[E, F, D] -> Ye[E, c, D]",
        "combine(BackIds[B, k], Ye[E, c, D]) -> Yk[B, k, D]",
        "sum(Yk[B, k, D]; k) -> Out[B, D]",
        inputs=("In", "SendIds", "BackIds"),
        sizes=with_capacity(S(capacity)),
    )


def over_layers(
    kinds: tuple[LayerKind, ...], every: Symbol, count: Callable[[LayerKind], Expr]
) -> Expr:
    """A count summed over layers; what all their kinds share is written once, for all of them."""
    if not kinds:
        return S.Zero
    each = [set(Add.make_args(count(kind).expand())) for kind in kinds]
    common = set.intersection(*each)
    own = (kind.count * Add(*(terms - common)) for kind, terms in zip(kinds, each, strict=True))
    return every * Add(*common) + Add(*own)


def number_of(sizes: Mapping[Symbol, int], expr: Expr) -> int:
    """A formula of sizes as the whole number that it is."""
    return int(expr.xreplace(dict(sizes)) if expr is not S.Zero else 0)
