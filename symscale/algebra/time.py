"""Times: named terms of cost over rate, composed by overlap (maximum) and sequence (sum)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from sympy import Add, Expr, S, Symbol, sympify

from symscale.algebra.errors import SymscaleError
from symscale.algebra.maximum import Maximum
from symscale.algebra.symbols import axis
from symscale.algebra.table import Table

Overlap = Literal["full", "none", "critical"]
MATH = "math"
HBM = "hbm"
AxisKey: TypeAlias = Symbol | tuple[Symbol, ...]


@dataclass(frozen=True)
class TimeTerm:
    """Seconds spent on one resource: ``math``, ``hbm``, or the links under some mesh axes.

    ``critical`` says that the next op waits for it; a term that is not can hide behind other work.
    """

    resource: str
    value: Expr
    axes: tuple[str, ...] = ()
    critical: bool = False

    @property
    def is_comm(self) -> bool:
        """Whether this is time on links between chips."""
        return bool(self.axes)


@dataclass(frozen=True)
class Stage:
    """Terms that may overlap one another."""

    terms: tuple[TimeTerm, ...]

    def by_resource(self) -> Mapping[str, Expr]:
        """Each resource's busy time."""
        out: dict[str, Expr] = {}
        for term in self.terms:
            out[term.resource] = out.get(term.resource, S.Zero) + term.value
        return MappingProxyType(out)

    def total(self, overlap: Overlap) -> Expr:
        """Seconds of this stage under an assumption on overlap (see :meth:`Time.total`)."""
        if overlap == "none":
            return Add(*(term.value for term in self.terms))
        if overlap == "full":
            return _largest(self.by_resource().values())
        waiting = [term.value for term in self.terms if term.is_comm and term.critical]
        hiding = Stage(tuple(t for t in self.terms if not (t.is_comm and t.critical)))
        return _largest(hiding.by_resource().values()) + Add(*waiting)


