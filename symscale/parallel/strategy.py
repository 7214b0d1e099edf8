"""Strategies: assignments of mesh axes to the dims of a program's arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from symscale.algebra.errors import StrategyError, near
from symscale.algebra.symbols import BUILT_IN, info, m
from symscale.algebra.table import Table
from symscale.arrays.array import Array
from symscale.arrays.dtype import dtype
from symscale.models.decoder import two_matmul_layer
from symscale.parallel.context import axes_of, core_of, shard_sequences
from symscale.parallel.experts import (
    EXPERTS,
    SHARED,
    SLOTS,
    by_expert,
    data_axes,
    is_choice,
    seen_by,
    slots_of,
    unmixed,
)
from symscale.parallel.parts import ALIASES, PARTS, Part, Roles
from symscale.parallel.pipeline import PIPELINE, Pipeline, pipeline
from symscale.parallel.sequence import by_sequence
from symscale.parallel.techniques import OPTIONS, Techniques, techniques
from symscale.programs.program import Keep, Program
from symscale.programs.sharded import ShardedProgram

Axes = tuple[str, ...]

_DEFAULT_AXES: Mapping[str, Axes] = MappingProxyType(
    {"data": ("X",), "rows": ("X",), "tensor": ("Y",), "replica": ("R",), "stage": ("P",)}
    | {"context": ("Z",), "expert": ("Z",)}
)


#: Symbols that no mesh axis may take for its name.
_TAKEN = {name for name in (*BUILT_IN, "m", "v") if info(name).kind != "axis"}

#: Roles from the outermost axis of a mesh to the innermost, which lies on the fastest links: what
#: talks most goes last.
_ORDER = ("stage", "replica", "data", "context", "expert", "rows", "tensor")


@dataclass(frozen=True)
class Strategy:
    """A way of splitting a model: parts, the mesh axes that play their roles, a pipeline schedule
    if there is one, and techniques that save memory or split the batch in time.

    ``lines(program)`` gives the sharding of every array of a program in the notation; hand the
    strategy itself to :meth:`Program.shard`.

    >>> from symscale.models.decoder import two_matmul_layer
    >>> print("  ".join(strategy("fsdp+tp").lines(two_matmul_layer())))
    In[B_X, D_Y]  Tmp[B_X, F_Y]  Out[B_X, D_Y]  Win[D_X, F_Y]  Wout[F_Y, D_X]
    """

    name: str
    parts: tuple[Part, ...]
    axes: Mapping[str, Axes]
    pipeline: Pipeline | None = None
    techniques: Techniques = field(default_factory=Techniques)

    @property
    def meaning(self) -> str:
        """What is split, in words."""
        return "; ".join(part.meaning for part in self.parts)

    @property
    def mesh_axes(self) -> Axes:
        """All mesh axes in use, each once."""
        return tuple(dict.fromkeys(name for axes in self.axes.values() for name in axes))

    def lines(self, program: Program) -> tuple[str, ...]:
        """The sharding of a program's arrays, gradients and optimizer state, as notation."""
        arrays = program.arrays
        weights = [arrays[name] for name in program.weights]
        activations = [array for array in arrays.values() if array.name not in program.weights]
        inner = core_of(self, program)
        out = [self.activation(array, array.name in inner) for array in activations]
        out += [self._weight(array, array.name, "weights") for array in weights]
        for array in weights:
            out += self._training(array)
        kept = {f"d{array.name}" for array in weights} if self.techniques.gradients else set()
        return tuple(str(array) if array.name in kept else array.short for array in out)

    def activation(self, array: Array, inner: bool = False) -> Array:
        """An activation as it will lie; ``inner`` ones are between attention's projections."""
        wide = "D" in array.labels or is_choice(array.labels)
        kind = "residual" if wide else "core" if inner else "hidden"
        placing = self._placing(kind, array.labels)
        if is_choice(array.labels):
            own = {x: slots_of(placing[x], self.axes) for x in array.labels if x in SLOTS}
            placing |= own
        return array.placed(placing, unmixed(array.labels, placing, self.axes))

    def _weight(self, array: Array, name: str, kind: str, partial: Axes = ()) -> Array:
        """A matrix as its part says; a vector along D as the activations it meets, and as that."""
        named = Array(name, array.dims, array.dtype)
        placing = self._placing(kind, array.labels)
        if len(array.dims) == 1:
            along = self._placing("residual", array.labels)
            placing = {label: _joined(along[label], placing[label]) for label in array.labels}
        used = {axis for held in placing.values() for axis in held}
        return named.placed(placing, tuple(axis for axis in partial if axis not in used))

    def _training(self, weight: Array) -> list[Array]:
        """Gradient and optimizer state, where they lie otherwise than the weight."""
        out = []
        waiting = [role for part in self.parts for role in part.partial]
        seen = seen_by(self.axes, weight.labels)
        partial = tuple(a for role in waiting for a in axes_of(seen, role, "gradients"))
        gradient = self._weight(weight, f"d{weight.name}", "gradients", partial)
        if self._waits:
            gradient = self._waiting(gradient)
        kept = self.techniques.gradients
        if kept is not None:
            gradient = replace(gradient, dtype=dtype(kept))
        split = any(part.gradients is not None for part in self.parts)
        if gradient.unreduced or split or kept is not None:
            out.append(gradient)
        if any(part.optimizer is not None for part in self.parts):
            out.append(self._weight(weight, f"m{weight.name}", "optimizer"))
        return out

    @property
    def _waits(self) -> bool:
        """Whether gradients are reduced after the last microbatch only."""
        chosen = self.techniques.reduce
        whole = all(part.gradients is None and "D" not in part.weights for part in self._data)
        return chosen == "last" or (chosen is None and self.techniques.accumulates and whole)

    @property
    def _data(self) -> tuple[Part, ...]:
        """The parts that split the tokens: the batch, and sequences."""
        roles = {"data", "context", "expert"}
        return tuple(part for part in self.parts if roles & set(part.roles))

    def _waiting(self, gradient: Array) -> Array:
        """A gradient that is whole along the data axes, a partial sum until the last microbatch."""
        seen = seen_by(self.axes, gradient.labels)
        roles = {"data", *(role for part in self._data for role in part.roles)} - {"expert"}
        axes = frozenset(a for role in roles for a in data_axes(seen, role))
        if by_expert(gradient.labels):
            axes -= frozenset(self.axes.get("expert", ()))
        left = {d.name: tuple(a for a in d.axes if a not in axes) for d in gradient.dims}
        fresh = tuple(sorted(axes - set(gradient.unreduced)))
        return gradient.placed(left, (*gradient.unreduced, *fresh))

    def _placing(self, kind: str, labels: tuple[str, ...]) -> dict[str, Axes]:
        """The mesh axes of each dim, over all parts; no axis twice. Slots lie as tokens do."""
        out: dict[str, Axes] = dict.fromkeys(labels, ())
        used: set[str] = set()
        seen = seen_by(self.axes, labels)
        if by_expert(labels):
            out[EXPERTS] = self.axes.get("expert", ())
            used.update(out[EXPERTS])
        slots = {SLOTS[label]: label for label in labels if label in SLOTS}
        for part in _ordered(self.parts, kind):
            for dim, roles in _roles(part, kind).items():
                label = slots.get(dim, dim)
                if label not in out:
                    continue
                held = (a for role in roles for a in axes_of(seen, role, kind))
                fresh = tuple(a for a in held if a not in used)
                out[label] = out[label] + fresh
                used.update(fresh)
        return out

    def shard(
        self,
        program: Program,
        keep: Keep = "activations",
        sizes: Mapping[str, int] | None = None,
    ) -> ShardedProgram:
        """The program under this strategy (``keep`` and ``sizes`` as in :meth:`Program.shard`).

        Where sequences are sharded, the program is written by sequences first.
        """
        if "context" in self.axes:
            return shard_sequences(self, program, keep, sizes)
        return program.shard(self, keep=keep, sizes=sizes)

    def _on_two_matmuls(self) -> tuple[str, ...]:
        """The shardings of the textbook's layer."""
        layer = two_matmul_layer()
        return self.lines(by_sequence(layer) if "context" in self.axes else layer)

    def using(self, **options: Any) -> Strategy:
        """The same split with other techniques (see :class:`Techniques`).

        Raises:
            StrategyError: for an option that does not exist, or a value that it cannot have.

        >>> strategy("fsdp").using(remat="block").techniques.remat
        'block'
        """
        for name in options:
            if name not in OPTIONS:
                raise StrategyError(f"unknown technique {name!r}; known: {', '.join(OPTIONS)}")
        made = techniques(options, self.techniques)
        pipe = self.pipeline
        if pipe is not None and "microbatches" in options:
            pipe = replace(pipe, schedule=pipe.schedule.at(m=made.microbatches))
        return replace(self, techniques=made, pipeline=pipe)

    def chunked(self, chunks: int) -> Strategy:
        """The same strategy with so many chunks of layers on each device of its pipeline.

        Raises:
            StrategyError: without a pipeline, or for a schedule without chunks.
        """
        if self.pipeline is None:
            raise StrategyError(f"strategy {self.name!r} has no stages; add +pp")
        made = self.pipeline.schedule.at(v=chunks)
        return replace(self, pipeline=replace(self.pipeline, schedule=made))

    def __repr__(self) -> str:
        roles = ", ".join(f"{role}={''.join(axes)}" for role, axes in self.axes.items())
        return f"strategy({self.name!r}): {roles}; {self.meaning}"

    def _repr_html_(self) -> str:
        rows = tuple((line,) for line in self._on_two_matmuls())
        return Table(("sharding",), rows)._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Name, axes by role, and the shardings of the two-matmul layer."""
        return {
            "name": self.name,
            "axes": {role: list(axes) for role, axes in self.axes.items()},
            "meaning": self.meaning,
            "schedule": None if self.pipeline is None else self.pipeline.schedule.name,
            "techniques": self.techniques.to_dict(),
            "lines": list(self._on_two_matmuls()),
        }


def _roles(part: Part, kind: str) -> Roles:
    found: Roles | None = getattr(part, kind)
    if found is None:
        return part.hidden if kind == "core" else part.weights
    return found


def _ordered(parts: tuple[Part, ...], kind: str) -> tuple[Part, ...]:
    """Heads are split over tensor ranks before sequences are exchanged for them."""
    return tuple(sorted(parts, key=lambda part: kind == "core" and part.core is not None))


def _joined(first: Axes, second: Axes) -> Axes:
    return first + tuple(name for name in second if name not in first)


def _parse(name: str) -> tuple[Part, ...]:
    words = name.lower().replace(" ", "").replace("-", "").split("+")
    if "sp" in words and "tp" in words:
        words = [word for word in words if word not in ("tp", "sp")] + ["tp+sp"]
    out = []
    for word in words:
        key = ALIASES.get(word, word)
        if key not in PARTS:
            raise StrategyError(
                f"unknown strategy {name!r}; parts: {', '.join(PARTS)}{near(word, PARTS)}"
            )
        out.append(PARTS[key])
    return tuple(out)


def strategy(name: str | Strategy, **options: Any) -> Strategy:
    """A strategy by name: ``dp``, ``zero1``, ``zero2``, ``fsdp`` (``zero3``), ``hsdp``, ``tp``,
    ``tp+sp``, ``tpwhole``, ``2d``, ``cp``, ``ulysses``, ``ring``, ``ep``, ``pp``, or several joined
    by ``+`` (``fsdp+tp+cp+pp``).

    Roles take mesh axes: ``data`` (X unless said), ``tensor`` (Y), ``rows`` (X, of ``2d``),
    ``replica`` (R, of ``hsdp``), ``context`` (Z, of ``cp``, ``ulysses`` and ``ring``), ``expert``
    (Z, of ``ep``), ``stage`` (P, of ``pp``). Capitals stand for one-letter axes (``data="XYZ"``),
    another word for one axis of that name, a tuple for several such. Experts may share axes with
    data, context and tensor roles (``tensor="Y", expert="ZY"``).

    A pipeline takes ``schedule`` (``"1f1b"`` unless said, see :func:`schedule`) and ``chunks``; any
    strategy takes the options of :class:`Techniques`: ``microbatches``, ``remat``, ``optimizer``,
    ``gradients``, ``reduce``, ``offload``.

    Raises:
        StrategyError: for an unknown part, parts that claim one role, an axis used twice, or an
            option that the strategy does not take.

    >>> strategy("fsdp", data="XYZ").mesh_axes
    ('X', 'Y', 'Z')
    >>> strategy("fsdp+tp+pp", schedule="zb-h1", microbatches=32)
    strategy('fsdp+tp+pp'): stage=P, data=X, tensor=Y; fully sharded data parallel (ZeRO-3): \
