"""The book's entries: inputs as exact numbers by name, and the value that a test has to reach."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sympy import Expr, Rational, Symbol, cancel

from symscale.algebra.substitution import bindings, evaluate

FOLDER = Path(__file__).parents[1] / "truth"

#: Inputs in the JSON are decimals; nothing between them and the result rounds.
CLOSE = 1e-9


@cache
def entries() -> dict[str, dict[str, Any]]:
    rows = json.loads((FOLDER / "book.json").read_text("utf-8"))["entries"]
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def given(entry: str, *names: str) -> dict[Symbol, Expr]:
    """Inputs of an entry under the names of their symbols; all of them unless named."""
    inputs = entries()[entry]["inputs"]
    return bindings(**{name: inputs[name] for name in names or inputs})


def number(entry: str, name: str) -> Rational:
    """One input as an exact number."""
    return Rational(str(entries()[entry]["inputs"][name]))


def exact(entry: str, *path: str | int) -> Any:
    """The recomputed value of an entry, or one part of it."""
    found = entries()[entry]["exact"]
    for key in path:
        found = found[key]
    return found


def check(expr: Any, values: Mapping[Symbol, Any], entry: str, *path: str | int) -> None:
    """The expression with these numbers in it is the entry's exact value."""
    wanted = exact(entry, *path)
    assert float(evaluate(expr, values)) == pytest.approx(wanted, rel=CLOSE), (entry, path)


def same(left: Any, right: Any) -> bool:
    """Equal as mathematics."""
    return bool(cancel(left - right) == 0)
