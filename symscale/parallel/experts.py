"""Expert parallelism: how a strategy with an ``expert`` role deals out experts.

Experts lie on mesh axes that are carved out of those that other roles use, or that stand beside
them. An axis that no other role has is one more data axis for everything but experts: tokens are
split over it behind the data axes (so that taking it off again is one AllToAll), and weights that
all tokens meet are replicated or sharded over it as over data axes. An axis shared with the
``tensor`` role gives a device whole experts in place of parts of each; tensor ranks that are no
expert ranks are data ranks then, for experts alone.

Sources: GShard, https://arxiv.org/abs/2006.16668; DeepSpeed-MoE, https://arxiv.org/abs/2201.05596,
section 4.1 (experts on data ranks); Megatron-Core MoE, https://arxiv.org/abs/2504.14960 (expert
ranks folded over data, context and tensor ranks).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ROLE = "expert"

#: Roles whose mesh axes experts may share.
SHARED = ("data", "context", "tensor")

#: The dim of experts.
EXPERTS = "E"

#: Slots of experts, and the dim of tokens that each lies as.
SLOTS: Mapping[str, str] = MappingProxyType({"c": "B"})

#: What a token says of experts: a chance of each, or those it chose.
_CHOICES = frozenset((EXPERTS, "k"))


def data_axes(axes: Mapping[str, tuple[str, ...]], role: str) -> tuple[str, ...]:
    """The mesh axes of a role; an expert axis of its own is a data axis for tokens and weights.

    >>> data_axes({"data": ("X",), "expert": ("Z", "Y"), "tensor": ("Y",)}, "data")
    ('X', 'Z')
    """
    held = axes.get(role, ())
    if role != "data":
        return held
    others = {name for other, group in axes.items() if other != ROLE for name in group}
    return held + tuple(name for name in axes.get(ROLE, ()) if name not in others)


def seen_by(
    axes: Mapping[str, tuple[str, ...]], labels: tuple[str, ...]
) -> Mapping[str, tuple[str, ...]]:
    """The axes of each role as an array meets them: experts on tensor ranks are whole, and the
    other tensor ranks are data ranks for them.

    >>> axes = {"data": ("X",), "tensor": ("Y", "U"), "expert": ("Y",)}
    >>> seen_by(axes, ("E", "D", "F_e"))
    {'data': ('X', 'U'), 'tensor': (), 'expert': ('Y',)}
    >>> seen_by(axes, ("D", "F"))["tensor"]
    ('Y', 'U')
    """
    own, tensor = axes.get(ROLE, ()), axes.get("tensor", ())
    if not (by_expert(labels) and set(own) & set(tensor)):
        return axes
    rest = tuple(name for name in tensor if name not in own)
    return {**axes, "data": axes.get("data", ()) + rest, "tensor": ()}


def slots_of(tokens: tuple[str, ...], axes: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The axes of tokens in the order in which slots carry them: experts' own behind the others, so
    that they leave in one AllToAll.

    >>> slots_of(("X", "Z", "Y"), {"expert": ("Z",)})
    ('X', 'Y', 'Z')
    """
    own = tuple(name for name in axes.get(ROLE, ()) if name in tokens)
    return tuple(name for name in tokens if name not in own) + own


def unmixed(
    labels: tuple[str, ...],
    placing: Mapping[str, tuple[str, ...]],
    axes: Mapping[str, tuple[str, ...]],
) -> tuple[str, ...]:
    """Axes along which what a token's experts made is a partial sum: those of experts on which the
    token itself lies whole. It is reduced when its experts' results are added up, not before.

    >>> unmixed(("B", "k", "D"), {"B": ("X",)}, {"data": ("X",), "expert": ("Y",)})
    ('Y',)
    """
    if not ("k" in labels and len(labels) > 2):
        return ()
    used = {name for held in placing.values() for name in held}
    return tuple(name for name in axes.get(ROLE, ()) if name not in used)


def by_expert(labels: tuple[str, ...]) -> bool:
    """Whether an array has a part for each expert: its matrices, its tokens, what it makes of them.

    The router's matrix and scores have a column for each expert, which is no part of it.

    >>> by_expert(("E", "D", "F_e")), by_expert(("D", "E")), by_expert(("E", "c"))
    (True, False, False)
    """
    return labels[:1] == (EXPERTS,) and any(label not in SLOTS for label in labels[1:])


def is_choice(labels: tuple[str, ...]) -> bool:
    """Whether an array says which experts tokens go to; it lies as the tokens do.

    >>> is_choice(("B", "E")), is_choice(("B", "k")), is_choice(("E", "c")), is_choice(("B", "F"))
    (True, True, True, False)
    """
    return not by_expert(labels) and bool(_CHOICES.intersection(labels))
