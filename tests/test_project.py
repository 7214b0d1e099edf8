"""The project as a whole: README code, derivations, house rules that a linter does not know."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "symscale"
SOURCES = sorted(PACKAGE.rglob("*.py"))
DERIVATIONS = sorted((ROOT / "derivations").glob("*.py"))

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 45

# Calls that run text as code, and SymPy's calls that are slow or fail silently.
FORBIDDEN_BUILTINS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_SYMPY = {
    "parse_expr",
    "parse_latex",
    "nsimplify",
    "simplify",
    "reduce_inequalities",
    "Max",
}
# The one place that wraps SymPy's Max, once all its arguments are numbers.
WRAPS_MAX = PACKAGE / "algebra" / "maximum.py"

Function = ast.FunctionDef | ast.AsyncFunctionDef


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), filename=relative(path))


def run_python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )


# --- what users copy ---------------------------------------------------------------------------


def readme() -> str:
    return (ROOT / "README.md").read_text("utf-8")


def test_readme_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = [(m.start(), m[1]) for m in re.finditer(r"(?ms)^```python\n(.*?)^```", readme())]
    assert blocks, "README.md shows no Python"
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "readme"}
    for start, block in blocks:
        # Padding gives a traceback the README's own line numbers.
        padding = "\n" * (readme().count("\n", 0, start) + 1)
        exec(compile(padding + block, "README.md", "exec"), namespace)


@pytest.mark.parametrize("mark", ["main job", "tests"])
def test_readme_has_the_commands_that_ci_runs(mark: str) -> None:
    found = re.findall(rf"(?ms)^```sh\n# {mark}\n(.+?)^```", readme())
    assert len(found) == 1
    assert "python -m pip install" in found[0]


def test_there_are_derivations() -> None:
    assert len(DERIVATIONS) >= 4


@pytest.mark.parametrize("path", DERIVATIONS, ids=lambda path: path.stem)
def test_derivation_runs(path: Path, tmp_path: Path) -> None:
    done = run_python("-W", "error", str(path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip()


@pytest.mark.parametrize("argument", ["--help", "--version", "no-such-command"])
def test_command_line_answers_without_sympy(argument: str, tmp_path: Path) -> None:
    code = f"""
import sys
from symscale.cli import main
try:
    code = main([{argument!r}]) or 0
except SystemExit as stop:
    code = stop.code or 0
assert "sympy" not in sys.modules and "numpy" not in sys.modules, "imported too early"
sys.exit(code)
"""
    done = run_python("-c", code, cwd=tmp_path)
    assert done.returncode == (2 if argument == "no-such-command" else 0), done.stderr
    assert (done.stderr if done.returncode else done.stdout).strip()


# --- house rules -------------------------------------------------------------------------------


def calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str, bool]]:
    """Each call with its last name, and whether it is a bare name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node, node.func.id, True
            elif isinstance(node.func, ast.Attribute):
                yield node, node.func.attr, False


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_no_text_is_run_as_code(path: Path) -> None:
    tree = parsed(path)
    for call, name, bare in calls(tree):
        where = f"{relative(path)}:{call.lineno}: {name}"
        assert not (bare and name in FORBIDDEN_BUILTINS), where
        assert name not in FORBIDDEN_SYMPY or (name, path) == ("Max", WRAPS_MAX), where
        if name == "sympify":
            # Without it sympify evaluates a string.
            assert any(keyword.arg == "strict" for keyword in call.keywords), f"{where} not strict"
        assert not (name == "S" and any(map(is_text, call.args))), where


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_files_and_functions_are_small(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MAX_FILE_LINES
    for node in ast.walk(parsed(path)):
        if isinstance(node, Function):
            lines = function_lines(node)
            assert lines <= MAX_FUNCTION_LINES, f"{relative(path)}: {node.name}: {lines} lines"


def function_lines(node: Function) -> int:
    """Lines of a function, signature included, docstring left out."""
    total = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if isinstance(first, ast.Expr) and is_text(first.value):
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_what_is_public_has_a_docstring(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree), f"{relative(path)} says nothing of itself"
    for name, node in public_definitions(tree):
        assert ast.get_docstring(node), f"{relative(path)}:{node.lineno}: {name}"


def public_definitions(
    parent: ast.Module | ast.ClassDef, prefix: str = ""
) -> Iterator[tuple[str, Function | ast.ClassDef]]:
    """Public functions and classes at the top, and public methods of public classes."""
    for node in parent.body:
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
            if {"overload", "override"} & decorators(node):
                continue
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public_definitions(node, f"{node.name}.")


def decorators(node: Function | ast.ClassDef) -> set[str]:
    return {d.id if isinstance(d, ast.Name) else "" for d in node.decorator_list}


def project_files() -> Iterator[Path]:
    skipped = {"build", "dist", "out", "__pycache__"}
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        hidden = any(p.startswith(".") and p not in {".ci", ".gitignore"} for p in parts)
        if path.is_file() and not hidden and not skipped & set(parts):
            yield path


def test_no_path_of_one_machine() -> None:
    homes = "|".join(("home", "root", "Users", "work", "mnt"))
    pattern = re.compile(rf"(?<![\w.~$}}\"'])/(?:{homes})/\w".encode())
    quoted = re.compile(rf"[\"']/(?:{homes})/\w".encode())
    found = [
        relative(path)
        for path in project_files()
        if pattern.search(data := path.read_bytes()) or quoted.search(data)
    ]
    assert found == []


def test_room_packages_hold_only_a_docstring() -> None:
    for room in PACKAGE.iterdir():
        init = room / "__init__.py"
        # The report room is called like the function it offers, so it makes itself callable.
        if init.is_file() and room.name != "report":
            body = parsed(init).body
            assert len(body) == 1, relative(init)
            assert ast.get_docstring(parsed(init)), relative(init)


def test_stub_names_what_the_package_offers() -> None:
    import symscale

    stub = (PACKAGE / "__init__.pyi").read_text("utf-8")
    named = set(re.findall(r"^from \S+ import \S+ as (\S+)$", stub, re.M))
    assert named == set(symscale.__all__)


def test_star_import_brings_working_names(tmp_path: Path) -> None:
    code = """
from symscale import *
import inspect
assert einsum("A[B, D] * W[D, F] -> Out[B, F]").flops == 2 * B * D * F
assert list(inspect.signature(crossover).parameters)[:3] == ["a", "b", "v"]
assert "overtakes" in crossover.__doc__ or "grows" in crossover.__doc__
assert Eq(X * Y, n).lhs == X * Y
"""
    done = run_python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
