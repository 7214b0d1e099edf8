"""Layers and ends as programs, from their description."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from sympy import Expr

from symscale.algebra.symbols import B, E, K, N, T, k, symbol
from symscale.models.blocks import (
    Attention,
    DeltaNet,
    Ends,
    Experts,
    GatedRecurrence,
    Latent,
    Layer,
    Lightning,
    Mamba,
    Mlp,
    Part,
    Residual,
    ShortConv,
)
from symscale.models.lines.attention import attention, latent
from symscale.models.lines.common import Lines, joined, norm
from symscale.models.lines.feed import experts, mlp
from symscale.models.lines.recurrent import (
    delta_net,
    gated_recurrence,
    lightning,
    mamba,
    short_conv,
)

#: How dims that are not symbols of their own follow from those that are. In self-attention the keys
#: are as many as the queries; an encoder's sequences are as long as the decoder's.
SIZES: Mapping[str, Expr] = MappingProxyType(
    {
        "b": B / T,
        "G": N / K,
        "S": T,
        "S_x": T,
        "B_x": B,
        "c": B * k / E,
        "G_s": symbol("N_s") / symbol("K_s"),
        "D_o": symbol("D"),
    }
)

#: The same for an image tower's dims.
IMAGE_SIZES: Mapping[str, Expr] = MappingProxyType(
    {
        "b_img": symbol("B_img") / symbol("T_img"),
        "S_img": symbol("T_img"),
        "G_img": symbol("N_img") / symbol("K_img"),
        "D_to": symbol("D"),
    }
)

_MIXERS = MappingProxyType(
    {
        Attention: attention,
        Latent: latent,
        DeltaNet: delta_net,
        Mamba: mamba,
        Lightning: lightning,
        ShortConv: short_conv,
        GatedRecurrence: gated_recurrence,
    }
)


def with_capacity(factor: Expr) -> Mapping[str, Expr]:
    """The sizes when experts work on padded buffers, ``factor`` times their even share."""
    return MappingProxyType({**SIZES, "c": factor * B * k / E})


def layer_lines(layer: Layer, absorbed: bool = False) -> Lines:
    """All lines of a layer, from ``In`` to ``Out``.

    The blocks of the usual plan read Xa and give Att, read Xm and give Mlp; the stream between them
    is Mid.
    """
    pieces, source = [], "In"
    for number, block in enumerate(layer.blocks, 1):
        last = number == len(layer.blocks)
        result = "Out" if last else ("Mid" if number == 1 else f"Mid{number}")
        pieces.append(_block(block, source, result, number, absorbed))
        source = result
    return joined(pieces)


def _is_feed(part: Part) -> bool:
    return isinstance(part, Mlp | Experts)


def _out(part: Part) -> str:
    if _is_feed(part):
        return "Mlp"
    return "Attx" if isinstance(part, Attention) and part.cross else "Att"


def _block(block: Residual, source: str, result: str, number: int, absorbed: bool) -> Lines:
    pieces, sums = [], [source]
    normed = ""
    for position, part in enumerate(block.parts):
        out = _out(part)
        if position == 0 or block.own_norms:
            seen = {"Mlp": "Xm", "Att": "Xa", "Attx": "Xx"}[out]
            gain = f"g{number}" if position == 0 else f"g{number}p"
            text = norm(block.pre, source, seen, gain, "B, D", "D")
            pieces.append(Lines(tuple(text)))
            normed = seen if text else source
        given = f"{out}0" if block.post != "none" else out
        pieces.append(_part(part, normed, given, absorbed))
        text = norm(block.post, given, out, f"g{number}o", "B, D", "D")
        pieces.append(Lines(tuple(text)))
        sums.append(out)
    return joined([*pieces, Lines(tuple(_added(sums, result, block, number)))])


def _part(part: Part, source: str, out: str, absorbed: bool) -> Lines:
    if isinstance(part, Mlp):
        return mlp(part, source, out)
    if isinstance(part, Experts):
        return experts(part, source, out)
    if isinstance(part, Latent):
        return latent(part, source, out, absorbed)
    made: Lines = _MIXERS[type(part)](part, source, out)  # type: ignore[operator]
    return made


def _added(sums: list[str], result: str, block: Residual, number: int) -> list[str]:
    """The stream plus what the parts give, and the norm of the sum if there is one."""
    target = f"{result}0" if block.after != "none" else result
    text, before = [], sums[0]
    for position, one in enumerate(sums[1:], 1):
        name = target if position == len(sums) - 1 else f"{target}{position}"
        text.append(f"{before}[B, D] + {one}[B, D] -> {name}[B, D]")
        before = name
    return text + norm(block.after, target, result, f"g{number}a", "B, D", "D")


def ends_lines(ends: Ends, width: int) -> Lines:
    """Embedding and head: ``Ids`` become ``First``, ``Last`` becomes ``Logits``."""
    pieces = [_embedding(ends), _final(ends)]
    sizes = {"V": ends.vocab, "D": width}
    sizes |= {"T_max": ends.positions} if ends.positions else {}
    sizes |= {"V_t": ends.token_types} if ends.token_types else {}
    sizes |= {"D_e": ends.embed_width} if ends.embed_width else {}
    sizes |= {"N_b": ends.buckets} if ends.buckets else {}
    text = tuple(line for piece in pieces for line in piece)
    outside = ["Ids", "Last"]
    outside += ["PosIds"] if ends.positions else []
    outside += ["TypeIds"] if ends.token_types else []
    outside += ["BucketIds"] if ends.buckets else []
    outside += ["LeadIds"] if ends.pooler else []
    return Lines(text, MappingProxyType(sizes), inputs=tuple(outside))


def _embedding(ends: Ends) -> list[str]:
    """Tokens, positions and types looked up and added; a narrow embedding is widened first."""
    wide = "D_e" if ends.embed_width else "D"
    text = [f"lookup(Ids[B], Emb[V, {wide}]) -> Word[B, {wide}]"]
    last = "Word"
    if ends.embed_width:
        text.append("Word[B, D_e] * Widen[D_e, D] -> Wide[B, D]")
        last = "Wide"
    for ids, table, rows in (("PosIds", "Pos", "T_max"), ("TypeIds", "Types", "V_t")):
        if (ends.positions, ends.token_types)[ids == "TypeIds"]:
            text.append(f"lookup({ids}[B], {table}[{rows}, D]) -> {table}s[B, D]")
            text.append(f"{last}[B, D] + {table}s[B, D] -> With{table}[B, D]")
            last = f"With{table}"
    if ends.embed_norm != "none":
        text += norm(ends.embed_norm, last, "Normed", "ge", "B, D", "D")
        last = "Normed"
    # What the first layer reads is called First whatever stands before it.
    text[-1] = _retitled(text[-1], last)
    if ends.buckets:
        text.append("lookup(BucketIds[T, S], Bias[N_b, N]) -> Biases[T, S, N]")
    return text


def _retitled(line: str, name: str) -> str:
    left, _, right = line.rpartition("-> ")
    return f"{left}-> {right.replace(name, 'First', 1)}"


def _final(ends: Ends) -> list[str]:
    text = norm(ends.final_norm, "Last", "Xf", "gf", "B, D", "D")
    last = "Xf" if text else "Last"
    if ends.pooler:
        # One token of each sequence.
        text.append("lookup(LeadIds[b], Last[B, D]) -> Lead[b, D]")
        text.append("Lead[b, D] * Wpool[D, D_o] -> Pool0[b, D_o]")
        text.append("Pool0[b, D_o] + bpool[D_o] -> Pool[b, D_o]")
    if ends.transform is not None:
        text.append("Last[B, D] * Wtrans[D, D_o] -> Tr0[B, D_o]")
        text.append("Tr0[B, D_o] + btrans[D_o] -> Tr1[B, D_o]")
        text += norm(ends.transform, "Tr1", "Tr2", "gt", "B, D_o", "D_o")
        text.append("Tr2[B, D_o] -> Xt[B, D]")
        last = "Xt"
    if not ends.head:
        return text
    dims, wide = "B, D", "D"
    if ends.embed_width:
        text.append(f"{last}[B, D] * Narrow[D, D_e] -> Xn[B, D_e]")
        last, dims, wide = "Xn", "B, D_e", "D_e"
    table = "Emb" if ends.tied else "Head"
    raw = "Logits0" if ends.head_bias else "Logits"
    text.append(f"{last}[{dims}] * {table}[V, {wide}] -> {raw}[B, V]")
    if ends.head_bias:
        text.append("Logits0[B, V] + bhead[V] -> Logits[B, V]")
    return text


def mtp_lines(kind: str) -> Lines:
    """What stands before the layer of a multi-token-prediction module, and the norm after it.

    Source: DeepSeek-V3, https://arxiv.org/abs/2412.19437, section 2.2.
    """
    text = [
        *norm("rmsnorm", "Next", "Xe", "gmtpe", "B, D", "D"),
        *norm("rmsnorm", "Hidden", "Xh", "gmtph", "B, D", "D"),
        "Xe[B, D] * Wmtpe[D, D_o] -> Je[B, D_o]",
        "Xh[B, D] * Wmtph[D, D_o] -> Jh[B, D_o]",
        "Je[B, D_o] + Jh[B, D_o] -> Joined[B, D_o]",
        *norm("rmsnorm" if kind == "none" else kind, "Ahead", "Xf", "gmtpf", "B, D", "D"),  # type: ignore[arg-type]
    ]
    return Lines(tuple(text), inputs=("Next", "Hidden", "Ahead"))
