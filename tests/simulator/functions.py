"""The functions' real mathematics and their reverse, written out by hand.

Operands come with all dims in one order, missing ones of length one. ``rows`` sums (or maximises)
along the dims that a function works along, over all devices that hold a part of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

EPS = 1e-6
_ERF = np.vectorize(__import__("math").erf, otypes=[float])


class Rows(Protocol):
    """Collects numbers along a row, perhaps from several devices."""

    count: int

    def total(self, values: np.ndarray, kept: bool = False) -> np.ndarray: ...

    def largest(self, values: np.ndarray) -> np.ndarray: ...

    def position(self, place: int) -> np.ndarray: ...


@dataclass
class LocalRows:
    """Rows that one device holds whole."""

    axes: tuple[int, ...]
    count: int
    shape: tuple[int, ...] = field(default=())

    def total(self, values: np.ndarray, kept: bool = False) -> np.ndarray:
        return values.sum(axis=self.axes, keepdims=True)

    def largest(self, values: np.ndarray) -> np.ndarray:
        return values.max(axis=self.axes, keepdims=True)

    def position(self, place: int) -> np.ndarray:
        shape = [1] * len(self.shape)
        shape[place] = -1
        return np.arange(self.shape[place]).reshape(shape)


def forward(name: str, xs: list[np.ndarray], rows: Rows) -> np.ndarray:
    x = xs[0]
    match name:
        case "copy":
            return x
        case "add":
            return x + xs[1]
        case "mul":
            return x * xs[1]
        case "relu":
            return np.maximum(x, 0)
        case "gelu":
            return x * _cdf(x)
        case "silu":
            return x * _sigmoid(x)
        case "swiglu":
            return x * _sigmoid(x) * xs[1]
        case "geglu":
            return x * _cdf(x) * xs[1]
        case "rope":
            return _rotate(x, rows, 1)
        case "softmax":
            raised = np.exp(x - rows.largest(x))
            return raised / rows.total(raised)
        case "rmsnorm":
            return x * _scale(x, rows, False) * xs[1]
        case "layernorm":
            return _standard(x, rows, False)[0] * xs[1] + xs[2]
    raise AssertionError(name)


def reverse(
    name: str, wrt: int, grad: np.ndarray, saved: list[np.ndarray], rows: Rows
) -> np.ndarray:
    """The gradient for one operand, before dims that it lacks are summed."""
    match name:
        case "copy" | "add" | "sum":
            return grad
        case "mean":
            return grad / rows.count
        case "max":
            return grad * (saved[0] == saved[1])
        case "mul":
            return grad * saved[0]
        case "relu":
            return grad * (saved[0] > 0)
        case "gelu":
            return grad * _gelu_slope(saved[0])
        case "silu":
            return grad * _silu_slope(saved[0])
        case "swiglu":
            x, y = saved
            return grad * (y * _silu_slope(x) if wrt == 0 else x * _sigmoid(x))
        case "geglu":
            x, y = saved
            return grad * (y * _gelu_slope(x) if wrt == 0 else x * _cdf(x))
        case "rope":
            return _rotate(grad, rows, -1)
        case "softmax":
            p = saved[0]
            return p * (grad - rows.total(grad * p))
        case "rmsnorm":
            return _rmsnorm_reverse(wrt, grad, saved, rows)
        case "layernorm":
            return _layernorm_reverse(wrt, grad, saved, rows)
    raise AssertionError(name)


def _rmsnorm_reverse(wrt: int, grad: np.ndarray, saved: list[np.ndarray], rows: Rows) -> np.ndarray:
    x, gain = saved
    scale = _scale(x, rows, True)
    if wrt == 1:
        return grad * x * scale
    inner = rows.total(grad * gain * x) / rows.count
    return scale * grad * gain - x * scale**3 * inner


def _layernorm_reverse(
    wrt: int, grad: np.ndarray, saved: list[np.ndarray], rows: Rows
) -> np.ndarray:
    standard, scale = _standard(saved[0], rows, True)
    if wrt == 1:
        return grad * standard
    if wrt == 2:
        return grad
    each = grad * saved[1]
    mean = rows.total(each) / rows.count
    along = rows.total(each * standard) / rows.count
    return scale * (each - mean - standard * along)


def _scale(x: np.ndarray, rows: Rows, kept: bool) -> np.ndarray:
    return 1 / np.sqrt(rows.total(x * x, kept) / rows.count + EPS)


def _standard(x: np.ndarray, rows: Rows, kept: bool) -> tuple[np.ndarray, np.ndarray]:
    mean = rows.total(x, kept) / rows.count
    variance = rows.total(x * x, kept) / rows.count - mean**2
    scale = 1 / np.sqrt(variance + EPS)
    return (x - mean) * scale, scale


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + np.tanh(x / 2))


def _silu_slope(x: np.ndarray) -> np.ndarray:
    s = _sigmoid(x)
    return s * (1 + x * (1 - s))


def _cdf(x: np.ndarray) -> np.ndarray:
    return 0.5 * (1 + _ERF(x / np.sqrt(2)))


def _gelu_slope(x: np.ndarray) -> np.ndarray:
    return _cdf(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


def _rotate(x: np.ndarray, rows: Rows, sign: int) -> np.ndarray:
    """Neighbours of the last dim turned by an angle that grows along the first."""
    angle = 0.1 * rows.position(0) * (1 + rows.position(-1) // 2)
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = np.cos(angle)[..., 0::2], sign * np.sin(angle)[..., 0::2]
    made = np.empty(np.broadcast_shapes(x.shape, angle.shape))
    made[..., 0::2] = even * cos - odd * sin
    made[..., 1::2] = even * sin + odd * cos
    return made