@dataclass(frozen=True)
class Time:
    """A time as a sequence of stages; inside a stage, terms on different resources may overlap.

    Attributes of interest: ``math``, ``hbm``, ``comms`` (summed over axes), ``comms_overlapped``
    (their maximum), ``by_axis``, ``lower`` (everything overlaps), ``upper`` (nothing does).

    >>> from symscale.algebra.symbols import B, C, D, W_hbm
    >>> t = Time.of(TimeTerm(MATH, B / C), TimeTerm(HBM, D / W_hbm))
    >>> t.lower, t.upper
    (Maximum(B/C, D/W_hbm), B/C + D/W_hbm)
    """

    stages: tuple[Stage, ...] = ()

    @classmethod
    def of(cls, *terms: TimeTerm) -> Time:
        """A time of one stage."""
        return cls((Stage(tuple(terms)),))

    @property
    def terms(self) -> tuple[TimeTerm, ...]:
        """All terms of all stages, in order."""
        return tuple(term for stage in self.stages for term in stage.terms)

    def _sum(self, resource: str) -> Expr:
        return Add(*(term.value for term in self.terms if term.resource == resource))

    @property
    def math(self) -> Expr:
        """Seconds of matrix arithmetic: FLOPs over the chip's rate."""
        return self._sum(MATH)

    @property
    def hbm(self) -> Expr:
        """Seconds of HBM traffic: bytes over bandwidth."""
        return self._sum(HBM)

    @property
    def by_axis(self) -> Mapping[AxisKey, Expr]:
        """Communication time keyed by mesh axis (a tuple of them for a collective over several)."""
        out: dict[AxisKey, Expr] = {}
        for term in self.terms:
            if term.is_comm:
                key = axis_key(term.axes)
                out[key] = out.get(key, S.Zero) + term.value
        return MappingProxyType(out)

    @property
    def comms(self) -> Expr:
        """Seconds of communication, all axes one after another."""
        return Add(*self.by_axis.values())

    @property
    def comms_overlapped(self) -> Expr:
        """Seconds of communication when links of different mesh axes work at once."""
        links = Stage(tuple(term for term in self.terms if term.is_comm))
        return _largest(links.by_resource().values())

    @property
    def lower(self) -> Expr:
        """The least it can take: in each stage the busiest resource hides all others."""
        return self.total("full")

    @property
    def upper(self) -> Expr:
        """The most it takes when nothing overlaps."""
        return self.total("none")

    def total(self, overlap: Overlap = "full") -> Expr:
        """Seconds under an assumption on overlap.

        ``"full"``: the maximum over resources of their sums. ``"none"``: the sum of everything.
        ``"critical"``: collectives whose result the next op needs wait; the others hide.

        Raises:
            SymscaleError: for another word.
        """
        if overlap not in ("full", "none", "critical"):
            raise SymscaleError(f"overlap {overlap!r} is none of 'full', 'none', 'critical'")
        return Add(*(stage.total(overlap) for stage in self.stages))

    def then(self, other: Time) -> Time:
        """This, and the other after it."""
        return Time(self.stages + other.stages)

    def beside(self, other: Time) -> Time:
        """Both at once, as one stage on shared resources."""
        return Time.of(*self.terms, *other.terms)

    def scale(self, count: Expr | int) -> Time:
        """Every term ``count`` times over (so many layers, say)."""
        factor = sympify(count, strict=True)
        return Time(
            tuple(
                Stage(tuple(replace(term, value=term.value * factor) for term in stage.terms))
                for stage in self.stages
            )
        )

    def __repr__(self) -> str:
        rows = [
            f"  {_label(term):<10} "
            f"{'waits' if term.is_comm and term.critical else '':<6}{term.value}"
            for stage in self.merged().stages
            for term in stage.terms
        ]
        return "\n".join(["Time (seconds):", *rows])

    def put(self, values: Mapping[Symbol, Any]) -> Time:
        """The same time with numbers for some symbols."""
        swap = {key: sympify(value, strict=True) for key, value in values.items()}
        return Time(
            tuple(
                Stage(tuple(replace(t, value=t.value.xreplace(swap)) for t in stage.terms))
                for stage in self.stages
            )
        )

    def merged(self) -> Time:
        """The same time with one term for each resource and urgency in a stage."""
        stages = []
        for stage in self.stages:
            found: dict[tuple[str, bool], TimeTerm] = {}
            for term in stage.terms:
                key = (term.resource, term.critical)
                held = found.get(key)
                value = term.value if held is None else held.value + term.value
                found[key] = replace(term, value=value)
            stages.append(Stage(tuple(found.values())))
        return Time(tuple(stages))

    def _repr_html_(self) -> str:
        rows = tuple(
            (_label(term), "waits" if term.is_comm and term.critical else "", term.value)
            for stage in self.merged().stages
            for term in stage.terms
        )
        return Table(("resource", "", "seconds"), rows)._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """The time's parts as plain text, for JSON."""
        return {
            "math": str(self.math),
            "hbm": str(self.hbm),
            "by_axis": {_name(key): str(value) for key, value in self.by_axis.items()},
            "lower": str(self.lower),
            "upper": str(self.upper),
        }


def axis_key(axes: tuple[str, ...]) -> AxisKey:
    """The key under which a collective's cost is listed: a symbol, or a tuple of several.

    >>> axis_key(("X",)), axis_key(("X", "Y"))
    (X, (X, Y))
    """
    symbols = tuple(axis(name) for name in axes)
    return symbols[0] if len(symbols) == 1 else symbols


def _name(key: AxisKey) -> str:
    return ",".join(s.name for s in key) if isinstance(key, tuple) else str(key.name)


def _label(term: TimeTerm) -> str:
    return f"comm {term.resource}" if term.is_comm else term.resource


def _largest(values: Iterable[Expr]) -> Expr:
    chosen = tuple(values)
    return Maximum(*chosen) if chosen else S.Zero
