"""Time to train, from a model's work and a pace: a utilisation, a measured rate, or a step time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, Symbol, cancel

from symscale.algebra.errors import SymbolError
from symscale.algebra.substitution import bindings, exact
from symscale.algebra.symbols import B, C, T, n
from symscale.algebra.units import FLOP, SECOND, TOKEN, Quantity, Scope
from symscale.hardware.chip import Chip
from symscale.hardware.chips import chip as find_chip
from symscale.hardware.figure import short
from symscale.models.decoder import two_matmul_layer
from symscale.models.flops import FlopsPerToken, RuleOfThumb, flops_per_token
from symscale.models.model import Model
from symscale.models.model import model as find_model
from symscale.studies.spending import (
    C_GOT,
    CARBON,
    F_TOK,
    MFU,
    N_TOK,
    POWER,
    PRICE,
    PUE,
    R_TOK,
    T_STEP,
    Budget,
)

#: By how much a utilisation may pass 1: sums of floats are rounded.
_ROUNDING = 1e-9


#: The paces that a run can have, one at a time, and the symbol of each.
PACES: Mapping[str, Symbol] = MappingProxyType(
    {"mfu": MFU, "achieved": C_GOT, "throughput": R_TOK, "step_time": T_STEP}
)


def duration(work: Expr, **paces: Any) -> tuple[Expr, dict[Symbol, Expr]]:
    """Seconds of a run as a formula, and the number of its pace: at most one is given.

    Without any, the utilisation stays a symbol.

    Args:
        work: FLOPs of the run.
        paces: ``mfu``, ``achieved``, ``throughput`` or ``step_time`` (see :func:`budget`).

    Raises:
        SymbolError: for two paces at once, or one that cannot be.

    >>> duration(F_TOK * N_TOK, mfu=0.4)[0]
    N_tok*f_tok/(C*MFU*n)
    """
    named = {name: exact(value, name) for name, value in paces.items() if value is not None}
    if len(named) > 1:
        raise SymbolError(f"one pace is wanted, not {' and '.join(named)}")
    if "mfu" in named and named["mfu"] > 1:
        raise SymbolError(f"mfu = {paces['mfu']}: a share above 0 and at most 1 is wanted")
    numbers = {PACES[name]: value for name, value in named.items()}
    if "step_time" in named:
        return N_TOK / B * T_STEP, numbers
    total, rate = Quantity(work, FLOP, Scope.TOTAL), Quantity(C * MFU * n, FLOP / SECOND)
    if "throughput" in named:
        total, rate = Quantity(N_TOK, TOKEN, Scope.TOTAL), Quantity(R_TOK * n, TOKEN / SECOND)
    elif "achieved" in named:
        rate = Quantity(C_GOT * n, FLOP / SECOND)
    return (total / rate).expr, numbers


def per_parameter(training: bool = True) -> Expr:
    """FLOPs that a token costs for each parameter of a matrix: counted on a layer of two matmuls.

    >>> per_parameter(), per_parameter(training=False)
    (6, 2)
    """
    layer = two_matmul_layer()
    passes = layer.shard().phases if training else layer.shard().phases[:1]
    flops = Add(*(phase.flops for phase in passes))
    weights = Add(*(layer.arrays[name].size for name in layer.weights))
    return cancel(flops / (B * weights))


def budget(
    work: str | PathLike[str] | Model | FlopsPerToken | RuleOfThumb | Expr | float,
    tokens: Any = None,
    *,
    chips: Any = None,
    chip: str | PathLike[str] | Chip | None = None,
    mfu: Any = None,
    achieved: Any = None,
    throughput: Any = None,
    step_time: Any = None,
    batch: Any = None,
    length: int | None = None,
    price: Any = None,
    power: Any = None,
    pue: Any = 1,
    carbon: Any = None,
    dtype: str = "bf16",
    **conventions: Any,
) -> Budget:
    """What training on so many tokens takes.

    Args:
        work: a model, whose FLOPs are counted under ``conventions`` (see :class:`Conventions`), or
            FLOPs of a token: a count, a formula, a number.
        tokens: of the whole run.
        chips: number of chips.
        chip: whose peak, price and power are used where none is given.
        mfu: the pace as a share of the peak,
        achieved: or as useful FLOP/s of one chip,
        throughput: or as tokens a second of one chip,
        step_time: or as seconds of a step of ``batch`` tokens.
        batch: tokens in a step.
        length: tokens in a sequence; the model's context.
        price: USD for an hour of a chip.
        power: watts of a chip, with its share of the host; the chip's TDP unless given.
        pue: power of the building over that of its machines.
        carbon: kilograms of carbon dioxide for a kilowatt-hour.
        dtype: in which the matrix work is done: it picks the peak.

    Raises:
        SymbolError: for a number that is not above zero, two paces at once, or a pace above the
            peak.
        ModelError, HardwareError: for an unknown model, convention, chip, or rate.

    >>> run = budget("llama-3-70b", 15 * 10**12, chips=8192, chip="tpu-v5p", mfu=0.4, length=8192)
    >>> round(run.days, 1), round(run.cost_usd / 1e6, 1)
    (55.6, 45.9)
    """
    each, sizes, said = _each(work, length, conventions)
    paces = {"mfu": mfu, "achieved": achieved, "throughput": throughput, "step_time": step_time}
    seconds, pace = duration(each * N_TOK, **paces)
    if exact(pue, "pue") < 1:
        raise SymbolError(f"pue = {pue}: a building draws no less than its machines; 1 or more")
    given = {N_TOK: tokens, n: chips, B: batch, PRICE: price, POWER: power}
    own = {key: value for key, value in {**given, CARBON: carbon}.items() if value is not None}
    values = {**sizes, **pace, **own, PUE: pue}
    if chip is not None:
        figures, notes = on_file(find_chip(chip), dtype, own)
        values, said = {**values, **figures}, {**said, **notes}
    made = Budget(each * N_TOK, seconds, MappingProxyType(bindings(values)), MappingProxyType(said))
    _refuse_above_peak(made)
    return made


def _each(
    work: Any, length: int | None, conventions: Mapping[str, Any]
) -> tuple[Expr, Mapping[Symbol, Any], dict[str, str]]:
    """FLOPs of a token, the numbers in them, and how they were counted."""
    if isinstance(work, int | float | Expr):
        if conventions:
            raise SymbolError(f"{', '.join(conventions)}: conventions are for a model's count")
        if isinstance(work, Expr) and work.free_symbols:
            return work, {}, {}
        return F_TOK, {F_TOK: work}, {}
    if isinstance(work, RuleOfThumb):
        return F_TOK, {F_TOK: work.value}, dict(work.conventions)
    if isinstance(work, FlopsPerToken):
        return work.formula, {**work.model, T: work.length}, dict(work.conventions)
    found = find_model(work)
    size = length or found.context
    if size is None:
        raise SymbolError(f"{found.name} names no context length; give length=...")
    return _each(flops_per_token(found, size, **{"training": True, **conventions}), None, {})


def on_file(
    chip: Chip, dtype: str = "bf16", given: Iterable[Symbol] = ()
) -> tuple[dict[Symbol, Expr], dict[str, str]]:
    """Peak, price and power that a chip has on file, but those given; and what each is.

    >>> on_file(find_chip("h100"))[1]["power"]
    "the chip's TDP, 700 W"
    """
    found, said = {C: chip.rate(dtype)}, {"peak": f"{dtype}, dense"}
    if PRICE not in given and "price" in chip.figures:
        price = chip.price
        found[PRICE] = price.value
        said["price"] = f"{short(price.value)} USD an hour, {price.note or price.source}"
    if POWER not in given and "tdp" in chip.figures:
        power = chip.figure("tdp").value
        found[POWER] = power
        said["power"] = f"the chip's TDP, {short(power)} W"
    return found, said


def _refuse_above_peak(made: Budget) -> None:
    share = made.get("mfu")
    if share is not None and share > 1 + _ROUNDING:
        peak = float(made.values[C])
        raise SymbolError(
            f"{made.achieved:.4g} useful FLOP/s of a chip is {share:.3g} times its peak of "
            f"{peak:.4g}: another chip, dtype, batch, or number of chips is meant"
        )
