"""A pipeline schedule with its sizes and durations: order, closed forms, timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any

from sympy import Add, Expr, factor, sympify

from symscale.algebra.derivation import Derivation
from symscale.algebra.errors import StrategyError
from symscale.algebra.maximum import Maximum
from symscale.algebra.printing import to_plain
from symscale.algebra.symbols import to_latex
from symscale.parallel.schedules.load import Factors, Load
from symscale.parallel.schedules.path import Counted, Walk, largest, ratio
from symscale.parallel.schedules.recipe import Recipe, Sizes
from symscale.parallel.schedules.timeline import Block, Durations, play
from symscale.parallel.schedules.work import Order


@dataclass(frozen=True)
class Times:
    """How long one microbatch takes on one device's share (1/p) of the layers.

    ``pair`` is a forward and a whole backward (inputs and weights) overlapped with one another.
    """

    forward: Expr
    backward: Expr
    weights: Expr
    pair: Expr

    @property
    def own_pair(self) -> Expr | None:
        """The time of a pair, or None where it is no other than the sum of its parts."""
        return None if self.pair == self.forward + self.backward + self.weights else self.pair

    def by_kind(self, share: Expr) -> dict[Counted, Expr]:
        """The time of each kind of work on one chunk, which is ``share`` of the device's layers."""
        return {
            "F": self.forward * share,
            "B": self.backward * share,
            "W": self.weights * share,
            "BW": (self.backward + self.weights) * share,
            "FB": self.pair * share,
        }


