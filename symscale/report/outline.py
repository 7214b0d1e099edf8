"""What all renderers share: the room a formula has, section numbers, derivation steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from symscale.report.document import DerivationBlock, Document, Section
from symscale.report.rich import Math


@dataclass(frozen=True)
class Rooms:
    """The width in em that a formula may take before it is broken over lines."""

    display: float = 44.0
    labelled: float = 31.0
    step: float = 27.0
    table: float = 45.0
    cell: float = 26.0


ROOMS = Rooms()


@dataclass(frozen=True)
class Heading:
    """A section's number and its anchor."""

    number: str
    anchor: str
    section: Section


def headings(document: Document) -> tuple[Heading, ...]:
    """Every section with its number (1, 1.1, ...) and an anchor that no other has.

    >>> doc = Document("t", sections=(Section("One", ()), Section("Two", (), 2)))
    >>> [h.number for h in headings(doc)]
    ['1', '1.1']
    """
    made = []
    major = minor = 0
    for section in document.sections:
        if section.level == 1:
            major, minor = major + 1, 0
        else:
            minor += 1
        number = f"{major}.{minor}" if minor else str(major)
        made.append(Heading(number, f"section-{number.replace('.', '-')}", section))
    return tuple(made)


@dataclass(frozen=True)
class ShownStep:
    """A step of a derivation as the renderers take it."""

    statement: str
    formula: Math | None
    reason: str


def shown_steps(block: DerivationBlock) -> Iterator[ShownStep]:
    """The steps of a derivation, their mathematics ready to be set."""
    for step in block.derivation:
        formula = None if step.expr is None else Math(step.expr)
        yield ShownStep(step.statement, formula, step.reason)
