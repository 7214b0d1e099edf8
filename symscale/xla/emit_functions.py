"""The functions of a program's lines, as JAX source; a written program carries those it calls.

``dims`` are the places of the dims that a function works along, ``axes`` the mesh axes that shard
them where a program writes its collectives itself (none where XLA inserts them), and ``count`` how
many elements a whole row has. Sums that are left as partial sums stay in their own element type:
``jnp.sum`` would widen them, and the collective after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from symscale.xla.emit_routing import TEXTS

_TEXTS = (
    '''
def added(values, dims):
    """A plain sum along dims, in the element type of the values."""
    return lax.reduce(values, jnp.zeros((), values.dtype), lax.add, dims)
''',
    '''
def total(values, dims, axes):
    """The sum of whole rows, kept as dims of one."""
    here = jnp.sum(values, axis=dims, keepdims=True)
    return lax.psum(here, axes) if axes else here
''',
    '''
def largest(values, dims, axes):
    """The largest element of whole rows, kept as dims of one."""
    here = jnp.max(values, axis=dims, keepdims=True)
    return lax.pmax(here, axes) if axes else here
''',
    '''
def wide(values):
    """Rows' statistics are collected in f32."""
    return values.astype(jnp.float32)
''',
    """
def copy(x):
    return x
""",
    """
def add(x, y):
    return x + y
""",
    """
def mul(x, y):
    return x * y
""",
    """
def relu(x):
    return jnp.maximum(x, 0)
""",
    """
def gelu(x):
    return x * 0.5 * (1 + lax.erf(x * 0.7071067811865476))
""",
    """
def silu(x):
    return x * lax.logistic(x)
""",
    """
def swiglu(x, y):
    return silu(x) * y
""",
    """
def geglu(x, y):
    return gelu(x) * y
""",
    '''
def rope(x, sign, first, last):
    """Neighbours of the last dim turned by an angle that grows along the first."""
    half = x.shape[-1] // 2
    place = first + jnp.arange(x.shape[0], dtype=jnp.float32)
    speed = 1 + last // 2 + jnp.arange(half, dtype=jnp.float32)
    angle = 0.1 * place.reshape(-1, *(1,) * (x.ndim - 1)) * speed
    pairs = wide(x).reshape(*x.shape[:-1], half, 2)
    even, odd = pairs[..., 0], pairs[..., 1]
    cos, sin = jnp.cos(angle), sign * jnp.sin(angle)
    turned = jnp.stack((even * cos - odd * sin, even * sin + odd * cos), axis=-1)
    return turned.reshape(x.shape).astype(x.dtype)
''',
    """
def softmax(x, dims, axes, count):
    raised = jnp.exp(wide(x) - largest(wide(x), dims, axes))
    return (raised / total(raised, dims, axes)).astype(x.dtype)
""",
    """
def softmax_reverse(wrt, grad, y, dims, axes, count):
    along = total(wide(grad) * wide(y), dims, axes)
    return (wide(y) * (wide(grad) - along)).astype(grad.dtype)
""",
    '''
def rms(x, dims, axes, count):
    """One over the root of a row's mean square."""
    return lax.rsqrt(total(wide(x) * wide(x), dims, axes) / count + 1e-6)
''',
    """
def rmsnorm(x, gain, dims, axes, count):
    return (wide(x) * rms(x, dims, axes, count)).astype(x.dtype) * gain
""",
    '''
def rmsnorm_reverse(wrt, grad, x, gain, scale, dims, axes, count):
    """``scale`` is what the forward pass kept of each row."""
    if wrt == 1:
        return grad * (wide(x) * scale).astype(grad.dtype)
    each = wide(grad * gain)
    along = total(each * wide(x), dims, axes) / count
    return (scale * each - wide(x) * scale**3 * along).astype(grad.dtype)
''',
    '''
def moments(x, dims, axes, count):
    """A row's mean, and one over its standard deviation."""
    mean = total(wide(x), dims, axes) / count
    square = total(wide(x) * wide(x), dims, axes) / count
    return mean, lax.rsqrt(square - mean * mean + 1e-6)
''',
    """
def layernorm(x, gain, bias, dims, axes, count):
    mean, scale = moments(x, dims, axes, count)
    return ((wide(x) - mean) * scale).astype(x.dtype) * gain + bias
""",
    '''
