"""Parameters by component, as formulas and counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Add, Expr, S, Symbol, factor

from symscale.algebra.errors import ModelError
from symscale.algebra.symbols import E, L, k, symbol, to_latex
from symscale.algebra.table import Table
from symscale.models.decoder import COMPONENTS, Decoder, LayerKind, number_of
from symscale.programs.program import Program

_COMPONENT_OF = {name: component for component, names in COMPONENTS.items() for name in names}


@dataclass(frozen=True)
class Parameters:
    """A model's parameters: ``total`` and ``active`` as formulas, ``count`` and ``table()``.

    The formulas are sums of the sizes of the programs' weights; a tied embedding is one array.
    Multi-token-prediction modules are counted apart (``mtp``).

    Attributes:
        components: all parameters by component.
        active_components: those that a token meets: of the routed experts, k of E.
        mtp: the modules' own parameters, embedding and head left out.
        biases: what of a component are biases, by component.
        sizes: the number of every symbol.
    """

    components: Mapping[str, Expr]
    active_components: Mapping[str, Expr]
    mtp: Expr
    biases: Mapping[str, Expr]
    sizes: Mapping[Symbol, int]

    @property
    def total(self) -> Expr:
        """All parameters, as a formula."""
        return Add(*self.components.values())

    @property
    def active(self) -> Expr:
        """Parameters that a token meets; all of them in a dense model."""
        return Add(*self.active_components.values())

    @property
    def count(self) -> int:
        """The number of parameters, to the unit."""
        return number_of(self.sizes, self.total)

    @property
    def active_count(self) -> int:
        """The number of parameters that a token meets."""
        return number_of(self.sizes, self.active)

    @property
    def mtp_count(self) -> int:
        """The number of parameters of the multi-token-prediction modules."""
        return number_of(self.sizes, self.mtp)

    def of(
        self,
        *,
        active: bool = False,
        embedding: bool = True,
        head: bool = True,
        positions: bool = True,
        tied_head: bool = True,
    ) -> Expr:
        """The N of a rule of thumb, by the convention that it is meant in.

        Args:
            active: only parameters that a token meets.
            embedding: count the input embedding.
            head: count the output head.
            positions: count learned positions.
            tied_head: where head and embedding are one array, count it if either is asked for;
                false: it counts as the input embedding alone.

        >>> from symscale.models.model import model
        >>> llama = model("llama-3-8b")
        >>> llama.params.of(embedding=False).subs(llama)
        7504924672
        """
        chosen = dict(self.active_components if active else self.components)
        table = chosen.pop("embedding", S.Zero)
        tied = "head" not in chosen and table != 0
        keeps = embedding or (tied and head and tied_head)
        if not head:
            chosen.pop("head", None)
        if not positions:
            chosen.pop("positions", None)
        return Add(*chosen.values(), table if keeps else S.Zero)

    def counts(self, active: bool = False) -> dict[str, int]:
        """Each component's number."""
        chosen = self.active_components if active else self.components
        return {name: number_of(self.sizes, expr) for name, expr in chosen.items()}

    @property
    def sparse(self) -> bool:
        """Whether a token meets only part of the parameters."""
        return bool(self.active != self.total)

    def table(self) -> Table:
        """Component, count (and active count where it differs), formula."""
        counts, active = self.counts(), self.counts(active=True)
        rows: list[tuple[Any, ...]] = []
        for name, expr in self.components.items():
            rows.append((name, counts[name], active[name], expr))
        rows.append(("total", self.count, self.active_count, self.total))
        if self.mtp != 0:
            rows.append(("mtp, apart", self.mtp_count, self.mtp_count, self.mtp))
        if self.sparse:
            return Table(("component", "count", "active", "formula"), tuple(rows))
        trimmed = tuple((name, count, expr) for name, count, _, expr in rows)
        return Table(("component", "count", "formula"), trimmed)

    def __repr__(self) -> str:
        return str(self.table())

    def _repr_latex_(self) -> str:
        return f"${to_latex(self.total)}$"

    def to_dict(self) -> dict[str, Any]:
        """Formulas and counts."""
        return {
            "total": self.count,
            "active": self.active_count,
            "mtp": self.mtp_count,
            "components": self.counts(),
            "active components": self.counts(active=True),
            "formulas": {name: str(expr) for name, expr in self.components.items()},
        }


def component_of(weight: str) -> str:
    """The component that a weight belongs to.

    >>> component_of("Wq"), component_of("g1"), component_of("Eout")
    ('attention', 'norms', 'experts')
    """
    return _COMPONENT_OF.get(weight, "norms")


def weight_sizes(program: Program, component: str, skip: Iterable[str] = ()) -> Expr:
    """The number of elements of a program's weights that belong to a component."""
    arrays, left_out = program.arrays, frozenset(skip)
    return Add(
        *(
            arrays[name].size
            for name in program.weights
            if component_of(name) == component and name not in left_out
        )
    )


def parameters(programs: Decoder, sizes: Mapping[Symbol, int]) -> Parameters:
    """Count the weights of a model's programs, each kind of layer as often as it occurs."""
    found: dict[str, Expr] = {}
    for component in COMPONENTS:
        amount = _layers(programs.kinds, component, L)
        amount += _layers(programs.encoder, component, symbol("L_enc"))
        amount += weight_sizes(programs.ends, component)
        if programs.encoder_ends is not None:
            # An encoder looks its tokens up in the decoder's own table.
            amount += weight_sizes(programs.encoder_ends, component, skip=("Emb",))
        if amount != 0:
            found[component] = amount
    tower = _tower(programs)
    if tower != 0:
        found["image tower"] = tower
    active = dict(found)
    if "experts" in found:
        active["experts"] = found["experts"].xreplace({E: k})
    mtp = Add(*(kind.count * kind.program.parameters for kind in programs.mtp))
    return Parameters(found, active, mtp, _biases(programs), sizes)


def _tower(programs: Decoder) -> Expr:
    layers = Add(*(kind.count * factor(kind.program.parameters) for kind in programs.tower))
    ends = programs.tower_ends
    return layers + (ends.parameters if ends is not None else S.Zero)


def _biases(programs: Decoder) -> Mapping[str, Expr]:
    """The experts' biases: vectors that stay in full precision where matrices are packed."""
    total = Add(
        *(
            kind.count * kind.program.arrays[name].size
            for kind in programs.kinds
            for name in kind.program.weights
            if name.startswith("bE")
        )
    )
    return {"experts": total} if total != 0 else {}


def _layers(kinds: tuple[LayerKind, ...], component: str, every: Symbol) -> Expr:
    """A component's weights over all layers: once for all where the kinds agree."""
    each = [weight_sizes(kind.program, component) for kind in kinds]
    if not each:
        return S.Zero
    if len(set(each)) == 1:
        return every * factor(each[0])
    return Add(*(kind.count * factor(one) for kind, one in zip(kinds, each, strict=True)))


def experts_touched(batch: Expr | int, experts: Expr | int = E, per_token: Expr | int = k) -> Expr:
    """How many different experts a batch of tokens touches, if each picks k of E alike.

    What decoding reads of the experts' weights: neither all of them, nor k, nor min(E, B k).

    Raises:
        ModelError: numbers of which more are picked than there are.

    >>> experts_touched(3, 8, 2)
    37/8
    """
    total, picked = S(experts), S(per_token)
    if total.is_number and picked.is_number and picked > total:
        raise ModelError(f"{picked} experts a token are more than the {total} there are")
    return total * (1 - (1 - picked / total) ** S(batch))
