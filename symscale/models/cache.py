"""What decoding keeps of the tokens that were read: keys and values, latent vectors, states."""

from __future__ import annotations

from sympy import Add, Expr, S, cancel

from symscale.algebra.errors import ModelError
from symscale.algebra.maximum import Minimum
from symscale.algebra.symbols import B, K, L, symbol
from symscale.arrays.dtype import DType, dtype
from symscale.models.decoder import Decoder, LayerKind, over_layers


def kept_per_token(kind: LayerKind) -> Expr:
    """Numbers that one layer of a kind keeps for one token."""
    arrays = kind.program.arrays
    return cancel(Add(*(arrays[name].size for name in kind.cached)) / B)


def kept_tokens(kind: LayerKind, length: Expr) -> Expr:
    """How many tokens of a sequence a layer of a kind keeps.

    Sparse attention reads few keys but may read any, so that it keeps all.
    """
    reach = kind.reach
    limit = reach.window if reach.window is not None else reach.chunk
    return length if limit is None or not reach.keeps else Minimum(length, limit)


def kv_per_token(programs: Decoder, kind: str | DType) -> Expr:
    """Bytes for one token, every layer counted (as in a sequence no longer than a window)."""
    each = over_layers(programs.kinds, L, kept_per_token)
    return cancel(dtype(kind).bytes * each)


def kv_of_sequence(programs: Decoder, length: Expr, kind: str | DType) -> Expr:
    """Bytes for a sequence: layers with a window keep no more tokens than it holds."""

    def held(layer: LayerKind) -> Expr:
        return kept_per_token(layer) * kept_tokens(layer, length)

    return dtype(kind).bytes * over_layers(programs.kinds, L, held)


def kv_on_device(programs: Decoder, length: Expr, kind: str | DType, ways: int) -> Expr:
    """Bytes for a sequence on one of several devices that deal out the key/value heads.

    Raises:
        ModelError: heads and devices of which neither divides the other.
    """
    heads = programs.sizes.get(K, 1)
    if ways < 1 or (heads % ways and ways % heads):
        raise ModelError(f"{heads} key/value heads cannot be dealt out to {ways} devices")

    def held(layer: LayerKind) -> Expr:
        arrays = layer.program.arrays
        dealt = any("K" in arrays[name].labels for name in layer.cached)
        share = min(ways, heads) if dealt else 1
        return kept_per_token(layer) * kept_tokens(layer, length) / share

    return dtype(kind).bytes * over_layers(programs.kinds, L, held)


def state_of_sequence(programs: Decoder, kind: str | DType) -> Expr:
    """Bytes that a sequence keeps at any length: states, and the last tokens of convolutions."""
    total = S.Zero
    for layer in programs.kinds:
        arrays = layer.program.arrays
        held = Add(*(arrays[name].size for name in layer.state))
        held += (symbol("J") - 1) * Add(*(arrays[name].size for name in layer.tails))
        total += layer.count * cancel(held / B)
    return dtype(kind).bytes * total


def longest(bytes_at: object, budget: int, limit: int = 2**53) -> int:
    """The longest sequence whose cache fits a budget, by bisection; 0 if none does.

    ``bytes_at`` maps a length to bytes and never falls.

    Raises:
        ModelError: the cache does not grow, so that every length fits.

    >>> longest(lambda n: 10 * n, 95)
    9
    """
    if not callable(bytes_at):
        raise ModelError("bytes_at must map a length to bytes")
    if bytes_at(limit) <= budget:
        raise ModelError(f"every sequence fits {budget} bytes: the cache stops growing")
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if bytes_at(middle) <= budget else (low, middle)
    return low
