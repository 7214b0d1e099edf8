"""What a model is made of, as sizes and switches: the description between a config and programs.

No SymPy here: a configuration is read, checked and refused before anything heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: ``gain`` is a layer norm without bias; ``none`` has no weights, or is no norm at all.
NormKind: TypeAlias = Literal["rmsnorm", "layernorm", "gain", "none"]
#: What a norm of queries and keys is taken over: each head with one gain for all, each head with
#: its own gain, or all heads together.
QkNorm: TypeAlias = Literal["", "head", "heads", "width"]


@dataclass(frozen=True)
class Attention:
    """Softmax attention with keys and values of its own for every token.

    Attributes:
        heads: query heads.
        kv_heads: key/value heads; divides ``heads``.
        head_dim: width of a head's queries and keys; ``heads * head_dim`` need not be the width.
        value_dim: width of a head's values, where it differs.
        biases: which of ``q k v o`` have a bias.
        qk_norm: what queries and keys are normed over, if they are.
        qk_norm_kind: the kind of that norm.
        sinks: one learned logit a head that only takes probability away.
        window: how many keys a token sees at most (a sliding window), itself included.
        chunk: tokens see only keys of their own chunk of this length.
        gate: whether the output is multiplied by a gate of its own width (``heads``: one a head).
        keys_are_values: values are the keys before their norm; there is no value projection.
        shares_kv: keys and values are those of an earlier layer; there are none to project or keep.
        cross: keys and values come from an encoder's output.
        causal: whether a token sees only earlier keys.
        place: which of a model's head shapes this is, where it has several (``g``: global layers).
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int | None = None
    biases: str = ""
    qk_norm: QkNorm = ""
    qk_norm_kind: NormKind = "rmsnorm"
    sinks: bool = False
    window: int | None = None
    chunk: int | None = None
    gate: Literal["", "width", "heads"] = ""
    keys_are_values: bool = False
    shares_kv: bool = False
    cross: bool = False
    causal: bool = True
    place: str = ""


@dataclass(frozen=True)
class Indexer:
    """A small scorer that picks which keys the attention proper reads (sparse attention)."""

    heads: int
    head_dim: int
    keys: int


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: keys and values made from one low-rank vector a token.

    ``nope`` and ``rope`` are the parts of a head's queries and keys without and with rotation;
    ``q_rank`` is None where queries are projected in one step.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    nope: int
    rope: int
    value_dim: int
    bias: bool = False
    indexer: Indexer | None = None


@dataclass(frozen=True)
class Mlp:
    """A feed-forward block; ``biases`` names which of ``gate in out`` have one (``gio``)."""

    width: int
    gated: bool = True
    biases: str = ""
    activation: str = "silu"


@dataclass(frozen=True)
class Experts:
    """A mixture of experts.

    Attributes:
        experts: routed experts.
        per_token: routed experts that a token visits.
        width: one expert's feed-forward width.
        gated: whether experts have a gate.
        biases: which of an expert's matrices have a bias (``gio``).
        router_bias: whether the router has a bias.
        correction: whether the router keeps a per-expert bias that only steers the choice.
        shared: feed-forward width that every token visits, all shared experts together.
        shared_gate: whether the shared part is scaled by a gate of one number a token.
        latent: width that tokens are projected to before their experts, if they are.
    """

    experts: int
    per_token: int
    width: int
    gated: bool = True
    biases: str = ""
    activation: str = "silu"
    router_bias: bool = False
    correction: bool = False
    shared: int = 0
    shared_gate: bool = False
    latent: int | None = None


