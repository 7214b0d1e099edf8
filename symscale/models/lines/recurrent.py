"""Mixers that keep a state instead of keys and values, as lines of notation.

FLOPs are those of the recurrence itself: each token updates the state and reads it once. Kernels
that work chunk by chunk trade some of it for products within a chunk, which are not counted here.
Short convolutions run on the vector unit.

Dims: N_s heads (or channels) of the state, K_s groups of them that share a key, G_s heads a group,
H_s and P_s the state's two sides, J taps of the convolution.
"""

from __future__ import annotations

from types import MappingProxyType

from symscale.models.blocks import DeltaNet, GatedRecurrence, Lightning, Mamba, ShortConv
from symscale.models.lines.common import Lines, linear

_GRID = "B, K_s, G_s, H_s, P_s"


def delta_net(spec: DeltaNet, source: str, result: str) -> Lines:
    """The gated delta rule: what the state holds under a key is read, corrected, and written back.

    Source: https://arxiv.org/abs/2412.06464.
    """
    key, value = "K_s, H_s", "N_s, P_s"
    text = [
        f"{source}[B, D] * Wlq[D, {key}] -> Lq0[B, {key}]",
        f"{source}[B, D] * Wlk[D, {key}] -> Lk0[B, {key}]",
        f"{source}[B, D] * Wlv[D, {value}] -> Lv0[B, {value}]",
        f"{source}[B, D] * Wlz[D, {value}] -> Lz[B, {value}]",
        f"{source}[B, D] * Wlb[D, N_s] -> Lb[B, N_s]",
        f"{source}[B, D] * Wla[D, N_s] -> La0[B, N_s]",
        "La0[B, N_s] + sdt[N_s] -> La1[B, N_s]",
        "mul(La1[B, N_s], sA[N_s]) -> La[B, N_s]",
        *_conv("Lq0", "Convq", "Lq", key),
        *_conv("Lk0", "Convk", "Lk", key),
        *_conv("Lv0", "Convv", "Lv", value),
        f"mul(Lv[B, {value}], Lb[B, N_s]) -> Lvb[B, {value}]",
        f"mul(Lvb[B, {value}], La[B, N_s]) -> Lva[B, {value}]",
        f"Lva[B, {value}] -> Lvg[B, K_s, G_s, P_s]",
        f"Lk[B, {key}] * Before[{_GRID}] -> Told[B, K_s, G_s, P_s]",
        "Lvg[B, K_s, G_s, P_s] + Told[B, K_s, G_s, P_s] -> Err[B, K_s, G_s, P_s]",
        f"Lk[B, {key}] * Err[B, K_s, G_s, P_s] -> Upd[{_GRID}]",
        f"Before[{_GRID}] + Upd[{_GRID}] -> State[{_GRID}]",
        f"Lq[B, {key}] * State[{_GRID}] -> Read[B, K_s, G_s, P_s]",
        f"Read[B, K_s, G_s, P_s] -> Lo[B, {value}]",
        f"rmsnorm(Lo[B, {value}], gs[P_s]; P_s) -> Ln[B, {value}]",
        f"swiglu(Lz[B, {value}], Ln[B, {value}]) -> Lg[B, {value}]",
        f"Lg[B, {value}] * Wlo[N_s, P_s, D] -> {result}[B, D]",
    ]
    sizes = {
        "K_s": spec.key_heads,
        "N_s": spec.value_heads,
        "H_s": spec.key_dim,
        "P_s": spec.value_dim,
        "J": spec.taps,
    }
    return _made(text, sizes, tails=("Lq0", "Lk0", "Lv0"))


def _made(
    text: list[str],
    sizes: dict[str, int],
    state: tuple[str, ...] = ("State",),
    tails: tuple[str, ...] = (),
) -> Lines:
    on_chip = ("Before", "Upd", "State") if state else ()
    outside = (*(("Before",) if state else ()), *(("TapIds",) if tails else ()))
    return Lines(tuple(text), MappingProxyType(sizes), on_chip, outside, state=state, tails=tails)


def _conv(source: str, weight: str, result: str, dims: str, bias: str | None = None) -> list[str]:
    """A convolution over the last J tokens, channel by channel."""
    raw = f"{result}c"
    text = [
        f"lookup(TapIds[B, J], {source}[B, {dims}]) -> {result}w[B, J, {dims}]",
        f"mul({result}w[B, J, {dims}], {weight}[J, {dims}]) -> {result}m[B, J, {dims}]",
        f"sum({result}m[B, J, {dims}]; J) -> {raw}[B, {dims}]",
    ]
    if bias:
        text.append(f"{raw}[B, {dims}] + {bias}[{dims}] -> {raw}b[B, {dims}]")
        raw = f"{raw}b"
    return [*text, f"silu({raw}[B, {dims}]) -> {result}[B, {dims}]"]


def mamba(spec: Mamba, source: str, result: str) -> Lines:
    """A selective state-space block of the first or the second kind."""
    return _mamba1(spec, source, result) if spec.version == 1 else _mamba2(spec, source, result)


