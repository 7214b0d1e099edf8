"""Measured shares of the roofs: how much of its peak each resource really gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from sympy import Expr, S

from symscale.algebra.errors import SymbolError, near
from symscale.algebra.substitution import exact
from symscale.algebra.symbols import symbol
from symscale.algebra.time import HBM, MATH, Stage, Time, TimeTerm
from symscale.hardware.chip import Chip

#: The share of all links between chips that have no share of their own.
LINKS = "links"

#: One kind of link, as its rate is named: W_dcn is the rate of ``dcn``.
PORTS = ("ici", "nvlink", "dcn", "pcie")

#: Which rates of a chip stand behind a roof: prefixes of their names.
_RATES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        MATH: ("C",),
        HBM: ("W_hbm",),
        LINKS: ("W_ici", "W_nvlink", "W_dcn"),
        **{port: (f"W_{port}",) for port in PORTS},
    }
)


@dataclass(frozen=True)
class Efficiency(Mapping[str, Expr]):
    """Shares of the peak by roof: ``math``, ``hbm``, ``links`` (all of them), or a mesh axis.

    A mesh axis's own share wins over that of ``links``; a collective over several axes gets the
    least of theirs. ``ici``, ``nvlink``, ``dcn`` and ``pcie`` slow one kind of link, under whatever
    axes it lies, and come on top. What has no share runs at its peak. So no time ever gets shorter,
    and with all shares at 1 none changes.

    >>> from symscale.algebra.symbols import B, C
    >>> Efficiency.of({"math": 0.5}).stretch(Time.of(TimeTerm("math", B / C))).math
    2*B/C
    """

    shares: tuple[tuple[str, Expr], ...] = ()

    @classmethod
    def of(
        cls, given: Mapping[str, Any] | float | None, axes: Iterable[str] | None = None
    ) -> Efficiency:
        """Shares from a mapping; a bare number is the share of matrix arithmetic.

        Args:
            given: roof to share, each above 0 and at most 1; None for the peaks themselves.
            axes: the mesh axes there are; when given, another name is refused.

        Raises:
            SymbolError: for a share that is no number in (0, 1], or a roof that does not exist.

        >>> Efficiency.of({"math": 0.7, "X": 0.9}).to_dict()
        {'math': 0.7, 'X': 0.9}
        >>> Efficiency.of({"maths": 0.7}, axes=["X"])
        Traceback (most recent call last):
        symscale.algebra.errors.SymbolError: efficiency of 'maths': no such roof; there are math, \
hbm, links, ici, nvlink, dcn, pcie, X; did you mean math?
        """
        if isinstance(given, Efficiency):
            made = given
        elif given is None:
            made = cls()
        else:
            pairs = given.items() if isinstance(given, Mapping) else ((MATH, given),)
            made = cls(tuple((str(name), _share(name, value)) for name, value in pairs))
        if axes is not None:
            made.check(axes)
        return made

    def check(self, axes: Iterable[str]) -> None:
        """Refuse a share of a roof that these mesh axes do not have.

        Raises:
            SymbolError: naming the roofs there are.
        """
        known = (MATH, HBM, LINKS, *PORTS, *axes)
        for name in self:
            if name not in known:
                raise SymbolError(
                    f"efficiency of {name!r}: no such roof; there are {', '.join(known)}"
                    f"{near(name, known)}"
                )

    def __getitem__(self, roof: str) -> Expr:
        return dict(self.shares)[roof]

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.shares)

    def __len__(self) -> int:
        return len(self.shares)

    def of_term(self, term: TimeTerm) -> Expr:
        """The share that a term's resource gives, kinds of links left aside."""
        if not term.is_comm:
            return self.get(term.resource, S.One) if term.resource not in PORTS else S.One
        every = self.get(LINKS, S.One)
        own = self.get(term.resource) if term.resource not in PORTS else None
        return own if own is not None else min(self.get(name, every) for name in term.axes)

    def stretch(self, time: Time) -> Time:
        """The time at these shares: each term divided by its own, rates of links slowed.

        The rates have to be symbols still.
        """
        if not self.shares:
            return time
        slower = {symbol(f"W_{port}"): symbol(f"W_{port}") * self.get(port, 1) for port in PORTS}
        return Time(
            tuple(
                Stage(
                    tuple(
                        replace(t, value=t.value.xreplace(slower) / self.of_term(t))
                        for t in stage.terms
                    )
                )
                for stage in time.stages
            )
        )

    def slow(self, chip: Chip) -> Chip:
        """The chip with its rates at their shares, for what asks a chip and not a time.

        Raises:
            SymbolError: for a share of a mesh axis: a chip has no such axes.

        >>> from symscale.algebra.symbols import W_hbm
        >>> from symscale.hardware.chips import chip
        >>> Efficiency.of({"hbm": 0.9}).slow(chip("h100"))[W_hbm] / chip("h100")[W_hbm]
        9/10
        """
        self.check(())
        slower: dict[str, Any] = {}
        for roof, share in self.shares:
            for name, figure in chip.figures.items():
                if any(name == kind or name.startswith(f"{kind}_") for kind in _RATES[roof]):
                    slower[name] = figure.value * share
        return chip.override(**slower) if slower else chip

    def __repr__(self) -> str:
        said = (f"{name} {100 * float(share):.4g}%" for name, share in self.shares)
        return f"share of peak: {', '.join(said) or 'all at 100%'}"

    def to_dict(self) -> dict[str, float]:
        """The shares by roof."""
        return {name: float(share) for name, share in self.shares}


def _share(name: Any, value: Any) -> Expr:
    share = exact(value, f"efficiency of {name}")
    if share > 1:
        raise SymbolError(
            f"efficiency of {name} = {value}: a share of the peak is wanted, above 0 and at most 1"
        )
    return share
