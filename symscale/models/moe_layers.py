"""Which layers have experts, by the four conventions of "every n-th layer" that are in use."""

from __future__ import annotations

from collections.abc import Iterable

from symscale.algebra.errors import ModelError, near

CONVENTIONS = ("qwen", "llama4", "deepseek", "megatron")


def moe_layers(
    convention: str,
    layers: int,
    step: int,
    *,
    first_dense: int = 0,
    dense: Iterable[int] = (),
) -> tuple[int, ...]:
    """The indices of the layers with experts.

    They differ where the number of layers is not a multiple of the step:

    - ``qwen``: index + 1 is a multiple of the step, and the layer is not listed in ``dense``;
    - ``llama4``: from index step - 1 on, every step-th;
    - ``deepseek``: not among the first ``first_dense``, and the index is a multiple of the step;
    - ``megatron``: the index is a multiple of the step.

    Raises:
        ModelError: another convention, or a step that is not above zero.

    >>> moe_layers("qwen", 5, 2), moe_layers("megatron", 5, 2)
    ((1, 3), (0, 2, 4))
    """
    if convention not in CONVENTIONS:
        hint = near(convention, CONVENTIONS)
        raise ModelError(f"convention {convention!r} is none of {', '.join(CONVENTIONS)}{hint}")
    if step < 1:
        raise ModelError(f"a step of {step} layers; it must be at least 1")
    if convention == "llama4":
        return tuple(range(step - 1, layers, step))
    if convention == "qwen":
        skipped = frozenset(dense)
        return tuple(i for i in range(layers) if (i + 1) % step == 0 and i not in skipped)
    first = first_dense if convention == "deepseek" else 0
    return tuple(i for i in range(first, layers) if i % step == 0)