weights split as well; tensor parallel (Megatron), activations between blocks split on D; \
pipeline parallel: layers split into stages
    >>> strategy("fdsp")
    Traceback (most recent call last):
    symscale.algebra.errors.StrategyError: unknown strategy 'fdsp'; parts: dp, zero1, ...
    """
    if not isinstance(name, str | Strategy):
        raise StrategyError(f"strategy {name!r}: a name is wanted, or a strategy")
    chosen = {key: value for key, value in options.items() if key in (*OPTIONS, *PIPELINE)}
    axes = {key: value for key, value in options.items() if key not in chosen}
    if isinstance(name, Strategy):
        if axes or any(key in PIPELINE for key in chosen):
            raise StrategyError(f"strategy {name.name!r} has its mesh axes; give them with a name")
        return name.using(**chosen) if chosen else name
    parts = _parse(name)
    placed = _roles_to_axes(name, parts, axes)
    pipe = _pipe(name, placed, chosen)
    if pipe is not None:
        chosen["microbatches"] = pipe.schedule.m
    used = techniques({key: value for key, value in chosen.items() if key in OPTIONS})
    made = Strategy(name.lower().replace(" ", ""), parts, placed, pipe, used)
    if used.reduce == "last" and any(part.gradients is not None for part in parts):
        raise StrategyError(f"strategy {name!r} keeps gradients split: they are reduced each time")
    return made


def _roles_to_axes(
    name: str, parts: tuple[Part, ...], axes: Mapping[str, Any]
) -> Mapping[str, Axes]:
    roles = sorted((role for part in parts for role in part.roles), key=_ORDER.index)
    for role in roles:
        if roles.count(role) > 1:
            raise StrategyError(f"strategy {name!r}: two parts want the role {role}")
    for role in axes:
        if role not in roles:
            raise StrategyError(
                f"strategy {name!r} has no role {role!r}; it has {', '.join(roles)}"
                f"{near(role, (*roles, *OPTIONS, *PIPELINE))}"
            )
    chosen = {role: _axes(name, role, axes.get(role, _DEFAULT_AXES[role])) for role in roles}
    flat = [axis for group in _apart(chosen) for axis in group]
    for axis in flat:
        if flat.count(axis) > 1:
            raise StrategyError(f"strategy {name!r}: mesh axis {axis} plays two roles")
    return MappingProxyType(chosen)


def _apart(axes: Mapping[str, Axes]) -> list[Axes]:
    """Groups of axes that may not meet: experts' axes may be those of some other roles."""
    shared = {axis for role in SHARED for axis in axes.get(role, ())}
    own = axes.get("expert", ())
    alone = tuple(axis for axis in own if axis not in shared or own.count(axis) > 1)
    return [*(group for role, group in axes.items() if role != "expert"), alone]