def _mamba2(spec: Mamba, source: str, result: str) -> Lines:
    """Keys and queries (called B and C there) are shared by the heads of a group.

    Source: https://arxiv.org/abs/2405.21060.
    """
    key, value = "K_s, H_s", "N_s, P_s"
    bias = {n: f"bs{n}" if spec.bias else None for n in "zvkqto"}
    conv = {n: f"bconv{n}" if spec.conv_bias else None for n in "vkq"}
    text = [
        *linear(source, "Wsz", "Sz", ("B, D", f"D, {value}", f"B, {value}"), bias["z"]),
        *linear(source, "Wsv", "Sv", ("B, D", f"D, {value}", f"B, {value}"), bias["v"]),
        *linear(source, "Wsk", "Sk", ("B, D", f"D, {key}", f"B, {key}"), bias["k"]),
        *linear(source, "Wsq", "Sq", ("B, D", f"D, {key}", f"B, {key}"), bias["q"]),
        *linear(source, "Wst", "St", ("B, D", "D, N_s", "B, N_s"), bias["t"]),
        "St[B, N_s] + sdt[N_s] -> St1[B, N_s]",
        "mul(St1[B, N_s], sA[N_s]) -> Rate[B, N_s]",
        *_conv("Sv", "Convv", "Vc", value, conv["v"]),
        *_conv("Sk", "Convk", "Kc", key, conv["k"]),
        *_conv("Sq", "Convq", "Qc", key, conv["q"]),
        f"mul(Vc[B, {value}], Rate[B, N_s]) -> Vr[B, {value}]",
        f"Vr[B, {value}] -> Vg[B, K_s, G_s, P_s]",
        f"Kc[B, {key}] * Vg[B, K_s, G_s, P_s] -> Upd[{_GRID}]",
        f"Before[{_GRID}] + Upd[{_GRID}] -> State[{_GRID}]",
        f"Qc[B, {key}] * State[{_GRID}] -> Read[B, K_s, G_s, P_s]",
        f"Read[B, K_s, G_s, P_s] -> Lo[B, {value}]",
        f"mul(Vc[B, {value}], sD[N_s]) -> Skip[B, {value}]",
        f"Lo[B, {value}] + Skip[B, {value}] -> Ls[B, {value}]",
        f"swiglu(Sz[B, {value}], Ls[B, {value}]) -> Lg[B, {value}]",
        f"rmsnorm(Lg[B, {value}], gs[{value}]; {value}) -> Ln[B, {value}]",
        *linear("Ln", "Wso", result, (f"B, {value}", f"{value}, D", "B, D"), bias["o"]),
    ]
    sizes = {
        "N_s": spec.heads,
        "P_s": spec.head_dim,
        "K_s": spec.groups,
        "H_s": spec.state,
        "J": spec.taps,
    }
    return _made(text, sizes, tails=("Sv", "Sk", "Sq"))


def _mamba1(spec: Mamba, source: str, result: str) -> Lines:
    """Every channel has a state of its own, decayed at its own rates.

    Source: https://arxiv.org/abs/2312.00752.
    """
    grid = "B, P_s, H_s"
    wide = ("B, D", "D, P_s", "B, P_s")
    bias = {n: f"bs{n}" if spec.bias else None for n in "zvo"}
    text = [
        *linear(source, "Wsz", "Sz", wide, bias["z"]),
        *linear(source, "Wsv", "Sv", wide, bias["v"]),
        *_conv("Sv", "Convv", "Vc", "P_s", "bconvv" if spec.conv_bias else None),
        "Vc[B, P_s] * Wsr[P_s, R_s] -> Step0[B, R_s]",
        "Vc[B, P_s] * Wsk[P_s, H_s] -> Kc0[B, H_s]",
        "Vc[B, P_s] * Wsq[P_s, H_s] -> Qc0[B, H_s]",
        *_inner(spec, "Step0", "Step", "gst", "R_s"),
        *_inner(spec, "Kc0", "Kc", "gsk", "H_s"),
        *_inner(spec, "Qc0", "Qc", "gsq", "H_s"),
        *linear("Step", "Wst", "Rate", ("B, R_s", "R_s, P_s", "B, P_s"), "sdt"),
        "mul(Vc[B, P_s], Rate[B, P_s]) -> Vr[B, P_s]",
        f"Vr[B, P_s] * Kc[B, H_s] -> Upd[{grid}]",
        f"mul(Before[{grid}], sA[P_s, H_s]) -> Decayed[{grid}]",
        f"Decayed[{grid}] + Upd[{grid}] -> State[{grid}]",
        f"State[{grid}] * Qc[B, H_s] -> Lo[B, P_s]",
        "mul(Vc[B, P_s], sD[P_s]) -> Skip[B, P_s]",
        "Lo[B, P_s] + Skip[B, P_s] -> Ls[B, P_s]",
        "swiglu(Sz[B, P_s], Ls[B, P_s]) -> Lg[B, P_s]",
        *linear("Lg", "Wso", result, ("B, P_s", "P_s, D", "B, D"), bias["o"]),
    ]
    sizes = {"P_s": spec.head_dim, "H_s": spec.state, "R_s": spec.step_rank, "J": spec.taps}
    return _made(text, sizes, tails=("Sv",))


