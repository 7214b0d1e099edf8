"""The table of what is recomputed: complete, without repeats, and true."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from tests.book.truth import FOLDER, entries

ROOT = FOLDER.parents[1]


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(set(names)) == len(names), "a name occurs twice"
    return dict(pairs)


TABLE = json.loads((FOLDER / "coverage.json").read_text("utf-8"), object_pairs_hook=no_repeats)
COVERED: dict[str, str] = TABLE["covered"]
LATER: dict[str, str] = TABLE["later"]


def test_every_entry_is_named_once() -> None:
    assert sorted([*COVERED, *LATER]) == sorted(entries())


def test_what_is_left_has_a_reason() -> None:
    assert all(len(reason) > 20 for reason in LATER.values())
    assert len(LATER) <= 6


@pytest.mark.parametrize("entry", sorted(COVERED))
def test_the_named_test_recomputes_the_entry(entry: str) -> None:
    path, _, name = COVERED[entry].partition("::")
    source = (ROOT / Path(path)).read_text("utf-8")
    function = next(
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    text = ast.get_source_segment(source, function)
    assert text is not None
    assert entry in text or spanned(entry, text), f"{COVERED[entry]} does not name {entry}"


def spanned(entry: str, text: str) -> bool:
    """A comment such as "3.2.1 to 3.2.3" names what lies between."""
    head, _, last = entry.rpartition(".")
    return any(
        f"{head}.{low} to {head}.{high}" in text
        for low in range(1, 9)
        for high in range(low, 10)
        if last.isdigit() and low <= int(last) <= high
    )


def test_entries_say_what_they_are() -> None:
    fields = {"id", "asked", "inputs", "formula", "exact", "unit", "printed", "note"}
    for row in entries().values():
        assert set(row) == fields
        assert row["asked"].endswith((".", "?"))
        assert "symbolic" not in str(row["exact"]) or row["formula"]
