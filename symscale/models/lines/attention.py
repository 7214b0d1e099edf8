"""Softmax attention, of every kind, as lines of notation.

Dims: B tokens (b sequences of T queries, S keys), D width, N query heads, K key/value heads, G
query heads a key/value head, H head width. A second attention of the same layer (over an encoder's
output, S_x keys) has ``x`` behind the names of its arrays.
"""

from __future__ import annotations

from types import MappingProxyType

from symscale.models.blocks import Attention, Latent
from symscale.models.lines.common import Lines, linear, norm


def attention(spec: Attention, source: str, result: str) -> Lines:
    """Multi-head, grouped-query or multi-query attention.

    >>> from symscale.models.blocks import Attention
    >>> attention(Attention(8, 2, 64), "Xa", "Att").cached
    ('Keys', 'Vals')
    """
    x = "x" if spec.cross else ""
    value = "H" if spec.value_dim is None else "H_v"
    text = [*_queries(spec, source, x), *_keys(spec, source, x, value), *_core(spec, x, value)]
    out = f"O{x}"
    if spec.gate:
        text += _gate(spec, source, x, value)
        out = f"Og{x}"
    dims = (f"B, N, {value}", f"N, {value}, D", "B, D")
    text += linear(out, f"Wo{x}", result, dims, f"bo{x}" if "o" in spec.biases else None)
    sizes = {"N": spec.heads, "K": spec.kv_heads, "H": spec.head_dim}
    if spec.value_dim is not None:
        sizes["H_v"] = spec.value_dim
    kept = () if spec.shares_kv else (f"Keys{x}", f"Vals{x}")
    outside = (f"Keys{x}", f"Vals{x}") if spec.shares_kv else (("Enc",) if spec.cross else ())
    scores = (f"Scores0{x}",) if spec.sinks else ()
    fused = (*scores, f"Scores{x}", f"Probs{x}")
    return Lines(tuple(text), MappingProxyType(sizes), fused, outside, cached=kept)


def _queries(spec: Attention, source: str, x: str) -> list[str]:
    bias = f"bq{x}" if "q" in spec.biases else None
    text = linear(source, f"Wq{x}", f"Q{x}", ("B, D", "D, N, H", "B, N, H"), bias)
    last = f"Q{x}"
    if spec.qk_norm:
        over = {"head": "H", "heads": "N, H", "width": "N, H"}[spec.qk_norm]
        text += norm(spec.qk_norm_kind, last, f"Qn{x}", f"gq{x}", "B, N, H", over)
        last = f"Qn{x}"
    text.append(f"rope({last}[B, N, H]) -> Qr{x}[B, N, H]")
    text.append(f"Qr{x}[B, N, H] -> Qs{x}[b, T, K, G, H]")
    return text


def _keys(spec: Attention, source: str, x: str, value: str) -> list[str]:
    source, row = ("Enc", "B_x") if spec.cross else (source, "B")
    text = []
    if not spec.shares_kv:
        bias = f"bk{x}" if "k" in spec.biases else None
        text += linear(source, f"Wk{x}", f"Keys{x}", (f"{row}, D", "D, K, H", f"{row}, K, H"), None)
        if bias:
            text = [text[0].replace(f"-> Keys{x}", f"-> Keys0{x}")]
            text.append(f"Keys0{x}[{row}, K, H] + {bias}[K, H] -> Keys{x}[{row}, K, H]")
    last = f"Keys{x}"
    if spec.qk_norm and not spec.shares_kv:
        over = {"head": "H", "heads": "K, H", "width": "K, H"}[spec.qk_norm]
        text += norm(spec.qk_norm_kind, last, f"Kn{x}", f"gk{x}", f"{row}, K, H", over)
        last = f"Kn{x}"
    text.append(f"rope({last}[{row}, K, H]) -> Kr{x}[{row}, K, H]")
    return text + _values(spec, source, x, value, row)


def _values(spec: Attention, source: str, x: str, value: str, row: str) -> list[str]:
    seen = f"S_{x}" if x else "S"
    text = []
    if spec.keys_are_values:
        text.append(f"copy(Keys{x}[{row}, K, H]) -> Vals{x}[{row}, K, H]")
    elif not spec.shares_kv:
        raw = f"Vals0{x}" if "v" in spec.biases else f"Vals{x}"
        text.append(f"{source}[{row}, D] * Wv{x}[D, K, {value}] -> {raw}[{row}, K, {value}]")
        if "v" in spec.biases:
            dims = f"{row}, K, {value}"
            text.append(f"{raw}[{dims}] + bv{x}[K, {value}] -> Vals{x}[{dims}]")
    text.append(f"Kr{x}[{row}, K, H] -> Ks{x}[b, {seen}, K, H]")
    text.append(f"Vals{x}[{row}, K, {value}] -> Vs{x}[b, {seen}, K, {value}]")
    return text