@dataclass(frozen=True)
class Schedule:
    """A pipeline schedule over p devices and m microbatches; made by :func:`schedule`.

    Times are those of one step. ``ideal`` is the work of one device, ``bubble`` what the step
    takes beyond it. In-flight activations are counted in microbatches of one device's share of
    the layers, from the start of the forward to the end of the last gradient that needs them.

    >>> from symscale.parallel.schedules.lookup import schedule
    >>> plain = schedule("1f1b")
    >>> plain.bubble_of_ideal, plain.bubble_of_total
    ((p - 1)/m, (p - 1)/(m + p - 1))
    >>> plain.bubble
    (p - 1)*(t_B + t_F + t_W)
    """

    recipe: Recipe
    p: Expr
    m: Expr
    v: Expr
    times: Times
    load: Load | Factors

    @property
    def name(self) -> str:
        """The schedule's name."""
        return self.recipe.name

    @property
    def sizes(self) -> Sizes:
        """Devices, microbatches, chunks a device."""
        return self.p, self.m, self.v

    @property
    def pieces(self) -> Expr:
        """Chunks into which one device's share of the layers is cut."""
        return self.recipe.pieces(self.v)

    @property
    def stages(self) -> Expr:
        """Stages that the layers are divided into."""
        return self.p * self.pieces

    @cached_property
    def walks(self) -> tuple[Walk, ...]:
        """The paths of which the longest is the time of a step."""
        return self.recipe.walks(self.sizes)

    def _by_kind(self, factor: Expr) -> Mapping[Counted, Expr]:
        return self.times.by_kind(factor / self.pieces)

    def _lengths(self, started: bool) -> list[Expr]:
        """Path lengths; ``started`` leaves out what passes before a device's own first work."""
        slowest = self.load.slowest(self.stages)
        even = self._by_kind(self.load.mean() if self.recipe.uneven else slowest)
        times = self._by_kind(slowest)
        lead = times["F"] if started else 0
        return [walk.length(times, even) - walk.lead * lead for walk in self.walks]

    @cached_property
    def makespan(self) -> Expr:
        """From the first work of any device to the last of any."""
        return self._total(started=False)

    @cached_property
    def span(self) -> Expr:
        """The longest that a device takes from its own first work to its own last."""
        return self._total(started=True)

    def _beyond(self, started: bool) -> Expr:
        """The longest path less the work of one device."""
        return largest(length - self.ideal for length in self._lengths(started))

    def _total(self, started: bool) -> Expr:
        beyond = self._beyond(started)
        total = beyond + self.ideal
        return total if beyond.has(Maximum) else factor(total)

    @property
    def step(self) -> Expr:
        """The time of a step: the makespan, or the span where no barrier parts the steps."""
        return self.makespan if self.recipe.barrier else self.span

    @cached_property
    def ideal(self) -> Expr:
        """The work of one device, no gap in it (the mean of all, where they are unequal)."""
        times = self._by_kind(self.load.mean())
        work = Add(*(leg.count * times[leg.kind] for leg in self.recipe.busy(self.sizes)))
        short = factor(work)
        return work if short.is_Add else short

    @cached_property
    def bubble(self) -> Expr:
        """What a step takes beyond the work of one device."""
        return self._beyond(started=not self.recipe.barrier)

    @cached_property
    def bubble_of_ideal(self) -> Expr:
        """The bubble over the ideal time (as Megatron counts it)."""
        return ratio(self.bubble, self.ideal)

    @cached_property
    def bubble_of_total(self) -> Expr:
        """The bubble over the whole step (as GPipe and Zero Bubble count it)."""
        return ratio(self.bubble, self.ideal + self.bubble)

    def in_flight(self, stage: Expr | int = 0) -> Expr:
        """The most microbatches whose activations one stage (counted from 0) holds at a time.

        Raises:
            StrategyError: for a stage that there is not.

        >>> from symscale.parallel.schedules.lookup import schedule
        >>> schedule("1f1b", p=4, m=8).in_flight(1)
        3
        """
        if not isinstance(stage, int | Expr):
            raise StrategyError(f"schedule {self.name!r}: stage {stage!r} is no number")
        made = sympify(stage, strict=True)
        if made.is_number and self.p.is_number and not 0 <= made < self.p:
            raise StrategyError(
                f"schedule {self.name!r}: stage {stage} is none of 0 to {self.p - 1}"
            )
        return self.recipe.in_flight(self.sizes, made) / self.pieces

    @property
    def peak_layers(self) -> Expr:
        """In-flight activations of the first stage in microbatch-layers, of L layers in all."""
        from symscale.algebra.symbols import L

        return self.in_flight(0) * (L if self.load.layers is None else self.load.layers) / self.p

    @property
    def messages(self) -> Mapping[str, Expr]:
        """Activations and gradients that a device sends in a step: an inner one, one at an end."""
        visits = self.recipe.visits(self.v)
        inner = 2 * visits * self.m
        end = inner - (1 + self.recipe.turns) * self.m
        shared = 0 if self.p == 1 else 1
        return MappingProxyType({"inner": inner * shared, "end": end * shared})

    def sent(self, message: Expr | int) -> Expr:
        """Bytes that the busiest device sends in a step, by the bytes of one message.

        A message is one microbatch's residual activations (or their gradient) on one device.

        >>> from symscale.algebra.symbols import B, D, m
        >>> from symscale.parallel.schedules.lookup import schedule
        >>> schedule("1f1b").sent(2 * B * D / m)
        4*B*D
        """
        few = self.p.is_number and self.p <= 2
        return self.messages["end" if few else "inner"] * sympify(message, strict=True)

    @property
    def hops(self) -> Expr | None:
        """Messages on the longest path when latency is small and none hides; None if not known."""
        return None if self.recipe.hops is None else self.recipe.hops(self.sizes)

    @property
    def notes(self) -> tuple[str, ...]:
        """What deserves a word: fewer microbatches than devices, work that does not divide."""
        out = []
        if self.p.is_number and self.m.is_number and self.m < self.p:
            out.append(f"{self.m} microbatches on {self.p} devices: never are all of them busy")
        layers = self.load.layers
        if layers is not None and layers.is_number and self.stages.is_number:
            even = layers % self.stages == 0
            if not even:
                out.append(f"{layers} layers do not divide into {self.stages} stages; the slowest "
                           f"holds {-(-layers // self.stages)}")  # fmt: skip
        return tuple(out)

    def at(self, **sizes: Any) -> Schedule:
        """The schedule with other sizes or durations, as :func:`schedule` takes them.

        Raises:
            StrategyError: for sizes that cannot be.
        """
        from symscale.parallel.schedules.lookup import schedule

        given = {"p": self.p, "m": self.m, "v": self.v if self.recipe.chunked else None,
                 "forward": self.times.forward, "backward": self.times.backward,
                 "weights": self.times.weights, "pair": self.times.own_pair,
                 "layers": self.load.layers, "first": self.load.first,
                 "last": self.load.last}  # fmt: skip
        return schedule(self.name, **{**given, **sizes})

    def order(self, p: int | None = None, m: int | None = None, v: int | None = None) -> Order:
        """Each device's work in its order, for numbers (the schedule's own unless given).

        Raises:
            StrategyError: for a size that is no number, or sizes that cannot be.

        >>> from symscale.parallel.schedules.lookup import schedule
        >>> schedule("zb-h1").order(2, 2)[1]
        ((F0 on stage 1,), (B0 on stage 1,), (F1 on stage 1,), (B1 on stage 1,), (W0 on stage 1,), \
(W1 on stage 1,))
        """
        return self.recipe.order(*self._numbers(p, m, v))

    def _numbers(self, *sizes: int | None) -> tuple[int, int, int]:
        given = {key: size for key, size in zip("pmv", sizes, strict=True) if size is not None}
        made = self.at(**given) if given else self
        for key, size in zip("pmv", made.sizes, strict=True):
            if not size.is_number:
                raise StrategyError(f"schedule {self.name!r}: {key} is no number; give {key}=")
        p, m, v = made.sizes
        return int(p), int(m), int(v)

    def timeline(
        self, p: int | None = None, m: int | None = None, v: int | None = None, *,
        forward: Any = 1, backward: Any = 1, weights: Any = 1, pair: Any = None,
        latency: Any = 0, scale: Sequence[Any] = (),
    ) -> tuple[Block, ...]:  # fmt: skip
        """When every piece of work runs, for numbers.

        Durations are those of one microbatch on one device's share of the layers; ``pair`` is
        their sum unless given, ``latency`` is added to each message between devices, ``scale``
        multiplies the work of each stage in turn.

        Raises:
            StrategyError: for a size that is no number, or sizes that cannot be.

        >>> from symscale.parallel.schedules.lookup import schedule
        >>> max(block.end for block in schedule("1f1b").timeline(4, 8))
        Fraction(33, 1)
        """
        sizes = self._numbers(p, m, v)
        share = Fraction(1, int(self.recipe.pieces(sympify(sizes[2], strict=True))))
        f, b, w = (self._fraction("duration", one, 1) for one in (forward, backward, weights))
        both = f + b + w if pair is None else self._fraction("pair", pair, 1)
        times = {"F": f, "B": b, "W": w, "BW": b + w, "FB": both}
        stages = int(sizes[0] / share)
        scales = tuple(self._fraction("scale", one, 1) for one in scale)
        if scales and len(scales) != stages:
            raise StrategyError(f"schedule {self.name!r}: {len(scales)} scales for {stages} stages")
        played = Durations(
            {kind: time * share for kind, time in times.items()},
            self._fraction("latency", latency, 0),
            scales,
        )
        return play(self.recipe.order(*sizes), stages, played)

    def _fraction(self, what: str, value: Any, least: int) -> Fraction:
        """An exact number above zero (``least`` 1), or not below it."""
        try:
            made = Fraction(value)
        except (TypeError, ValueError, OverflowError):
            made = Fraction(-1)
        if made < 0 or (least and not made):
            need = "above zero" if least else "zero or more"
            raise StrategyError(f"schedule {self.name!r}: {what} {value!r}; {need} is wanted")
        return made

    @cached_property
    def derivation(self) -> Derivation:
        """The steps from the paths through the schedule to its bubble."""
        from symscale.parallel.schedules.steps import derive

        return derive(self)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{key}={size}" for key, size in zip("pmv", self.sizes, strict=True)
                          if key != "v" or self.recipe.chunked)  # fmt: skip
        return (
            f"schedule({self.name!r}, {sizes}): step {to_plain(self.step)}; "
            f"bubble {to_plain(self.bubble)}; in flight {to_plain(self.in_flight(0))}"
        )

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {to_latex(self.step)}$"

    def to_dict(self) -> dict[str, Any]:
        """Formulas as text, with the source."""
        from symscale.parallel.schedules.steps import facts

        return facts(self)