def _pipe(name: str, axes: Mapping[str, Axes], options: Mapping[str, Any]) -> Pipeline | None:
    given = {key: options.get(key) for key in PIPELINE}
    if "stage" not in axes:
        for key, value in given.items():
            if value is not None:
                raise StrategyError(f"strategy {name!r} has no stages for {key}={value!r}; add +pp")
        return None
    if len(axes["stage"]) > 1:
        raise StrategyError(f"strategy {name!r}: stages lie along one mesh axis")
    count = options.get("microbatches")
    return pipeline(axes["stage"][0], given, m if count is None else count)


def _axes(name: str, role: str, given: Any) -> Axes:
    """The mesh axes of a role: ``XY`` are two, ``data`` is one."""
    if isinstance(given, str):
        chosen = tuple(given) if given.isupper() else (given,) if given else ()
    else:
        chosen = tuple(given) if isinstance(given, tuple | list) else (given,)
    if not chosen:
        raise StrategyError(f"strategy {name!r}: role {role} has no mesh axis")
    for one in chosen:
        if not isinstance(one, str) or not one.isidentifier():
            raise StrategyError(f"strategy {name!r}: {one!r} is no name of a mesh axis")
        if one in _TAKEN:
            raise StrategyError(
                f"strategy {name!r}: mesh axis {one!r} is the symbol of {info(one).meaning}; "
                "rename the axis"
            )
    return chosen