def layernorm_reverse(wrt, grad, x, gain, bias, mean, scale, dims, axes, count):
    """``mean`` and ``scale`` are what the forward pass kept of each row."""
    standard = (wide(x) - mean) * scale
    if wrt:
        return grad * standard.astype(grad.dtype) if wrt == 1 else grad
    each = wide(grad * gain)
    level = total(each, dims, axes) / count
    along = total(each * standard, dims, axes) / count
    return (scale * (each - level - standard * along)).astype(grad.dtype)
''',
    '''
def max_reverse(wrt, grad, x, y):
    """The gradient goes to where the largest element was."""
    return jnp.where(x == y, grad, jnp.zeros_like(grad))
''',
    '''
def reverse(function, wrt, grad, *saved):
    """The gradient of an elementwise function for one operand, before any dim is summed."""
    alike = jnp.broadcast_arrays(grad, *saved)[1:]
    return jax.vjp(function, *alike)[1](grad)[wrt]
''',
    '''
def summed(partial, spec, *products):
    """Products added while they are partial sums, then reduced: said in JAX's Explicit mode."""
    texts = [product[0] for product in products]
    pairs = [pair for product in products for pair in product[1:]]

    def added_up(*operands):
        each = zip(texts, operands[0::2], operands[1::2])
        parts = [jnp.einsum(*one, out_sharding=partial) for one in each]
        total = functools.reduce(operator.add, parts)
        return jax.sharding.reshard(total, spec)

    specs = tuple(pair[1] for pair in pairs)
    with jax.sharding.use_abstract_mesh(MESH.abstract_mesh):
        run = jax.sharding.explicit_axes(added_up, axes=MESH.axis_names, in_sharding=specs)
        return run(*(pair[0] for pair in pairs))
''',
    '''
def shift(x, dim, by):
    """Rows moved on by one along a dim, back for -1; zeros where none comes from."""
    ends = [(by, -by, 0) if place == dim else (0, 0, 0) for place in range(x.ndim)]
    return lax.pad(x, jnp.zeros((), x.dtype), ends)
''',
    '''
def edge(x, dim, by):
    """The row that a shift sends to the neighbour."""
    first = x.shape[dim] - 1 if by > 0 else 0
    return lax.slice_in_dim(x, first, first + 1, axis=dim)
''',
    '''
def shifted(x, received, dim, by):
    """Rows moved on by one along a dim, back for -1; the neighbour's row comes in."""
    rows = x.shape[dim]
    if by > 0:
        return jnp.concatenate((received, lax.slice_in_dim(x, 0, rows - 1, axis=dim)), axis=dim)
    return jnp.concatenate((lax.slice_in_dim(x, 1, rows, axis=dim), received), axis=dim)
''',
    '''
def taken(table, ids, first):
    """Rows of a part of a table that begins at row ``first``; zeros for rows that lie elsewhere."""
    place = ids - first
    here = (place >= 0) & (place < table.shape[0])
    rows = jnp.take(table, jnp.where(here, place, 0), axis=0, mode="clip")
    mask = here.reshape(*here.shape, *(1,) * (table.ndim - 1))
    return jnp.where(mask, rows, jnp.zeros_like(rows))
''',
    '''
def scattered(ids, grad, shape, first):
    """Gradients added into the rows of a part of a table that begins at row ``first``."""
    place = ids - first
    here = (place >= 0) & (place < shape[0])
    where = jnp.where(here, place, shape[0])
    return jnp.zeros(shape, grad.dtype).at[where].add(grad, mode="drop")
''',
)


def _name(text: str) -> str:
    return text.partition("def ")[2].partition("(")[0]


#: Source of each function, by its name.
FUNCTIONS = MappingProxyType({_name(text): text.strip() for text in (*_TEXTS, *TEXTS)})

#: Functions whose reverse needs what the forward pass kept of each row: the names of those numbers.
KEPT = MappingProxyType({"rmsnorm": ("scale",), "layernorm": ("mean", "scale")})


def needed(called: Iterable[str]) -> tuple[str, ...]:
    """The sources of these functions and of all that they call, in order.

    >>> [text.partition("(")[0] for text in needed(["rmsnorm"])]
    ['def total', 'def wide', 'def rms', 'def rmsnorm']
    """
    wanted = set(called)
    for name in reversed(FUNCTIONS):
        if name in wanted:
            wanted |= {other for other in FUNCTIONS if f"{other}(" in FUNCTIONS[name]}
    return tuple(text for name, text in FUNCTIONS.items() if name in wanted)
