"""One program held against XLA: written out, compiled, read, compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from symscale.algebra.errors import ProgramError, ShardingError
from symscale.models.decoder import two_matmul_layer
from symscale.models.model import model
from symscale.parallel.strategy import strategy
from symscale.programs.phase import Phase
from symscale.programs.program import Keep, Program, program
from symscale.programs.sharded import ShardedProgram
from symscale.xla.check_lines import split_lines
from symscale.xla.compare import Comparison, compare
from symscale.xla.compare_known import KNOWN
from symscale.xla.compare_lists import derived
from symscale.xla.compile import Compiled, compile_all
from symscale.xla.emit import Pass, auto
from symscale.xla.emit_explicit import explicit
from symscale.xla.emit_module import Written
from symscale.xla.emit_setting import Setting, XlaError, default_sizes
from symscale.xla.hlo import read_hlo


@dataclass(frozen=True)
class Subject:
    """What is checked: a sharded program, numbers, a pass, and how it is written out."""

    name: str
    sharded: ShardedProgram
    setting: Setting
    which: Pass = "forward"
    explicit: bool = False
    pinned: bool = False

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The derived passes that the written program stands for."""
        if self.which == "joint":
            return self.sharded.forward, self.sharded.backward
        return (self.sharded.forward if self.which == "forward" else self.sharded.backward,)

    def written(self) -> Written:
        """The JAX source."""
        if self.explicit:
            return explicit(self.sharded, self.setting, self.which)
        return auto(self.sharded, self.setting, self.which, self.pinned)

    def compared(self, compiled: Compiled) -> Comparison:
        """Derived against emitted, from the module after SPMD partitioning.

        What is written out must be emitted exactly: no difference is explained there.
        """
        report = read_hlo(compiled.spmd, self.setting.mesh)
        flops = sum(self.setting.number(phase.flops) for phase in self.phases)
        known = () if self.explicit else KNOWN
        return compare(derived(self.phases, self.setting), report, flops, known)


@dataclass(frozen=True)
class Check:
    """The outcome of one check; ``ok`` when everything agrees or has a known reason."""

    subject: Subject
    comparison: Comparison
    version: str

    @property
    def ok(self) -> bool:
        """Whether nothing is left unexplained."""
        return self.comparison.explained

    def __str__(self) -> str:
        mesh = ", ".join(f"{name}={size}" for name, size in self.subject.setting.mesh.items())
        sizes = ", ".join(f"{name}={size}" for name, size in self.subject.setting.sizes.items())
        how = "shard_map" if self.subject.explicit else "XLA's partitioner"
        head = f"{self.subject.name}: {self.subject.which} pass, {how} of jax {self.version}"
        return "\n".join([head, f"mesh {mesh}; sizes {sizes}", "", *self.comparison.lines()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.comparison._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Program, numbers and comparison."""
        return {
            "name": self.subject.name,
            "pass": self.subject.which,
            "explicit": self.subject.explicit,
            "jax": self.version,
            "ok": self.ok,
            **self.subject.setting.to_dict(),
            **self.comparison.to_dict(),
        }


def check_all(subjects: Sequence[Subject], limit: float | None = None) -> tuple[Check, ...]:
    """Several programs checked, compiled in one process.

    Raises:
        XlaError: without JAX, or for a program that XLA refuses.
        HloError: for a module that cannot be read.
    """
    found = compile_all([subject.written() for subject in subjects], limit)
    out = []
    for subject, compiled in zip(subjects, found, strict=True):
        if isinstance(compiled, XlaError):
            raise XlaError(f"{subject.name}: {compiled}")
        out.append(Check(subject, subject.compared(compiled), compiled.version))
    return tuple(out)


@dataclass(frozen=True)
class Question:
    """What ``symscale check`` was asked, before numbers are chosen.

    ``by_size``: the derived plan weighs the numbers where they decide, as XLA does.
    """

    lines: tuple[str, ...] = ()
    model: str | None = None
    strategy: str | None = None
    shards: tuple[str, ...] = ()
    mesh: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    inputs: tuple[str, ...] | None = None
    by_size: bool = False

    def sharded(self, keep: Keep = "activations") -> ShardedProgram:
        """The program under the shardings asked for.

        Raises:
            ProgramError: for a question that names no shardings, or two sources of a program.
        """
        whole, written = self._program()
        lines: list[Any] = [*written, *self.shards]
        if self.strategy is not None:
            lines = [strategy(self.strategy), *lines]
        if not lines:
            raise ProgramError("no shardings: name a --strategy, --shard lines, or shard the lines")
        return whole.shard(*lines, keep=keep)

    def _program(self) -> tuple[Program, tuple[str, ...]]:
        if self.model is not None:
            if self.lines:
                raise ProgramError("give the lines of a program or a --model, not both")
            return model(self.model).programs.layer, ()
        if not self.lines:
            return two_matmul_layer(), ()
        plain, shards = split_lines(self.lines)
        return program(*plain, inputs=self.inputs), shards

    @property
    def title(self) -> str:
        """What was asked, in short."""
        what = f"layer of {self.model}" if self.model else "two-matmul layer"
        name = what if not self.lines else "; ".join(self.lines)
        return f"{name}, {self.strategy}" if self.strategy else name


def check(
    question: Question, which: Pass = "forward", explicit: bool = False, pinned: bool = False
) -> Check:
    """One program held against XLA, on virtual CPU devices in a process of its own.

    Args:
        question: program, shardings, mesh, and sizes (those not given are chosen so that each
            array has bytes of its own).
        which: ``forward``, ``backward`` or ``joint``.
        explicit: write the collectives out (``jax.shard_map``) instead of leaving them to XLA.
        pinned: state as well where each op computes.

    Raises:
        SymscaleError: for a question that does not fit together, or without JAX.
    """
    return check_all([_subject(question, which, explicit, pinned)])[0]


def source(
    question: Question, which: Pass = "forward", explicit: bool = False, pinned: bool = False
) -> Written:
    """The JAX source that :func:`check` would compile; no JAX is needed.

    >>> written = source(Question(strategy="fsdp", mesh={"X": 4}))
    >>> print(next(line for line in written.text.splitlines() if "Win" in line).strip())
    "Win": P("X", None),
    """
    return _subject(question, which, explicit, pinned).written()


def _subject(question: Question, which: Pass, explicit: bool, pinned: bool) -> Subject:
    sharded = question.sharded("all" if which == "joint" else "activations")
    _check_sizes(question.sizes, sharded.program)
    mesh = _in_use(sharded, question.mesh)
    setting = Setting(mesh, default_sizes(sharded.program, mesh, question.sizes))
    if question.by_size:
        sharded = replace(sharded, sizes={**setting.sizes, **setting.mesh})
    return Subject(question.title, sharded, setting, which, explicit, pinned)


def _in_use(sharded: ShardedProgram, mesh: Mapping[str, int]) -> dict[str, int]:
    """The mesh without the axes that no sharding names: they hold copies, and XLA would find work
    for them that the strategy does not give them.
    """
    names = {name for array in sharded.shardings.values() for name in array.axes}
    for name in sorted(names - set(mesh)):
        raise ShardingError(f"the mesh has no axis {name}; it has {', '.join(mesh)}")
    return {name: size for name, size in mesh.items() if name in names}


def _check_sizes(sizes: Iterable[str], whole: Program) -> None:
    known = {s.name for a in whole.arrays.values() for d in a.dims for s in d.size.free_symbols}
    for name in sizes:
        if name not in known:
            raise ProgramError(f"no dim has the size {name}; sizes: {', '.join(sorted(known))}")
