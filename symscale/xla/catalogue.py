"""The catalogue checked as a whole, and the page that shows the agreement."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symscale.algebra.errors import ReportError
from symscale.arrays.notation import axes_text
from symscale.xla.catalogue_cases import Case, catalogue
from symscale.xla.check import Check, check_all
from symscale.xla.compare import Row
from symscale.xla.compare_lists import Derived, Key, emitted_key
from symscale.xla.readings import Emitted

#: Programs compiled in one process; more at once would make an error cost more time.
BATCH = 400


@dataclass(frozen=True)
class Agreement:
    """All checks of the catalogue: by XLA's partitioner, and with the collectives written out."""

    cases: tuple[Case, ...]
    automatic: tuple[Check, ...]
    explicit: tuple[Check, ...]

    @property
    def version(self) -> str:
        """The version of JAX."""
        return self.automatic[0].version

    @property
    def exact(self) -> int:
        """How many programs agree exactly under XLA's partitioner."""
        return sum(found.comparison.exact for found in self.automatic)

    @property
    def ok(self) -> bool:
        """Whether nothing is left unexplained, and all explicit programs are exact."""
        explicit = all(found.comparison.exact for found in self.explicit)
        return explicit and all(found.ok for found in self.automatic)

    @property
    def reasons(self) -> Counter[str]:
        """How often each reason stands behind a difference."""
        return Counter(why for found in self.automatic for why in found.comparison.reasons)

    def __str__(self) -> str:
        written = sum(found.comparison.exact for found in self.explicit)
        wrong = [c.name for c, f in zip(self.cases, self.automatic, strict=True) if not f.ok]
        lines = [
            f"jax {self.version}: {self.exact} of {len(self.automatic)} programs exact under XLA's "
            "partitioner,",
            f"{written} of {len(self.explicit)} with the collectives written out",
            *(f"not explained: {name}" for name in wrong),
        ]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<pre>{self}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Every check, in order."""
        return {
            "jax": self.version,
            "exact": self.exact,
            "programs": len(self.automatic),
            "ok": self.ok,
            "automatic": [found.to_dict() for found in self.automatic],
            "explicit": [found.to_dict() for found in self.explicit],
        }


def check_catalogue(cases: Sequence[Case] | None = None) -> Agreement:
    """Every case of the catalogue, compiled in one process.

    Raises:
        XlaError: without JAX, or when XLA refuses a program.
    """
    chosen = catalogue() if cases is None else tuple(cases)
    plain = [case.subject() for case in chosen]
    written = [case.subject(explicit=True) for case in chosen if explicit_too(case)]
    subjects = plain + written
    found: list[Check] = []
    for start in range(0, len(subjects), BATCH):
        found += check_all(subjects[start : start + BATCH])
    return Agreement(chosen, tuple(found[: len(plain)]), tuple(found[len(plain) :]))


def explicit_too(case: Case) -> bool:
    """Whether a case has an explicit version of its own."""
    return case.which != "joint" and not case.pinned


def lists(found: Agreement) -> dict[str, Any]:
    """What XLA emits for each program as (kind, mesh axes, bytes), and its matrix FLOPs a device;
    where that is not what was derived, the derived list too. For a replay without JAX.
    """
    return {
        case.name: _case_lists(check) for case, check in zip(
            found.cases, found.automatic, strict=True
        )
    }  # fmt: skip


def _case_lists(check: Check) -> dict[str, Any]:
    made = check.comparison
    out: dict[str, Any] = {
        "xla": _plain(emitted_key(one) for row in made.rows for one in row.emitted),
        "xla_flops": made.emitted_flops,
    }
    if not made.exact:
        out["derived"] = _plain(one.key for row in made.rows for one in row.derived)
        out["derived_flops"] = made.derived_flops
    return out


def _plain(keys: Iterable[Key]) -> list[list[Any]]:
    return sorted([kind, sorted(axes), volume] for kind, axes, volume in keys)


def page(found: Agreement) -> str:
    """The agreement as a page in Markdown."""
    return "\n".join([*_head(found), *_differences(found), *_groups(found)]) + "\n"


def _head(found: Agreement) -> Iterator[str]:
    total, exact = len(found.automatic), found.exact
    written = sum(one.comparison.exact for one in found.explicit)
    yield "# Derived collectives against XLA's"
    yield ""
    yield (
        f"Each program below was partitioned twice: by symscale, and by XLA (jax {found.version}, "
        "virtual CPU devices, the module after SPMD partitioning). Kind, mesh axes and bytes of "
        "every collective and the matrix FLOPs of a device are compared. Made by "
        "`symscale check --catalogue -o agreement.md`."
    )
    yield ""
    yield (
        "Left to XLA, a program states where its arrays lie and nothing else. *Pinned*, it states "
        "every sharding of the derived pass (how an op takes its operands, where it computes, that "
        "gradients are added before they are reduced), and XLA chooses the collectives. Written "
        "out, the collectives are the derived ones, and what XLA emits must be exactly these. "
        "*Joint* is a forward pass and its gradient in one program."
    )
    yield ""
    yield "| programs | exact |"
    yield "| --- | --- |"
    yield f"| collectives left to XLA's partitioner | {exact} of {total} ({exact / total:.0%}) |"
    yield f"| derived collectives written out (`shard_map`) | {written} of {len(found.explicit)} |"
    yield ""


def _differences(found: Agreement) -> Iterator[str]:
    yield "## Where they differ"
    yield ""
    yield "Bytes are of all collectives on a device, XLA's over the derived ones; likewise FLOPs."
    yield ""
    yield "| program | derived | XLA | bytes | FLOPs | cheaper in bytes | why |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for case, check in zip(found.cases, found.automatic, strict=True):
        if not check.comparison.exact:
            yield _difference(case, check)
    yield ""


def _difference(case: Case, check: Check) -> str:
    made = check.comparison
    rows = [row for row in made.rows if not row.exact]
    own = _side([one for row in rows for one in row.derived])
    other = _side([one for row in rows for one in row.emitted])
    cells = (
        case.name, own or "nothing", other or "nothing",
        _ratio(made.emitted_bytes, made.derived_bytes),
        _ratio(made.emitted_flops, made.derived_flops),
        _cheaper(rows), "; ".join(made.reasons) or "not explained",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _cheaper(rows: Sequence[Row]) -> str:
    own = sum(row.derived_bytes for row in rows)
    other = sum(row.emitted_bytes for row in rows)
    return "alike" if own == other else "derived" if own < other else "XLA"


def _ratio(other: int, own: int) -> str:
    if other == own:
        return "× 1"
    return f"× {other / own:.3g}" if own else "from nothing"


def _side(side: Sequence[Derived] | Sequence[Emitted]) -> str:
    counts = Counter(f"{one.kind}_{axes_text(one.axes)} {one.volume:,}" for one in side)
    return ", ".join(f"{n} × {name}" if n > 1 else name for name, n in counts.items())


def _groups(found: Agreement) -> Iterator[str]:
    yield "## All programs"
    yield ""
    yield "| program | collectives | bytes a device | verdict |"
    yield "| --- | --- | --- | --- |"
    for case, check in zip(found.cases, found.automatic, strict=True):
        made = check.comparison
        count = sum(len(row.derived) for row in made.rows)
        yield f"| {case.name} | {count} | {made.derived_bytes:,} | {made.verdict} |"


def run_catalogue(output: str | None, as_json: bool = False) -> int:
    """Check the catalogue, print the outcome, write the page; 1 when something is not explained.

    Raises:
        ReportError: when the page cannot be written.
    """
    found = check_catalogue()
    if output is not None:
        path = Path(output)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(page(found), "utf-8")
        except OSError as error:
            raise ReportError(f"cannot write {output}: {error.strerror}") from None
    print(json.dumps(found.to_dict(), sort_keys=True) if as_json else found)
    return 0 if found.ok else 1


if __name__ == "__main__":
    sys.exit(run_catalogue(sys.argv[1] if len(sys.argv) > 1 else None))
