"""Feed-forward blocks and mixtures of experts as lines of notation.

Dims: F feed-forward width, E experts of width F_e, k experts a token, c slots an expert, F_s width
of the shared experts together. Tokens reach their experts' slots and come back without FLOPs.
"""

from __future__ import annotations

from types import MappingProxyType

from symscale.models.blocks import Experts, Mlp
from symscale.models.lines.common import Lines, activated, linear


def mlp(spec: Mlp, source: str, result: str) -> Lines:
    """A dense block, gated or not."""
    text = _dense(source, result, ("Wgate", "Win", "Wout"), "F", spec)
    return Lines(tuple(text), MappingProxyType({"F": spec.width}))


def _dense(
    source: str, result: str, names: tuple[str, str, str], dim: str, spec: Mlp | Experts
) -> list[str]:
    gate, up, down = names
    tag = "" if up == "Win" else up[0]
    within, inside = f"D, {dim}", f"B, {dim}"
    text = []
    if spec.gated:
        bias = "bgate" if "g" in spec.biases and not tag else None
        text += linear(source, gate, f"Gate{tag}", ("B, D", within, inside), bias)
    bias = "bin" if "i" in spec.biases and not tag else None
    text += linear(source, up, f"Up{tag}", ("B, D", within, inside), bias)
    opened = f"Gate{tag}" if spec.gated else None
    text.append(activated(spec.activation, opened, f"Up{tag}", f"Act{tag}", inside))
    bias = "bout" if "o" in spec.biases and not tag else None
    return text + linear(f"Act{tag}", down, result, (inside, f"{dim}, D", "B, D"), bias)


def experts(spec: Experts, source: str, result: str) -> Lines:
    """Routed experts, and the shared ones beside them.

    Every expert gets the same number of tokens c = B k / E (times a capacity factor): the cost of
    balanced routing, or of padded buffers.
    """
    routed = "Routed" if spec.shared else result
    text = [*_router(spec, source), *_routed(spec, source, routed)]
    if spec.shared:
        text += _shared(spec, source)
        text.append(f"Routed[B, D] + Shared[B, D] -> {result}[B, D]")
    sizes = {"E": spec.experts, "k": spec.per_token, "F_e": spec.width}
    sizes |= {"F_s": spec.shared} if spec.shared else {}
    sizes |= {"D_l": spec.latent} if spec.latent else {}
    ids = ("PickIds", "SendIds", "BackIds")
    return Lines(tuple(text), MappingProxyType(sizes), inputs=ids)


def _router(spec: Experts, source: str) -> list[str]:
    bias = "br" if spec.router_bias else None
    text = linear(source, "Wr", "Route", ("B, D", "D, E", "B, E"), bias)
    last = "Route"
    if spec.correction:
        text.append("Route[B, E] + bc[E] -> Steered[B, E]")
        last = "Steered"
    return [
        *text,
        f"softmax({last}[B, E]; E) -> Chances[B, E]",
        "pick(PickIds[B, k], Chances[B, E]) -> Picked[B, k]",
    ]


def _routed(spec: Experts, source: str, result: str) -> list[str]:
    wide = "D"
    text = []
    if spec.latent:
        text.append(f"{source}[B, D] * Wlat[D, D_l] -> Xl[B, D_l]")
        source, wide = "Xl", "D_l"
    text.append(f"dispatch(SendIds[E, c], {source}[B, {wide}]) -> Xe[E, c, {wide}]")
    rows, inside = f"E, c, {wide}", "E, c, F_e"
    if spec.gated:
        text += _expert(spec, "g", "Xe", "Egate", "Ge", rows, inside)
    text += _expert(spec, "i", "Xe", "Ein", "Ue", rows, inside)
    text.append(activated(spec.activation, "Ge" if spec.gated else None, "Ue", "Ae", inside))
    text += _expert(spec, "o", "Ae", "Eout", "Ye", inside, rows)
    mixed = "Ml" if spec.latent else result
    text += [
        f"combine(BackIds[B, k], Ye[{rows}]) -> Yk[B, k, {wide}]",
        f"mul(Yk[B, k, {wide}], Picked[B, k]) -> Yw[B, k, {wide}]",
        f"sum(Yw[B, k, {wide}]; k) -> {mixed}[B, {wide}]",
    ]
    if spec.latent:
        text.append(f"Ml[B, D_l] * Wwide[D_l, D] -> {result}[B, D]")
    return text


def _expert(
    spec: Experts, which: str, source: str, weight: str, result: str, before: str, after: str
) -> list[str]:
    """One of the experts' products, all experts at once, with their biases."""
    inner, outer = before.split(", ")[-1], after.split(", ")[-1]
    raw = f"{result}0" if which in spec.biases else result
    text = [f"{source}[{before}] * {weight}[E, {inner}, {outer}] -> {raw}[{after}]"]
    if which in spec.biases:
        text.append(f"{raw}[{after}] + b{weight}[E, {outer}] -> {result}[{after}]")
    return text


def _shared(spec: Experts, source: str) -> list[str]:
    out = "Shared0" if spec.shared_gate else "Shared"
    text = _dense(source, out, ("Sgate", "Sin", "Sout"), "F_s", _shared_spec(spec))
    if spec.shared_gate:
        text += [
            f"{source}[B, D] * Wsg[D] -> Open0[B]",
            "silu(Open0[B]) -> Open[B]",
            "mul(Shared0[B, D], Open[B]) -> Shared[B, D]",
        ]
    return text


def _shared_spec(spec: Experts) -> Mlp:
    return Mlp(spec.shared, spec.gated, activation=spec.activation)
