"""In a notebook, expressions are typeset with the symbol table's names."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from symscale.algebra.notebook import typeset_in_notebook
from symscale.algebra.symbols import C, W_hbm


def test_a_running_shell_gets_a_formatter(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[type, Any] = {}
    formatter = SimpleNamespace(for_type=known.__setitem__)
    shell = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/latex": formatter}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert typeset_in_notebook()
    (typeset,) = known.values()
    assert typeset(C / W_hbm) == r"$\frac{C}{W_{\mathrm{hbm}}}$"


def test_nothing_happens_elsewhere() -> None:
    assert not typeset_in_notebook()
