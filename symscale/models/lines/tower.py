"""An image tower's ends as lines of notation: patches in, tokens of the text model out.

Dims before they are renamed: D the tower's width, D_text the text model's, C numbers of a patch, P
rows of the table of positions.
"""

from __future__ import annotations

from types import MappingProxyType

from symscale.models.blocks import Tower
from symscale.models.lines.common import Lines, norm

#: What the tower's dims are called in a model, so that they are not taken for the text model's.
NAMES = MappingProxyType(
    {dim: f"{dim}_img" for dim in ("B", "b", "D", "F", "N", "K", "G", "H", "C", "P")}
    | {"T": "T_img", "S": "S_img", "D_text": "D", "D_o": "D_to", "M": "D_merged"}
)


def tower_lines(spec: Tower) -> Lines:
    """Patches to ``First``, and ``Last`` to the text model's width."""
    text = [*_before(spec), *_after(spec)]
    sizes = {"D": spec.width, "C": spec.patch}
    sizes |= {"P": spec.positions} if spec.positions else {}
    sizes |= {"M": spec.merged * spec.width} if spec.merged > 1 else {}
    inputs = ("Pixels", "PosIds", "Last", "Merged")
    return Lines(tuple(text), MappingProxyType(sizes), inputs=inputs)


def _before(spec: Tower) -> list[str]:
    raw = "Patches0" if spec.patch_bias else "Patches"
    text = [f"Pixels[B, C] * Wpatch[C, D] -> {raw}[B, D]"]
    if spec.patch_bias:
        text.append("Patches0[B, D] + bpatch[D] -> Patches[B, D]")
    last = "Patches"
    if spec.class_token:
        text.append(f"{last}[B, D] + first[D] -> Marked[B, D]")
        last = "Marked"
    if spec.positions:
        text.append("lookup(PosIds[B], Pos[P, D]) -> Placed[B, D]")
        text.append(f"{last}[B, D] + Placed[B, D] -> Seen[B, D]")
        last = "Seen"
    return text + norm(spec.before, last, "First", "gbefore", "B, D", "D")


def _after(spec: Tower) -> list[str]:
    text = norm(spec.after, "Last", "Xf", "gafter", "B, D", "D")
    last = "Xf" if text else "Last"
    more = norm(spec.joint_norm, last, "Xj", "gjoint", "B, D", "D")
    last = "Xj" if more else last
    text += more
    if spec.merged > 1:
        # Neighbouring patches side by side; how they are gathered moves no weight.
        text.append("Merged[B, M] * Wmerge[M, D] -> Fewer[B, D]")
        text.append(f"{last}[B, D] + Fewer[B, D] -> Xm[B, D]")
        last = "Xm"
    raw = "Joined0" if spec.joint_bias else "Joined"
    text.append(f"{last}[B, D] * Wjoin[D, D_text] -> {raw}[B, D_text]")
    if spec.joint_bias:
        text.append("Joined0[B, D_text] + bjoin[D_text] -> Joined[B, D_text]")
    if spec.joint == "two":
        raw = "Twice0" if spec.joint_bias else "Twice"
        text.append("gelu(Joined[B, D_text]) -> Between[B, D_text]")
        text.append(f"Between[B, D_text] * Wjoin2[D_text, D_o] -> {raw}[B, D_o]")
        if spec.joint_bias:
            text.append("Twice0[B, D_o] + bjoin2[D_o] -> Twice[B, D_o]")
    return text
