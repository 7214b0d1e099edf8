"""The way to experts and back as JAX: gathers and additions within groups of tokens.

On whole arrays, for XLA's partitioner, groups are a batch dim (as in GShard), so that it sees that
none of them needs another's tokens. On one device's part there is one group: its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from symscale.programs.phase import Compute
from symscale.programs.routing import Combine, Dispatch, Pick, Routed
from symscale.xla.emit_setting import XlaError

if TYPE_CHECKING:
    from symscale.xla.emit_ops import Writer

TEXTS = (
    '''
def dispatched(ids, rows, groups):
    """Tokens into slots [experts, slots, ...], each group's own."""
    split = rows.reshape(groups, -1, *rows.shape[1:])
    place = ids.reshape(ids.shape[0], groups, -1) % split.shape[1]
    one = lambda ids, rows: jnp.take(rows, ids, axis=0, mode="clip")
    made = jax.vmap(one, in_axes=(1, 0), out_axes=1)(place, split)
    return made.reshape(*ids.shape, *rows.shape[1:])
''',
    '''
def dispatched_reverse(ids, grad, shape, groups):
    """Gradients of slots added up for the tokens [tokens, ...] that they hold."""
    count = shape[0] // groups
    place = ids.reshape(ids.shape[0], groups, -1) % count
    split = grad.reshape(*place.shape, *grad.shape[2:])
    one = lambda ids, grad: jnp.zeros((count, *shape[1:]), grad.dtype).at[ids].add(grad)
    return jax.vmap(one, in_axes=(1, 1))(place, split).reshape(shape)
''',
    '''
def combined(ids, rows, groups):
    """Rows of slots [experts, slots, ...] for each token's choices, each group's own."""
    split = rows.reshape(rows.shape[0], groups, -1, *rows.shape[2:])
    place = ids.reshape(groups, -1, ids.shape[1])
    expert, slot = place // rows.shape[1], place % split.shape[2]
    one = lambda expert, slot, rows: rows.at[expert, slot].get(mode="clip")
    made = jax.vmap(one, in_axes=(0, 0, 1))(expert, slot, split)
    return made.reshape(*ids.shape, *rows.shape[2:])
''',
    '''
def combined_reverse(ids, grad, shape, groups):
    """Gradients of tokens' choices added into the slots that they came from."""
    count = shape[1] // groups
    place = ids.reshape(groups, -1, ids.shape[1])
    split = grad.reshape(*place.shape, *grad.shape[2:])
    expert, slot = place // shape[1], place % count
    zero = lambda grad: jnp.zeros((shape[0], count, *shape[2:]), grad.dtype)
    one = lambda expert, slot, grad: zero(grad).at[expert, slot].add(grad)
    return jax.vmap(one, out_axes=1)(expert, slot, split).reshape(shape)
''',
    '''
def slots_here(ids, count, shape, expert, slot):
    """Ids of slots, ``count`` an expert, as places in a device's part; -1 for another expert's."""
    at, place = ids // count - expert, ids % count - slot
    here = (at >= 0) & (at < shape[0])
    return jnp.where(here, at * shape[1] + place, -1)
''',
    '''
def columns(ids, first, count):
    """Ids of columns as places in a device's part, and whether they lie there."""
    place = ids - first
    here = (place >= 0) & (place < count)
    return jnp.where(here, place, 0), here
''',
    '''
def picked(ids, rows, first):
    """Of each row the columns that its ids name."""
    place, here = columns(ids, first, rows.shape[1])
    one = lambda ids, row: row.at[ids].get(mode="clip")
    made = jax.vmap(one)(place, rows)
    return jnp.where(here, made, jnp.zeros_like(made))
''',
    '''
def picked_reverse(ids, grad, shape, first):
    """Gradients of picks added into the columns that they came from."""
    place, here = columns(ids, first, shape[1])
    one = lambda ids, grad: jnp.zeros(shape[1:], grad.dtype).at[ids].add(grad)
    return jax.vmap(one)(place, jnp.where(here, grad, jnp.zeros_like(grad)))
''',
)


def routed_source(writer: Writer, op: Pick | Routed, step: Compute, operands: Sequence[str]) -> str:
    """The op as an expression.

    Raises:
        XlaError: for slots that lie in another order than tokens, on whole arrays.
    """
    far = step.output if op.reverse else step.inputs[1]
    shape = [str(writer.shape(step.output))] if op.reverse else []
    name = {Pick: "picked", Dispatch: "dispatched", Combine: "combined"}[type(op)]
    name += "_reverse" if op.reverse else ""
    if isinstance(op, Pick):
        return writer.call(name, *operands, *shape, writer.first(far, op.row))
    if not writer.local:
        return writer.call(name, *operands, *shape, str(_groups(writer, op, step)))
    if isinstance(op, Dispatch):
        first = writer.first(far, op.tokens)
        if op.reverse:
            return writer.call("scattered", *operands, *shape, first)
        return writer.call("taken", operands[1], operands[0], first)
    return _combined_here(writer, op, step, operands)


def _combined_here(writer: Writer, op: Routed, step: Compute, operands: Sequence[str]) -> str:
    """Slots of a device's part of the experts, in one row."""
    far = step.output if op.reverse else step.inputs[1]
    held = writer.shape(far)
    count = writer.setting.shape(far)[1]
    firsts = writer.first(far, op.experts), writer.first(far, op.slots)
    ids = writer.call("slots_here", operands[0], str(count), str(held), *firsts)
    flat = (held[0] * held[1], *held[2:])
    if op.reverse:
        return writer.call("scattered", ids, operands[1], str(flat), "0") + f".reshape({held})"
    return writer.call("taken", f"{operands[1]}.reshape({flat})", ids, "0")


def _groups(writer: Writer, op: Routed, step: Compute) -> int:
    """Into how many groups the tokens are cut."""
    lying = {dim.name: dim.axes for array in (*step.inputs, step.output) for dim in array.dims}
    tokens, slots = lying[op.tokens], lying[op.slots]
    if tokens != slots:
        raise XlaError(
            f"{op.name}: slots over {''.join(slots)} and tokens over {''.join(tokens)} lie in "
            "different orders, which XLA's partitioner is not told; check --explicit"
        )
    return writer.setting.ways(tokens)
