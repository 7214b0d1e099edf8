"""What a training step keeps, repeats, splits in time and moves to the host: no sharding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, get_args

from sympy import Expr, S, sympify

from symscale.algebra.errors import StrategyError, near
from symscale.arrays.dtype import DTYPES
from symscale.models.remat import POLICIES, Policy

Optimizer: TypeAlias = Literal["sgd", "adam", "adam+master", "adam-bf16", "adam-bf16+master"]
Reduce: TypeAlias = Literal["each", "last"]
Offloaded: TypeAlias = Literal["optimizer", "parameters", "activations"]
#: A policy, or the names of the arrays that are saved.
Remat: TypeAlias = Policy | tuple[str, ...]

#: Bytes of optimizer state for each parameter: two moments (f32 or bf16), and perhaps an f32 copy.
STATE_BYTES: Mapping[str, int] = MappingProxyType(
    {"sgd": 0, "adam": 8, "adam+master": 12, "adam-bf16": 4, "adam-bf16+master": 8}
)


@dataclass(frozen=True)
class Techniques:
    """How a step saves memory and splits its batch.

    Attributes:
        remat: which activations are saved; the backward pass computes the others again.
        optimizer: the state that a parameter has.
        gradients: the type gradients are kept in (that of the weights unless given).
        microbatches: parts of a batch that go through the model one after another.
        reduce: gradients are reduced over data ranks after ``each`` microbatch, or after the
            ``last`` (they wait whole on every device). None: as the data-parallel part has it.
        offload: kinds of memory that lie on the host and come over PCIe.
    """

    remat: Remat = "none"
    optimizer: Optimizer = "adam"
    gradients: str | None = None
    microbatches: Expr = S.One
    reduce: Reduce | None = None
    offload: tuple[Offloaded, ...] = ()

    @property
    def accumulates(self) -> bool:
        """Whether a batch goes through in more than one part."""
        return bool(self.microbatches != 1)

    @property
    def state_bytes(self) -> int:
        """Bytes of optimizer state for each parameter."""
        return STATE_BYTES[self.optimizer]

    def to_dict(self) -> dict[str, Any]:
        """All of them, as plain values."""
        return {
            "remat": self.remat if isinstance(self.remat, str) else list(self.remat),
            "optimizer": self.optimizer,
            "gradients": self.gradients,
            "microbatches": str(self.microbatches),
            "reduce": self.reduce,
            "offload": list(self.offload),
        }


#: What :func:`techniques` takes.
OPTIONS = tuple(field.name for field in fields(Techniques))


def techniques(given: Mapping[str, Any], base: Techniques | None = None) -> Techniques:
    """Techniques from keyword arguments, checked; what is not given stays as in ``base``.

    Raises:
        StrategyError: naming the option, what it was, and what it may be.

    >>> techniques({"optimizer": "adam+master", "offload": "optimizer"}).state_bytes
    12
    >>> techniques({"microbatches": 0})
    Traceback (most recent call last):
    symscale.algebra.errors.StrategyError: microbatches = 0: a whole number of 1 or more is wanted
    """
    made = {name: getattr(base or Techniques(), name) for name in OPTIONS}
    for name, value in given.items():
        if value is not None:
            made[name] = _CHECKS[name](value)
    return Techniques(**made)


def _one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        hint = near(value, known) if isinstance(value, str) else ""
        raise StrategyError(f"{name} {value!r} is none of {', '.join(known)}{hint}")
    return str(value)


def _remat(value: Any) -> Remat:
    if isinstance(value, str):
        known = {"all": "none", "full": "block"}
        return _one_of("remat", known.get(value, value), POLICIES)  # type: ignore[return-value]
    if not isinstance(value, tuple | list) or not all(isinstance(name, str) for name in value):
        raise StrategyError(f"remat = {value!r}: a policy is wanted, or the names of saved arrays")
    return tuple(dict.fromkeys(value))


def _dtype(value: Any) -> str:
    return _one_of("gradients", value, (n for n in DTYPES if n not in ("bool",) and "int" not in n))


def _microbatches(value: Any) -> Expr:
    if not isinstance(value, int | float | Expr) or isinstance(value, bool):
        raise StrategyError(f"microbatches = {value!r} is no number")
    made = sympify(value, strict=True, rational=True)
    if made.is_number and not (made.is_integer and made.is_positive):
        raise StrategyError(f"microbatches = {value}: a whole number of 1 or more is wanted")
    return made


def _offload(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, tuple | list):
        raise StrategyError(f"offload = {value!r}: names of {', '.join(get_args(Offloaded))}")
    return tuple(_one_of("offload", name, get_args(Offloaded)) for name in dict.fromkeys(names))


_CHECKS: Mapping[str, Any] = MappingProxyType(
    {
        "remat": _remat,
        "optimizer": lambda value: _one_of("optimizer", value, STATE_BYTES),
        "gradients": _dtype,
        "microbatches": _microbatches,
        "reduce": lambda value: _one_of("reduce", value, get_args(Reduce)),
        "offload": _offload,
    }
)
