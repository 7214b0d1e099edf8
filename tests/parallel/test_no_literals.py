"""No formula of the strategy table is written down in the sources: all are derived."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "symscale"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TEXTS = sorted(p for p in PACKAGE.rglob("*") if p.suffix in {".j2", ".json"})

SIZES = {"B", "D", "F", "N", "K", "H", "V"}
TIMES = r"(?:\*|·|\\+,|\\+cdot|\s)*"
#: A number before two sizes, in code, in plain text or in LaTeX: 4*D*F, 4DF, 4 D F, 4\,D\,F.
WRITTEN = re.compile(rf"(?<![\w.])\d+{TIMES}[BDF]{TIMES}[BDF](?![A-Za-z_])")


def without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [part for part in body if not is_text(part)]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return tree


def is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def factors(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        yield from factors(node.left)
        yield from factors(node.right)
    else:
        yield node


def name_of(node: ast.expr) -> str:
    """The last name of ``D`` or ``symbols.D``."""
    return getattr(node, "id", getattr(node, "attr", ""))


def products(tree: ast.Module) -> Iterator[str]:
    """Products of a number and two or more sizes, whatever their order."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            parts = list(factors(node))
            numbers = [p for p in parts if isinstance(p, ast.Constant) and p.value != 1]
            sizes = [p for p in parts if name_of(p) in SIZES]
            if numbers and len(sizes) >= 2:
                yield ast.unparse(node)


def literals(source: str) -> list[str]:
    tree = without_docstrings(ast.parse(source))
    return [*products(tree), *(found[0] for found in WRITTEN.finditer(ast.unparse(tree)))]


@pytest.mark.parametrize(
    "planted",
    ["x = 4*D*F", "x = D * 8 * F / Y", "x = '12DF'", "x = f'{4} B, 4·B·D'", r"x = '4\\,B\\,D'",
     "x = s.B * s.D * 4", "x = {'X': 'X: 8*D*F'}"],
)  # fmt: skip
def test_the_scan_sees(planted: str) -> None:
    assert literals(planted)


@pytest.mark.parametrize("harmless", ['"""4DF bytes."""', "x = 2 * B * table", "x = B / T"])
def test_the_scan_lets_pass(harmless: str) -> None:
    assert not literals(harmless)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_no_formula_in_code(path: Path) -> None:
    assert literals(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.relative_to(PACKAGE).as_posix())
def test_no_formula_in_data_or_templates(path: Path) -> None:
    assert WRITTEN.findall(path.read_text("utf-8")) == []
