"""Expressions in a notebook, typeset with the symbol table's names.

SymPy would set ``W_hbm`` as a W with a bold h: it reads ``bm`` at the end of a name as a style.
"""

from __future__ import annotations

import sys
from typing import Any

from sympy import Basic

from symscale.algebra.symbols import to_latex


def typeset_in_notebook() -> bool:
    """Let a running IPython typeset SymPy's expressions by :func:`to_latex`; whether there is one.

    >>> typeset_in_notebook()
    False
    """
    shell = _shell()
    if shell is None:
        return False
    formatter = shell.display_formatter.formatters["text/latex"]
    formatter.for_type(Basic, lambda expr: f"${to_latex(expr)}$")
    return True


def _shell() -> Any:
    """The running IPython, if this is one."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()