def _core(spec: Attention, x: str, value: str) -> list[str]:
    seen = f"S_{x}" if x else "S"
    grid = f"b, K, G, T, {seen}"
    raw = f"Scores0{x}" if spec.sinks else f"Scores{x}"
    text = [f"Qs{x}[b, T, K, G, H] * Ks{x}[b, {seen}, K, H] -> {raw}[{grid}]"]
    if spec.sinks:
        # One more logit in each softmax; as an addition it has the sink's parameter and gradient.
        text.append(f"{raw}[{grid}] + Sink[K, G] -> Scores{x}[{grid}]")
    return [
        *text,
        f"softmax(Scores{x}[{grid}]; {seen}) -> Probs{x}[{grid}]",
        f"Probs{x}[{grid}] * Vs{x}[b, {seen}, K, {value}] -> Os{x}[b, T, K, G, {value}]",
        f"Os{x}[b, T, K, G, {value}] -> O{x}[B, N, {value}]",
    ]


def _gate(spec: Attention, source: str, x: str, value: str) -> list[str]:
    dims = "B, N" if spec.gate == "heads" else f"B, N, {value}"
    within = dims.removeprefix("B, ")
    return [
        f"{source}[B, D] * Wg{x}[D, {within}] -> Gate0{x}[{dims}]",
        f"silu(Gate0{x}[{dims}]) -> Gates0{x}[{dims}]",
        f"mul(O{x}[B, N, {value}], Gates0{x}[{dims}]) -> Og{x}[B, N, {value}]",
    ]


def latent(spec: Latent, source: str, result: str, absorbed: bool = False) -> Lines:
    """Multi-head latent attention.

    Plain, keys and values are made from the latent vector for every head; absorbed (the usual way
    to decode), the matrices that make them are applied to queries and outputs instead, and every
    head reads the latent vectors themselves.

    Source: DeepSeek-V2, https://arxiv.org/abs/2405.04434, section 2.1.
    """
    core = _absorbed() if absorbed else _naive()
    text = [
        *_latent_queries(spec, source),
        f"{source}[B, D] * Wdkv[D, R_kv] -> Ckv0[B, R_kv]",
        *_biased(spec, "Ckv0", "Ckv1", "bdkv", "R_kv"),
        f"rmsnorm({'Ckv1' if spec.bias else 'Ckv0'}[B, R_kv], gkv[R_kv]; R_kv) -> Ckv[B, R_kv]",
        f"{source}[B, D] * Wkr[D, H_r] -> Kr0[B, H_r]",
        *_biased(spec, "Kr0", "Kr1", "bkr", "H_r"),
        f"rope({'Kr1' if spec.bias else 'Kr0'}[B, H_r]) -> Kr[B, H_r]",
        "Kr[B, H_r] -> Krs[b, S, H_r]",
        *core,
        *linear("O", "Wo", result, ("B, N, H_v", "N, H_v, D", "B, D"), "bo" if spec.bias else None),
    ]
    index = _indexer(spec, source)
    sizes = {
        "N": spec.heads,
        "R_kv": spec.kv_rank,
        "H_n": spec.nope,
        "H_r": spec.rope,
        "H_v": spec.value_dim,
        **({} if spec.q_rank is None else {"R_q": spec.q_rank}),
        **index.sizes,
    }
    fused = ("Sn", "Sr", "Scores", "Probs", *index.fused)
    kept = ("Ckv", "Kr", *index.cached)
    return Lines(
        (*text, *index.text), MappingProxyType(sizes), fused, cached=kept, whole=index.whole
    )


def _biased(spec: Latent, source: str, result: str, bias: str, dim: str) -> list[str]:
    if not spec.bias:
        return []
    return [f"{source}[B, {dim}] + {bias}[{dim}] -> {result}[B, {dim}]"]