@dataclass(frozen=True)
class DeltaNet:
    """Linear attention by the gated delta rule: a state of key width by value width a head."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    taps: int


@dataclass(frozen=True)
class Mamba:
    """A selective state-space block; ``version`` 1 has its state per channel, 2 per head."""

    version: Literal[1, 2]
    heads: int
    head_dim: int
    groups: int
    state: int
    taps: int
    step_rank: int = 0
    conv_bias: bool = True
    bias: bool = False
    inner_norms: bool = False


@dataclass(frozen=True)
class Lightning:
    """Linear attention with a decay: a state of head width by head width a head."""

    heads: int
    head_dim: int


@dataclass(frozen=True)
class ShortConv:
    """A gated convolution over a few tokens."""

    width: int
    taps: int
    bias: bool = False


@dataclass(frozen=True)
class GatedRecurrence:
    """A gated linear recurrence of one number a channel, behind a short convolution."""

    width: int
    blocks: int
    taps: int


Mixer: TypeAlias = Attention | Latent | DeltaNet | Mamba | Lightning | ShortConv | GatedRecurrence
Part: TypeAlias = Mixer | Mlp | Experts


@dataclass(frozen=True)
class Residual:
    """Parts added to the residual stream together, with the norms around them.

    ``pre`` norms what the parts read (``own_norms``: each part has its own), ``post`` what they
    give before it is added, ``after`` the sum.
    """

    parts: tuple[Part, ...]
    pre: NormKind = "rmsnorm"
    post: NormKind = "none"
    after: NormKind = "none"
    own_norms: bool = False


@dataclass(frozen=True)
class Layer:
    """One layer: residual blocks in order."""

    blocks: tuple[Residual, ...]

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts, in order."""
        return tuple(part for block in self.blocks for part in block.parts)


@dataclass(frozen=True)
class Mtp:
    """Modules that predict further tokens: a layer of the model's own kind behind a projection."""

    modules: int
    layer: Layer
    norm: NormKind = "rmsnorm"


@dataclass(frozen=True)
class Ends:
    """What stands before the first layer and after the last.

    Attributes:
        vocab: rows of the embedding as stored.
        tied: whether the output head is the input embedding.
        positions: rows of a table of learned positions.
        token_types: rows of a table of token types.
        embed_width: width of the embedding where it is not the model's (projected in and out).
        embed_norm: the norm of the embedded tokens.
        final_norm: the norm after the last layer.
        head: whether there is an output head.
        head_bias: whether it has a bias.
        transform: the kind of norm of a dense layer before the head (masked language models).
        pooler: whether there is a dense layer on the first token.
        buckets: rows of a table of relative positions (one number a head).
    """

    vocab: int
    tied: bool
    positions: int = 0
    token_types: int = 0
    embed_width: int | None = None
    embed_norm: NormKind = "none"
    final_norm: NormKind = "rmsnorm"
    head: bool = True
    head_bias: bool = False
    transform: NormKind | None = None
    pooler: bool = False
    buckets: int = 0


@dataclass(frozen=True)
class Tower:
    """An image tower beside a text model, and what joins them: its parameters are counted.

    Attributes:
        width: the tower's width.
        layers: its layers, in order.
        patch: numbers in one patch of the picture.
        positions: rows of its table of positions; 0: it has none.
        patch_bias: whether the patches' projection has a bias.
        class_token: whether there is a learned token beside the patches.
        before: the norm before the first layer.
        after: the norm after the last.
        joint: what leads to the text model: one matrix, two, or two behind a norm and a merger of
            neighbouring patches.
        joint_norm: the norm before it.
        joint_bias: whether its matrices have biases.
        merged: patches that are merged into one token.
    """

    width: int
    layers: tuple[Layer, ...]
    patch: int
    positions: int = 0
    patch_bias: bool = True
    class_token: bool = False
    before: NormKind = "none"
    after: NormKind = "none"
    joint: Literal["one", "two"] = "one"
    joint_norm: NormKind = "none"
    joint_bias: bool = True
    merged: int = 1


@dataclass(frozen=True)
class Body:
    """A whole model: the layers in order, the ends, and what stands beside them."""

    width: int
    layers: tuple[Layer, ...]
    ends: Ends
    context: int | None = None
    mtp: Mtp | None = None
    encoder: tuple[Layer, ...] = ()
    encoder_ends: Ends | None = None
    tower: Tower | None = None
    notes: tuple[str, ...] = field(default=())

    def find(self, kind: type[Part] | tuple[type[Part], ...]) -> tuple[Part, ...]:
        """All parts of a kind, layer by layer."""
        return tuple(p for layer in self.layers for p in layer.parts if isinstance(p, kind))
