"""The agreement of the catalogue as a page in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from symscale.arrays.notation import axes_text
from symscale.xla.catalogue import Agreement
from symscale.xla.catalogue_figures import figures, least_flops, other_flops, plan_given
from symscale.xla.check import Check
from symscale.xla.compare import Row
from symscale.xla.compare_known import KNOWN
from symscale.xla.compare_lists import Derived
from symscale.xla.readings import Emitted

_CHOSEN = (
    "How the cases were chosen: *products* are all 27 ways to lay one mesh axis on the operands "
    "and the result of a product, and a hand-made list over two and three axes that has the four "
    "textbook cases, flattened axes, partial sums, batching dims and two sizes at which XLA's "
    "choice turns; the derived plan is given the sizes, as XLA is (everything else is derived for "
    "any sizes). *Reshards* are a hand-made list; the sweep below holds all 110 on one mesh. "
    "*Layers* are every strategy the library names on a feed-forward block (plain, gated, with "
    "its norm), attention (K below the degree, multi-query, decode with the cache along heads, "
    "batch or context), experts with their AllToAlls, pipelines (a shift alone; every step of a "
    "schedule), and a whole decoder layer: each forward and backward, none left out for its "
    "outcome. A choice by hand is no random sample: the shares below say where the two "
    "partitioners differ, not how often they would on programs at large."
)
_VIEWS = (
    "*Arrays alone*: a program states where its arrays lie (intermediates too) and nothing else. "
    "*Pinned*: it states every sharding of the derived pass, how an op takes its operands, where "
    "it computes, that gradients are added before they are reduced, and XLA chooses the "
    "collectives; where the arrays alone already say all of this, the program counts in both rows "
    "and is compiled once. *Written out*: the collectives are the derived ones, and what XLA "
    "emits must be exactly these. A collective is equal when kind, mesh axes, bytes and the local "
    "dims of its operand are (an operand's dims may be reordered, split or merged)."
)


def page(found: Agreement) -> str:
    """The agreement as a page in Markdown."""
    parts = (_head, _differences, _sweep, _reasons, _flops, _groups)
    return "\n".join(line for part in parts for line in part(found)) + "\n"


def _head(found: Agreement) -> Iterator[str]:
    yield "# Derived collectives against XLA's"
    yield ""
    yield (
        f"Each program below was partitioned twice: by symscale, and by XLA (jax {found.version}, "
        "virtual CPU devices, the module after SPMD partitioning). Kind, mesh axes and bytes of "
        "every collective and the matrix FLOPs of a device are compared. Made by "
        "`symscale check --catalogue -o agreement.md`."
    )
    yield from ("", _CHOSEN, "", _VIEWS, "")
    yield from _table(("programs", "exact"), ((f.title, str(f)) for f in figures(found)))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| {' | '.join('---' for _ in head)} |"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


_COLUMNS = ("program", "derived", "XLA", "bytes", "FLOPs", "cheaper in bytes", "why")


def _differences(found: Agreement) -> Iterator[str]:
    yield "## Where they differ"
    yield ""
    yield "Bytes are of all collectives on a device, XLA's over the derived ones; likewise FLOPs."
    yield ""
    yield from _table(_COLUMNS, map(_difference, _inexact(found.automatic)))


def _sweep(found: Agreement) -> Iterator[str]:
    if not found.sweep:
        return
    wrong = _inexact(found.sweep)
    counts = Counter((why, _cheaper(_open(c))) for c in wrong for why in c.comparison.reasons)
    yield "## All reshards on X=4, Y=2"
    yield ""
    yield (
        f"{len(found.sweep) - len(wrong)} of {len(found.sweep)} ways from one sharding of A[I, J] "
        f"over two axes to another are exact. The other {len(wrong)}, by reason (a way may have "
        "two):"
    )
    yield ""
    rows = ((why, cheaper, str(count)) for (why, cheaper), count in sorted(counts.items()))
    yield from _table(("why", "cheaper in bytes", "ways"), rows)
    yield from _table(_COLUMNS, map(_difference, wrong))


def _reasons(found: Agreement) -> Iterator[str]:
    yield "## Where XLA can be the cheaper one"
    yield ""
    yield (
        "In each of these XLA uses what a plan for any sizes does not have: the sizes of dims or "
        "of mesh axes. Lengths are elements on a device, by the convention of volumes."
    )
    yield ""
    rows = ((known.reason, known.symbolic) for known in KNOWN if known.symbolic)
    yield from _table(("XLA's way", "why a plan for any sizes cannot choose it"), rows)


def _flops(found: Agreement) -> Iterator[str]:
    other = other_flops(found)
    every = len(found.automatic) + len(found.explicit)
    pairs = zip(found.cases, found.automatic, strict=True)
    given = [check for case, check in pairs if plan_given(case)] + list(found.explicit)
    differing = sum(c in given for c in other)
    yield "## Matrix FLOPs"
    yield ""
    yield (
        f"Equal to the unit in {every - len(other)} of {every} programs. Of the {len(given)} whose "
        f"plan is given or written out {differing or 'none'} differ. In the others, over the least "
        "a device can do (an equal share, nothing twice):"
    )
    yield ""
    yield from _table(("program", "derived", "XLA", "whose"), map(_flops_row, other))


def _flops_row(check: Check) -> tuple[str, ...]:
    made, least = check.comparison, least_flops(check)
    own, theirs = made.derived_flops, made.emitted_flops
    whose = (
        "XLA's devices do the same work several times; pinned or written out they do not"
        if theirs > own
        else "XLA splits work that the derived plan repeats"
    )
    return check.subject.name, f"× {own / least:.3g}", f"× {theirs / least:.3g}", whose


def _inexact(checks: Iterable[Check]) -> list[Check]:
    return [found for found in checks if not found.comparison.exact]


def _open(check: Check) -> list[Row]:
    return [row for row in check.comparison.rows if not row.exact]


def _difference(check: Check) -> tuple[str, ...]:
    made, rows = check.comparison, _open(check)
    own = _side([one for row in rows for one in row.derived])
    other = _side([one for row in rows for one in row.emitted])
    return (
        check.subject.name, own or "nothing", other or "nothing",
        _ratio(made.emitted_bytes, made.derived_bytes),
        _ratio(made.emitted_flops, made.derived_flops),
        _cheaper(rows), "; ".join(made.reasons) or "not explained",
    )  # fmt: skip


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
    rows = []
    for case, check in zip(found.cases, found.automatic, strict=True):
        made = check.comparison
        count = sum(len(row.derived) for row in made.rows)
        rows.append((case.name, str(count), f"{made.derived_bytes:,}", made.verdict))
    yield from _table(("program", "collectives", "bytes a device", "verdict"), rows)
