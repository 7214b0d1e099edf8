"""The catalogue checked as a whole, and its lists of collectives."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from symscale.algebra.errors import ReportError
from symscale.xla.catalogue_cases import Case, catalogue, every_reshard
from symscale.xla.check import Check, check_all
from symscale.xla.compare_lists import Key, emitted_key

#: Programs compiled in one process; more at once would make an error cost more time.
BATCH = 400


@dataclass(frozen=True)
class Agreement:
    """All checks of the catalogue: by XLA's partitioner, and with the collectives written out.

    ``sweep``: every way between two shardings of a matrix over two mesh axes.
    """

    cases: tuple[Case, ...]
    automatic: tuple[Check, ...]
    explicit: tuple[Check, ...]
    sweep: tuple[Check, ...] = ()

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
        return explicit and all(found.ok for found in (*self.automatic, *self.sweep))

    def chosen(self, wanted: Callable[[Case], bool]) -> tuple[Check, ...]:
        """The checks by XLA's partitioner of the cases that are wanted."""
        pairs = zip(self.cases, self.automatic, strict=True)
        return tuple(found for case, found in pairs if wanted(case))

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
            "sweep": [found.to_dict() for found in self.sweep],
        }


def check_catalogue(cases: Sequence[Case] | None = None) -> Agreement:
    """Every case of the catalogue (and the sweep of reshards), compiled in one process.

    Raises:
        XlaError: without JAX, or when XLA refuses a program.
    """
    chosen = catalogue() if cases is None else tuple(cases)
    plain = [case.subject() for case in chosen]
    written = [case.subject(explicit=True) for case in chosen if explicit_too(case)]
    swept = [case.subject() for case in every_reshard()] if cases is None else []
    subjects = plain + written + swept
    found: list[Check] = []
    for start in range(0, len(subjects), BATCH):
        found += check_all(subjects[start : start + BATCH])
    first, last = len(plain), len(plain) + len(written)
    return Agreement(chosen, tuple(found[:first]), tuple(found[first:last]), tuple(found[last:]))


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


def run_catalogue(output: str | None, as_json: bool = False) -> int:
    """Check the catalogue, print the outcome, write the page; 1 when something is not explained.

    Raises:
        ReportError: when the page cannot be written.
    """
    from symscale.xla.catalogue_page import page

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