def _latent_queries(spec: Latent, source: str) -> list[str]:
    if spec.q_rank is None:
        text, made, dim = [], source, "D"
    else:
        text = [
            f"{source}[B, D] * Wdq[D, R_q] -> Cq0[B, R_q]",
            *_biased(spec, "Cq0", "Cq1", "bdq", "R_q"),
            f"rmsnorm({'Cq1' if spec.bias else 'Cq0'}[B, R_q], gcq[R_q]; R_q) -> Cq[B, R_q]",
        ]
        made, dim = "Cq", "R_q"
    return [
        *text,
        f"{made}[B, {dim}] * Wqn[{dim}, N, H_n] -> Qn[B, N, H_n]",
        f"{made}[B, {dim}] * Wqr[{dim}, N, H_r] -> Qr0[B, N, H_r]",
        "rope(Qr0[B, N, H_r]) -> Qr[B, N, H_r]",
        "Qr[B, N, H_r] -> Qrs[b, T, N, H_r]",
    ]


def _naive() -> list[str]:
    return [
        "Ckv[B, R_kv] * Wuk[R_kv, N, H_n] -> Kn[B, N, H_n]",
        "Ckv[B, R_kv] * Wuv[R_kv, N, H_v] -> Vals[B, N, H_v]",
        "Qn[B, N, H_n] -> Qns[b, T, N, H_n]",
        "Kn[B, N, H_n] -> Kns[b, S, N, H_n]",
        "Vals[B, N, H_v] -> Vs[b, S, N, H_v]",
        "Qns[b, T, N, H_n] * Kns[b, S, N, H_n] -> Sn[b, N, T, S]",
        *_softmax(),
        "Probs[b, N, T, S] * Vs[b, S, N, H_v] -> Os[b, T, N, H_v]",
        "Os[b, T, N, H_v] -> O[B, N, H_v]",
    ]


def _absorbed() -> list[str]:
    return [
        "Ckv[B, R_kv] -> Cs[b, S, R_kv]",
        "Qn[B, N, H_n] * Wuk[R_kv, N, H_n] -> Qc[B, N, R_kv]",
        "Qc[B, N, R_kv] -> Qcs[b, T, N, R_kv]",
        "Qcs[b, T, N, R_kv] * Cs[b, S, R_kv] -> Sn[b, N, T, S]",
        *_softmax(),
        "Probs[b, N, T, S] * Cs[b, S, R_kv] -> Oc[b, T, N, R_kv]",
        "Oc[b, T, N, R_kv] -> Ol[B, N, R_kv]",
        "Ol[B, N, R_kv] * Wuv[R_kv, N, H_v] -> O[B, N, H_v]",
    ]


def _softmax() -> list[str]:
    return [
        "Qrs[b, T, N, H_r] * Krs[b, S, H_r] -> Sr[b, N, T, S]",
        "Sn[b, N, T, S] + Sr[b, N, T, S] -> Scores[b, N, T, S]",
        "softmax(Scores[b, N, T, S]; S) -> Probs[b, N, T, S]",
    ]


def _indexer(spec: Latent, source: str) -> Lines:
    """The scorer of sparse attention: every query with every key, in few narrow heads.

    Source: DeepSeek-V3.2-Exp, https://github.com/deepseek-ai/DeepSeek-V3.2-Exp.
    """
    if spec.indexer is None:
        return Lines()
    made, dim = (source, "D") if spec.q_rank is None else ("Cq", "R_q")
    text = (
        f"{made}[B, {dim}] * Wiq[{dim}, N_i, H_i] -> Iq[B, N_i, H_i]",
        f"{source}[B, D] * Wik[D, H_i] -> Ik0[B, H_i]",
        "layernorm(Ik0[B, H_i], gi[H_i], bi[H_i]; H_i) -> Ik[B, H_i]",
        f"{source}[B, D] * Wiw[D, N_i] -> Iw[B, N_i]",
        "Iq[B, N_i, H_i] -> Iqs[b, T, N_i, H_i]",
        "Ik[B, H_i] -> Iks[b, S, H_i]",
        "Iw[B, N_i] -> Iws[b, T, N_i]",
        "Iqs[b, T, N_i, H_i] * Iks[b, S, H_i] -> Is[b, T, N_i, S]",
        "mul(Is[b, T, N_i, S], Iws[b, T, N_i]) -> Isw[b, T, N_i, S]",
        "sum(Isw[b, T, N_i, S]; N_i) -> Index[b, T, S]",
    )
    sizes = {"N_i": spec.indexer.heads, "H_i": spec.indexer.head_dim}
    return Lines(
        text,
        MappingProxyType(sizes),
        fused=("Is", "Isw", "Index"),
        cached=("Ik",),
        whole=("Is",),
    )