def _inner(spec: Mamba, source: str, result: str, gain: str, dim: str) -> list[str]:
    if spec.inner_norms:
        return [f"rmsnorm({source}[B, {dim}], {gain}[{dim}]; {dim}) -> {result}[B, {dim}]"]
    return [f"copy({source}[B, {dim}]) -> {result}[B, {dim}]"]


def lightning(spec: Lightning, source: str, result: str) -> Lines:
    """Linear attention with one decay a head, a norm and a gate.

    Source: https://arxiv.org/abs/2501.08313.
    """
    row, grid = "N_s, H_s", "B, N_s, H_s, P_s"
    text = [
        *(
            f"{source}[B, D] * W{one}[D, {row}] -> {made}[B, {row}]"
            for one, made in (("lq", "Lq"), ("lk", "Lk"))
        ),
        f"{source}[B, D] * Wlv[D, N_s, P_s] -> Lv[B, N_s, P_s]",
        f"Lk[B, {row}] * Lv[B, N_s, P_s] -> Upd[{grid}]",
        f"Before[{grid}] + Upd[{grid}] -> State[{grid}]",
        f"Lq[B, {row}] * State[{grid}] -> Lo[B, N_s, P_s]",
        "rmsnorm(Lo[B, N_s, P_s], gs[N_s, P_s]; N_s, P_s) -> Ln[B, N_s, P_s]",
        f"{source}[B, D] * Wlz[D, N_s, P_s] -> Lz[B, N_s, P_s]",
        "swiglu(Lz[B, N_s, P_s], Ln[B, N_s, P_s]) -> Lg[B, N_s, P_s]",
        f"Lg[B, N_s, P_s] * Wlo[N_s, P_s, D] -> {result}[B, D]",
    ]
    return _made(text, {"N_s": spec.heads, "H_s": spec.head_dim, "P_s": spec.head_dim})


def short_conv(spec: ShortConv, source: str, result: str) -> Lines:
    """A convolution over the last tokens between two gates."""
    bias = {n: f"bs{n}" if spec.bias else None for n in "zvqo"}
    wide = ("B, D", "D, P_s", "B, P_s")
    text = [
        *linear(source, "Wsz", "Sz", wide, bias["z"]),
        *linear(source, "Wsv", "Sv", wide, bias["v"]),
        *linear(source, "Wsq", "Sq", wide, bias["q"]),
        "mul(Sz[B, P_s], Sv[B, P_s]) -> Sg[B, P_s]",
        *_conv("Sg", "Convv", "Vc", "P_s", "bconvv" if spec.bias else None),
        "mul(Sq[B, P_s], Vc[B, P_s]) -> Lg[B, P_s]",
        *linear("Lg", "Wso", result, ("B, P_s", "P_s, D", "B, D"), bias["o"]),
    ]
    return _made(text, {"P_s": spec.width, "J": spec.taps}, state=(), tails=("Sg",))


def gated_recurrence(spec: GatedRecurrence, source: str, result: str) -> Lines:
    """A gated linear recurrence whose gates are products within blocks of channels.

    Source: https://arxiv.org/abs/2402.19427.
    """
    state = "B, N_s, P_s"
    opened, taken = ("B, D", "D, N_s, P_s", state), ("B, D", "D, N_s, H_s", "B, N_s, H_s")
    text = [
        *linear(source, "Wsz", "Sz", opened, "bsz"),
        *linear(source, "Wsv", "Sv", taken, "bsv"),
        *_conv("Sv", "Convv", "Vc", "N_s, H_s", "bconvv"),
        f"Vc[B, N_s, H_s] * Wsi[N_s, H_s, P_s] -> Gi0[{state}]",
        f"Gi0[{state}] + bsi[N_s, P_s] -> Gi[{state}]",
        f"Vc[B, N_s, H_s] * Wsr[N_s, H_s, P_s] -> Gr0[{state}]",
        f"Gr0[{state}] + bsr[N_s, P_s] -> Gr[{state}]",
        f"mul(Gr[{state}], sA[N_s, P_s]) -> Rate[{state}]",
        f"mul(Before[{state}], Rate[{state}]) -> Decayed[{state}]",
        f"mul(Gi[{state}], Rate[{state}]) -> Upd[{state}]",
        f"Decayed[{state}] + Upd[{state}] -> State[{state}]",
        f"geglu(Sz[{state}], State[{state}]) -> Lg[{state}]",
        *linear("Lg", "Wso", result, (state, "N_s, P_s, D", "B, D"), "bso"),
    ]
    block = spec.width // spec.blocks
    sizes = {"N_s": spec.blocks, "H_s": block, "P_s": block, "J": spec.taps}
    return _made(text, sizes, tails=("Sv",))
