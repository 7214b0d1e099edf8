"""The cost record: a frozen map from what was done to how much of it, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from sympy import Expr, S, sympify

from symscale.algebra.errors import UnitError
from symscale.algebra.units import (
    BYTE,
    FLOP,
    Dimension,
    Quantity,
    Scope,
    Span,
    check_same_count,
)

CostKind = Literal["flops", "vector flops", "hbm bytes", "comm bytes"]

DIMENSION_OF: Mapping[CostKind, Dimension] = MappingProxyType(
    {"flops": FLOP, "vector flops": FLOP, "hbm bytes": BYTE, "comm bytes": BYTE}
)


@dataclass(frozen=True)
class Descriptor:
    """What a count belongs to.

    ``op`` is the op's name (``einsum``, ``AllGather``...), ``array`` the array it makes or moves,
    ``axes`` the mesh axes a collective runs over, ``dtype`` the element type that sets the rate,
    ``critical`` whether the next op has to wait for it.
    """

    op: str
    kind: CostKind
    phase: str = "forward"
    axes: tuple[str, ...] = ()
    dtype: str = "bf16"
    array: str = ""
    critical: bool = True


class Cost(Mapping[Descriptor, Expr]):
    """A frozen map from :class:`Descriptor` to an expression, with one scope and one span.

    Costs add only when both are counted alike; scaling by a count of layers turns *per layer* into
    *per step*.

    >>> from symscale.algebra.symbols import B, D
    >>> one = Cost({Descriptor("einsum", "flops"): 2 * B * D})
    >>> (one + one).sum("flops").expr
    4*B*D
    """

    def __init__(
        self,
        terms: Mapping[Descriptor, Expr] | Iterable[tuple[Descriptor, Expr]] = (),
        scope: Scope = Scope.PER_DEVICE,
        span: Span = Span.LAYER,
    ) -> None:
        merged: dict[Descriptor, Expr] = {}
        for key, value in terms.items() if isinstance(terms, Mapping) else terms:
            merged[key] = merged.get(key, S.Zero) + sympify(value, strict=True)
        self._terms = MappingProxyType(merged)
        self.scope = scope
        self.span = span

    def __getitem__(self, key: Descriptor) -> Expr:
        return self._terms[key]

    def __iter__(self) -> Iterator[Descriptor]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)

    def __hash__(self) -> int:
        return hash((frozenset(self._terms.items()), self.scope, self.span))

    def __add__(self, other: Cost) -> Cost:
        """Both costs together.

        Raises:
            UnitError: when one is per device and the other total, or per layer and per step.
        """
        check_same_count(self.scope, self.span, other.scope, other.span)
        return Cost([*self.items(), *other.items()], self.scope, self.span)

    def scale(self, count: Expr | int, span: Span) -> Cost:
        """This cost ``count`` times over, now counted over ``span``.

        >>> from symscale.algebra.symbols import L
        >>> Cost({Descriptor("einsum", "flops"): 2}).scale(L, Span.STEP).sum("flops").expr
        2*L
        """
        factor = sympify(count, strict=True)
        return Cost([(key, value * factor) for key, value in self.items()], self.scope, span)

    def put(self, values: Mapping[Any, Any]) -> Cost:
        """The same cost with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        terms = [(key, value.xreplace(swap)) for key, value in self.items()]
        return Cost(terms, self.scope, self.span)

    def total(self, devices: Expr) -> Cost:
        """The cost of all ``devices`` together, from the cost of one."""
        if self.scope is Scope.TOTAL:
            raise UnitError("this cost is already the total over all devices")
        scaled = self.scale(devices, self.span)
        return Cost(scaled, Scope.TOTAL, self.span)

    def relabel(self, **changes: Any) -> Cost:
        """The same amounts under descriptors with some fields replaced (a phase, say)."""
        terms = [(replace(key, **changes), value) for key, value in self.items()]
        return Cost(terms, self.scope, self.span)

    def filter_by(self, test: Callable[[Descriptor], bool] | None = None, **fields: Any) -> Cost:
        """The terms whose descriptor has these field values and passes ``test``.

        >>> from symscale.algebra.symbols import B, D
        >>> cost = Cost({Descriptor("einsum", "flops"): B, Descriptor("einsum", "hbm bytes"): D})
        >>> list(cost.filter_by(kind="flops").values())
        [B]
        """
        kept = [
            (key, value)
            for key, value in self.items()
            if all(getattr(key, name) == wanted for name, wanted in fields.items())
            and (test is None or test(key))
        ]
        return Cost(kept, self.scope, self.span)

    def group_by(self, *fields: str) -> Mapping[tuple[Hashable, ...], Cost]:
        """Sub-costs keyed by the values of these descriptor fields, in order of appearance."""
        groups: dict[tuple[Hashable, ...], list[tuple[Descriptor, Expr]]] = {}
        for key, value in self.items():
            label = tuple(getattr(key, name) for name in fields)
            groups.setdefault(label, []).append((key, value))
        made = {label: Cost(terms, self.scope, self.span) for label, terms in groups.items()}
        return MappingProxyType(made)

    def sum(self, kind: CostKind | None = None) -> Quantity:
        """The sum of all terms (of one kind), as an amount with its dimension.

        Raises:
            UnitError: when the terms have different dimensions.
        """
        chosen = self if kind is None else self.filter_by(kind=kind)
        dimensions = {DIMENSION_OF[key.kind] for key in chosen}
        if len(dimensions) > 1:
            names = " to ".join(sorted(map(str, dimensions), reverse=True))
            raise UnitError(f"cannot add {names}; name one kind: {', '.join(DIMENSION_OF)}")
        dimension = dimensions.pop() if dimensions else DIMENSION_OF[kind or "flops"]
        expr = sum(chosen.values(), S.Zero)
        return Quantity(expr, dimension, self.scope, self.span)

    def __repr__(self) -> str:
        rows = [
            f"  {key.phase:<9} {key.op:<14} {key.array:<8} {'·'.join(key.axes):<4} "
            f"{key.kind:<11} {value}"
            for key, value in self.items()
        ]
        return "\n".join([f"Cost, {self.scope.value}, {self.span.value}:", *rows])

    def to_dict(self) -> dict[str, Any]:
        """The cost as plain text, for JSON."""
        return {
            "scope": self.scope.value,
            "span": self.span.value,
            "terms": [
                {**vars(key), "axes": list(key.axes), "expression": str(value)}
                for key, value in self.items()
            ],
        }
